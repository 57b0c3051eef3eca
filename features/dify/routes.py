"""Dify's external knowledge API: a collection is a knowledge base, which Dify searches."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from features.dify.conditions import metadata_filter
from features.dify.schemas import KnowledgeRecord, RetrievalBody, RetrievalError, RetrievalRecords
from shared.domain.errors import Forbidden, ForeaskError, NoCollection, Unauthorized
from shared.http.bodies import validate_as
from shared.http.feature_routes import FeatureRoutes
from shared.http.foreign_errors import ForeignErrorsRoute
from shared.http.problems import problem_of
from shared.http.queries.passages import address_of
from shared.http.queries.searcher import SearcherDep
from shared.http.replies import JsonReply
from shared.http.schemas.queries import RetrieveBody
from shared.query.retrieve import RetrievedChunk

_NO_KEY, _REFUSED_KEY, _NO_KNOWLEDGE = 1001, 1002, 2001


class _DifyRoute(ForeignErrorsRoute):
    """A route whose errors have Dify's format. Dify reports a refused key only for status 403."""

    @staticmethod
    def encoded(request: Request, error: ForeaskError, status: int) -> tuple[int, Any]:
        if isinstance(error, (Unauthorized, Forbidden)):
            is_bearer = request.headers.get("authorization", "").lower().startswith("bearer ")
            code, status = _REFUSED_KEY if is_bearer else _NO_KEY, HTTPStatus.FORBIDDEN
        elif isinstance(error, NoCollection):
            code = _NO_KNOWLEDGE
        else:
            code = status = HTTPStatus.BAD_REQUEST if status == HTTPStatus.UNPROCESSABLE_ENTITY else status
        return status, RetrievalError(error_code=code, error_msg=problem_of(error)["detail"])


router = APIRouter(tags=["queries"], route_class=_DifyRoute)

DIFY_ROUTES = FeatureRoutes((router,))


@router.post(
    "/retrieval",
    response_model=RetrievalRecords,
    responses={
        status: {"model": RetrievalError, "description": HTTPStatus(status).phrase}
        for status in (400, 403, 404, 409, 413, 415, 429, 502, 503)
    },
)
async def retrieval(body: RetrievalBody, searcher: SearcherDep) -> Response:
    """Find the chunks that answer a question, in the format of Dify's external knowledge API."""
    setting = body.retrieval_setting
    query = validate_as(
        RetrieveBody,
        {
            "question": body.query,
            "collection": body.knowledge_id,
            "top_k": setting.top_k,
            "min_score": setting.score_threshold or None,  # Dify sends 0 for none
            "filter": metadata_filter(body.metadata_condition),
        },
    )
    found = await searcher.find(query)
    server = str(searcher.request.base_url)
    return JsonReply(RetrievalRecords(records=[_record(chunk, server) for chunk in found.chunks]))


def _record(chunk: RetrievedChunk, server: str) -> KnowledgeRecord:
    content = chunk.content
    return KnowledgeRecord(
        content=chunk.text,
        score=chunk.score,
        title=content.title or chunk.external_id,
        metadata={
            **chunk.metadata,
            "document_id": chunk.document_id,
            "external_id": chunk.external_id,
            "chunk_id": chunk.chunk_id,
            "page": content.page,
            "url": address_of(chunk, server),
        },
    )
