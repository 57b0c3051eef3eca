"""Routes about who reads documents: why a person reads one, and a review of all readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from features.access.schemas import AccessCheckBody, AccessCheckReply, AccessReview, ReaderView, VersionAccessView
from shared.domain.access.persons import EVERYONE, NONE_NAMED, Person, may_read, named_readers, person_of
from shared.http.access.auth import Manager
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.documents.documents import Documents, VersionReaders
from shared.ledger.model.collections import Collections
from shared.ledger.tenants.persons import Persons

router = APIRouter(prefix="/v1", tags=["access"], route_class=StrictRoute)
ACCESS_ROUTES = FeatureRoutes((router,), {"name": "access", "description": "Readers of documents."})

_MOST_READERS = 1_000


@router.post(
    "/access-checks", response_model=AccessCheckReply, responses=problems(400, 401, 403, 404, 413, 415, 422, 503)
)
async def check_access(body: AccessCheckBody, tenant: Manager, services: ServicesDep) -> Response:
    """Return whether a person reads a document, and why. It needs the scope `manage`, and nothing is recorded."""
    person = person_of(body.user, body.groups)
    principals = person.principals(reads_unset=services.settings.readable_by_default == EVERYONE)
    versions = await services.ledger[Documents].readers(tenant, body.document_id)
    live = next((each for each in versions if each.is_live), None)
    reply = AccessCheckReply(
        readable=live is not None and may_read(principals, live.readable_by),
        reason=_reason(person, principals, live),
        versions=[_version(each, principals) for each in versions],
    )
    return JsonReply(reply)


@router.get("/access-review", response_model=AccessReview, responses=problems(401, 404, 422, 503))
async def review_access(
    tenant: Manager,
    services: ServicesDep,
    collection: Annotated[CollectionName | None, Query(description="Only documents of this collection")] = None,
) -> Response:
    """Count documents by reader, also those without one, and show when a person last had a group.

    `GET /v1/documents?readable_by=…` lists the documents of a reader. All documents are counted at each request.
    """
    await services.ledger[Collections].require(tenant, collection)
    found = await services.ledger[Persons].readers(tenant, collection, most=_MOST_READERS)
    items = [ReaderView(reader=each.reader, documents=each.documents, seen_at=each.seen_at) for each in found]
    return JsonReply(AccessReview(readable_by_default=services.settings.readable_by_default, items=items))


def _version(version: VersionReaders, principals: Sequence[str]) -> VersionAccessView:
    readers = named_readers(version.readable_by)
    return VersionAccessView(
        version=version.version,
        live=version.is_live,
        readable=may_read(principals, version.readable_by),
        matches=[] if readers is None else [reader for reader in readers if reader in principals],
        readable_by=None if readers is None else list(readers),
    )


def _reason(person: Person, principals: Sequence[str], live: VersionReaders | None) -> str:
    """Return why a person's queries find a document, or do not."""
    if live is None:
        return "No query finds the document yet: it has no live version."
    if tuple(live.readable_by) == NONE_NAMED:
        reads = may_read(principals, live.readable_by)
        verb, default = ("reads", "everyone") if reads else ("does not read", "nobody")
        return f"{person.user} {verb} the document: it names no readers, and FOREASK_READABLE_BY_DEFAULT is {default}."
    matches = [reader for reader in live.readable_by if reader in principals]
    if matches:
        return f"{person.user} reads the document, because it names {_named(matches[0])}."
    if not live.readable_by:
        return f"{person.user} does not read the document: its list of readers is empty, so no person reads it."
    named = ", ".join(_named(reader) for reader in live.readable_by[:3])
    more = f" and {len(live.readable_by) - 3:,} more" if len(live.readable_by) > 3 else ""  # noqa: PLR2004  shown
    groups = f"the groups {', '.join(sorted(person.groups)[:3])}" if person.groups else "no groups"
    return f"{person.user}, with {groups}, does not read the document: it names {named}{more}."


def _named(reader: str) -> str:
    kind, _, name = reader.partition(":")
    return "everyone" if not name else f"the {kind} '{name}'"
