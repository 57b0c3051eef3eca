"""The keys with which an identity provider signs tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from jwt import PyJWK
from jwt.exceptions import PyJWTError

# The algorithms of accepted tokens, with the type and the curve of their keys. All are asymmetric: `none` is
# no signature, and with HS256 the public key would be the secret.
ALGORITHMS: Mapping[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
_VERIFY = "verify"


class SigningKeys:
    """A provider's published keys. A key is read when the first token names it, because a set may have thousands.

    Args:
        published: the members of `keys` in a JSON Web Key Set (RFC 7517).
    """

    def __init__(self, published: Iterable[Any]) -> None:
        self._published = defaultdict[str | None, list[Mapping[str, Any]]](list)
        for each in published:
            if isinstance(each, Mapping):
                key_id = each.get("kid")
                self._published[key_id if isinstance(key_id, str) else None].append(each)
        self._read: dict[tuple[str | None, str], PyJWK | None] = {}

    def has(self, key_id: str | None) -> bool:
        """Return whether there is a key with an id; without an id any key counts."""
        return bool(self._published) if key_id is None else key_id in self._published

    def find(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        """Return the key of a token; None if it has another type, or if the token names no key and several fit.

        Args:
            key_id: id in the token's header; None if there is none.
            algorithm: one of `ALGORITHMS`.
        """
        if (key_id, algorithm) not in self._read and self.has(key_id):
            self._read[key_id, algorithm] = self._only(key_id, algorithm)
        return self._read.get((key_id, algorithm))

    def _only(self, key_id: str | None, algorithm: str) -> PyJWK | None:
        named = chain(*self._published.values()) if key_id is None else self._published[key_id]
        fitting = [each for each in named if _fits(each, algorithm)]
        if len(fitting) != 1:
            return None
        try:
            return PyJWK(dict(fitting[0]), algorithm)
        except (PyJWTError, ValueError, TypeError):
            return None


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    """Return whether a key may verify signatures of an algorithm."""
    kind, curve = ALGORITHMS[algorithm]
    operations = key.get("key_ops")
    return (
        key.get("kty") == kind
        and (curve is None or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (operations is None or (isinstance(operations, list) and _VERIFY in operations))
    )
