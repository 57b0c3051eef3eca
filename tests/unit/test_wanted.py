"""The number of workers that a stage can use is bounded by limits, even if the queue is long."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.domain.spending.limit_use import LimitUse
from shared.domain.spending.rates import Rates
from shared.maintenance.wanted import (
    CallTimes,
    MeanSeconds,
    WorkerPool,
    call_times,
    calls_in_flight,
    generate_workers,
    workers_within_a_minute,
)
from workers.scheduler import _SURVEY_EVERY

UNLIMITED = Rates()
POOL = WorkerPool({"generate": 64}, 16, None, UNLIMITED, lambda _: UNLIMITED)
DRY = {"flex_pause": timedelta(seconds=30), "flex_dry": timedelta(minutes=5)}
HALF_A_SECOND = CallTimes(latency_seconds=0.5)


def generate(due, rates=UNLIMITED, times=HALF_A_SECOND, **of_tenants):
    rows = due if isinstance(due, dict) else {"acme": due}
    return generate_workers(rows, rates, lambda tenant: of_tenants.get(tenant, UNLIMITED), times, slots=64)


@pytest.mark.parametrize("due", [1, 1_000, 1_000_000])
def test_rate_limit_allows_one_worker_for_any_queue(due):
    assert generate(due, Rates(requests=600)) == 1


@pytest.mark.parametrize(("due", "workers"), [(0, 0), (1, 1), (64, 1), (65, 2), (640, 10), (1_000_000, 15_625)])
def test_unlimited_workers_are_queue_divided_by_slots(due, workers):
    assert generate(due) == workers


@pytest.mark.parametrize(
    ("rates", "times", "calls"),
    [
        (Rates(requests=600), CallTimes(0.5), 5),
        (Rates(requests=60_000), CallTimes(2.0), 2_000),
        (Rates(tokens=600_000), CallTimes(6.0, tokens=2_000), 30),
        (Rates(tokens=600_000), CallTimes(6.0), 60),  # 1,000 tokens per call are assumed until a call was counted
        (Rates(requests=600, tokens=600_000), CallTimes(6.0, tokens=2_000), 30),
        (Rates(requests=60_000), CallTimes(), 0),  # the duration is unknown until a call was measured
        (UNLIMITED, CallTimes(), float("inf")),
    ],
)
def test_calls_in_flight_follow_rate_and_latency(rates, times, calls):
    assert calls_in_flight(rates, times) == pytest.approx(calls)


def test_refusing_provider_limits_workers_to_estimated_capacity():
    assert generate(1_000_000, times=CallTimes(0.5, in_flight=200)) == 4
    assert generate(10, times=CallTimes(0.5, in_flight=200)) == 1


def test_workers_for_tenant_are_limited_by_its_limits():
    rows = {"limited": 1_000_000, "other": 64}
    assert generate(rows, limited=Rates(requests=600)) == 2  # 5 calls and 64
    assert generate(rows, Rates(requests=60_000), CallTimes(2.0), limited=Rates(requests=600)) == 2


def test_workers_finish_due_rows_within_a_minute():
    assert workers_within_a_minute(0, 1.0, slots=8) == 0
    assert workers_within_a_minute(480, 1.0, slots=8) == 1
    assert workers_within_a_minute(481, 1.0, slots=8) == 2
    assert workers_within_a_minute(480, 4.0, slots=8) == 4


def test_mean_time_equals_leased_rows_divided_by_rate():
    mean = MeanSeconds(1.0)
    mean.measure(leased=0, finished_per_second=5.0)
    mean.measure(leased=8, finished_per_second=0.0)
    assert mean.seconds == 1.0
    mean.measure(leased=8, finished_per_second=2.0)
    assert mean.seconds == 4.0
    mean.measure(leased=8, finished_per_second=4.0)
    assert mean.seconds == pytest.approx(3.4)


def use(unit, used, **fields):
    values = {"in_flight_limit": 70, "latency": timedelta(seconds=0.25), "in_flight_lowered": False, **fields}
    return LimitUse(f"llm {unit}", None, used, 3, values["in_flight_limit"], "closed", timedelta(), "llm", unit,
                    values["latency"], values["in_flight_lowered"])  # fmt: skip


def test_call_times_are_read_from_use_of_limits():
    assert call_times([], POOL) == CallTimes()
    assert call_times([use("requests", 0), use("tokens", 0)], POOL) == CallTimes(0.25, None, None)
    lowered = [use("requests", 10, in_flight_lowered=True), use("tokens", 5_000, in_flight_lowered=True)]
    assert call_times(lowered, POOL) == CallTimes(0.25, 500.0, 70)


@pytest.mark.parametrize(
    ("uses_flex", "flex_wait", "fields", "workers"),
    [
        (True, None, {}, 16),  # no call was refused
        (True, None, {"flex_limit": 130}, 3),
        (True, None, {"flex_limit": 1, **DRY}, 1),
        (True, timedelta(minutes=10), {"flex_limit": 1, **DRY}, 1),
        (True, timedelta(minutes=2), {"flex_limit": 1, **DRY}, 16),  # calls are made in the standard tier
        (False, None, {"flex_limit": 1, **DRY}, 16),
    ],
)
def test_generate_workers_follow_capacity_of_flex(uses_flex, flex_wait, fields, workers):
    uses = [replace(use("requests", 0), **fields)]
    assert generate(1_000, times=call_times(uses, replace(POOL, uses_flex=uses_flex, flex_wait=flex_wait))) == workers


def test_numbers_follow_an_empty_queue_within_five_minutes():
    assert timedelta(minutes=5) >= _SURVEY_EVERY
