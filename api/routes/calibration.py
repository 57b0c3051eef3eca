"""Calibration of a collection, by labelled questions or by its own questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, InvalidInput
from shared.http.access.auth import Manager, SpendingManager
from shared.http.access.collection_cache import require_served
from shared.http.bodies import LABELLED_BODY
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.calibration import CalibrateBody, CalibrationView, LabelledQuestion
from shared.http.schemas.common import CollectionName
from shared.http.state import CollectionCacheDep, ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=StrictRoute)


@router.post(
    "/{name}/calibration",
    response_model=CalibrationView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 502, 503),
)
async def calibrate_collection(
    body: Annotated[CalibrateBody, LABELLED_BODY],
    name: CollectionName,
    caller: SpendingManager,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
) -> Response:
    """Choose the weights of a collection's channels with labelled questions, and save them.

    Equal weights are kept unless other weights are significantly better. Without labelled questions they are kept, too,
    and each channel is measured with the collection's own questions. Both ways measure the baseline similarity of the
    embedding model, which puts scores on one scale. No language model is called. Embeddings are charged to
    the budgets of queries.
    """
    tenant = caller.tenant
    collection = require_served(await services.ledger[Collections].get(tenant, name), services.embeddings)
    if body.questions is None:
        if collection.is_labelled:
            raise Conflict(f"'{name}' is calibrated by labelled questions: DELETE its calibration first.")
        changed = await services.calibrator.calibrate_unlabelled(collection)
    else:
        relevant = await _relevant(body.questions, collection, services)
        questions = [labelled.question for labelled in body.questions]
        changed = await services.calibrator.calibrate_labelled(collection, list(zip(questions, relevant, strict=True)))
    collection_cache.forget(tenant, name)  # by name, because another build may be live by now
    return JsonReply(CalibrationView.model_validate(changed.calibration or {}))


@router.delete("/{name}/calibration", status_code=204, responses=problems(401, 404, 422, 503))
async def reset_calibration(
    name: CollectionName, tenant: Manager, services: ServicesDep, collection_cache: CollectionCacheDep
) -> Response:
    """Reset the channels to equal weights."""
    collection = await services.ledger[Collections].get(tenant, name)
    await services.ledger[Calibrations].save(collection, None, replace_labelled=True)
    collection_cache.forget(tenant, name)
    return Response(status_code=204)


async def _relevant(
    questions: Sequence[LabelledQuestion], collection: Collection, services: ApiServices
) -> list[set[str]]:
    """Return the chunks that answer each question; a document counts as all its chunks.

    Raises:
        InvalidInput: the collection has no document of that external id.
    """
    names = sorted({name for labelled in questions for name in labelled.external_ids})
    chunks = await services.ledger[Documents].live_chunk_ids(collection, names)
    missing = next((name for name in names if name not in chunks), None)
    if missing is not None:
        raise InvalidInput(f"The collection has no document '{missing}'.", field="questions")
    return [
        {str(chunk) for chunk in labelled.chunk_ids}.union(*(chunks[name] for name in labelled.external_ids))
        for labelled in questions
    ]
