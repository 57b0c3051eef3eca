"""The work on a gate. After the loss of its worker it starts again, because it calls no language model."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

from features.builds.gate import Gate, GateReport, require_comparable
from features.builds.ledger.gates import GateRequest, Gates
from features.verification.domain import ComparisonProgress
from shared.domain.corpus.builds import Build
from shared.domain.errors import NotFound, Transient
from shared.domain.jobs import JobClaim
from shared.ledger.builds.builds import Builds
from shared.maintenance.jobs.progress import watched
from shared.maintenance.jobs.retries import retried
from shared.maintenance.jobs.runner import JobWork

_PROGRESS_SECONDS = 1.0  # interval at which the progress is saved


@dataclass(frozen=True, slots=True)
class GateWork(JobWork):
    """Compares the builds of claimed jobs.

    Args:
        gate_of: returns a gate that accepts a number of failures.
    """

    gates: Gates
    builds: Builds
    gate_of: Callable[[int], Gate]

    async def work(self, claim: JobClaim) -> None:
        """Compare a build with the live one, and save the report.

        Raises:
            NotFound: the build was dropped.
            Conflict: the build is being dropped, or is live.
            InvalidInput: a labelled question names a document that was deleted.
            Permanent: it made no progress for too long.
            Transient: an engine or the embedding provider was unavailable for too long.
        """
        job = await retried(self.gates.claimed)(claim)
        assert job.request is not None
        build = await retried(self.builds.get)(claim.tenant, claim.collection, job.request.build)
        if build.id != job.collection_id:
            raise NotFound(f"The build {build.number} was dropped.")
        require_comparable(build)
        async with watched() as progressed:
            report = await retried(self._compare)(claim, build, job.request, progressed)
        await retried(self.gates.finish)(claim, asdict(report) | {"open": report.is_open})

    async def _compare(
        self, claim: JobClaim, build: Build, request: GateRequest, progressed: Callable[[], None]
    ) -> GateReport:
        """Return the report; save the progress until then."""
        labelled = None
        if request.questions is not None:
            labelled = [(each["question"], each["external_ids"]) for each in request.questions]
        due = time.monotonic()
        async for item in self.gate_of(request.accept_failures).run(build, labelled):
            progressed()
            if isinstance(item, GateReport):
                return item
            if time.monotonic() >= due:
                due = time.monotonic() + _PROGRESS_SECONDS
                with suppress(Transient):  # the next time tries again
                    await self.gates.save_progress(claim, ComparisonProgress(item))
        raise AssertionError("a gate ends with its report")
