"""Routes of sources: add, list, change and remove them, sync them, approve deletions, and receive hints."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal
from uuid import UUID

import structlog
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from features.sources.access import SourceAccess
from features.sources.domain import PUSH, NewSource, SourceChanges, SourceCheck, SourceState, SyncState
from features.sources.hints.messages import keys_within, read_hint
from features.sources.hints.subscriptions import CONFIRM_SECONDS, confirm, is_of_amazon, shown
from features.sources.ledger.checks import SourceChecks
from features.sources.ledger.hints import Hints
from features.sources.ledger.sources import Sources
from features.sources.ledger.syncs import Syncs
from features.sources.opening import kind_of
from features.sources.push.routes import router as push_router
from features.sources.schemas import (
    ApprovalBody,
    HintBody,
    HintReply,
    SourceBody,
    SourceChange,
    SourceCheckBody,
    SourceCheckView,
    SourceName,
    SourcePage,
    SourceView,
    SyncPage,
    SyncView,
    WithheldView,
)
from features.sources.views import sync_view
from shared.domain.errors import Conflict, Unavailable
from shared.http import bodies, paging
from shared.http.access.auth import Manager, Notifier, Reader, Writer
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import json_body, problems
from shared.http.problems import UnsupportedMedia
from shared.http.replies import JsonReply
from shared.http.request_body import body_of
from shared.http.schemas.common import CollectionName
from shared.http.schemas.jobs import RunPhase
from shared.http.state import CollectionCacheDep, ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.model.collections import Collections
from shared.outside.requests import new_client
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/sources", tags=["sources"], route_class=StrictRoute)
checks_router = APIRouter(prefix="/v1/source-checks", tags=["sources"], route_class=StrictRoute)

_HINT_BYTES = bodies.MaxBytes(2 * 1024 * 1024)  # 1,000 keys of 1,024 bytes, some of them escaped
_HINT_MEDIA = {"application/json", "application/cloudevents+json", "text/plain"}  # SNS sends text/plain

log = structlog.get_logger()


@router.post("", status_code=201, response_model=SourceView, responses=problems(400, 401, 409, 413, 415, 422, 503))
async def create_source(
    body: SourceBody, tenant: Manager, services: ServicesDep, collection_cache: CollectionCacheDep
) -> Response:
    """Add a source to a collection. It is synced at the times of its schedule, or on request.

    Its documents have the external ids `NAME/KEY`. Only addresses that the operator allows are accepted. A secret is
    never sent: the operator stores it, and the source has its name.
    """
    new = NewSource(**body.model_dump(exclude={"collection"}) | {"kind": body.kind or kind_of(body.uri)})
    SourceAccess(services.settings).require(tenant, new.kind, new.uri, new.options, secret_name=new.secret_name)
    collection = await collection_cache.ensure(tenant, body.collection)
    await services.ledger[Sources].add(collection, new)
    return JsonReply(await _view(tenant, new.name, services), 201, {"location": f"/v1/sources/{new.name}"})


@checks_router.post(
    "", status_code=202, response_model=SourceCheckView, responses=problems(400, 401, 409, 413, 415, 422, 503)
)
async def check_source(body: SourceCheckBody, tenant: Manager, services: ServicesDep) -> Response:
    """Check a source before it is added: a parse worker lists its first entries, with the limits of a sync.

    Nothing is read or stored. GET /v1/source-checks/{id} has the result.
    """
    kind = body.kind or kind_of(body.uri)
    SourceAccess(services.settings).require(tenant, kind, body.uri, body.options, secret_name=body.secret_name)
    started = await services.ledger[SourceChecks].start(
        tenant, kind=kind, uri=body.uri, options=body.options, secret_name=body.secret_name
    )
    services.wakeups.wake("syncs")
    return JsonReply(check_view(started), 202, {"location": f"/v1/source-checks/{started.id}"})


@checks_router.get("/{check_id}", response_model=SourceCheckView, responses=problems(401, 404, 422, 503))
async def get_source_check(check_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Return a check of a source. It is deleted an hour after its end, when another one is started."""
    return JsonReply(check_view(await services.ledger[SourceChecks].get(tenant, check_id)))


@router.get("", response_model=SourcePage, responses=problems(400, 401, 404, 422, 503))
async def list_sources(
    *,
    tenant: Reader,
    services: ServicesDep,
    collection: Annotated[CollectionName | None, Query(description="Only sources of this collection")] = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List sources by name, each with its newest sync."""
    await services.ledger[Collections].require(tenant, collection)
    after = paging.read_cursor(cursor, paging.read_name) or ""
    rows = await services.ledger[Sources].page(tenant, collection=collection, after=after, limit=limit + 1)
    sources, following = paging.split_page(rows, limit, lambda state: (state.definition.name,))
    return JsonReply(SourcePage(items=[source_view(state) for state in sources], next_cursor=following))


@router.get("/{name}", response_model=SourceView, responses=problems(401, 404, 422, 503))
async def get_source(name: SourceName, tenant: Reader, services: ServicesDep) -> Response:
    """Return a source with its newest sync."""
    return JsonReply(await _view(tenant, name, services))


@router.patch("/{name}", response_model=SourceView, responses=problems(400, 401, 404, 409, 413, 415, 422, 503))
async def update_source(body: SourceChange, name: SourceName, tenant: Manager, services: ServicesDep) -> Response:
    """Change a source. A running sync continues with the old values.

    A change of the address or the options of a source with documents needs `confirm`.
    """
    changes = _changes(body)
    old = (await services.ledger[Sources].get(tenant, name)).definition
    uri, options = changes.uri or old.uri, old.options if changes.options is None else changes.options
    SourceAccess(services.settings).require(tenant, old.kind, uri, options, secret_name=changes.secret_name)
    await services.ledger[Sources].change(tenant, name, changes, confirmed=body.confirm)
    return JsonReply(await _view(tenant, name, services))


@router.delete("/{name}", status_code=202, response_model=SourceView, responses=problems(401, 404, 422, 503))
async def delete_source(
    name: SourceName,
    tenant: Manager,
    services: ServicesDep,
    documents: Annotated[
        Literal["keep", "delete"], Query(description="Whether the documents of the source are kept or deleted")
    ],
) -> Response:
    """Remove a source, with or without its documents. Its open sync is cancelled.

    The name can be used again when the removal has finished and the source is no longer listed.
    """
    await services.ledger[Sources].remove(tenant, name, with_documents=documents == "delete")
    return JsonReply(await _view(tenant, name, services), 202)


@router.post("/{name}/sync", status_code=202, response_model=SyncView, responses=problems(401, 404, 409, 422, 503))
async def sync_source(name: SourceName, tenant: Writer, services: ServicesDep) -> Response:
    """Start a sync: list the source, and bring its documents up to date.

    The sync is a job: GET /v1/jobs/{id} has its progress. While it is open, a second one is answered 409 with its
    `job_id`. A sync that waits for approval does not count as open.
    """
    return _started(await services.ledger[Syncs].start(tenant, name), services)


@router.get("/{name}/syncs", response_model=SyncPage, responses=problems(400, 401, 404, 422, 503))
async def list_syncs(
    *,
    name: SourceName,
    tenant: Reader,
    services: ServicesDep,
    limit: paging.Limit = 20,
    cursor: paging.Cursor = None,
) -> Response:
    """List the syncs of a source, newest first; the newest 50 are retained."""
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[Syncs].page(tenant, name, after=after, limit=limit + 1)
    shown, following = paging.split_page(rows, limit, lambda each: (each.created_at.isoformat(), str(each.id)))
    return JsonReply(SyncPage(items=[sync_view(each) for each in shown], next_cursor=following))


@router.get("/{name}/withheld", response_model=WithheldView, responses=problems(401, 404, 422, 503))
async def list_withheld(name: SourceName, tenant: Reader, services: ServicesDep) -> Response:
    """Return the deletions of a source that need approval: their number, and the first keys."""
    return JsonReply(WithheldView.of(await services.ledger[Syncs].withheld(tenant, name)))


@router.post(
    "/{name}/approve",
    status_code=202,
    response_model=SyncView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 503),
)
async def approve_sync(body: ApprovalBody, name: SourceName, tenant: Manager, services: ServicesDep) -> Response:
    """Approve withheld deletions. The source is listed again, and at most this many documents are deleted.

    If the new listing lacks more entries, nothing is deleted and all are withheld again.
    """
    return _started(await services.ledger[Syncs].approve(tenant, name, deletions=body.deletions), services)


@router.post(
    "/{name}/hints",
    status_code=202,
    response_model=HintReply,
    responses=problems(400, 401, 404, 408, 413, 415, 422, 503),
    openapi_extra={**json_body(HintBody), "security": [{"bearer": []}, {"key": []}, {"basic": []}]},
)
async def hint_source(request: Request, name: SourceName, tenant: Notifier, services: ServicesDep) -> Response:
    """Report entries that may have changed: keys, or an event of an object store as the store sends it.

    Each entry is looked up: a new or changed one is read, and a missing one waits for two complete listings. Names
    outside the source are ignored and counted. Accepted are events of S3 through EventBridge or SNS, of MinIO and
    SeaweedFS, and of Google Cloud Storage through a push subscription. A subscription of Amazon's SNS is confirmed. The
    key may be the password of HTTP Basic authentication here, because SNS has no other means.
    """
    read = read_hint(await _json_of(request))
    state = await services.ledger[Sources].get(tenant, name)
    if state.definition.kind == PUSH:
        raise Conflict(f"Programs push the entries of the source '{name}': there is nothing to look up.")
    if read.confirm_url is not None:
        await _confirm(name, read.confirm_url)
    keys = keys_within(read.names, state.definition.uri)
    if keys:
        await services.ledger[Hints].add(tenant, name, keys)
        services.wakeups.wake("syncs")
    return JsonReply(HintReply(accepted=len(keys), ignored=len(read.names) - len(keys)), 202)


async def _confirm(name: str, url: str) -> None:
    """Confirm a subscription of SNS; the log has its address without the token if that is impossible.

    Raises:
        Unavailable: it cannot be confirmed now. SNS sends its message again.
    """
    if not is_of_amazon(url):
        log.warning("subscription.unconfirmed", source=name, url=shown(url), reason="the address is not Amazon's")
        return
    try:
        async with new_client(CONFIRM_SECONDS) as client:
            await confirm(url, client)
    except Unavailable as error:
        log.warning("subscription.unconfirmed", source=name, url=shown(url), reason=error.message)
        raise
    log.info("subscription.confirmed", source=name)


async def _json_of(request: Request) -> Any:
    """Read the body of a hint; raises as `read_json`."""
    if bodies.media_type(request) not in _HINT_MEDIA:
        raise UnsupportedMedia("Send JSON, with `Content-Type: application/json`.")
    limit = _HINT_BYTES.resolve(body_of(request).settings)
    return bodies.parse_json(b"".join([piece async for piece in bodies.read_pieces(request, *limit)]))


def _changes(body: SourceChange) -> SourceChanges:
    """Return the changes of a request, in which null removes a value and an absent field keeps it."""
    given = {name: getattr(body, name) for name in body.model_fields_set - {"confirm"}}
    changes: dict[str, Any] = {name: "" if value is None else value for name, value in given.items()}
    return SourceChanges(**changes)


def _started(state: SyncState, services: ApiServices) -> Response:
    services.wakeups.wake("syncs")
    return JsonReply(sync_view(state), 202, {"location": f"/v1/jobs/{state.id}"})


async def _view(tenant: str, name: str, services: ApiServices) -> SourceView:
    return source_view(await services.ledger[Sources].get(tenant, name))


def source_view(state: SourceState) -> SourceView:
    return SourceView.of(
        state.definition,
        next_sync_at=state.next_at,
        schedule_error=state.schedule_error,
        newest_sync=None if state.newest is None else sync_view(state.newest),
        newest_lookup=state.lookup,
        removing=state.removing,
    )


def check_view(check: SourceCheck) -> SourceCheckView:
    return SourceCheckView(
        **dataclasses.asdict(check.found),
        id=check.id,
        state=RunPhase(check.state),
        error=check.error,
        created_at=check.created_at,
        ended_at=check.ended_at,
    )


async def _open_work(tenant: str, services: ApiServices) -> dict[str, object]:
    return {"withheld": [dataclasses.asdict(sync) for sync in await services.ledger[Syncs].waiting(tenant)]}


SOURCE_ROUTES = FeatureRoutes(
    (router, checks_router, push_router),
    {"name": "sources", "description": "Corpora that collections are kept in sync with."},
    open_work=_open_work,
)
