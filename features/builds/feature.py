"""Builds next to the live one, as index workers use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.domain.jobs import JobKind
from shared.services.features import Feature
from shared.services.parts import Parts

if TYPE_CHECKING:
    from features.builds.job import GateWork


def _gate_work(parts: Parts) -> GateWork:
    from features.builds.gate import Gate
    from features.builds.job import GateWork
    from features.builds.ledger.gates import Gates
    from shared.ledger.builds.builds import Builds
    from shared.services.query import evaluated_retriever_of

    retriever = evaluated_retriever_of(parts)

    def gate_of(accepted_failures: int) -> Gate:
        return Gate(
            ledger=parts.ledger,
            index=parts.index,
            retriever=retriever,
            calibrator=parts.calibrator,
            accepted_failures=accepted_failures,
        )

    return GateWork(parts.ledger[Gates], parts.ledger[Builds], gate_of)


BUILDS = Feature(jobs={JobKind.GATE: _gate_work})
