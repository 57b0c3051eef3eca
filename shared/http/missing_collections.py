"""The answer to a request that names a missing collection: it has the names of collections that the caller may list.

Routes look a collection up with `Collections.get` or `Collections.require`, which raise `NoCollection`. The error is
completed here for every route, in the format of problem details and of OpenAI.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fastapi import Request

from shared.domain.access.keys import Scope
from shared.domain.errors import ForeaskError, NoCollection
from shared.domain.text.similar_names import listed, most_similar
from shared.ledger.model.collections import Collections

if TYPE_CHECKING:
    from shared.http.access.auth import Caller

DEFAULT = "default"
"""The collection of a request that names none, so its name is not a typing error."""


async def complete(error: NoCollection, request: Request) -> None:
    """Add the names of the collections that the caller of a request may list, and say them in the message."""
    caller: Caller | None = getattr(request.state, "caller", None)
    listing = None if caller is None else _listing(caller, error.tenant)
    if listing is not None:
        with suppress(ForeaskError):  # the ledger has become unavailable since
            near = await request.app.state.api.services.ledger[Collections].names_near(error.tenant, error.name)
            error.similar = most_similar(error.name, near.names)
            error.others = near.total - len(error.similar)
    error.message = _sentence(error, listing)


def _listing(caller: Caller, tenant: str) -> str | None:
    """Return the request with which the caller may list a tenant's collections; None if it may not."""
    if Scope.OPERATOR in caller.scopes:
        return f"GET /v1/operator/tenants/{tenant}/collections"
    if caller.tenant != tenant:
        return None
    if Scope.READ in caller.scopes:
        return "GET /v1/collections"
    return "GET /v1/models" if Scope.ASK in caller.scopes else None


def _sentence(error: NoCollection, listing: str | None) -> str:
    is_default = error.name == DEFAULT
    missing = f"The collection '{DEFAULT}' has no documents yet" if is_default else error.message.rstrip(".")
    if error.similar is None:
        return f"{missing}."
    if not error.similar:
        return f"{missing}: {'the first upload creates it' if is_default else 'no document has been uploaded yet'}."
    verb = "is" if len(error.similar) + error.others == 1 else "are"
    how = f" ({listing} lists them)" if error.others else ""
    return f"{missing}: there {verb} {listed(error.similar, error.others)}{how}."
