"""The broker is killed, emptied, silent or full: a lost wake-up costs time and nothing else."""

import time

import pytest
import redis

from tests.support.scenario import Row

DEADLINE_SECONDS = 10  # within which the API answers, whatever the broker does


@pytest.fixture
def broker(fleet):
    """The broker itself, past the proxy."""
    with redis.Redis.from_url(fleet.stack.settings.redis_url.get_secret_value()) as client:
        yield client


def test_killed_broker_loses_no_work(fleet, provider, begin, scale):
    scenario = begin("4a", "kill -9 of the broker")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents // 2))
    scenario.wait_for_answers(20)

    restarted(fleet)

    assert_nothing_is_lost(scenario, scale)


def test_lost_wakeups_lose_no_work(fleet, provider, begin, scale, broker):
    scenario = begin("4b", "FLUSHALL")
    corpus = scenario.corpus(scale.documents // 2)
    fleet.fault("broker", "cut")
    scenario.submit(corpus)  # while nobody can be woken
    time.sleep(2.5)  # until the API has given up its wake-ups
    broker.flushall()
    fleet.fault("broker")

    assert_nothing_is_lost(scenario, scale)


def test_truncated_broker_file_loses_no_work(fleet, provider, begin, scale):
    scenario = begin("4c", "broker's file cut short")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents // 2))
    scenario.wait_for_answers(20)

    restarted(fleet, meanwhile=lambda: cut_short(fleet))

    assert_nothing_is_lost(scenario, scale)


def test_silent_broker_delays_but_loses_nothing(fleet, provider, begin, scale):
    scenario = begin("5a", "broker silent")
    corpus = scenario.corpus(scale.documents // 2)
    fleet.fault("broker", "hole")
    slowest = timed_hand_in(scenario, corpus)
    time.sleep(scale.away_seconds)
    fleet.fault("broker")

    assert_recovered(scenario, scale, slowest)


def test_broker_connections_silent_forever_are_replaced(fleet, provider, begin, scale):
    scenario = begin("5b", "connections to the broker silent for ever")
    corpus = scenario.corpus(scale.documents // 2)
    fleet.fault("broker", "hole")
    slowest = timed_hand_in(scenario, corpus)
    time.sleep(scale.away_seconds)
    fleet.fault("broker", "stale")

    assert_recovered(scenario, scale, slowest)


def test_full_broker_delays_but_loses_nothing(fleet, provider, begin, scale, broker):
    scenario = begin("6", "broker full")
    corpus = scenario.corpus(scale.documents // 2)
    before = refusals(fleet)
    broker.config_set("maxmemory", "1")
    try:
        slowest = timed_hand_in(scenario, corpus)
        fleet.wait_until(lambda: refusals(fleet) > before, "the API does not say that the broker refuses")
    finally:
        broker.config_set("maxmemory", "0")

    assert_recovered(scenario, scale, slowest)


def restarted(fleet, meanwhile=lambda: None) -> None:
    before = fleet.engine("valkey")
    fleet.kill_engine("valkey")
    meanwhile()
    fleet.wait_until(lambda: fleet.engine("valkey") not in (0, before), "the broker did not come back")


def cut_short(fleet) -> None:
    """Take the end off the append-only file, in the middle of a command."""
    (file,) = (fleet.data_dir / "valkey" / "appendonlydir").glob("*.incr.aof")
    size = file.stat().st_size
    assert size > 100
    with file.open("r+b") as aof:
        aof.truncate(size - 41)


def refusals(fleet) -> int:
    return (fleet.data_dir / "logs" / "api.log").read_text().count("wakeup.failed")


def timed_hand_in(scenario, corpus) -> float:
    """Hand documents in one by one; return how long the slowest took."""
    slowest = 0.0
    for name, sections in corpus.items():
        began = time.monotonic()
        scenario.submit({name: sections})
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def assert_nothing_is_lost(scenario, scale, note="") -> Row:
    scenario.settle(timeout=scale.recovery_seconds)
    row = scenario.check(note=note)
    assert row.calls == row.chunks
    return row


def assert_recovered(scenario, scale, slowest) -> None:
    began = time.monotonic()
    scenario.settle(timeout=scale.recovery_seconds)
    assert_nothing_is_lost(
        scenario, scale, f"upload {slowest:.1f} s at most, done {time.monotonic() - began:.1f} s after"
    )
    assert slowest < DEADLINE_SECONDS
