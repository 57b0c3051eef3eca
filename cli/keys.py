"""API keys: create them for the settings, or manage them in the ledger without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeVar

from shared.domain.access import key_texts
from shared.domain.access.key_texts import OPERATOR
from shared.domain.errors import InvalidInput
from shared.ledger.tenants.keys import Keys
from shared.settings import is_tenant, load

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GeneratedKey:
    """A key for its holder, and the server's setting: a hash, from which the key cannot be recovered."""

    tenant: str
    key: str

    @property
    def variable(self) -> str:
        return "FOREASK_OPERATOR_KEYS" if self.tenant == OPERATOR else "FOREASK_API_KEYS"

    @property
    def setting(self) -> str:
        sha256 = f"sha256:{key_texts.hash_of(self.key).hex()}"
        return sha256 if self.tenant == OPERATOR else f"{self.tenant}:{sha256}"


def make(tenant: str) -> GeneratedKey:
    """Create a key of 256 random bits for the settings.

    Raises:
        InvalidInput: the tenant's name is not valid.
    """
    require_tenant(tenant)
    return GeneratedKey(tenant, key_texts.draw())


def make_operators() -> GeneratedKey:
    """Create an operator's key for the settings."""
    return GeneratedKey(OPERATOR, key_texts.draw())


def require_tenant(name: str) -> None:
    """Raise `InvalidInput` if a name is not a valid tenant's name."""
    if not is_tenant(name):
        raise InvalidInput(f"{name!r} is not a valid tenant name: use a-z, 0-9, - and _", field="tenant")


def in_ledger(work: Callable[[Keys], Awaitable[T]]) -> T:
    """Run a function on the keys in the ledger of this machine's settings. No server is needed."""
    return asyncio.run(_in_ledger(work))


async def _in_ledger(work: Callable[[Keys], Awaitable[T]]) -> T:
    from shared.domain.access.actors import COMMAND_LINE
    from shared.ledger.postgres import actors
    from shared.services.parts import Parts

    async with AsyncExitStack() as stack:
        with actors.recorded(COMMAND_LINE):
            return await work(Keys(Parts(load(), stack).database))
