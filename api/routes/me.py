"""The route that returns the key's tenant and permissions, and facts about the server."""

from __future__ import annotations

import asyncio
from functools import cache
from importlib.metadata import version

from fastapi import APIRouter
from starlette.responses import Response

from api.features import FEATURE_ROUTES
from api.schemas.keys import KeyLimitsView
from api.schemas.me import AnswerView, EmbeddingView, LimitsView, MeView, PersonView, PricesView
from api.submission.batch import MOST_LINES
from shared.domain.access.keys import Scope
from shared.domain.corpus.document_fields import MOST_METADATA_BYTES
from shared.domain.spending.usage import Usage
from shared.http.access.auth import AnyCaller, Caller
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import QUESTION_CHARS
from shared.http.state import ServicesDep
from shared.services.api import ApiServices
from shared.services.prices import price
from shared.settings import Settings

_MILLION = 1_000_000

router = APIRouter(prefix="/v1/me", tags=["keys"])


@router.get("", response_model=MeView, responses=problems(401, 503))
async def get_me(caller: AnyCaller, services: ServicesDep) -> Response:
    """Return the key's tenant and permissions, and facts about the server for clients."""
    settings = services.settings
    reply = MeView(
        tenant=caller.tenant or None,
        key=caller.key_name,
        scopes=sorted(caller.scopes),
        filter=None if caller.filter is None else dict(caller.filter),
        person=_person(caller),
        version=_version(),
        answer=_answer(caller.tenant, services),
        chat=settings.llm_model,
        embedding=settings.embedding_model,
        embeddings=[EmbeddingView.of(embedding, name=name) for name, embedding in services.embeddings.items()],
        prices=await asyncio.to_thread(_prices, settings),  # the list prices are loaded once, which takes 0.3 s
        limits=_limits(caller.tenant, settings),
        key_limits=KeyLimitsView.of(caller.limits),
        query_retention_days=settings.query_retention_days,
        estimates=Scope.WRITE in caller.scopes,
        readable_by_default=settings.readable_by_default,
        **_facts_of_features(caller, settings),
    )
    return JsonReply(reply)


def _person(caller: Caller) -> PersonView | None:
    person = caller.person
    return None if person is None else PersonView(user=person.user, groups=sorted(person.groups))


@cache
def _version() -> str:
    return version("foreask")


def _facts_of_features(caller: Caller, settings: Settings) -> dict[str, int]:
    facts = [feature.facts(caller, settings) for feature in FEATURE_ROUTES if feature.facts is not None]
    return {name: value for of_one in facts for name, value in of_one.items()}


def _answer(tenant: str, services: ApiServices) -> AnswerView:
    form = services.answerer_for(tenant, None, False).form  # noqa: FBT003  whether links stay
    return AnswerView(form=form, model=services.settings.llm_model if form == "generative" else None)


def _prices(settings: Settings) -> PricesView | None:
    prompt = price(settings, "generate", Usage(_MILLION, 0))
    completion = price(settings, "generate", Usage(0, _MILLION))
    return None if prompt is None or completion is None else PricesView(prompt=prompt, completion=completion)


def _limits(tenant: str, settings: Settings) -> LimitsView:
    return LimitsView.of(
        settings.limits_of(tenant),
        upload_bytes=settings.max_upload_bytes,
        json_bytes=settings.max_json_bytes,
        batch_documents=MOST_LINES,
        metadata_bytes=MOST_METADATA_BYTES,
        question_chars=QUESTION_CHARS,
        top_k=settings.tuning.top_k_max,
        tokens=settings.tuning.max_tokens_max,
    )
