"""API keys: made for the settings, or looked after in the ledger where no server is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeVar

from shared.domain import keys
from shared.domain.errors import InvalidInput
from shared.domain.keys import OPERATOR
from shared.ledger import Keys
from shared.settings import is_tenant, load

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key for its holder, and the setting for the server: a hash, from which the key cannot be recovered."""

    tenant: str
    key: str

    @property
    def variable(self) -> str:
        return "FOREASK_OPERATOR_KEYS" if self.tenant == OPERATOR else "FOREASK_API_KEYS"

    @property
    def setting(self) -> str:
        sha256 = f"sha256:{keys.hash_of(self.key).hex()}"
        return sha256 if self.tenant == OPERATOR else f"{self.tenant}:{sha256}"


def make(tenant: str) -> NewKey:
    """Make a key of 256 random bits for the settings.

    Raises:
        InvalidInput: the tenant's name cannot be used.
    """
    require_tenant(tenant)
    return NewKey(tenant, keys.draw())


def make_operators() -> NewKey:
    """Make an operator's key for the settings."""
    return NewKey(OPERATOR, keys.draw())


def require_tenant(name: str) -> None:
    """Raise `InvalidInput` where a name cannot be a tenant's."""
    if not is_tenant(name):
        raise InvalidInput(f"{name!r} cannot name a tenant: use a-z, 0-9, - and _", field="tenant")


def in_ledger(work: Callable[[Keys], Awaitable[T]]) -> T:
    """Do something with the keys of the ledger that this machine's settings name; no server is needed."""
    return asyncio.run(_in_ledger(work))


async def _in_ledger(work: Callable[[Keys], Awaitable[T]]) -> T:
    from shared.services.parts import Parts

    async with AsyncExitStack() as stack:
        return await work(Keys(Parts(load(), stack).database))
