"""Routes of labelled sets, and of evaluations, which compare retrieval strategies of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path
from starlette.responses import Response

from features.evaluation import collection as evaluation
from features.evaluation.comparison import compare
from features.evaluation.ledger.evaluations import EvaluationJob, EvaluationRequest, Evaluations
from features.evaluation.ledger.labelled_sets import LabelledSets, StoredLabelledSet
from features.evaluation.schemas import (
    MOST_QUESTIONS,
    DifferenceList,
    DifferenceView,
    EvaluateBody,
    EvaluationList,
    EvaluationView,
    LabelledSetBody,
    LabelledSetList,
    LabelledSetSizeView,
    LabelledSetView,
    SetName,
)
from features.evaluation.searched import build_to_search
from features.evaluation.strategies import BY_NAME, STRATEGIES, select_baseline, select_strategies
from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, InvalidInput
from shared.domain.jobs import JobState
from shared.domain.stored import known_fields
from shared.http.access.auth import Manager
from shared.http.access.collection_cache import require_served
from shared.http.bodies import LABELLED_BODY
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.calibration import LabelledQuestion
from shared.http.schemas.common import CollectionName
from shared.http.schemas.jobs import RunPhase
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.builds.builds import Builds
from shared.ledger.model.collections import Collections
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/collections/{name}", tags=["evaluations"], route_class=StrictRoute)

InPath = Annotated[SetName, Path()]


@router.get("/labelled-sets", response_model=LabelledSetList, responses=problems(401, 404, 422))
async def list_labelled_sets(name: CollectionName, tenant: Manager, services: ServicesDep) -> Response:
    """List the labelled sets of a collection: questions with their relevant documents or chunks."""
    collection = await services.ledger[Collections].get(tenant, name)
    sets = await services.ledger[LabelledSets].sets(tenant, collection.name)
    items = [LabelledSetSizeView(set=each.name, questions=each.questions, changed_at=each.changed_at) for each in sets]
    return JsonReply(LabelledSetList(items=items))


@router.get("/labelled-sets/{labelled_set}", response_model=LabelledSetView, responses=problems(401, 404, 422))
async def get_labelled_set(
    name: CollectionName, labelled_set: InPath, tenant: Manager, services: ServicesDep
) -> Response:
    """Read a labelled set."""
    await services.ledger[Collections].require(tenant, name)
    return JsonReply(_set_view(await services.ledger[LabelledSets].set_of(tenant, name, labelled_set)))


@router.put(
    "/labelled-sets/{labelled_set}",
    response_model=LabelledSetView,
    responses=problems(400, 401, 404, 409, 413, 415, 422),
)
async def put_labelled_set(
    body: Annotated[LabelledSetBody, LABELLED_BODY],
    name: CollectionName,
    labelled_set: InPath,
    tenant: Manager,
    services: ServicesDep,
) -> Response:
    """Write a labelled set, replacing one of the same name. Documents need not exist yet."""
    evaluation.label_field_of([_labelled(question) for question in body.questions])
    collection = await services.ledger[Collections].get(tenant, name)
    saved = await services.ledger[LabelledSets].save_set(tenant, collection.name, labelled_set, _rows(body.questions))
    return JsonReply(_set_view(saved))


@router.post(
    "/labelled-sets/{labelled_set}/questions",
    response_model=LabelledSetView,
    responses=problems(400, 401, 404, 409, 413, 415, 422),
)
async def add_labelled_questions(
    body: Annotated[LabelledSetBody, LABELLED_BODY],
    name: CollectionName,
    labelled_set: InPath,
    tenant: Manager,
    services: ServicesDep,
) -> Response:
    """Add questions to a labelled set, which is created if missing; existing questions are relabelled."""
    evaluation.label_field_of([_labelled(question) for question in body.questions])
    collection = await services.ledger[Collections].get(tenant, name)
    saved = await services.ledger[LabelledSets].add_questions(
        tenant, collection.name, labelled_set, _rows(body.questions), most=MOST_QUESTIONS
    )
    return JsonReply(_set_view(saved))


@router.delete("/labelled-sets/{labelled_set}", status_code=204, responses=problems(401, 404, 422))
async def delete_labelled_set(
    name: CollectionName, labelled_set: InPath, tenant: Manager, services: ServicesDep
) -> Response:
    """Delete a labelled set. Evaluations with it are kept."""
    await services.ledger[Collections].require(tenant, name)
    await services.ledger[LabelledSets].delete_set(tenant, name, labelled_set)
    return Response(status_code=204)


@router.post(
    "/evaluations",
    status_code=202,
    response_model=EvaluationView,
    responses=problems(400, 401, 404, 409, 413, 415, 422),
)
async def start_evaluation(
    body: Annotated[EvaluateBody, LABELLED_BODY],
    name: CollectionName,
    tenant: Manager,
    services: ServicesDep,
) -> Response:
    """Search a collection for every question of a labelled set with several strategies, and measure their quality.

    The live build, or the named one, is searched with its own weights; queries are not logged. The reply is sent
    at once, and GET returns the progress. The evaluation is `queued` until an index worker has a free slot, and it does
    not depend on the client or on this server. Deleting it stops it. A tenant may have 20 queued evaluations.
    """
    if (body.labelled_set is None) == (body.questions is None):
        raise InvalidInput("Send a labelled_set of the collection, or questions.", field="questions")
    strategies = select_strategies(body.strategies)
    possible = [strategy for strategy in strategies if strategy.layout == "chunks"]
    baseline = select_baseline(body.baseline, possible or strategies)
    collections, builds = services.ledger[Collections], services.ledger[Builds]
    searched = await build_to_search(collections, builds, tenant, name, body.build)
    collection = require_served(searched, services.embeddings)
    if body.questions is not None:
        questions = body.questions
    else:
        stored = await services.ledger[LabelledSets].set_of(tenant, collection.name, body.labelled_set or "")
        questions = _set_view(stored).questions
    notes = await _missing_labels(services, collection, [_labelled(question) for question in questions])
    names = [strategy.name for strategy in strategies]
    work = EvaluationRequest(_rows(questions), names, baseline, notes, body.build)
    job = await services.ledger[Evaluations].start(collection, body.labelled_set, work)
    services.wakeups.wake("runs")
    return JsonReply(_view(job, await _numbers(services, collection)), 202)


@router.get("/evaluations", response_model=EvaluationList, responses=problems(401, 404, 422))
async def list_evaluations(name: CollectionName, tenant: Manager, services: ServicesDep) -> Response:
    """List the evaluations of a collection, newest first; the last 100 are retained."""
    collection = await services.ledger[Collections].get(tenant, name)
    jobs = await services.ledger[Evaluations].all_of(collection)
    names = [strategy.name for strategy in (*STRATEGIES, *BY_NAME) if strategy.layout == "chunks"]
    numbers = await _numbers(services, collection)
    items = [_view(job, numbers, {"rows": job.progress.rows}) for job in jobs]
    return JsonReply(EvaluationList(items=items, strategies=names))


@router.get("/evaluations/{evaluation_id}", response_model=EvaluationView, responses=problems(401, 404, 422))
async def get_evaluation(name: CollectionName, evaluation_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Return an evaluation with its progress or its results."""
    collection = await services.ledger[Collections].get(tenant, name)
    job = await services.ledger[Evaluations].get(evaluation_id, collection)
    return JsonReply(_view(job, await _numbers(services, collection)))


@router.get(
    "/evaluations/{evaluation_id}/compare/{other_id}",
    response_model=DifferenceList,
    responses=problems(401, 404, 409, 422),
)
async def compare_evaluations(
    name: CollectionName, evaluation_id: UUID, other_id: UUID, tenant: Manager, services: ServicesDep
) -> Response:
    """Compare an evaluation with an earlier one, strategy by strategy, on their common questions."""
    collection, ids = await services.ledger[Collections].get(tenant, name), (evaluation_id, other_id)
    now, before = [(await services.ledger[Evaluations].get(each, collection)).result for each in ids]
    if now is None or before is None:
        raise Conflict("Both evaluations must be done before they can be compared.")
    differences = await asyncio.to_thread(compare, now, before)
    return JsonReply(DifferenceList(items=[DifferenceView(**asdict(each)) for each in differences]))


@router.delete("/evaluations/{evaluation_id}", status_code=204, responses=problems(401, 404, 422))
async def delete_evaluation(
    name: CollectionName, evaluation_id: UUID, tenant: Manager, services: ServicesDep
) -> Response:
    """Delete an evaluation. A queued evaluation does not start, and a running one stops."""
    await services.ledger[Evaluations].delete(evaluation_id, await services.ledger[Collections].get(tenant, name))
    return Response(status_code=204)


EVALUATION_ROUTES = FeatureRoutes(
    (router,),
    {"name": "evaluations", "description": "Labelled questions, and the retrieval quality that they measure."},
)


async def _missing_labels(
    services: ApiServices, collection: Collection, questions: Sequence[evaluation.EvaluationQuestion]
) -> list[str]:
    """Return a note with the number of labels that refer to nothing searchable, or an empty list.

    Raises:
        Conflict: all labels do, so every strategy would be measured as if it found nothing.
    """
    kind = evaluation.label_field_of(questions)
    noun = "documents" if kind == "external_ids" else "chunks"
    names = {name for question in questions for name in getattr(question, kind)}
    missing = len(names) - await services.ledger[LabelledSets].count_known(collection, kind, sorted(names))
    if missing == len(names):
        why = (
            " Chunks of another build have other ids: label documents, or label the chunks again."
            if kind == "chunk_ids"
            else ""
        )
        raise Conflict(f"The collection has none of the labelled {noun}.{why}")
    sentence = f"{missing:,} of {len(names):,} labelled {noun} are not in the collection: they count as not found."
    return [sentence] if missing else []


def _rows(questions: Sequence[LabelledQuestion]) -> list[Mapping[str, Any]]:
    return [question.model_dump(mode="json", exclude_defaults=True) for question in questions]


def _labelled(question: LabelledQuestion) -> evaluation.EvaluationQuestion:
    return evaluation.EvaluationQuestion(question.question, question.external_ids, [str(c) for c in question.chunk_ids])


def _set_view(stored: StoredLabelledSet) -> LabelledSetView:
    questions = [
        LabelledQuestion(**known_fields(question, LabelledQuestion.model_fields)) for question in stored.questions
    ]
    return LabelledSetView(set=stored.name, questions=questions, changed_at=stored.changed_at)


async def _numbers(services: ApiServices, collection: Collection) -> dict[UUID, int]:
    """Return the numbers of a collection's builds by their ids."""
    builds = await services.ledger[Builds].list(collection.tenant, collection.name)
    return {build.id: build.number for build in builds}


def _view(job: EvaluationJob, numbers: Mapping[UUID, int], results: dict[str, Any] | None = None) -> EvaluationView:
    """Return a view with these results instead of its own; `numbers` are the numbers of builds by their ids."""
    progress = {name: value for name, value in asdict(job.progress).items() if name != "rows"}
    return EvaluationView(
        **progress,
        id=job.id,
        build=numbers.get(job.collection_id),
        state=RunPhase(job.state),
        error=job.error,
        created_at=job.created_at,
        ended_at=job.ended_at,
        results=(results or job.result) if job.state is JobState.DONE else None,
    )
