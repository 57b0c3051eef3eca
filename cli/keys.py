"""API keys, newly made."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from shared.domain.errors import InvalidInput
from shared.settings import ApiKey

_BYTES = 32


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key for its holder, and the setting for the server: a hash, from which the key cannot be recovered."""

    tenant: str
    key: str

    @property
    def setting(self) -> str:
        return f"{self.tenant}:sha256:{hashlib.sha256(self.key.encode()).hexdigest()}"


def make(tenant: str) -> NewKey:
    """Make a key of 256 random bits.

    Raises:
        InvalidInput: the tenant's name cannot be used.
    """
    key = NewKey(tenant, f"fa_{secrets.token_urlsafe(_BYTES)}")
    if not _is_tenant(tenant):
        raise InvalidInput(f"{tenant!r} cannot name a tenant: use a-z, 0-9, - and _", field="tenant")
    return key


def _is_tenant(name: str) -> bool:
    try:
        return ApiKey.parse(f"{name}:{'k' * _BYTES}").tenant == name
    except ValueError:
        return False
