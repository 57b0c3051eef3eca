"""The route that compares questions with texts."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import ServicesDep
from api.http.auth import Asker
from api.http.bodies import read_json
from api.http.openapi import json_body, problems
from api.http.replies import JsonReply
from api.schemas.similarity import LikenessView, SimilarityBody, SimilarityReply
from shared.query.similarity import ComparedText, compare

router = APIRouter(prefix="/v1", tags=["queries"])


@router.post(
    "/similarity",
    response_model=SimilarityReply,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 502, 503),
    openapi_extra=json_body(SimilarityBody),
)
async def similarity(request: Request, tenant: Asker, services: ServicesDep) -> Response:
    """Say how alike questions and texts are, by cosines and by their words. Nothing is searched or stored."""
    settings = services.settings
    body = await read_json(request, SimilarityBody, settings.max_json_bytes, "FOREASK_MAX_JSON_BYTES")
    embedding, languages = settings.embedding_model or "", list[str]()
    if body.collection is not None:
        collection = await services.ledger.collections.get(tenant, body.collection)
        embedding, languages = collection.embedding_model, list(collection.languages)
    texts = [ComparedText(text.text, text.questions) for text in body.texts]
    compared = await compare(services.embedders, embedding, body.questions, texts, languages)
    items = [
        LikenessView(
            text=[round(cosine, 4) for cosine in one.text],
            questions=[[round(cosine, 4) for cosine in row] for row in one.questions],
            words=[round(share, 4) for share in one.words],
        )
        for one in compared
    ]
    return JsonReply(SimilarityReply(embedding=embedding, items=items))
