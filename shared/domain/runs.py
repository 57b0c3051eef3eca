"""Runs: long work on a collection, such as an evaluation, that workers do concurrently with the ingest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class RunKind(StrEnum):
    EVALUATION = "evaluation"
    GATE = "gate"
    VERIFICATION = "verification"
    SYNC = "sync"
    LOOKUP = "lookup"  # entries of a source that hints name are looked up


RUNS_OF_PARSERS = frozenset({RunKind.SYNC, RunKind.LOOKUP})  # index workers do all others


class RunPhase(StrEnum):
    QUEUED = "queued"  # no worker works on it
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_PHASES = (RunPhase.QUEUED, RunPhase.RUNNING)


@dataclass(frozen=True, slots=True)
class RunClaim:
    """A claim on a run. A result with an outdated token has no effect.

    Args:
        collection: name of the run's collection.
        lost_leases: number of earlier claims whose worker died.
    """

    id: UUID
    kind: RunKind
    tenant: str
    collection: str
    token: int
    lost_leases: int
