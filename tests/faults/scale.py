"""How large a run of the suite is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes of the scenarios.

    Args:
        documents: of five chunks each, where one fault is looked at.
        storm_documents: of five chunks each, while workers die one after the other.
        storm_kills: how many die.
        storm_latency_seconds: of the model meanwhile, so that the storm does not outlast the work.
        flood_documents: of ten chunks each, that one tenant hands in beside another's few.
        limited_workers: that ask, against a provider's limit.
        limited_documents: of ten chunks each, that they ask for; more than a minute's worth.
        away_seconds: how long an engine is gone.
        patience_seconds: until all must have settled.
    """

    documents: int
    storm_documents: int
    storm_kills: int
    storm_latency_seconds: float
    flood_documents: int
    limited_workers: int
    limited_documents: int
    away_seconds: float
    patience_seconds: float


SCALES = {
    "short": Scale(40, 100, 6, 0.3, 250, 4, 255, 3, 120),
    "full": Scale(200, 2_000, 40, 0.3, 5_000, 16, 500, 60, 900),
    "soak": Scale(400, 3_000, 240, 0.5, 5_000, 16, 1_000, 60, 1_800),
}
