"""Evaluations of collections. Each has a copy of its questions, so that a change of its labelled set has no effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.domain.corpus.collections import Collection
from shared.domain.jobs import JobClaim, JobKind
from shared.ledger.jobs.jobs_of_kind import JobsOfKind, JobTerms, StoredJob


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """The work of an evaluation.

    Args:
        questions: labelled questions, in the form of a set.
        strategies: names of strategies.
        baseline: name of the strategy with which the others are compared.
        notes: sentences about the labels, for the results.
        build: number of the build to search; None: the live build.
    """

    questions: Sequence[Mapping[str, Any]]
    strategies: Sequence[str]
    baseline: str
    notes: Sequence[str] = ()
    build: int | None = None


@dataclass(frozen=True, slots=True)
class EvaluationProgress:
    """The progress of an evaluation.

    Args:
        labelled_set: name of the set; None if the questions were part of the request.
        questions: number of questions.
        strategy: strategy of the last query.
        done: finished queries out of `total`; both are 0 before the first query.
        rows: summary rows of the results, for lists: to parse a hundred results would take seconds.
    """

    labelled_set: str | None
    questions: int
    strategy: str | None = None
    done: int = 0
    total: int = 0
    rows: Sequence[Mapping[str, Any]] = ()


EvaluationJob = StoredJob[EvaluationRequest, EvaluationProgress]


class Evaluations(JobsOfKind[EvaluationRequest, EvaluationProgress]):
    """Evaluations. The results are described in `features.evaluation.results`."""

    terms = JobTerms(
        JobKind.EVALUATION,
        EvaluationRequest,
        EvaluationProgress,
        retained=100,
        deleted="There is no evaluation {id}.",
        is_joined=False,
    )

    async def start(
        self, collection: Collection, labelled_set: str | None, request: EvaluationRequest
    ) -> EvaluationJob:
        """Queue an evaluation, and delete the oldest ended ones.

        Raises:
            NotFound: there is no such collection any more.
            Conflict: the tenant has the maximum number of queued evaluations.
        """
        questions = {question["question"] for question in request.questions}
        progress = EvaluationProgress(labelled_set, len(questions))
        return await self._start(collection, request, progress, embeddings=[collection.embedding_model])

    async def finish(self, claim: JobClaim, progress: EvaluationProgress, results: Mapping[str, Any]) -> None:
        """Save the results of a claimed evaluation.

        Without effect if the evaluation was deleted or another worker has claimed it.
        """
        queries = sum(map(len, results["per_query"].values()))
        progress = replace(progress, done=queries, total=queries, rows=results["rows"])
        stored = await asyncio.to_thread(json.dumps, results)
        async with self._database.begin() as connection:
            await self._finish(connection, claim, progress, stored)
