"""Requests and replies of the sign-in at an identity provider."""

from __future__ import annotations

from pydantic import Field

from shared.http.schemas.common import BodyModel, ReplyModel, example

_MOST_CHARS = 60_000


class SignInView(ReplyModel):
    model_config = example(
        available=True,
        client_id="foreask-page",
        scope="openid profile email",
        authorization_endpoint="https://login.example.com/realms/company/protocol/openid-connect/auth",
        end_session_endpoint="https://login.example.com/realms/company/protocol/openid-connect/logout",
    )

    available: bool = Field(description="Whether persons can sign in on the page; all other fields are null if not")
    client_id: str | None = None
    scope: str | None = Field(None, description="Scopes to request, separated by spaces")
    authorization_endpoint: str | None = None
    end_session_endpoint: str | None = Field(None, description="null: the provider has no address to sign out")


class SignInBody(BodyModel):
    """A code of the identity provider to redeem (RFC 6749, with PKCE of RFC 7636)."""

    model_config = example(
        code="4f1c0f9e",
        code_verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        nonce="n-0S6_WzA2Mj",
        redirect_uri="https://foreask.example.com/signed-in",
    )

    code: str = Field(min_length=1, max_length=_MOST_CHARS)
    code_verifier: str = Field(pattern=r"^[A-Za-z0-9._~-]{43,128}$")
    nonce: str = Field(min_length=8, max_length=200, description="Random text that was sent to the provider")
    redirect_uri: str = Field(min_length=1, max_length=2_000)


class RefreshBody(BodyModel):
    model_config = example(refresh_token="8xLOxBtZp8")  # noqa: S106  an example

    refresh_token: str = Field(min_length=1, max_length=_MOST_CHARS)


class SignedInView(ReplyModel):
    model_config = example(
        id="person:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        token="eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiI3In0.c2ln",  # noqa: S106  an example
        expires_in_seconds=300,
        refresh_token="8xLOxBtZp8",  # noqa: S106  an example
        name="Ada Lovelace",
    )

    id: str = Field(description="Digest that names the person; the next tokens of the same person have the same")
    token: str = Field(description="Token to send as `Authorization: Bearer TOKEN`")
    expires_in_seconds: int
    refresh_token: str | None = Field(description="null: the person signs in again when the token has expired")
    name: str = Field(description="Name to show; `readable_by` may contain another name of the same user")
