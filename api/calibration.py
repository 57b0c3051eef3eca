"""Calibration of a collection: weights of its channels, chosen by questions whose answers are known."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.auth import Tenant
from api.bodies import read_json
from api.context import Known, Services
from api.openapi import json_body, problems
from api.replies import Json
from api.schemas import Calibrate, CalibrationView, CollectionName
from shared.errors import InvalidInput
from shared.ledger.records import Collection
from shared.retrieval.calibration import calibrate as chosen
from shared.services import Services as SharedServices

router = APIRouter(prefix="/v1/collections", tags=["collections"])


@router.post(
    "/{name}/calibration",
    response_model=CalibrationView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 502, 503),
    openapi_extra=json_body(Calibrate),
)
async def calibrate(
    request: Request, name: CollectionName, tenant: Tenant, services: Services, known: Known
) -> Response:
    """Choose the weights of a collection's channels by questions whose answers are known, and keep them.

    Equal weights stay unless others are better by more than chance. No language model is called.
    """
    body = await read_json(request, Calibrate, services.settings.max_json_bytes)
    collection = await known.found(tenant, name) or await services.ledger.collections.get(tenant, name)
    relevant = await _relevant(body, collection, services)
    found = await services.retriever.channels(collection, [labelled.question for labelled in body.questions])
    evidence = dataclasses.asdict(chosen(found, relevant))
    changed = await services.ledger.collections.calibrate(collection, evidence)
    known.remember(changed)
    return Json(CalibrationView(**evidence))


@router.delete("/{name}/calibration", status_code=204, responses=problems(401, 404, 422, 503))
async def forget(name: CollectionName, tenant: Tenant, services: Services, known: Known) -> Response:
    """Go back to equal weights."""
    collection = await services.ledger.collections.get(tenant, name)
    known.remember(await services.ledger.collections.calibrate(collection, None))
    return Response(status_code=204)


async def _relevant(body: Calibrate, collection: Collection, services: SharedServices) -> list[set[str]]:
    """The chunks that answer each question; a document's are all of them."""
    names = sorted({name for labelled in body.questions for name in labelled.external_ids})
    chunks = await services.ledger.documents.chunk_ids(collection, names)
    unknown = next((name for name in names if name not in chunks), None)
    if unknown is not None:
        raise InvalidInput(f"The collection has no document '{unknown}'.", field="questions")
    return [
        {str(chunk) for chunk in labelled.chunk_ids}.union(*(chunks[name] for name in labelled.external_ids))
        for labelled in body.questions
    ]
