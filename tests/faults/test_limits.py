"""A provider that allows so many requests a minute, and more workers than it can serve."""

from bisect import bisect_left

import pytest

from tests.faults.conftest import SETTINGS
from tests.faults.fleet import Fleet
from tests.faults.scenario import Scenario

PER_MINUTE = 2_400
WINDOW_SECONDS = 60.0
UNDECLARED_PER_MINUTE = 1_200  # less than even a busy machine asks for
SMALL_WINDOW_SECONDS = 6.0


@pytest.fixture
def fleet_of(provider_process, tmp_path_factory):
    """Makes a deployment with so many asking workers."""
    fleets = []

    def start(workers, **settings):
        crew = ("parse-1", *(f"generate-{n + 1}" for n in range(workers)), "index-1", "index-2", "scheduler-1")
        fleet = Fleet(
            provider_process.settings(**SETTINGS | {"llm_max_in_flight": 32} | settings),
            tmp_path_factory.mktemp("limited"),
            crew=crew,
        )
        fleets.append(fleet)
        return fleet.start()

    yield start
    for fleet in fleets:
        fleet.stop()


def fullest(arrivals, seconds):
    """The most calls that any window of so many seconds saw."""
    times = sorted(arrivals)
    return max(bisect_left(times, start + seconds) - index for index, start in enumerate(times))


@pytest.mark.long
def test_a_declared_limit_is_kept_in_every_window_and_used(fleet_of, provider, seed, table, scale):
    fleet = fleet_of(scale.limited_workers, llm_requests_per_minute=PER_MINUTE)
    provider.script(latency_seconds=0.3, requests_per_minute=PER_MINUTE, window_seconds=WINDOW_SECONDS)
    scenario = Scenario(fleet, provider, f"9 {scale.limited_workers} workers, a declared limit", "9a", seed, table)

    scenario.hand_in(scenario.corpus(scale.limited_documents, sections=10))
    scenario.settle(timeout=scale.patience_seconds)

    stats = scenario.stats()
    most = fullest(stats["arrivals"], WINDOW_SECONDS)
    refused = stats["statuses"].get("429", 0)
    note = f"fullest minute {most:,} of {PER_MINUTE:,}, {refused} answered 429"
    row = scenario.judge(note=note)
    assert row.paid_twice == 0
    assert 0.9 * PER_MINUTE <= most <= PER_MINUTE, note
    assert refused == 0, note


def test_a_limit_that_nobody_declared_is_found_and_loses_nothing(fleet_of, provider, seed, table, scale):
    fleet = fleet_of(scale.limited_workers)
    provider.script(latency_seconds=0.3, requests_per_minute=UNDECLARED_PER_MINUTE, window_seconds=SMALL_WINDOW_SECONDS)
    scenario = Scenario(fleet, provider, f"9 {scale.limited_workers} workers, no limit declared", "9b", seed, table)

    scenario.hand_in(scenario.corpus(scale.limited_documents // 3, sections=10))
    scenario.settle(timeout=scale.patience_seconds)

    stats = scenario.stats()
    refused = stats["statuses"].get("429", 0)
    row = scenario.judge(note=f"{refused} of {stats['calls']:,} calls answered 429")
    assert row.paid_twice == 0
    assert refused <= scenario.chunks / 4, row.note
