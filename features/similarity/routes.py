"""The route that compares questions with texts and with stored chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from features.similarity.comparison import (
    ChunkSimilarity,
    ComparedText,
    Similarity,
    compare,
    compare_stored,
    embed_compared,
)
from features.similarity.schemas import (
    ChunkSimilarityView,
    SimilarityBody,
    SimilarityReply,
    StoredQuestionView,
    TextSimilarityView,
)
from shared.http.access.auth import AskingCaller
from shared.http.access.collection_cache import require_served
from shared.http.bodies import DOCUMENT_BODY
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.vectors.schema.filters import caller_conditions, of_chunks, visible_points

router = APIRouter(prefix="/v1", tags=["queries"], route_class=StrictRoute)

SIMILARITY_ROUTES = FeatureRoutes((router,))


@router.post(
    "/similarity",
    response_model=SimilarityReply,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 502, 503),
)
async def compare_questions(
    body: Annotated[SimilarityBody, DOCUMENT_BODY], caller: AskingCaller, services: ServicesDep
) -> Response:
    """Compare questions and texts by cosines and by their words. Nothing is searched or stored."""
    settings = services.settings
    collection = None
    embedding, languages = settings.embedding_model or "", list[str]()
    if body.collection is not None:
        collection = require_served(
            await services.ledger[Collections].get(caller.tenant, body.collection), services.embeddings
        )
        embedding, languages = collection.embedding_model, list(collection.languages)
    texts = [ComparedText(text.text, text.questions) for text in body.texts]
    questions, compared = await embed_compared(services.embedders.named(embedding), body.questions, texts)
    requested = list(dict.fromkeys(body.chunk_ids))
    # Qdrant may still have the readers that documents had before they were changed.
    readable = await services.ledger[Documents].readable_chunks(caller.tenant, requested, caller.principals)
    chunks = [str(chunk) for chunk in requested if chunk in readable]
    stored: list[ChunkSimilarity] = []
    if collection is not None and chunks:
        conditions = caller_conditions(None, None, collection.options.filterable, caller.restriction)
        where = visible_points(collection.location, [*conditions, of_chunks(chunks)])
        stored = await compare_stored(services.index, where, questions, body.questions, chunks, languages)
    similarities = await asyncio.to_thread(compare, questions, compared, body.questions, texts, languages)
    found = {chunk.chunk_id for chunk in stored}
    reply = SimilarityReply(
        embedding=embedding,
        items=[_similarity(each) for each in similarities],
        chunks=[_chunk_similarity(each, shows_users=caller.reads_users_questions) for each in stored],
        absent=[chunk for chunk in requested if str(chunk) not in found],
    )
    return JsonReply(reply)


def _similarity(each: Similarity) -> TextSimilarityView:
    return TextSimilarityView(
        text=_rounded(each.text), questions=[_rounded(row) for row in each.questions], words=_rounded(each.words)
    )


def _chunk_similarity(each: ChunkSimilarity, *, shows_users: bool) -> ChunkSimilarityView:
    return ChunkSimilarityView(
        chunk_id=UUID(each.chunk_id),
        text=None if each.text is None else _rounded(each.text),
        questions=[
            StoredQuestionView(
                text=question.text if shows_users or question.source != "user" else None,
                source=question.source,
                cosines=_rounded(question.cosines),
            )
            for question in each.questions
        ],
        words=_rounded(each.words),
    )


def _rounded(shares: Sequence[float]) -> list[float]:
    return [round(share, 4) for share in shares]
