"""Queries: the chunks that answer a question, and the answer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import fields

import structlog
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.collection_cache import CollectionCache
from api.deps import CollectionCacheDep, QueryLogDep, ServicesDep
from api.http.auth import Tenant
from api.http.bodies import read_json
from api.http.middleware import log_crash
from api.http.openapi import json_body, problems, replies
from api.http.problems import problem_of
from api.http.replies import Json, event, event_stream
from api.query_log import QueryLogWriter
from api.schemas import (
    ChannelRankView,
    Citation,
    Explanation,
    QueryBody,
    QueryMetadata,
    QueryReply,
    QueryUsage,
    RetrieveBody,
    RetrievedChunkView,
    RetrieveReply,
    RewrittenQuestionView,
    StageExplanation,
)
from shared.domain.errors import ForeaskError, InvalidInput
from shared.domain.usage import Usage
from shared.query.answer import Answer, Answerer, Passage
from shared.query.retrieve import STAGES, Query, Retrieval, RetrievedChunk, Weights
from shared.query.rewrite import RewriteOptions, RewrittenQuestion
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1", tags=["queries"])
log = structlog.get_logger()

_INT64 = 2**63
_SHOWN = tuple(f.name for f in fields(RetrievedChunk) if f.name != "channels")
_STATUSES = (400, 401, 409, 413, 415, 422, 502, 503)


@router.post(
    "/retrieve", response_model=RetrieveReply, responses=problems(*_STATUSES), openapi_extra=json_body(RetrieveBody)
)
async def retrieve(
    request: Request, tenant: Tenant, services: ServicesDep, known: CollectionCacheDep, asked: QueryLogDep
) -> Response:
    """Find the chunks that answer a question. A collection that does not exist has none."""
    body = await read_json(request, RetrieveBody, services.settings.max_json_bytes)
    clock = _Clock()
    retrieval = await _retrieve(body, tenant, services, known, asked)
    return Json(_found(body, retrieval, clock))


@router.post(
    "/query",
    response_model=QueryReply,
    responses=replies(
        {
            200: {
                "description": "The answer; with `stream`, server-sent events: `retrieved` (as /v1/retrieve), `token`"
                ' ({"text"}), `done` (the whole reply) or `error` (problem details)',
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        },
        *_STATUSES,
    ),
    openapi_extra=json_body(QueryBody),
)
async def query(
    request: Request, tenant: Tenant, services: ServicesDep, known: CollectionCacheDep, asked: QueryLogDep
) -> Response:
    """Answer a question from the documents alone, with citations. Where nothing is found, no model is called."""
    body = await read_json(request, QueryBody, services.settings.max_json_bytes)
    clock = _Clock()
    retrieval = await _retrieve(body, tenant, services, known, asked)
    if body.stream:
        return event_stream(_streamed(body, retrieval, services.answerer_for(tenant), clock))
    with retrieval.timed("answer"):
        answer = await services.answerer_for(tenant).answer(body.question, _passages(retrieval.chunks))
    return Json(_answered(body, answer, retrieval, clock))


async def _retrieve(
    body: RetrieveBody, tenant: str, services: ApiServices, known: CollectionCache, asked: QueryLogWriter
) -> Retrieval:
    most = services.settings.tuning.top_k_max
    if body.top_k > most:
        raise InvalidInput(f"top_k is at most {most} (FOREASK_TUNING__TOP_K_MAX).", field="top_k")
    _require_known_numbers(body.filter)
    given = {f.name: getattr(body, f.name) for f in fields(Query) if hasattr(body, f.name)}
    given["weights"] = None if body.weights is None else Weights(**body.weights.model_dump())
    if body.rewrite is not None:
        given["rewriting"] = RewriteOptions(**body.rewrite.model_dump(exclude={"budget_ms"}))
        given["rewrite_budget"] = body.rewrite.budget
    wanted = Query(**given)
    collection = await known.found(tenant, body.collection)
    retrieval = await services.retriever.retrieve(collection, wanted)
    with retrieval.timed("record"):
        chunks = [chunk.chunk_id for chunk in retrieval.chunks]
        retrieval.query_id = await asked.name(collection, body.question, chunks) if body.record else None
    return retrieval


async def _streamed(body: QueryBody, retrieval: Retrieval, answerer: Answerer, clock: _Clock) -> AsyncIterator[bytes]:
    """The answer as events; closing this, as a client's going away does, ends the model's call."""
    yield event("retrieved", _found(body, retrieval, clock))
    try:
        with retrieval.timed("answer"):
            async with aclosing(answerer.stream(body.question, _passages(retrieval.chunks))) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        answer = piece
                    else:
                        yield event("token", {"text": piece})
        yield event("done", _answered(body, answer, retrieval, clock))
    except Exception as error:  # noqa: BLE001  the reply has begun: only an event can still tell
        if isinstance(error, ForeaskError):
            log.warning("request_failed", kind=type(error).__name__, path="/v1/query")
        else:
            log_crash(error, "/v1/query")
        yield event("error", problem_of(error, "/v1/query"))


class _Clock:
    def __init__(self) -> None:
        self._started = time.perf_counter()

    def milliseconds(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 2)


def _passages(chunks: Sequence[RetrievedChunk]) -> list[Passage]:
    return [Passage(n, c.text, c.title, c.heading_path, c.score) for n, c in enumerate(chunks, 1)]


def _found(body: RetrieveBody, retrieval: Retrieval, clock: _Clock) -> RetrieveReply:
    return RetrieveReply(chunks=_chunks(body, retrieval.chunks), metadata=_metadata(body, retrieval, Usage(), clock))


def _answered(body: QueryBody, answer: Answer, retrieval: Retrieval, clock: _Clock) -> QueryReply:
    return QueryReply(
        answer=answer.text,
        found=answer.found,
        form=answer.form,
        citations=[_citation(number, retrieval.chunks[number - 1]) for number in answer.cited],
        removed_citations=list(answer.removed_citations),
        chunks=_chunks(body, retrieval.chunks),
        metadata=_metadata(body, retrieval, answer.usage, clock),
    )


def _citation(number: int, chunk: RetrievedChunk) -> Citation:
    return Citation(
        number=number,
        document_id=chunk.document_id,
        external_id=chunk.external_id,
        title=chunk.title,
        heading_path=list(chunk.heading_path),
        page=chunk.page,
        span=chunk.span,
        text=chunk.text,
        chunk_id=chunk.chunk_id,
    )


def _chunks(body: RetrieveBody, chunks: Sequence[RetrievedChunk]) -> list[RetrievedChunkView]:
    return [_chunk(chunk, explain=body.explain) for chunk in chunks]


def _chunk(chunk: RetrievedChunk, *, explain: bool) -> RetrievedChunkView:
    values = {name: getattr(chunk, name) for name in _SHOWN}  # `asdict` would copy all that is within
    places = {name: ChannelRankView(rank=place.rank, score=place.score) for name, place in chunk.channels.items()}
    return RetrievedChunkView(**values, channels=places if explain else None)


def _metadata(body: RetrieveBody, retrieval: Retrieval, usage: Usage, clock: _Clock) -> QueryMetadata:
    usage += retrieval.usage
    return QueryMetadata(
        query_id=retrieval.query_id,
        matched_questions=retrieval.matched_questions,
        unique_chunks=retrieval.unique_chunks,
        usage=QueryUsage(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens),
        milliseconds=retrieval.milliseconds | {"total": clock.milliseconds()},
        skipped=retrieval.skipped,
        explain=_explanation(body, retrieval) if body.explain else None,
    )


def _explanation(body: RetrieveBody, retrieval: Retrieval) -> Explanation:
    return Explanation(
        stages=_stages(retrieval),
        fusion=body.fusion,
        weights={channel: retrieval.weights.of(channel) for channel in body.channels},
        rewritten=None if retrieval.rewritten is None else _rewritten(retrieval.rewritten),
    )


def _stages(retrieval: Retrieval) -> dict[str, StageExplanation]:
    known = {*retrieval.milliseconds, *retrieval.did, *retrieval.skipped}
    return {
        name: StageExplanation(
            milliseconds=retrieval.milliseconds.get(name),
            did=retrieval.did.get(name),
            skipped=retrieval.skipped.get(name),
        )
        for name in STAGES
        if name in known
    }


def _rewritten(rewritten: RewrittenQuestion) -> RewrittenQuestionView:
    return RewrittenQuestionView(
        hypothetical_answer=rewritten.hypothetical,
        queries=list(rewritten.queries),
        step_back_question=rewritten.step_back,
        intent=rewritten.intent,
        entities=list(rewritten.entities),
    )


def _require_known_numbers(value: object) -> None:
    """Refuse whole numbers that Qdrant has no room for."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, int) and not -_INT64 <= item < _INT64:
            raise InvalidInput("A number of the filter is too large.", field="filter")
