"""A provider that allows so many requests a minute, and more workers than it can serve."""

from bisect import bisect_left

import pytest

from tests.support.fleet import worker

UNDECLARED_PER_MINUTE = 1_200  # less than even a busy machine asks for
SMALL_WINDOW_SECONDS = 3.0
IN_FLIGHT = 32


def hire(fleet, count, **settings):
    """Have so many workers ask, and no others."""
    names = [f"generate-{number + 1}" for number in range(count)]
    fleet.replace({name: worker(name, llm_max_in_flight=IN_FLIGHT, **settings) for name in names})


def fullest(arrivals, seconds):
    """The most calls that any window of so many seconds saw."""
    times = sorted(arrivals)
    return max(bisect_left(times, start + seconds) - index for index, start in enumerate(times))


@pytest.mark.long
def test_declared_limit_is_respected_and_used(fleet, provider, begin, scale):
    scenario = begin("9a", f"{scale.limited_workers} workers, a declared limit")
    window = scale.minute_seconds
    limit = round(scale.limited_per_second * window)
    hire(fleet, scale.limited_workers, llm_model="declared", llm_requests_per_minute=limit)
    provider.script(latency_seconds=0.3, requests_per_minute=60 * scale.limited_per_second, window_seconds=window)

    scenario.submit(scenario.corpus(scale.limited_documents, sections=10))
    scenario.settle(timeout=scale.timeout_seconds)

    stats = scenario.stats()
    most = fullest(stats["arrivals"], window)
    refused = stats["statuses"].get("429", 0)
    note = f"fullest {window:g} s {most:,} of {limit:,}, {refused} answered 429"
    row = scenario.check(note=note)
    assert row.paid_twice == 0
    assert scale.minute_used * limit <= most <= limit, note
    assert refused == 0, note


def test_undeclared_limit_is_detected_without_losses(fleet, provider, begin, scale):
    scenario = begin("9b", f"{scale.limited_workers} workers, no limit declared")
    hire(fleet, scale.limited_workers, llm_model="undeclared")
    provider.script(latency_seconds=0.3, requests_per_minute=UNDECLARED_PER_MINUTE, window_seconds=SMALL_WINDOW_SECONDS)

    scenario.submit(scenario.corpus(scale.unlimited_documents, sections=10))
    scenario.settle(timeout=scale.timeout_seconds)

    stats = scenario.stats()
    refused = stats["statuses"].get("429", 0)
    row = scenario.check(note=f"{refused} of {stats['calls']:,} calls answered 429")
    assert row.paid_twice == 0
    slots = scale.limited_workers * IN_FLIGHT  # all may be under way when the provider first refuses one
    assert 0 < refused <= slots / 2 + scenario.chunks / 10, row.note
