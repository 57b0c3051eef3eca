"""The work on a gate. After the loss of its worker it starts again, because it calls no language model."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

from shared.domain.builds import Build
from shared.domain.errors import NotFound, Transient
from shared.domain.runs import RunClaim
from shared.ledger.builds.builds import Builds
from shared.ledger.runs.gates import GateRequest, Gates
from shared.maintenance.gate import Gate, GateReport, require_comparable
from shared.maintenance.runs.progress import watched
from shared.maintenance.runs.retries import retried

_PROGRESS_SECONDS = 1.0  # interval at which the progress is saved


@dataclass(frozen=True, slots=True)
class Gating:
    """Compares the builds of claimed runs.

    Args:
        gate_of: returns a gate that accepts a number of failures.
    """

    gates: Gates
    builds: Builds
    gate_of: Callable[[int], Gate]

    async def work(self, claim: RunClaim) -> None:
        """Compare a build with the live one, and save the report.

        Raises:
            NotFound: the build was dropped.
            Conflict: the build is being dropped, or is live.
            InvalidInput: a labelled question names a document that was deleted.
            Permanent: it made no progress for too long.
            Transient: an engine or the embedding provider was unavailable for too long.
        """
        build_id, number, request = await retried(self.gates.request_of)(claim)
        build = await retried(self.builds.get)(claim.tenant, claim.collection, number)
        if build.id != build_id:
            raise NotFound(f"The build {number} was dropped.")
        require_comparable(build)
        async with watched() as progressed:
            report = await retried(self._compare)(claim, build, request, progressed)
        await retried(self.gates.finish)(claim, asdict(report) | {"open": report.is_open})

    async def _compare(
        self, claim: RunClaim, build: Build, request: GateRequest, progressed: Callable[[], None]
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
                    await self.gates.save_counts(claim, item)
        raise AssertionError("a gate ends with its report")
