"""How large a run of the suite is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Some promises show only after a wait: a connection counts as dead, a transaction has been open for too long, a minute
# of a provider's limit has passed. In a short run these waits are about a sixth of the product's defaults.
SHORT_TIMEOUTS = {
    "broker_timeout": 1,
    "broker_pause": 0.33,
    "transaction_timeout": 3.3,
    "limit_window": 10,
    "limit_burst": 0.4,
    "limit_jitter": 1.2,  # a busy machine delays a call by a second
}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes of the scenarios.

    Args:
        documents: of five chunks each, where one fault is looked at.
        storm_documents: of five chunks each, while workers die one after the other.
        storm_kills: how many die.
        storm_latency_seconds: of the model meanwhile, so that the storm does not outlast the work.
        flood_documents: of ten chunks each, that one tenant hands in beside another's few.
        flood_in_flight: calls of each worker meanwhile.
        limited_workers: that ask, against a provider's limit.
        limited_documents: of ten chunks each, that they ask for; more than a minute's worth.
        limited_per_second: calls that the limit allows; in the short suite what is left for it beside other tests.
        unlimited_documents: the same, where the limit is not declared.
        erased_documents: of one chunk each, of a tenant that is erased.
        lease_seconds: how long a claim outlives its worker.
        executed: whether a rolling restart starts interpreters, which import everything, instead of forks.
        tuning: timeouts that are shorter than the product's defaults.
        minute_seconds: length of the window of a declared limit.
        minute_used: the share of the limit that must be used within it.
        away_seconds: how long an engine is gone.
        recovery_seconds: from the return of the broker until all must have settled.
        patience_seconds: until all must have settled elsewhere.
    """

    documents: int
    storm_documents: int
    storm_kills: int
    storm_latency_seconds: float
    flood_documents: int
    flood_in_flight: int
    limited_workers: int
    limited_documents: int
    limited_per_second: int
    unlimited_documents: int
    erased_documents: int
    lease_seconds: float
    executed: bool
    minute_seconds: float
    minute_used: float
    away_seconds: float
    recovery_seconds: float
    timeout_seconds: float
    tuning: Mapping[str, float] = field(default_factory=dict)


SCALES = {
    "short": Scale(
        documents=20,
        storm_documents=60,
        storm_kills=4,
        storm_latency_seconds=0.3,
        flood_documents=24,
        flood_in_flight=12,
        limited_workers=4,
        limited_documents=20,
        limited_per_second=15,
        unlimited_documents=14,
        erased_documents=60,
        lease_seconds=2,
        executed=False,
        tuning=SHORT_TIMEOUTS,
        minute_seconds=SHORT_TIMEOUTS["limit_window"],
        minute_used=0.8,
        away_seconds=2,
        recovery_seconds=20,
        timeout_seconds=120,
    ),
    "full": Scale(
        documents=200,
        storm_documents=2_000,
        storm_kills=40,
        storm_latency_seconds=0.3,
        flood_documents=5_000,
        flood_in_flight=64,
        limited_workers=16,
        limited_documents=400,
        limited_per_second=40,
        unlimited_documents=167,
        erased_documents=10_000,
        lease_seconds=3,
        executed=True,
        minute_seconds=60,
        minute_used=0.9,
        away_seconds=60,
        recovery_seconds=60,
        timeout_seconds=900,
    ),
    "soak": Scale(
        documents=400,
        storm_documents=3_000,
        storm_kills=240,
        storm_latency_seconds=0.5,
        flood_documents=5_000,
        flood_in_flight=64,
        limited_workers=16,
        limited_documents=1_000,
        limited_per_second=40,
        unlimited_documents=333,
        erased_documents=10_000,
        lease_seconds=3,
        executed=True,
        minute_seconds=60,
        minute_used=0.9,
        away_seconds=60,
        recovery_seconds=60,
        timeout_seconds=1_800,
    ),
}
