"""Vector stores: each is a collection, whose chunks are searched by question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from features.openai.errors import OpenAIRoute, openai_errors
from features.openai.filters import metadata_filter
from features.openai.schemas.vector_stores import (
    ContentText,
    FileCounts,
    FoundChunk,
    Scalar,
    StoreSearchFacts,
    VectorStoreList,
    VectorStoreResult,
    VectorStoreResults,
    VectorStoreSearchBody,
    VectorStoreView,
)
from shared.domain.access.keys import Scope
from shared.domain.corpus.collections import Collection
from shared.domain.errors import ForeaskError, InvalidInput, NoCollection
from shared.domain.states import DocumentState
from shared.http.access.auth import Asker, Caller, admit_another_query
from shared.http.bodies import validate_as
from shared.http.queries.passages import address_of
from shared.http.queries.searcher import SearcherDep
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName
from shared.http.schemas.queries import RetrieveBody
from shared.http.state import ServicesDep
from shared.ledger.model.collections import Collections
from shared.query.retrieve import Retrieval, RetrievedChunk
from shared.services.api import ApiServices

_STATUSES = (400, 404, 409, 413, 415, 502)
_TOP_K = 10
_WORDINGS = 3
_COMPLETED = {DocumentState.SEARCHABLE, DocumentState.READY, DocumentState.DEGRADED}
_FIELDS = {"question": "query", "top_k": "max_num_results", "min_score": "ranking_options.score_threshold"}


class _StoreRoute(OpenAIRoute):
    """A route whose address names a vector store."""

    @staticmethod
    def encoded(request: Request, error: ForeaskError, status: int) -> tuple[int, Any]:
        status, content = OpenAIRoute.encoded(request, error, status)
        if isinstance(error, NoCollection):
            content["error"] |= {"param": "vector_store_id", "code": "vector_store_not_found"}
        return status, content


router = APIRouter(prefix="/v1/vector_stores", tags=["openai"], route_class=_StoreRoute)


@router.post("/{name}/search", response_model=VectorStoreResults, responses=openai_errors(*_STATUSES))
async def search_vector_store(name: CollectionName, body: VectorStoreSearchBody, searcher: SearcherDep) -> Response:
    """Find the chunks that answer a question, or one of several questions.

    Each question is a query of its own in limits and in the log.
    """
    await searcher.require_collection(name)
    found = []
    with _own_fields():
        queries = [searcher.within_limits(_query(name, question, body)) for question in body.query]
        for number, query in enumerate(queries):
            if number:
                await admit_another_query(searcher.request)
            found.append(await searcher.find(query))
    return JsonReply(_results(body, found, str(searcher.request.base_url)))


@router.get("", response_model=VectorStoreList, responses=openai_errors(400))
async def list_vector_stores(
    *,
    request: Request,
    tenant: Asker,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=100, description="Maximum number of vector stores")] = 20,
    after: Annotated[str, Query(max_length=63, description="`last_id` of the previous page")] = "",
    before: Annotated[str | None, Query(description="Rejected: pages are listed forwards")] = None,
) -> Response:
    """List the collections by name, each as a vector store. `order` is ignored."""
    if before is not None:
        raise InvalidInput("Pages are listed forwards: send `after`.", field="before")
    rows = await services.ledger[Collections].page(tenant, after=after, limit=limit + 1)
    data = await _views(rows[:limit], request, services)
    ids = [each.id for each in data]
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return JsonReply(VectorStoreList(data=data, first_id=first, last_id=last, has_more=len(rows) > limit))


@router.get("/{name}", response_model=VectorStoreView, responses=openai_errors(400, 404))
async def get_vector_store(name: CollectionName, request: Request, tenant: Asker, services: ServicesDep) -> Response:
    """Return a collection as a vector store."""
    (view,) = await _views([await services.ledger[Collections].get(tenant, name)], request, services)
    return JsonReply(view)


def _query(name: str, question: str, body: VectorStoreSearchBody) -> RetrieveBody:
    ranking = body.ranking_options
    return validate_as(
        RetrieveBody,
        {
            "question": question,
            "collection": name,
            "top_k": body.max_num_results or _TOP_K,
            "min_score": ranking.score_threshold if ranking else None,
            "rerank": ranking is None or ranking.ranker != "none",
            "filter": None if body.filters is None else metadata_filter(body.filters),
            "rewrite": {"queries": _WORDINGS} if body.rewrite_query else None,
        },
    )


@contextmanager
def _own_fields() -> Iterator[None]:
    """Change the fields that errors of a query name to fields of this request."""
    try:
        yield
    except InvalidInput as error:
        field = error.field or ""
        error.field = "filters" if field.partition(".")[0] == "filter" else _FIELDS.get(field, field) or None
        raise


def _results(body: VectorStoreSearchBody, found: Sequence[Retrieval], server: str) -> VectorStoreResults:
    best: dict[str, RetrievedChunk] = {}
    for chunk in (chunk for retrieval in found for chunk in retrieval.chunks):
        if chunk.chunk_id not in best or chunk.score > best[chunk.chunk_id].score:
            best[chunk.chunk_id] = chunk
    # A single question keeps the order of the reranker.
    chunks = list(best.values()) if len(found) == 1 else sorted(best.values(), key=lambda each: -each.score)
    rewritten = [text for each in found if each.rewritten for text in each.rewritten.queries]
    notices = dict.fromkeys(each.notice for each in found if each.notice)
    return VectorStoreResults(
        search_query=[*body.query, *rewritten],
        data=[_result(chunk, server) for chunk in chunks[: body.max_num_results or _TOP_K]],
        foreask=StoreSearchFacts(
            query_ids=[each.query_id for each in found if each.query_id], notice=" ".join(notices) or None
        ),
    )


def _result(chunk: RetrievedChunk, server: str) -> VectorStoreResult:
    content = chunk.content
    return VectorStoreResult(
        file_id=chunk.document_id,
        filename=chunk.filename or chunk.external_id,
        score=chunk.score,
        attributes=_attributes(chunk.metadata),
        content=[ContentText(text=chunk.text)],
        foreask=FoundChunk(
            chunk_id=chunk.chunk_id,
            external_id=chunk.external_id,
            title=content.title,
            url=address_of(chunk, server),
            heading_path=list(content.heading_path),
            page=content.page,
            span=chunk.span,
            matched_question=chunk.matched_question,
        ),
    )


def _attributes(metadata: Mapping[str, Any]) -> dict[str, Scalar]:
    return {
        name: value if isinstance(value, (str, bool, int, float)) else orjson.dumps(value).decode()
        for name, value in metadata.items()
        if value is not None
    }


async def _views(collections: Sequence[Collection], request: Request, services: ApiServices) -> list[VectorStoreView]:
    caller: Caller = request.state.caller
    if not _may_count(caller):
        return [_view(collection, None) for collection in collections]
    ids = [collection.id for collection in collections]
    counts = await services.ledger[Collections].document_counts(caller.tenant, ids) if ids else {}
    return [_view(collection, counts[collection.id]) for collection in collections]


def _may_count(caller: Caller) -> bool:
    """Return whether the caller may learn how many documents a collection has: not if some are hidden from it."""
    return Scope.READ in caller.scopes and not caller.restriction.is_partial


def _view(collection: Collection, counts: Mapping[str, int] | None) -> VectorStoreView:
    files = None if counts is None else _files(counts)
    return VectorStoreView(
        id=collection.name,
        name=collection.name,
        created_at=int(collection.created_at.timestamp()),
        status="in_progress" if files is not None and files.in_progress else "completed",
        file_counts=files,
    )


def _files(counts: Mapping[str, int]) -> FileCounts:
    known = {state: number for state, number in counts.items() if state != DocumentState.DELETING}
    total, failed = sum(known.values()), known.get(DocumentState.FAILED, 0)
    completed = sum(known.get(state, 0) for state in _COMPLETED)
    return FileCounts(total=total, completed=completed, failed=failed, in_progress=total - completed - failed)
