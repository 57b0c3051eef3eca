"""Sizes of a run of the fault suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.waiting import TIMEOUT_SECONDS

# Some guarantees can be checked only after a wait: until a connection counts as dead, a transaction has been open for
# too long, or a minute of a provider's limit has passed. A short run uses about a sixth of the product's defaults.
SHORT_TIMEOUTS = {
    "broker_timeout": 1,
    "broker_pause": 0.33,
    "transaction_timeout": 3.3,
    "limit_window": 10,
    "limit_burst": 0.4,
    "limit_jitter": 1.2,  # because a busy machine may delay a call by a second
}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes of the scenarios.

    Args:
        documents: documents of five chunks each, for scenarios with one fault.
        storm_documents: documents of five chunks each, while workers die one after another.
        storm_kills: number of workers killed.
        storm_latency_seconds: latency of the model in that time, so that the kills do not outlast the work.
        flood_documents: documents of ten chunks each that one tenant uploads, while another uploads few.
        flood_in_flight: concurrent calls of each worker in that time.
        limited_workers: workers that share a provider's limit.
        limited_documents: documents of ten chunks each under a limit; more than a minute's worth.
        limited_per_second: calls that the limit allows; the short suite leaves processor time for other tests.
        unlimited_documents: the same for an undeclared limit.
        erased_documents: documents of one chunk each of a tenant that is erased.
        batch_kills: number of workers killed at each point of a batch.
        release_documents: documents of one chunk each while processes of two releases are restarted.
        replaced_documents: documents of one chunk each while every pod of the chart is replaced.
        sync_kills: number of workers killed during a listing.
        scan_pages: pages of a scan whose readers are killed.
        edited_sections: sections of a document that is edited while it is queried.
        edits: number of its edits.
        share_of_kills: share of the edits during which a process is killed.
        lease_seconds: time for which a claim outlives its worker.
        executed: True if a rolling restart starts new interpreters, which import everything, instead of forks.
        tuning: timeouts below the product's defaults.
        minute_seconds: length of the window of a declared limit.
        minute_used: share of the limit that must be used in that window.
        outage_seconds: duration of an engine's outage.
        recovery_seconds: time after the broker's outage within which all documents must settle.
        timeout_seconds: time within which all documents must settle in other scenarios.
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
    batch_kills: int
    release_documents: int
    replaced_documents: int
    sync_kills: int
    scan_pages: int
    edited_sections: int
    edits: int
    share_of_kills: float
    lease_seconds: float
    executed: bool
    minute_seconds: float
    minute_used: float
    outage_seconds: float
    recovery_seconds: float
    timeout_seconds: float
    tuning: Mapping[str, float] = field(default_factory=dict)


SCALES = {
    "short": Scale(
        documents=20,
        storm_documents=30,
        storm_kills=4,
        storm_latency_seconds=0.6,
        flood_documents=24,
        flood_in_flight=4,
        limited_workers=4,
        limited_documents=20,
        limited_per_second=15,
        unlimited_documents=14,
        erased_documents=60,
        batch_kills=2,
        release_documents=300,
        replaced_documents=120,
        sync_kills=2,
        scan_pages=60,
        edited_sections=100,
        edits=4,
        share_of_kills=0.5,
        lease_seconds=3,
        executed=False,
        tuning=SHORT_TIMEOUTS,
        minute_seconds=SHORT_TIMEOUTS["limit_window"],
        minute_used=0.5,  # a limit divided among the workers allows 0.25; other tests can take a second of ten
        outage_seconds=2,
        recovery_seconds=TIMEOUT_SECONDS / 2,
        timeout_seconds=TIMEOUT_SECONDS,
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
        batch_kills=23,
        release_documents=1_000,
        replaced_documents=500,
        sync_kills=20,
        scan_pages=300,
        edited_sections=400,
        edits=200,
        share_of_kills=0.3,
        lease_seconds=3,
        executed=True,
        minute_seconds=60,
        minute_used=0.9,
        outage_seconds=60,
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
        batch_kills=23,
        release_documents=1_000,
        replaced_documents=500,
        sync_kills=20,
        scan_pages=300,
        edited_sections=400,
        edits=200,
        share_of_kills=0.3,
        lease_seconds=3,
        executed=True,
        minute_seconds=60,
        minute_used=0.9,
        outage_seconds=60,
        recovery_seconds=60,
        timeout_seconds=1_800,
    ),
}
