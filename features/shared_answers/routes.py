"""Routes of shared answers: share an answer, open it, delete it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from features.shared_answers.domain import SharedAnswer, SharedSource
from features.shared_answers.feature import retention_days
from features.shared_answers.ledger import AnswerToShare, SharedAnswers, not_shared
from features.shared_answers.schemas import ShareBody, SharedAnswerView, SharedSourceView
from shared.domain.access.keys import Scope
from shared.domain.errors import Conflict, Forbidden, InvalidInput
from shared.http.access.auth import Asker, Caller
from shared.http.bodies import CHAT_BODY
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.query.answer.answer import Passage, Support
from shared.query.answer.citations import CitationOrder
from shared.query.answer.extractive import quoted_sentences
from shared.query.answer.support import supporting
from shared.settings import Settings

router = APIRouter(prefix="/v1/shared-answers", tags=["queries"], route_class=StrictRoute)

_PASSAGES = 1_000  # more than a query returns


@router.post(
    "", status_code=201, response_model=SharedAnswerView, responses=problems(400, 401, 404, 409, 413, 415, 422)
)
async def share_answer(
    request: Request, body: Annotated[ShareBody, CHAT_BODY], tenant: Asker, services: ServicesDep
) -> Response:
    """Share an answer of POST /v1/query: other keys of the tenant with the scope `ask` can open it.

    The answer must be unchanged. Its passages are not stored. When one of them changes or is deleted, the answer cannot
    be opened any more, and is deleted within minutes.
    """
    caller: Caller = request.state.caller
    days = _required_days(caller, services.settings)
    if body.days is not None and body.days > days:
        raise InvalidInput(f"days is at most {days:,} (FOREASK_SHARED_ANSWER_RETENTION_DAYS).", field="days")
    new = AnswerToShare(
        query_id=body.query_id,
        text=body.answer,
        numbers=_cited(body.answer),
        form=services.answerer_for(tenant, None, False).form,  # noqa: FBT003  whether links stay
        lasts=timedelta(days=body.days or days),
        key_id=caller.author_id,
        principals=caller.principals,
        key_name=caller.key_name if caller.key_id is not None else None,  # a key of the settings has a part of its hash
    )
    shared = await services.ledger[SharedAnswers].share(tenant, new)
    return JsonReply(await asyncio.to_thread(_view, shared), 201)


@router.get("/{answer_id}", response_model=SharedAnswerView, responses=problems(401, 404, 422, 503))
async def get_shared_answer(request: Request, answer_id: UUID, tenant: Asker, services: ServicesDep) -> Response:
    """Return a shared answer with its cited passages.

    404 if it has expired, if a cited passage has changed or was deleted, if the key has a filter, or if the
    person may not read one of them.
    """
    caller: Caller = request.state.caller
    days = days_of(caller, services.settings)
    if not days:
        raise not_shared(answer_id)
    found = await services.ledger[SharedAnswers].get(
        tenant, answer_id, oldest=timedelta(days=days), principals=caller.principals
    )
    return JsonReply(await asyncio.to_thread(_view, found))


@router.delete("/{answer_id}", status_code=204, responses=problems(401, 404, 422, 503))
async def delete_shared_answer(request: Request, answer_id: UUID, tenant: Asker, services: ServicesDep) -> Response:
    """Delete a shared answer of the same key; a key with the scope `manage` deletes any of the tenant."""
    caller: Caller = request.state.caller
    await services.ledger[SharedAnswers].delete(tenant, answer_id, key=caller.feedback_key)
    return Response(status_code=204)


def days_of(caller: Caller, settings: Settings) -> int:
    """Return the number of days for which the caller can share answers, and open shared ones; 0 if it cannot.

    A key with a filter can do neither, because an answer may quote documents that its filter excludes.
    """
    return retention_days(settings) if Scope.ASK in caller.scopes and caller.filter is None else 0


def _facts(caller: Caller, settings: Settings) -> dict[str, int]:
    return {"shared_answer_retention_days": days_of(caller, settings)}


SHARED_ANSWER_ROUTES = FeatureRoutes((router,), facts=_facts)


def _required_days(caller: Caller, settings: Settings) -> int:
    if caller.filter is not None:
        raise Forbidden("A key with a filter can neither share answers nor open shared ones.")
    if not (days := days_of(caller, settings)):
        raise Conflict(
            "This server does not share answers: FOREASK_SHARED_ANSWER_RETENTION_DAYS or FOREASK_QUERY_RETENTION_DAYS"
            " is 0."
        )
    return days


def _cited(answer: str) -> list[int]:
    order = CitationOrder(range(1, _PASSAGES + 1))
    order.feed(answer)
    return list(order.spans)


def _view(answer: SharedAnswer) -> SharedAnswerView:
    """Return the view, with the supporting sentences: with 20 long passages they take 50 ms."""
    passages = [_passage(each) for each in answer.sources]
    found_by = quoted_sentences if answer.form == "extractive" else supporting
    support = found_by(answer.answer, passages)
    return SharedAnswerView(
        id=answer.id,
        collection=answer.collection,
        question=answer.question,
        answer=answer.answer,
        form=answer.form,
        shared_by=answer.shared_by_name,
        created_at=answer.created_at,
        expires_at=answer.expires_at,
        sources=[_source(source, support) for source in answer.sources],
    )


def _passage(source: SharedSource) -> Passage:
    content = source.content
    return Passage(source.number, content.text, content.title, content.heading_path, language=content.language)


def _source(source: SharedSource, support: Sequence[Support]) -> SharedSourceView:
    return SharedSourceView(
        number=source.number,
        chunk_id=source.chunk_id,
        document_id=source.document_id,
        external_id=source.external_id,
        filename=source.filename,
        title=source.content.title,
        heading_path=list(source.content.heading_path),
        page=source.content.page,
        text=source.content.text,
        sentences=[(each.start, each.end) for each in support if each.number == source.number],
    )
