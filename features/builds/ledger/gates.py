"""Gates of builds: each compares a build with the live one. Its report is stored with the build, too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from features.verification.domain import ComparisonProgress, VerificationCounts
from shared.domain.corpus.builds import Build
from shared.domain.errors import Conflict
from shared.domain.jobs import JobClaim, JobKind
from shared.domain.stored import known_fields
from shared.ledger.jobs.jobs_of_kind import JobsOfKind, JobTerms, StoredJob
from shared.ledger.postgres import statements

SQL = statements.load(__file__)


@dataclass(frozen=True, slots=True)
class GateRequest:
    """The work of a gate.

    Args:
        questions: labelled questions `{"question", "external_ids"}`; None: users' accepted questions.
        accept_failures: number of documents that may have failed only in the build.
        build: number of the build.
    """

    questions: Sequence[Mapping[str, Any]] | None
    accept_failures: int
    build: int = 0


GateJob = StoredJob[GateRequest, ComparisonProgress]


class Gates(JobsOfKind[GateRequest, ComparisonProgress]):
    terms = JobTerms(
        JobKind.GATE,
        GateRequest,
        ComparisonProgress,
        retained=20,
        deleted="The collection was deleted while the builds were compared.",
        missing="The gate of build {target.number} was not run.",
        idle="The gate of build {target.number} is not running.",
        of_build=True,
    )

    async def start(self, build: Build, live_embedding: str, request: GateRequest) -> GateJob:
        """Queue a gate, or return the open one of the build.

        Args:
            build: the build.
            live_embedding: name of the live build's embedding.
            request: the questions.

        Raises:
            NotFound: there is no such collection any more.
            Conflict: the open gate has another request, or the tenant has the maximum number of queued gates.
        """
        request = replace(request, build=build.number)
        embeddings = sorted({live_embedding, build.embedding_model})
        job = await self._start(build, request, ComparisonProgress(), embeddings=embeddings)
        if job.request != request:
            raise Conflict(
                f"A gate of build {build.number} with other questions is running: wait until it is done, or cancel it"
                " with DELETE."
            )
        return job

    async def finish(self, claim: JobClaim, report: Mapping[str, Any]) -> None:
        """Save the report of a claimed gate, also with its build; without effect if another worker has claimed it."""
        points = known_fields(report["points"], VerificationCounts.__dataclass_fields__)
        stored = json.dumps(report)
        async with self._database.begin() as connection:
            if await self._finish(connection, claim, ComparisonProgress(VerificationCounts(**points)), stored):
                await connection.execute(SQL.save_report, {"id": claim.id, "report": stored})
