"""Signed tokens (RFC 7519) that an identity provider issues to persons."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jwt
from jwt import exceptions as refusals

from shared.domain.access.persons import Person, person_of
from shared.domain.errors import Forbidden, InvalidInput, Unauthorized
from shared.domain.text.unicode_form import composed
from shared.http.access.identities.identity import Identity
from shared.http.access.identities.keys import ALGORITHMS
from shared.http.access.identities.provider import IdentityProvider
from shared.settings import Settings
from shared.settings.api_keys import is_tenant

MAX_CHARS = 60_000  # of a token: the server accepts 64 KiB of headers
_MOST = 10_000  # verified tokens
_MOST_GROUPS = 500_000  # of all verified tokens together: 60 MB
# Other types are for other purposes, such as `logout+jwt` (RFC 8725, 3.11).
_TYPES = {None, "jwt", "at+jwt", "application/at+jwt"}
_REQUIRED = ["exp", "iat", "iss", "aud", "sub"]
_MALFORMED = "The token is malformed."
_REFUSALS: Mapping[type[refusals.PyJWTError], tuple[str, str]] = {
    refusals.ExpiredSignatureError: ("The token has expired: sign in again.", "expired"),
    refusals.ImmatureSignatureError: (
        "The token is not valid yet: compare the clocks of this server and of the identity provider.",
        "not_valid_yet",
    ),
    refusals.InvalidAudienceError: ("The token was issued for another audience than {audience}.", "other_audience"),
    refusals.InvalidIssuerError: ("The token was issued by another issuer than {issuer}.", "other_issuer"),
    refusals.InvalidSignatureError: ("The token's signature is wrong.", "signature"),
    refusals.InvalidKeyError: ("The key with which the token is signed is too short.", "other_key"),
}
_MOST_SECONDS = 86_400  # for which a verified token is remembered


class Tokens:
    """Verifies tokens, and remembers verified ones by their hashes until they expire or their provider's keys change.

    Args:
        settings: settings with an issuer.
        provider: the issuer's keys.
        seen: called with the tenant and the names of the person whose token was verified.
        now: clock in Unix seconds.
    """

    def __init__(
        self,
        settings: Settings,
        provider: IdentityProvider,
        seen: Callable[[str, Person], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._seen = seen
        self._now = now
        self._skew_seconds = settings.oidc_clock_skew.total_seconds()
        self._administrators = composed(settings.oidc_administrators or "")  # no group has an empty name
        self._verified: dict[bytes, Identity] = {}
        self._groups = 0
        self._keys: object = None  # with which they were verified

    async def identify(self, token: str) -> Identity:
        """Return the holder of a token.

        Raises:
            Unauthorized: the token is not valid here; `key_state` says why.
            Forbidden: the person has too many groups.
            Unavailable: the provider cannot be reached, and the token may be signed with a new key.
        """
        if len(token) > MAX_CHARS:
            raise Unauthorized(
                f"The token has {len(token):,} characters; at most {MAX_CHARS:,} are possible: let the identity"
                " provider send only groups that documents name.",
                key_state="malformed",
            )
        provider = await self._provider.current()
        if provider.keys is not self._keys:  # a key may have been removed
            self._forget()
            self._keys = provider.keys
        sha256 = hashlib.sha256(token.encode()).digest()
        identity = self._verified.get(sha256)
        if identity is None or identity.expires_at <= self._now():
            claims = await self.verify(token, self._settings.oidc_audiences)
            identity = self._identity_of(claims)
            self._remember(sha256, identity)
            self._seen(identity.tenant, identity.person)
        return identity

    def seconds_left(self, identity: Identity) -> int:
        """Return the rest of the validity of an identity's token, without the accepted difference of clocks."""
        return max(0, int(identity.expires_at - self._skew_seconds - self._now()))

    async def verify(self, token: str, audiences: Sequence[str]) -> Mapping[str, Any]:
        """Return the claims of a token that the provider has signed for one of these audiences, and that is valid now.

        Raises:
            Unauthorized, Unavailable: as `identify`.
        """
        header = _header_of(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise Unauthorized(
                f"The token is not signed with an accepted algorithm: {', '.join(ALGORITHMS)}.", key_state="algorithm"
            )
        kind = header.get("typ")
        if not (kind is None or isinstance(kind, str)) or (kind and kind.lower()) not in _TYPES:
            raise Unauthorized("The token is of another type than access and ID tokens.", key_state="malformed")
        if not (key_id is None or isinstance(key_id, str)):
            raise Unauthorized(_MALFORMED, key_state="malformed")
        keys = (await self._provider.current()).keys
        if not keys.has(key_id):
            keys = (await self._provider.current(unknown_key=True)).keys
            if not keys.has(key_id):
                self._provider.require_reached()
                raise Unauthorized(
                    "The token is signed with a key that the identity provider does not publish.",
                    key_state="unknown_key",
                )
        key = keys.find(key_id, algorithm)
        if key is None:
            raise Unauthorized("The token's algorithm does not fit the key that it names.", key_state="other_key")
        return self._checked(token, key, algorithm, audiences)

    def _checked(self, token: str, key: jwt.PyJWK, algorithm: str, audiences: Sequence[str]) -> Mapping[str, Any]:
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=audiences,
                issuer=self._settings.oidc_issuer,
                leeway=self._skew_seconds,
                options={"require": _REQUIRED, "enforce_minimum_key_length": True},
            )
        except refusals.PyJWTError as error:
            raise self._refusal(error, audiences) from error
        if not claims["sub"].strip():
            raise Unauthorized("The token has no claim 'sub'.", key_state="malformed")
        if "events" in claims:  # a logout token, or another event (RFC 8417)
            raise Unauthorized("The token reports an event and identifies no person.", key_state="malformed")
        return claims

    def _refusal(self, error: refusals.PyJWTError, audiences: Sequence[str]) -> Unauthorized:
        if isinstance(error, refusals.MissingRequiredClaimError):
            return Unauthorized(f"The token has no claim '{error.claim}'.", key_state="malformed")
        kind = next((kind for kind in _REFUSALS if isinstance(error, kind)), None)
        if kind is None:
            return Unauthorized(_MALFORMED, key_state="malformed")
        sentence, key_state = _REFUSALS[kind]
        message = sentence.format(audience=" or ".join(audiences), issuer=self._settings.oidc_issuer)
        return Unauthorized(message, key_state=key_state)

    def _identity_of(self, claims: Mapping[str, Any]) -> Identity:
        settings = self._settings
        user, groups = self._user_in(claims), self._groups_in(claims)
        try:
            person = person_of(user, groups)
        except InvalidInput as error:
            raise Unauthorized(f"The token cannot be used. {error.message}", key_state="identity") from error
        tenant = settings.oidc_tenant if settings.oidc_tenant_claim is None else self._tenant_in(claims)
        name = f"{tenant}\0{settings.oidc_issuer}\0{claims['sub']}"
        lasts_until = min(int(claims["exp"]), int(self._now()) + _MOST_SECONDS)
        return Identity(
            tenant,
            Person(person.user, frozenset(map(sys.intern, person.groups))),  # many persons share groups
            tuple(map(sys.intern, person.principals(reads_unset=settings.readable_by_default == "everyone"))),
            f"person:{hashlib.sha256(name.encode()).hexdigest()}",
            self._administrators in person.groups,
            lasts_until + self._skew_seconds,
        )

    def _user_in(self, claims: Mapping[str, Any]) -> str:
        claim = self._settings.oidc_user_claim
        user = _value_at(claims, claim)
        if not isinstance(user, str):
            raise Unauthorized(f"The token has no claim '{claim}' with the name of the user.", key_state="identity")
        if claim == "email" and claims.get("email_verified") is not True:
            raise Unauthorized(
                "The identity provider has not verified the email address of this user.", key_state="identity"
            )
        return user

    def _groups_in(self, claims: Mapping[str, Any]) -> Sequence[str]:
        claim = self._settings.oidc_groups_claim
        groups = _value_at(claims, claim)
        if groups is None:
            named_elsewhere = claims.get("_claim_names")  # Microsoft Entra, from 200 groups on
            if isinstance(named_elsewhere, Mapping) and claim in named_elsewhere:
                raise Forbidden(
                    "The person has so many groups that the identity provider leaves them out of the token: let it send"
                    " only groups that documents name."
                )
            return ()
        if isinstance(groups, str):
            return (groups,)
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise Unauthorized(f"The token's claim '{claim}' is not a list of names.", key_state="identity")
        return groups

    def _tenant_in(self, claims: Mapping[str, Any]) -> str:
        claim = self._settings.oidc_tenant_claim or ""
        tenant = _value_at(claims, claim)
        if not isinstance(tenant, str) or not is_tenant(tenant):
            raise Unauthorized(f"The token's claim '{claim}' does not name a tenant.", key_state="identity")
        return tenant

    def _remember(self, sha256: bytes, identity: Identity) -> None:
        if len(self._verified) >= _MOST or self._groups >= _MOST_GROUPS:
            self._forget()
        self._verified[sha256] = identity
        self._groups += len(identity.person.groups)

    def _forget(self) -> None:
        self._verified.clear()
        self._groups = 0


def _header_of(token: str) -> Mapping[str, Any]:
    """Return the header of a token, which is not verified.

    Raises:
        Unauthorized: the token is malformed.
    """
    try:
        return jwt.get_unverified_header(token)
    except (refusals.PyJWTError, ValueError, RecursionError) as error:
        raise Unauthorized(_MALFORMED, key_state="malformed") from error


def _value_at(claims: Mapping[str, Any], name: str) -> Any:
    """Return the value of a claim: of its whole name, which may contain dots, or of a path of names."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
