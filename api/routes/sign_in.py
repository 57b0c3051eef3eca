"""Routes with which the page signs persons in at an identity provider. No key is required."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from api.schemas.sign_in import RefreshBody, SignedInView, SignInBody, SignInView
from shared.domain.errors import Forbidden, NotFound
from shared.http.access.auth import is_of_foreign_page
from shared.http.access.identities import Identities
from shared.http.access.identities.sign_in import SignIn
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import IdentitiesDep
from shared.http.strict_route import BeforeBody, StrictRoute

router = APIRouter(prefix="/v1/sign-in", tags=["sign-in"], route_class=StrictRoute)

_NOT_STORED: Mapping[str, str] = {"cache-control": "no-store"}


class _Required(BeforeBody):
    """The dependency on the sign-in of the page, for requests of the page itself."""

    async def __call__(self, request: Request) -> SignIn:
        """Return the sign-in.

        Raises:
            NotFound: there is none.
            Forbidden: a page of another site sent the request.
        """
        if is_of_foreign_page(request):
            raise Forbidden("Pages of other sites may not sign in.")
        identities: Identities | None = request.app.state.api.identities
        if identities is None or identities.sign_in is None:
            raise NotFound("This server has no sign-in: FOREASK_OIDC_CLIENT_ID is not set.")
        return identities.sign_in


SignInDep = Annotated[SignIn, Depends(_Required())]


@router.get("", response_model=SignInView, responses=problems(503))
async def get_sign_in(identities: IdentitiesDep) -> Response:
    """Return whether persons can sign in on the page, and the addresses of the identity provider.

    503 if the provider cannot be reached.
    """
    if identities is None or identities.sign_in is None:
        return JsonReply(SignInView(available=False))
    found = await identities.provider.current()
    return JsonReply(
        SignInView(
            available=found.authorization_endpoint is not None,
            client_id=identities.sign_in.client_id,
            scope=identities.sign_in.scope,
            authorization_endpoint=found.authorization_endpoint,
            end_session_endpoint=found.end_session_endpoint,
        )
    )


@router.post("/token", response_model=SignedInView, responses=problems(400, 401, 404, 413, 415, 422, 502))
async def redeem_code(body: SignInBody, sign_in: SignInDep) -> Response:
    """Redeem a code that the identity provider has sent to the page.

    The server sends it to the provider as the page's client, checks the nonce in the ID token, and returns the access
    token. If that is not issued for this server, the ID token is returned, which is.
    """
    signed_in = await sign_in.redeem(
        {
            "grant_type": "authorization_code",
            "code": body.code,
            "code_verifier": body.code_verifier,
            "redirect_uri": body.redirect_uri,
        },
        nonce=body.nonce,
    )
    return JsonReply(SignedInView.of(signed_in), headers=_NOT_STORED)


@router.post("/refresh", response_model=SignedInView, responses=problems(400, 401, 404, 413, 415, 422, 502))
async def refresh_token(body: RefreshBody, sign_in: SignInDep) -> Response:
    """Return a new token of a person who is signed in."""
    form = {"grant_type": "refresh_token", "refresh_token": body.refresh_token}
    return JsonReply(SignedInView.of(await sign_in.redeem(form)), headers=_NOT_STORED)
