"""The tests that `make test` leaves out."""

from __future__ import annotations

from pathlib import Path

# Of the tests that break a running deployment, `make test` runs these.
_FAST_FAULTS = frozenset(
    {
        "test_random_worker_kills_lose_nothing",
        "test_qdrant_outage_delays_but_loses_nothing",
        "test_killed_broker_loses_no_work",
    }
)
_LISTED = frozenset((Path(__file__).parents[1] / "slow.txt").read_text(encoding="utf-8").splitlines())


def is_slow(test: str) -> bool:
    """Return whether a test breaks a deployment, or `tests/slow.txt` names it, its function or its file."""
    if test.startswith("tests/faults/"):
        return test.rpartition("::")[2] not in _FAST_FAULTS
    return not _LISTED.isdisjoint((test.partition("::")[0], test.partition("[")[0], test))
