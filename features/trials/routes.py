"""The route of trials: chunks, questions and filter results of a text, without storing anything."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from features.trials.schemas import TrialBody, TrialChunkEvent, TrialDoneEvent, TrialQuestionEvent, TrialScreenedEvent
from features.trials.trial import (
    MAX_WAIT,
    MOST_CHARS,
    Admit,
    Trial,
    TrialEvent,
    TriedChunk,
    TriedText,
    WrittenQuestion,
)
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.spending.usage import Usage
from shared.http.access.auth import Caller, TryingCaller
from shared.http.access.query_budgets import QueryBudgets
from shared.http.access.quotas import Quotas
from shared.http.bodies import DOCUMENT_BODY
from shared.http.collection_options import require_sizes_fit
from shared.http.event_stream import EventStream, end_with_error, event, event_stream
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import event_content, replies
from shared.http.problems import TooManyRequests
from shared.http.schemas.problems import ProblemDetails
from shared.http.schemas.queries import QueryUsage
from shared.http.state import QueryBudgetsDep, QuotasDep, ServicesDep, made_by
from shared.http.strict_route import StrictRoute
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.model.collections import Collections
from shared.providers.chat import ChatModel
from shared.providers.limiter.limited_chat import LimitedChat
from shared.query.metering import MeteredChat
from shared.services.api import ApiServices
from shared.services.parts import Parts
from shared.services.prices import price
from shared.services.similarity import similarity_floor
from shared.settings import Settings

router = APIRouter(prefix="/v1", tags=["estimates"], route_class=StrictRoute)

TRIAL_ROUTES = FeatureRoutes((router,))

_OPTIONS = ("prompt", "questions_per_chunk", "chunk_max_chars", "chunk_overlap_chars", "context")


def _trial_of(services: ApiServices) -> Trial:
    parts = services.parts
    floors = {name: similarity_floor(parts.settings, embedding) for name, embedding in parts.embeddings.items()}
    return Trial(parts.ingest_defaults, floors, partial(_chat_of, parts), services.embedders)


def _chat_of(parts: Parts, tenant: str) -> ChatModel:
    return MeteredChat(LimitedChat(parts.chat, parts.llm_limiter, tenant, MAX_WAIT))


_TrialDep = Annotated[Trial, made_by(_trial_of)]


@router.post(
    "/trials",
    response_class=EventStream,
    responses=replies(
        {
            200: {
                "description": "Server-sent events: `chunk` for each chunk, `question` for each question,"
                " `screened` for the filter results of each chunk's questions, `done`, or `error` (problem details)",
                "content": event_content(
                    TrialChunkEvent, TrialQuestionEvent, TrialScreenedEvent, TrialDoneEvent, ProblemDetails
                ),
            }
        },
        *(400, 401, 404, 413, 415, 422, 429, 503),
    ),
)
async def run_trial(
    *,
    request: Request,
    body: Annotated[TrialBody, DOCUMENT_BODY],
    caller: TryingCaller,
    services: ServicesDep,
    trial: _TrialDep,
    query_budgets: QueryBudgetsDep,
    quotas: QuotasDep,
) -> Response:
    """Process a text without storing it: its first 20 chunks, the generated questions, and which of them pass.

    The calls are charged to the budgets of queries, of the key and of the tenant, and each counts towards their rates.
    If a budget of the ingest is exhausted, no call is made. Closing the connection cancels the calls.
    """
    settings, tenant = services.settings, caller.tenant
    options, embedding = CollectionOptions(), settings.embedding_model or ""
    if body.collection is not None:
        collection = await services.ledger[Collections].get(tenant, body.collection)
        options, embedding = collection.options, collection.embedding_model
    given = {name: getattr(body, name) for name in _OPTIONS if getattr(body, name) is not None}
    options = dataclasses.replace(options, **given)
    require_sizes_fit(options, settings)
    for budget in await services.ledger[Budgets].for_tenant(tenant):
        if budget.is_exhausted and budget.covers(body.collection, None):
            raise TooManyRequests(f"{budget.name[0].upper()}{budget.name[1:]} is used up.")
    tried = TriedText(body.text, body.title, options, embedding)
    events = _events(trial.run(tenant, tried, _admit(caller, query_budgets, quotas)), tried, settings)
    return event_stream(end_with_error(events, request.scope))


def _admit(caller: Caller, query_budgets: QueryBudgets, quotas: Quotas) -> Admit:
    """Return the admission of each call: the budgets must not be used up, and the call counts as a request."""

    async def admit() -> None:
        await query_budgets.admit(caller.tenant, caller.key_id, caller.limits)
        await quotas.count_call(caller.tenant, caller.key_id, caller.limits)

    return admit


async def _events(
    running: AsyncGenerator[TrialEvent, None], tried: TriedText, settings: Settings
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a running trial. Closing the generator cancels the calls."""
    started, chunks, calls, usage, results = time.perf_counter(), 0, 0, Usage(), list[bool]()
    characters = min(len(tried.text), MOST_CHARS)
    async with aclosing(running) as items:
        async for item in items:
            if isinstance(item, TriedChunk):
                chunks, characters = item.total, item.characters
                yield event("chunk", _chunk(item))
            elif isinstance(item, WrittenQuestion):
                yield event("question", TrialQuestionEvent(chunk=item.chunk, text=item.text))
            else:
                calls, usage = calls + item.calls, usage + item.usage
                results += [question.passed for question in item.questions]
                yield event("screened", TrialScreenedEvent.of(item))
    done = TrialDoneEvent(
        chunks=chunks,
        questions=len(results),
        passed=sum(results),
        truncated=characters < len(tried.text),
        characters=characters,
        usage=QueryUsage.of(usage),
        calls=calls,
        cost=price(settings, "generate", usage),
        milliseconds=round((time.perf_counter() - started) * 1000, 2),
    )
    yield event("done", done)


def _chunk(tried: TriedChunk) -> TrialChunkEvent:
    return TrialChunkEvent.of(tried.content, chunk=tried.chunk, total=tried.total)
