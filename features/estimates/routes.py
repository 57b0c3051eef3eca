"""Routes of estimates of the cost of a load or a rebuild."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from features.estimates.domain import Estimate, StoredEstimate
from features.estimates.estimator import Estimator, PlannedLoad, SampleText
from features.estimates.forms import read_sample
from features.estimates.ledger import Estimates
from features.estimates.schemas import EstimateBody, FormEstimateFields, FormEstimateView, LoadBody
from shared.domain.corpus.collections import Collection
from shared.domain.errors import InvalidInput
from shared.domain.stored import known_fields
from shared.http.access.auth import Writer
from shared.http.bodies import DOCUMENT_BODY, media_type, validate_as
from shared.http.collection_options import migrated
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import form_content, problems
from shared.http.problems import UnsupportedMedia
from shared.http.replies import JsonReply
from shared.http.schemas.collections import MigrationBody
from shared.http.schemas.estimates import EstimateView, StoredEstimateView
from shared.http.state import CollectionCacheDep, ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ingest.parse.kinds import is_plain
from shared.ledger.model.collections import Collections
from shared.services.api import ApiServices
from shared.services.prices import list_price, price

router = APIRouter(tags=["estimates"], route_class=StrictRoute)
_FORM_BYTES = 4 * 1024 * 1024
_FORM_FILES = 200
_FORM = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {
        "file": {
            "type": "array",
            "items": {"type": "string", "format": "binary"},
            "minItems": 1,
            "maxItems": _FORM_FILES,
        },
        "collection": {"type": "string", "default": "default"},
        "count": {"type": "integer", "minimum": 1, "description": "Total number of files; default: the number sent"},
    },
}


@router.post(
    "/v1/estimates",
    response_model=EstimateView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 503),
)
async def estimate_cost(
    body: Annotated[EstimateBody, DOCUMENT_BODY],
    tenant: Writer,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
) -> Response:
    """Estimate the cost of documents before they are uploaded, or of a rebuild of a collection.

    For `migrate` the number of calls is exact, because paid questions of each chunk are looked up. Tokens are estimated
    from the recent bills, else from 4.2 characters per token.
    """
    if body.migrate is not None:
        collection = await services.ledger[Collections].get(tenant, body.collection)
        made = await _of_rebuild(collection, body.migrate, services, body.models)
    else:
        assert body.documents is not None
        made = await _of_load(tenant, body.collection, body.documents, services, body.models)
    if body.store:
        collection = await collection_cache.ensure(tenant, body.collection)
        await services.ledger[Estimates].store(collection.id, made)
    return JsonReply(EstimateView.of(made))


@router.post(
    "/v1/documents/estimate",
    response_model=FormEstimateView,
    responses=problems(400, 401, 413, 415, 422, 503),
    openapi_extra={"requestBody": {"required": True, "content": form_content("EstimateForm", _FORM)}},
)
async def estimate_files(request: Request, tenant: Writer, services: ServicesDep) -> Response:
    """Estimate the cost of files before they are uploaded; nothing is stored.

    The form has up to 200 files, of 4 MiB together. For many files, send a sample, and their `count`. Files whose texts
    are known only after parsing, such as PDFs, are skipped and named.
    """
    if media_type(request) != "multipart/form-data":
        raise UnsupportedMedia("Send a form (multipart/form-data) with one or more parts `file`.")
    files, given = await read_sample(
        request, frozenset({"collection", "count"}), most_files=_FORM_FILES, most_bytes=_FORM_BYTES
    )
    if not files:
        raise InvalidInput("The form has no `file`.", field="file")
    fields = validate_as(FormEstimateFields, given)
    plain = [is_plain(file.content, filename=file.filename, media_type=file.media_type) for file in files]
    texts = [file.content.decode(errors="replace") for file, is_text in zip(files, plain, strict=True) if is_text]
    made = None
    if texts:
        count = len(texts) if fields.count is None else max(1, round(fields.count * len(texts) / len(files)))
        collection = await services.ledger[Collections].find(tenant, fields.collection)
        load = PlannedLoad(count, None, [SampleText(text) for text in texts])
        made = await estimator_of(services).estimate_load(tenant, collection, load)
    left_out = [file.filename for file, is_text in zip(files, plain, strict=True) if not is_text]
    shown = None if made is None else EstimateView.of(made)
    return JsonReply(FormEstimateView(estimate=shown, left_out=left_out))


async def _of_rebuild(
    collection: Collection, migration: MigrationBody, services: ApiServices, models: Sequence[str]
) -> Estimate:
    options, embedding = migrated(collection, migration, services)
    return await estimator_of(services).estimate_rebuild(collection, options, embedding, models)


async def _of_load(tenant: str, name: str, load: LoadBody, services: ApiServices, models: Sequence[str]) -> Estimate:
    collection = await services.ledger[Collections].find(tenant, name)
    sample = [SampleText(document.text, document.title, document.questions) for document in load.sample]
    planned = PlannedLoad(load.count, load.bytes, sample, load.pages)
    return await estimator_of(services).estimate_load(tenant, collection, planned, models)


async def _status(tenant: str, services: ApiServices) -> dict[str, list[StoredEstimateView]]:
    return {"estimates": [_stored(each) for each in await services.ledger[Estimates].latest(tenant)]}


def _stored(estimate: StoredEstimate) -> StoredEstimateView:
    return StoredEstimateView.of(estimate, estimate=known_fields(estimate.estimate, EstimateView.model_fields))


ESTIMATE_ROUTES = FeatureRoutes(
    (router,),
    {"name": "estimates", "description": "The cost of a load or a rebuild, before it starts."},
    status=_status,
)


def estimator_of(services: ApiServices) -> Estimator:
    settings, ledger = services.settings, services.ledger
    return Estimator(
        services.parts.ingest_defaults,
        partial(price, settings),
        partial(list_price, settings),
        ledger[Collections],
        ledger[Estimates],
        model=services.parts.chat.name,
        tier=settings.ingest_tier,
        embedding=settings.embedding_model or "",
        limits=services.limiters.of_load,
        queue_tokens=settings.llm_batch_queue_tokens,
    )
