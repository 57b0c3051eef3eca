"""The sign-in of the page: codes and refresh tokens are redeemed by the server, so that the page calls no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.domain.errors import Forbidden, Permanent, Unauthorized
from shared.http.access.identities.identity import is_token
from shared.http.problems import TooManyRequests
from shared.settings import Settings

if TYPE_CHECKING:  # their libraries take 70 ms to load
    from shared.http.access.identities.provider import IdentityProvider
    from shared.http.access.identities.tokens import Tokens

_AT_ONCE = 32  # requests to the provider, which need no key
_MOST_CHARS = 100  # of a shown name


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person who is signed in.

    Args:
        id: digest that names the person.
        token: token for this server.
        expires_in_seconds: rest of its validity.
        refresh_token: with which the page requests the next one; None if there is none.
        name: name to show.
    """

    id: str
    token: str
    expires_in_seconds: int
    refresh_token: str | None
    name: str


class SignIn:
    """Redeems codes and refresh tokens of one client.

    Args:
        settings: settings with a client.
        provider: the identity provider.
        tokens: the check of its tokens.
    """

    def __init__(self, settings: Settings, provider: IdentityProvider, tokens: Tokens) -> None:
        assert settings.oidc_client_id is not None
        self.client_id = settings.oidc_client_id
        self.scope = settings.oidc_sign_in_scopes
        self._provider = provider
        self._tokens = tokens
        self._open = 0

    async def redeem(self, form: Mapping[str, str], nonce: str | None = None) -> SignedIn:
        """Return a token for this server.

        Args:
            form: fields of the request to the provider's endpoint of tokens.
            nonce: the ID token's nonce; None: the reply may have no ID token.

        Raises:
            Unauthorized: the code was used or has expired, or the tokens are not for this server.
            Forbidden: the person has too many groups.
            Permanent: the provider refuses the client.
            TooManyRequests: too many sign-ins run.
            Unavailable: the provider cannot be reached.
        """
        if self._open >= _AT_ONCE:
            raise TooManyRequests("Too many persons sign in at once: try again in a moment.")
        self._open += 1
        try:
            reply = await self._provider.redeem(form)
        finally:
            self._open -= 1
        claims: Mapping[str, Any] = {}
        if nonce is not None:
            claims = await self._tokens.verify(_text(reply, "id_token"), (self.client_id,))
            if claims.get("nonce") != nonce:
                raise Unauthorized("The ID token belongs to another sign-in: sign in again.", key_state="malformed")
        return await self._usable(reply, claims)

    async def _usable(self, reply: Mapping[str, Any], claims: Mapping[str, Any]) -> SignedIn:
        refusal: Unauthorized | Forbidden | None = None
        for field in ("access_token", "id_token"):
            token = reply.get(field)
            if not isinstance(token, str) or not is_token(token):  # access tokens of some providers are only for them
                continue
            try:
                identity = await self._tokens.identify(token)
            except (Unauthorized, Forbidden) as error:
                refusal = refusal or error
                continue
            refresh_token = reply.get("refresh_token")
            return SignedIn(
                identity.owner,
                token,
                self._tokens.seconds_left(identity),
                refresh_token if isinstance(refresh_token, str) else None,
                _name_in(claims) or identity.person.user,
            )
        raise refusal or Permanent("The identity provider has sent no signed token.")


def _text(reply: Mapping[str, Any], field: str) -> str:
    value = reply.get(field)
    if not isinstance(value, str):
        raise Permanent(f"The identity provider has sent no {field}: the page must request the scope 'openid'.")
    return value


def _name_in(claims: Mapping[str, Any]) -> str | None:
    """Return the name to show, by the claims of OpenID Connect Core, 5.1."""
    for claim in ("name", "preferred_username", "email"):
        value = claims.get(claim)
        if isinstance(value, str) and value.strip():
            return value[:_MOST_CHARS]
    return None
