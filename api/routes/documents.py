"""Routes of documents: upload, list, show, retry and delete."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.http import prefer_header
from api.http.ndjson import LineStream, read_lines
from api.progress import long_poll
from api.progress.waiting import reason_of
from api.schemas.dead_letters import Reason
from api.schemas.documents import (
    BatchLine,
    BatchResult,
    DeletedDocuments,
    DocumentBody,
    DocumentChange,
    DocumentPage,
    DocumentView,
    ExternalId,
)
from api.submission import batch, submission
from api.submission.lanes import LaneName, lane_of
from shared.domain.access.persons import NONE_NAMED, UNSET, readers_of
from shared.domain.corpus.documents import Document
from shared.domain.errors import NotFound, Transient
from shared.domain.states import DocumentState
from shared.http import bodies, paging
from shared.http.access.auth import ReadingCaller, Writer
from shared.http.openapi import NDJSON, json_lines, json_or_form, line_replies, problems, replies
from shared.http.problems import UnsupportedMedia
from shared.http.replies import JsonReply
from shared.http.request_body import body_of
from shared.http.schemas.common import ONE_LINE, CollectionName
from shared.http.state import CollectionCacheDep, QuotasDep, ServicesDep, ShutdownDep
from shared.http.strict_route import StrictRoute
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.listing import DocumentFilter, ListPosition, Order
from shared.ledger.model import states
from shared.ledger.model.collections import Collections
from shared.ledger.tenants.persons import NO_PERSON
from shared.maintenance.descriptions import update_now

_MOST_IDS = 100  # per request: proxies accept addresses of up to 8 KB
_MOST_HITS = 1_001
_STATES = "^({0})(,({0}))*$".format("|".join(states.EXISTING_DOCUMENTS))
_OUTDATED = "Only documents that an older reader has read and that are not in progress"
_OF_JOB = "Only documents that this job changed last"
_WITH_REASON = (
    "Only failed documents with this reason, and degraded ones with a dead page or chunk with it, as in `GET"
    " /v1/dead-letters/reasons`"
)
_SEVERAL = "One or more states, separated by commas"
_WORDS = "Prefixes of words in the title, the filename or the external id; case is ignored"
_LANES_OF_LINES = (
    "`interactive` precedes `bulk`; `batch`: the questions are generated within a day through the model's batch API"
)
_READ_BY = "Only documents that name this reader; `unset`: that name none; `nobody`: that no person reads"
_SORTS = "`updated`: latest change first; `name`: by external id; `state`: failed, then in progress, then finished"

router = APIRouter(prefix="/v1/documents", tags=["documents"], route_class=StrictRoute)


@router.post(
    "",
    status_code=202,
    response_model=DocumentView,
    responses=replies(
        {
            200: {"model": DocumentView, "description": "The same content exists already"},
            201: {
                "model": DocumentView,
                "description": "The document was searchable or had failed within `Prefer: wait`",
            },
        },
        *(400, 401, 404, 409, 413, 415, 422, 503),
    ),
    openapi_extra=json_or_form(DocumentBody),
)
async def upload_document(
    *,
    request: Request,
    tenant: Writer,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
    quotas: QuotasDep,
    shutdown: ShutdownDep,
    prefer: prefer_header.Preferences = None,
) -> Response:
    """Upload a document, as a form with a `file` or as JSON.

    202: the document is durable and will be processed. Other content under the same `external_id` starts the next
    version; queries see the old version until the new one is complete. 200: the same content exists already. With
    `Prefer: wait=30` the reply is sent when the document is searchable by its texts or has failed (201), or after 30
    seconds.
    """
    submitted = await submission.receive(request, tenant, services, collection_cache, quotas)
    document, wait = submitted.document, prefer_header.wait_of(prefer)
    if wait is not None:
        document = await long_poll.until_found(
            request, tenant, document, services.ledger[Documents], wait=wait, shutdown=shutdown
        )
    in_time = 201 if wait is not None and long_poll.is_found(document) else 202
    headers = {"location": f"/v1/documents/{document.id}"} | prefer_header.applied(wait)
    return JsonReply(DocumentView.of(document, services.settings), in_time if submitted.accepted else 200, headers)


@router.post(
    ":batch",
    status_code=200,
    response_class=LineStream,
    responses=replies({200: line_replies(BatchResult)}, *(400, 401, 404, 409, 413, 415, 422, 503)),
    openapi_extra=json_lines(BatchLine),
)
async def upload_documents(
    *,
    request: Request,
    tenant: Writer,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
    quotas: QuotasDep,
    collection: Annotated[CollectionName, Query()] = "default",
    lane: Annotated[LaneName, Query(description=_LANES_OF_LINES)] = "bulk",
    job: Annotated[UUID | None, Query(description="Id of an open load: see POST /v1/jobs")] = None,
) -> Response:
    """Upload many small documents of one collection: one JSON object per line.

    Each line is answered by a line, in order, while further lines are read: the reply to a separate upload of the
    document. A rejected line stops no other. At most 10,000 documents.
    """
    if bodies.media_type(request) not in batch.MEDIA_TYPES:
        raise UnsupportedMedia(f"Send one JSON object a line, with `Content-Type: {NDJSON}`.")
    body_of(request).limit(batch.MOST_BYTES)
    await quotas.require_upload_room(tenant)
    documents = batch.DocumentBatch(
        services,
        await collection_cache.ensure(tenant, collection),
        await lane_of(lane, services),
        quotas,
        request.scope,
        job_id=job,
    )
    pieces = bodies.read_pieces(request, batch.MOST_BYTES)
    return LineStream(documents.receive(read_lines(pieces, services.settings.max_json_bytes)))


@router.get("", response_model=DocumentPage, responses=problems(400, 401, 404, 422, 503))
async def list_documents(
    *,
    caller: ReadingCaller,
    services: ServicesDep,
    ids: Annotated[list[UUID] | None, Query(alias="id", max_length=_MOST_IDS)] = None,
    collection: Annotated[CollectionName | None, Query()] = None,
    state: Annotated[str | None, Query(pattern=_STATES, max_length=200, description=_SEVERAL)] = None,
    external_id: Annotated[ExternalId | None, Query()] = None,
    q: Annotated[str | None, Query(min_length=1, max_length=200, pattern=ONE_LINE, description=_WORDS)] = None,
    sort: Annotated[Order, Query(description=_SORTS)] = "newest",
    outdated: Annotated[bool, Query(description=_OUTDATED)] = False,
    job: Annotated[UUID | None, Query(description=_OF_JOB)] = None,
    reason: Annotated[Reason | None, Query(description=_WITH_REASON)] = None,
    readable_by: Annotated[str | None, Query(min_length=1, max_length=300, description=_READ_BY)] = None,
    metadata: Annotated[bool, Query(description="Whether to return the metadata of the documents")] = True,
    count: Annotated[bool, Query(description="Whether to count the documents that `q` finds")] = False,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List documents, newest first or in the order of `sort`. `id`, up to 100 times, selects documents by their ids."""
    tenant = caller.tenant
    await services.ledger[Collections].require(tenant, collection)
    selection = DocumentFilter(
        ids=ids,
        collection=collection,
        in_states=None if state is None else [DocumentState(one) for one in state.split(",")],
        external_id=external_id,
        words=q,
        outdated=outdated,
        job=job,
        reason=reason,
        principals=caller.principals,
        readable_by=_readers_named(readable_by),
    )
    after = paging.read_cursor(cursor, partial(_read_position, sort))
    rows = await services.ledger[Documents].page(
        tenant, selection, order=sort, after=after, limit=limit + 1, metadata=metadata
    )
    documents, following = paging.split_page(rows, limit, partial(_position_of, sort))
    items = [DocumentView.of(document, services.settings) for document in documents]
    hits = await services.ledger[Documents].hits(tenant, selection, most=_MOST_HITS) if count and q else None
    return JsonReply(DocumentPage(items=items, next_cursor=following, hits=hits))


@router.delete("", response_model=DeletedDocuments, responses=problems(401, 422, 503))
async def delete_documents(
    tenant: Writer,
    services: ServicesDep,
    ids: Annotated[list[UUID], Query(alias="id", min_length=1, max_length=_MOST_IDS)],
) -> Response:
    """Delete up to 100 documents by their ids: `?id=…&id=…`. Ids without a document are ignored.

    The documents are invisible to every caller at once; their points are deleted as soon as Qdrant answers.
    """
    deleted = []
    for document_id in dict.fromkeys(ids):
        with suppress(NotFound):
            deleted.append(await services.ledger[Documents].delete(tenant, document_id))
    with suppress(Transient):  # the scheduler deletes the points when Qdrant is available again
        for document in deleted:
            await services.index.delete_document(document.location, document.id)
    return JsonReply(DeletedDocuments(deleted=len(deleted)))


@router.get("/{document_id}", response_model=DocumentView, responses=problems(401, 404, 422, 503))
async def get_document(document_id: UUID, caller: ReadingCaller, services: ServicesDep) -> Response:
    """Return a document with its progress. While it waits, `error` is the reason."""
    document = await services.ledger[Documents].get(caller.tenant, document_id, principals=caller.principals)
    document = replace(document, error=await reason_of(document, caller.tenant, services))
    return JsonReply(DocumentView.of(document, services.settings))


@router.patch(
    "/{document_id}",
    response_model=DocumentView,
    responses=problems(400, 401, 404, 413, 415, 422, 503),
)
async def update_document(change: DocumentChange, document_id: UUID, tenant: Writer, services: ServicesDep) -> Response:
    """Change a document's title, metadata or readers: no text is embedded and no question generated again.

    Filters and replies use the new values as soon as Qdrant answers. Persons who may not read it any more
    do not find it from the reply on. BM25 finds the words of another title from the next version on.
    """
    title = None if change.title is None else change.title.strip()
    described = await services.ledger[Documents].describe(
        tenant, document_id, title=title, metadata=change.metadata, readable_by=change.stored_readers
    )
    services.wakeups.wake("parse", "index")  # the change ended the claims that had read the old description
    await update_now(services.ledger[Descriptions], services.index, described.rows)
    return JsonReply(DocumentView.of(described.document, services.settings))


@router.delete("/{document_id}", status_code=204, responses=problems(401, 404, 422, 503))
async def delete_document(document_id: UUID, tenant: Writer, services: ServicesDep) -> Response:
    """Delete a document. It is invisible to every caller at once; its points are deleted as soon as Qdrant answers."""
    deleted = await services.ledger[Documents].delete(tenant, document_id)
    with suppress(Transient):  # the scheduler deletes the points when Qdrant is available again
        await services.index.delete_document(deleted.location, deleted.id)
    return Response(status_code=204)


@router.post(
    "/{document_id}/retry", status_code=202, response_model=DocumentView, responses=problems(401, 404, 409, 422, 503)
)
async def retry_document(document_id: UUID, tenant: Writer, services: ServicesDep) -> Response:
    """Give a failed document, or the unread pages and dead chunks of a degraded one, another round of attempts.

    A degraded document without dead letters is read again if it is `outdated`. Otherwise it is answered 409: another
    attempt would miss the same words.
    """
    document = await services.ledger[Documents].retry(tenant, document_id)
    if document.state is DocumentState.QUEUED:
        services.wakeups.wake("parse")
    else:
        services.wakeups.wake("generate", "index")
    return JsonReply(DocumentView.of(document, services.settings), 202)


def _readers_named(reader: str | None) -> Sequence[str] | None:
    """Return the readers of listed documents, as they are stored; None for any."""
    if reader is None or reader == UNSET:
        return reader and NONE_NAMED
    return () if reader == NO_PERSON else readers_of([reader])


def _position_of(order: Order, document: Document) -> list[str]:
    """Return the key of a cursor. It names its order, because it is meaningless in another order."""
    created, identity = document.created_at.isoformat(), str(document.id)
    return {
        "newest": [created, identity],
        "updated": ["updated", document.updated_at.isoformat(), identity],
        "name": ["name", document.external_id, identity],
        "state": ["state", document.state.value, created, identity],
    }[order]


def _read_position(order: Order, key: list[str]) -> ListPosition:
    """Read the key of a cursor; raises ValueError if it does not belong to this order."""
    if order != "newest":
        name, *key = key
        if name != order:
            raise ValueError
    if order == "name":
        name, identity = key
        return ListPosition(UUID(identity), name=paging.read_name([name]))
    state = DocumentState(key.pop(0)) if order == "state" else None
    if state is DocumentState.DELETING:
        raise ValueError
    at, document_id = paging.read_time_and_id(key)
    return ListPosition(document_id, at=at, state=state)
