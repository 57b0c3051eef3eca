"""A provider with a rate limit, and more workers than it can serve."""

from bisect import bisect_left

import pytest
import redis

from tests.support.fleet import worker
from tests.support.planted import guards

UNDECLARED_PER_MINUTE = 1_200  # less than the rate of even a busy machine
SMALL_WINDOW_SECONDS = 3.0
IN_FLIGHT = 32


def use_workers(fleet, count, **settings):
    """Run exactly `count` workers that generate questions."""
    names = [f"generate-{number + 1}" for number in range(count)]
    fleet.replace({name: worker(name, llm_max_in_flight=IN_FLIGHT, **settings) for name in names})


def most_in_window(arrivals, seconds):
    """Return the highest number of calls within any window of `seconds`."""
    times = sorted(arrivals)
    return max(bisect_left(times, start + seconds) - index for index, start in enumerate(times))


@guards(
    "shared/providers/limiter/script.py",
    "{{{self._terms.provider}}}",
    "{{{self._terms.provider}{__import__('os').getpid()}}}",
    means="each process applies the limit separately",
)
@pytest.mark.long
def test_declared_limit_is_respected_and_used(fleet, provider, start_scenario, scale):
    scenario = start_scenario("9a", f"{scale.limited_workers} workers, a declared limit")
    window = scale.minute_seconds
    limit = round(scale.limited_per_second * window)
    use_workers(fleet, scale.limited_workers, llm_model="declared", llm_requests_per_minute=limit)
    provider.script(latency_seconds=0.3, requests_per_minute=60 * scale.limited_per_second, window_seconds=window)

    scenario.submit(scenario.corpus(scale.limited_documents, sections=10))
    scenario.settle(timeout=scale.timeout_seconds)

    stats = scenario.stats()
    most = most_in_window(stats["arrivals"], window)
    refused = stats["statuses"].get("429", 0)
    note = f"{most:,} of {limit:,} in the fullest {window:g} s, {refused} got 429"
    row = scenario.check(note=note)
    assert row.paid_twice == 0
    assert scale.minute_used * limit <= most <= limit, note
    assert refused == 0, note


@guards(
    "shared/providers/limiter/limiter.lua",
    "values[name], values[name .. '_at'] = 0, now",
    "values[name], values[name .. '_at'] = bucket[2], now",
    means="an emptied broker allows a burst of calls",
)
def test_declared_limit_is_respected_by_emptied_broker(fleet, provider, start_scenario, scale):
    scenario = start_scenario("9c", "FLUSHALL under a declared limit")
    window = scale.minute_seconds
    limit = round(scale.limited_per_second * window)
    use_workers(fleet, scale.limited_workers, llm_model="declared", llm_requests_per_minute=limit)
    provider.script(latency_seconds=0.3, requests_per_minute=60 * scale.limited_per_second, window_seconds=window)

    scenario.submit(scenario.corpus(scale.limited_documents, sections=10))
    with redis.Redis.from_url(fleet.stack.settings.redis_url.get_secret_value()) as broker:
        for answers in range(3, scenario.chunks, 3):
            scenario.wait_for_answers(answers)
            broker.flushall()
    scenario.settle(timeout=scale.timeout_seconds)

    stats = scenario.stats()
    most = most_in_window(stats["arrivals"], window)
    row = scenario.check(note=f"{most:,} of {limit:,} in the fullest {window:g} s")
    assert row.paid_twice == 0
    assert (most <= limit, stats["statuses"].get("429", 0)) == (True, 0), row.note


@guards(
    "shared/providers/limiter/limiter.lua",
    "local function limited(call)",
    "local function limited(call) do return end",
    means="a provider's rate-limit reply is ignored",
)
def test_undeclared_limit_is_detected_without_losses(fleet, provider, start_scenario, scale):
    scenario = start_scenario("9b", f"{scale.limited_workers} workers, no limit declared")
    use_workers(fleet, scale.limited_workers, llm_model="undeclared")
    provider.script(latency_seconds=0.3, requests_per_minute=UNDECLARED_PER_MINUTE, window_seconds=SMALL_WINDOW_SECONDS)

    scenario.submit(scenario.corpus(scale.unlimited_documents, sections=10))
    scenario.settle(timeout=scale.timeout_seconds)

    stats = scenario.stats()
    refused = stats["statuses"].get("429", 0)
    row = scenario.check(note=f"{refused} of {stats['calls']:,} calls got 429")
    assert row.paid_twice == 0
    slots = scale.limited_workers * IN_FLIGHT  # all may be in flight at the provider's first 429
    assert 0 < refused <= slots / 2 + scenario.chunks / 10, row.note
