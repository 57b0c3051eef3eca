"""API keys that the settings contain."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.domain.access.key_texts import OPERATOR, hash_of

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_SHA256 = re.compile(r"sha256:[0-9a-fA-F]{64}")
_KEY_MIN_CHARS = 22  # 128 bits in base 64


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The owner of a key. Only the key's SHA-256 is stored in memory."""

    tenant: str
    sha256: bytes

    @classmethod
    def parse(cls, pair: str) -> ApiKey:
        """Read `tenant:key` or `tenant:sha256:HEX`.

        Raises:
            ValueError: the pair is malformed, or the key is too short to be secure.
        """
        tenant, _, key = pair.partition(":")
        if not _TENANT.fullmatch(tenant) or not key:
            raise ValueError(
                "FOREASK_API_KEYS must be tenant:key pairs separated by commas; a tenant is a-z, 0-9, - and _"
            )
        return cls(tenant, _hash_in(key, f"the key of tenant {tenant}"))

    @classmethod
    def parse_operator(cls, key: str) -> ApiKey:
        """Read an operator's `key` or `sha256:HEX`.

        Raises:
            ValueError: the key is too short to be secure, or the hash has the wrong length.
        """
        return cls(OPERATOR, _hash_in(key, "an operator's key"))


def is_tenant(name: str) -> bool:
    return _TENANT.fullmatch(name) is not None


def _hash_in(key: str, name: str) -> bytes:
    if key.startswith("sha256:"):
        if not _SHA256.fullmatch(key):
            raise ValueError(f"{name} has sha256: and then not 64 of 0-9 and a-f: it may have been cut off")
        return bytes.fromhex(key.removeprefix("sha256:"))
    if len(key) < _KEY_MIN_CHARS:
        raise ValueError(f"{name} is too short: use at least {_KEY_MIN_CHARS} characters")
    return hash_of(key)
