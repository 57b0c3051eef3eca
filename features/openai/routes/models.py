"""Collections as models, and embeddings, which are refused."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from features.openai.errors import OpenAIRoute, openai_errors
from features.openai.schemas.errors import ChatError
from features.openai.schemas.models import EmbeddingsBody, ModelList, ModelView
from shared.domain.corpus.collections import Collection
from shared.domain.errors import InvalidInput
from shared.http.access.auth import Asker
from shared.http.openapi import json_body
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName
from shared.http.state import ServicesDep
from shared.ledger.model.collections import Collections

router = APIRouter(prefix="/v1", tags=["openai"], route_class=OpenAIRoute)

_NO_EMBEDDINGS = (
    "foreask does not serve embeddings: vectors for another index would compete with queries for the limits of the"
    " model. Call the model's own server, or find chunks with POST /v1/retrieve."
)
_MODELS_AT_ONCE = 200


@router.get("/models", response_model=ModelList, responses=openai_errors())
async def list_models(tenant: Asker, services: ServicesDep) -> Response:
    """List the collections by name, each as a model."""
    collections, after = list[Collection](), ""
    while page := await services.ledger[Collections].page(tenant, after=after, limit=_MODELS_AT_ONCE):
        collections += page
        after = page[-1].name
    return JsonReply(ModelList(data=[_model(collection) for collection in collections]))


@router.get("/models/{name}", response_model=ModelView, responses=openai_errors(400, 404))
async def get_model(name: CollectionName, tenant: Asker, services: ServicesDep) -> Response:
    """Return a collection as a model."""
    return JsonReply(_model(await services.ledger[Collections].get(tenant, name)))


@router.post(
    "/embeddings",
    status_code=400,
    response_model=ChatError,
    responses=openai_errors(),
    openapi_extra=json_body(EmbeddingsBody),  # not read
)
async def create_embeddings(tenant: Asker) -> Response:
    """Reject the request, because vectors are computed only for questions and documents."""
    del tenant
    raise InvalidInput(_NO_EMBEDDINGS)


def _model(collection: Collection) -> ModelView:
    return ModelView(id=collection.name, created=int(collection.created_at.timestamp()))
