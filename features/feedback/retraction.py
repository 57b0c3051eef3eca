"""Retractions: the points of retracted questions are deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from features.feedback.domain import PendingRemoval
from features.feedback.ledger.feedback import Feedback
from shared.domain.corpus.ids import accepted_point_id
from shared.domain.corpus.index_location import IndexLocation
from shared.ingest.index.finish import confirmed
from shared.ledger.postgres import alone
from shared.vectors.index import Index

_SLICE = 100  # questions that one call takes


async def delete_retracted(feedback: Feedback, index: Index) -> bool:
    """Delete the points of some retracted questions in every version that may have such points.

    It may be repeated and run concurrently. A deletion that Qdrant rejects is postponed.

    Returns:
        Whether more may be left.
    """
    claimed = await feedback.claim_removals(_SLICE)
    by_location = defaultdict[IndexLocation, list[PendingRemoval]](list)
    for question in claimed:
        by_location[question.location].append(question)

    async def delete(location: IndexLocation) -> None:
        points = [accepted_point_id(q.id, version) for q in by_location[location] for version in q.versions]
        await index.delete_by_id(location, points)

    deleted = {
        question.id for location in await confirmed(list(by_location), delete) for question in by_location[location]
    }
    removed = 0

    async def settle(questions: Sequence[PendingRemoval]) -> None:
        nonlocal removed
        removed += await feedback.settle_removals(questions, deleted)

    await alone.work_on(claimed, settle, lambda question: question.id)
    return bool(removed) and len(claimed) == _SLICE
