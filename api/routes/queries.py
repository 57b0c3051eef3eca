"""Routes of queries: retrieve chunks, or answer a question from them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from shared.domain.corpus.chunks import CONTENT_FIELDS
from shared.domain.spending.usage import Usage
from shared.http.access.auth import AskingCaller
from shared.http.bodies import CHAT_BODY
from shared.http.event_stream import end_with_error, event, event_stream
from shared.http.openapi import event_content, problems, replies
from shared.http.queries.conversation import last_question
from shared.http.queries.explanation import sentence
from shared.http.queries.passages import citation_of, passages_of
from shared.http.queries.query_log import QueryLogWriter
from shared.http.queries.searching import find_chunks, within_limits
from shared.http.replies import JsonReply
from shared.http.schemas.problems import ProblemDetails
from shared.http.schemas.queries import (
    CandidatesView,
    CandidateView,
    ChannelRankView,
    EvidenceView,
    ExpectedChunkView,
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
    TokenEvent,
)
from shared.http.state import CollectionCacheDep, QueryLogDep, ServicesDep
from shared.http.strict_route import StrictRoute
from shared.query.answer import Answer, Answerer
from shared.query.condense import Turn
from shared.query.retrieve import Retrieval, RetrievedChunk
from shared.query.retrieve.notice import Notice
from shared.query.retrieve.scores.fusion import Ranks

router = APIRouter(prefix="/v1", tags=["queries"], route_class=StrictRoute)

_CONTENT_VIEW_FIELDS = RetrievedChunkView.model_fields.keys() & set(CONTENT_FIELDS)
_VIEW_FIELDS = RetrievedChunkView.model_fields.keys() - _CONTENT_VIEW_FIELDS - {"channels", "evidence"}
_STATUSES = (400, 401, 404, 409, 413, 415, 422, 502, 503)


@router.post("/retrieve", response_model=RetrieveReply, responses=problems(*_STATUSES))
async def retrieve(
    *,
    request: Request,
    body: RetrieveBody,
    caller: AskingCaller,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
    query_log: QueryLogDep,
) -> Response:
    """Find the chunks that answer a question."""
    stopwatch = _Stopwatch()
    retrieval = await find_chunks(request, body, caller, services, collection_cache, query_log)
    return JsonReply(_retrieve_reply(body, retrieval, stopwatch))


@router.post(
    "/query",
    response_model=QueryReply,
    responses=replies(
        {
            200: {
                "description": "The answer; with `stream`, server-sent events: `retrieved` (as /v1/retrieve), `token`"
                ' ({"text"}), `done` (the whole reply) or `error` (problem details)',
                "content": event_content(RetrieveReply, TokenEvent, QueryReply, ProblemDetails),
            }
        },
        *_STATUSES,
    ),
)
async def query(
    *,
    request: Request,
    body: Annotated[QueryBody, CHAT_BODY],
    caller: AskingCaller,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
    query_log: QueryLogDep,
) -> Response:
    """Answer a question only from the documents, with citations. If no chunk is found, no model writes an answer.

    With `history`, the language model first rewrites the question so that it is understood without the conversation.
    """
    stopwatch = _Stopwatch()
    body, usage = within_limits(body, caller, services), Usage()
    if body.history:
        await collection_cache.get(caller.tenant, body.collection)  # a missing one costs no call of a model
        turns = [*(Turn(message.role, message.content) for message in body.history), Turn("user", body.question)]
        condensed = await last_question(caller.tenant, turns, services)
        body, usage = body.model_copy(update={"question": condensed.text}), condensed.usage
    retrieval = await find_chunks(request, body, caller, services, collection_cache, query_log)
    retrieval.usage += usage
    answerer = services.answerer_for(caller.tenant, retrieval.collection, body.links)
    if body.stream:
        events = _answer_events(body, retrieval, answerer, query_log, stopwatch)
        return event_stream(end_with_error(events, request.scope))
    with retrieval.trace.timed("answer"):
        answer = await answerer.answer(body.question, passages_of(retrieval.chunks))
    await _note(query_log, retrieval, answer, stopwatch)
    return JsonReply(_query_reply(body, answer, retrieval, stopwatch))


async def _note(query_log: QueryLogWriter, retrieval: Retrieval, answer: Answer, stopwatch: _Stopwatch) -> None:
    """Record the answer. It can be shared unless a passage is larger than its chunk.

    The chunks of a shared answer show whether its passages have changed; the rest of a larger passage is in others.
    """
    within = all(c.chunk_span[0] <= c.span[0] and c.span[1] <= c.chunk_span[1] for c in retrieval.chunks)
    usage, milliseconds = retrieval.usage + answer.usage, stopwatch.milliseconds()
    await query_log.note(retrieval, answer, usage=usage, milliseconds=milliseconds, can_be_shared=within)


async def _answer_events(
    body: QueryBody, retrieval: Retrieval, answerer: Answerer, query_log: QueryLogWriter, stopwatch: _Stopwatch
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks, the answer piece by piece, and the complete reply. Closing it cancels the model's call."""
    yield event("retrieved", _retrieve_reply(body, retrieval, stopwatch))
    async with AsyncExitStack() as stack:
        stack.enter_context(retrieval.trace.timed("answer"))
        pieces = answerer.stream(body.question, passages_of(retrieval.chunks))
        await stack.enter_async_context(aclosing(pieces))  # type: ignore[type-var]
        async for piece in pieces:
            if isinstance(piece, Answer):
                answer = piece
            else:
                yield event("token", TokenEvent(text=piece))
    await _note(query_log, retrieval, answer, stopwatch)
    yield event("done", _query_reply(body, answer, retrieval, stopwatch))


class _Stopwatch:
    def __init__(self) -> None:
        self._started = time.perf_counter()

    def milliseconds(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 2)


def _retrieve_reply(body: RetrieveBody, retrieval: Retrieval, stopwatch: _Stopwatch) -> RetrieveReply:
    return RetrieveReply(
        chunks=_chunks(body, retrieval.chunks), metadata=_metadata(body, retrieval, Usage(), stopwatch)
    )


def _query_reply(body: QueryBody, answer: Answer, retrieval: Retrieval, stopwatch: _Stopwatch) -> QueryReply:
    return QueryReply(
        answer=answer.text,
        found=answer.found,
        form=answer.form,
        certain=answer.is_certain,
        incomplete_reason=answer.incomplete_reason,
        citations=[citation_of(n, retrieval.chunks[n - 1], answer.sentences_of(n)) for n in answer.cited],
        removed_citations=list(answer.removed_citations),
        chunks=_chunks(body, retrieval.chunks),
        metadata=_metadata(body, retrieval, answer.usage, stopwatch),
    )


def _chunks(body: RetrieveBody, chunks: Sequence[RetrievedChunk]) -> list[RetrievedChunkView]:
    return [_chunk(chunk, explain=bool(body.explain)) for chunk in chunks]


def _chunk(chunk: RetrievedChunk, *, explain: bool) -> RetrievedChunkView:
    values = {name: getattr(chunk, name) for name in _VIEW_FIELDS}  # `asdict` would copy all nested values
    values |= {name: getattr(chunk.content, name) for name in _CONTENT_VIEW_FIELDS}
    ranks = _rank_views(chunk.channels) if explain else None
    parts = EvidenceView(**chunk.evidence._asdict()) if explain and chunk.evidence else None
    return RetrievedChunkView(**values, channels=ranks, evidence=parts)


def _rank_views(ranks: Ranks) -> dict[str, ChannelRankView]:
    return {name: ChannelRankView(rank=at.rank, score=at.score) for name, at in ranks.items()}


def _candidates(retrieval: Retrieval) -> CandidatesView:
    return CandidatesView(
        chunks=[CandidateView.of(match) for match in retrieval.candidates],
        floors=dict(retrieval.floors),
        reference_scores=dict(retrieval.candidate_reference_scores),
    )


def _metadata(body: RetrieveBody, retrieval: Retrieval, usage: Usage, stopwatch: _Stopwatch) -> QueryMetadata:
    usage += retrieval.usage
    notices = _notices(retrieval)
    return QueryMetadata(
        query_id=retrieval.query_id,
        question=body.question,
        matched_questions=retrieval.matched_questions,
        unique_chunks=retrieval.unique_chunks,
        usage=QueryUsage.of(usage),
        milliseconds={**retrieval.trace.milliseconds, "total": stopwatch.milliseconds()},
        skipped=dict(retrieval.trace.skipped),
        unknown_fields=list(retrieval.unknown_fields),
        notice=" ".join(each.sentence for each in notices) or None,
        notice_codes=[each.code for each in notices],
        explain=_explanation(body, retrieval) if body.explain else None,
    )


def _notices(retrieval: Retrieval) -> list[Notice]:
    damage = retrieval.collection.damage
    return [*([] if damage is None else [Notice("index_damaged", damage.sentence)]), *retrieval.notices]


def _explanation(body: RetrieveBody, retrieval: Retrieval) -> Explanation:
    return Explanation(
        stages={
            stage.name: StageExplanation.of(stage, summary=sentence(stage.facts)) for stage in retrieval.trace.stages
        },
        fusion=body.fusion,
        weights={channel: retrieval.weights.weight(channel) for channel in body.channels},
        reference_scores=dict(retrieval.reference_scores),
        candidates=_candidates(retrieval) if body.explain == "candidates" else None,
        expected=[ExpectedChunkView.of(each) for each in retrieval.expected] if body.expected else None,
        rewritten=None if retrieval.rewritten is None else RewrittenQuestionView.of(retrieval.rewritten),
    )
