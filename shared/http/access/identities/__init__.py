"""Persons who sign in at an OpenID Connect provider: their tokens, and the provider's keys and addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.domain.access.persons import Person
from shared.http.access.identities.identity import Identity, is_token
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.http.access.identities.provider import IdentityProvider
    from shared.http.access.identities.sign_in import SignIn
    from shared.http.access.identities.tokens import Tokens

__all__ = ["Identities", "Identity", "is_token"]


@dataclass(frozen=True, slots=True)
class Identities:
    """The persons of one identity provider.

    Args:
        issuer: address of the issuer.
        provider: its keys and addresses.
        tokens: the check of its tokens.
        sign_in: the sign-in of the page; None if the settings name no client.
    """

    issuer: str
    provider: IdentityProvider
    tokens: Tokens
    sign_in: SignIn | None

    @classmethod
    def of(cls, settings: Settings, seen: Callable[[str, Person], None]) -> Identities | None:
        """Return the persons that the settings admit; None without an issuer.

        Args:
            settings: settings of the process.
            seen: called with the tenant and the names of the person whose token was verified.
        """
        if settings.oidc_issuer is None:
            return None
        # Their libraries take 70 ms to load, which a server without an issuer does not need.
        from shared.http.access.identities.provider import IdentityProvider  # noqa: PLC0415
        from shared.http.access.identities.sign_in import SignIn  # noqa: PLC0415
        from shared.http.access.identities.tokens import Tokens  # noqa: PLC0415

        provider = IdentityProvider(settings)
        tokens = Tokens(settings, provider, seen)
        sign_in = SignIn(settings, provider, tokens) if settings.oidc_client_id else None
        return cls(settings.oidc_issuer, provider, tokens, sign_in)
