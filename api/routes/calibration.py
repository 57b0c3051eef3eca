"""Calibration of a collection: by questions whose answers are known, or by itself."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import CollectionCacheDep, ServicesDep
from api.http.auth import Tenant
from api.http.bodies import read_json
from api.http.openapi import json_body, problems
from api.http.replies import Json
from api.schemas import CalibrateBody, CalibrationView, CollectionName, LabelledQuestion
from shared.domain.errors import Conflict, InvalidInput
from shared.domain.records import Collection
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/collections", tags=["collections"])


@router.post(
    "/{name}/calibration",
    response_model=CalibrationView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 502, 503),
    openapi_extra=json_body(CalibrateBody),
)
async def calibrate(
    request: Request, name: CollectionName, tenant: Tenant, services: ServicesDep, known: CollectionCacheDep
) -> Response:
    """Choose the weights of a collection's channels by questions whose answers are known, and keep them.

    Equal weights stay unless others are better by more than chance. Without questions they stay, and what each channel
    finds is measured with the collection's own questions. Either way the background of the embedding model is measured,
    and scores are put on one scale by it. No language model is called.
    """
    body = await read_json(request, CalibrateBody, services.settings.max_json_bytes)
    collection = await known.found(tenant, name) or await services.ledger.collections.get(tenant, name)
    if body.questions is None:
        if collection.is_labelled:
            raise Conflict(f"'{name}' is calibrated by labelled questions: DELETE its calibration first.")
        changed = await services.calibrator.by_itself(collection)
    else:
        relevant = await _relevant(body.questions, collection, services)
        asked = [labelled.question for labelled in body.questions]
        changed = await services.calibrator.by_labels(collection, list(zip(asked, relevant, strict=True)))
    known.remember(changed)
    return Json(CalibrationView(**(changed.calibration or {})))


@router.delete("/{name}/calibration", status_code=204, responses=problems(401, 404, 422, 503))
async def forget(name: CollectionName, tenant: Tenant, services: ServicesDep, known: CollectionCacheDep) -> Response:
    """Go back to equal weights."""
    collection = await services.ledger.collections.get(tenant, name)
    known.remember(await services.ledger.calibrations.keep(collection, None, over_labelled=True))
    return Response(status_code=204)


async def _relevant(
    questions: Sequence[LabelledQuestion], collection: Collection, services: ApiServices
) -> list[set[str]]:
    """The chunks that answer each question; a document's are all of them."""
    names = sorted({name for labelled in questions for name in labelled.external_ids})
    chunks = await services.ledger.documents.chunk_ids(collection, names)
    unknown = next((name for name in names if name not in chunks), None)
    if unknown is not None:
        raise InvalidInput(f"The collection has no document '{unknown}'.", field="questions")
    return [
        {str(chunk) for chunk in labelled.chunk_ids}.union(*(chunks[name] for name in labelled.external_ids))
        for labelled in questions
    ]
