"""The broker is killed, emptied, silent or full: lost wake-ups delay work but lose none."""

import time

import pytest
import redis

from tests.support.planted import guards
from tests.support.scenario import ScenarioResult

DEADLINE_SECONDS = 30  # time within which the API replies in every state of the broker


@pytest.fixture
def broker(fleet):
    """A direct connection to the broker, without the proxy."""
    with redis.Redis.from_url(fleet.stack.settings.redis_url.get_secret_value()) as client:
        yield client


def test_killed_broker_loses_no_work(fleet, provider, start_scenario, scale):
    scenario = start_scenario("4a", "kill -9 of the broker")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents // 2))
    scenario.wait_for_answers(20)

    kill_and_await_restart(fleet)

    assert_nothing_lost(scenario, scale)


def test_lost_wakeups_lose_no_work(fleet, provider, start_scenario, scale, broker):
    scenario = start_scenario("4b", "FLUSHALL")
    corpus = scenario.corpus(scale.documents // 2)
    fleet.fault("broker", "cut")
    scenario.submit(corpus)  # while no worker can be woken
    time.sleep(2.5)  # time after which the API has abandoned its wake-ups
    broker.flushall()
    fleet.fault("broker")

    assert_nothing_lost(scenario, scale)


def test_truncated_broker_file_loses_no_work(fleet, provider, start_scenario, scale):
    scenario = start_scenario("4c", "broker's file truncated")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents // 2))
    scenario.wait_for_answers(20)

    kill_and_await_restart(fleet, while_down=lambda: truncate_file(fleet))

    assert_nothing_lost(scenario, scale)


def test_silent_broker_delays_but_loses_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("5a", "broker silent")
    corpus = scenario.corpus(scale.documents // 2)
    fleet.fault("broker", "hole")
    slowest = slowest_upload_seconds(scenario, corpus)
    time.sleep(scale.outage_seconds)
    fleet.fault("broker")

    assert_recovered(scenario, scale, slowest)


@guards(
    "shared/broker/wakeups.py",
    '"health_check_interval": seconds',
    '"health_check_interval": 120',
    means="a dead connection is kept for a long time",
)
def test_silent_broker_connections_are_replaced(fleet, provider, start_scenario, scale):
    scenario = start_scenario("5b", "broker's connections silent for ever")
    corpus = scenario.corpus(scale.documents // 2)
    fleet.fault("broker", "hole")
    slowest = slowest_upload_seconds(scenario, corpus)
    time.sleep(scale.outage_seconds)
    fleet.fault("broker", "stale")

    assert_recovered(scenario, scale, slowest)


@guards(
    "shared/broker/wakeups.py",
    "except (RedisError, KombuError, OSError) as error:\n            # The ledger",
    "except OSError as error:\n            # The ledger",
    means="a rejected wake-up stops all further ones",
)
def test_full_broker_delays_but_loses_nothing(fleet, provider, start_scenario, scale, broker):
    scenario = start_scenario("6", "broker full")
    corpus = scenario.corpus(scale.documents // 2)
    before = rejected_wakeups(fleet)
    broker.config_set("maxmemory", "1")
    try:
        slowest = slowest_upload_seconds(scenario, corpus)
        fleet.wait_until(
            lambda: rejected_wakeups(fleet) > before, "the API does not log that the broker rejects wake-ups"
        )
    finally:
        broker.config_set("maxmemory", "0")

    assert_recovered(scenario, scale, slowest)


def kill_and_await_restart(fleet, while_down=lambda: None) -> None:
    before = fleet.engine("valkey")
    fleet.kill_engine("valkey")
    while_down()
    fleet.wait_until(lambda: fleet.engine("valkey") not in (0, before), "the broker was not restarted")


def truncate_file(fleet) -> None:
    """Truncate the append-only file in the middle of a command."""
    (file,) = (fleet.data_dir / "valkey" / "appendonlydir").glob("*.incr.aof")
    size = file.stat().st_size
    assert size > 100
    with file.open("r+b") as aof:
        aof.truncate(size - 41)


def rejected_wakeups(fleet) -> int:
    return (fleet.data_dir / "logs" / "api.log").read_text().count("wakeup.failed")


def slowest_upload_seconds(scenario, corpus) -> float:
    """Upload documents one by one and return the time of the slowest upload."""
    slowest = 0.0
    for name, sections in corpus.items():
        started = time.monotonic()
        scenario.submit({name: sections})
        slowest = max(slowest, time.monotonic() - started)
    return slowest


def assert_nothing_lost(scenario, scale, note="") -> ScenarioResult:
    scenario.settle(timeout=scale.recovery_seconds)
    row = scenario.check(note=note)
    assert row.calls == row.chunks
    return row


def assert_recovered(scenario, scale, slowest) -> None:
    started = time.monotonic()
    scenario.settle(timeout=scale.recovery_seconds)
    assert_nothing_lost(
        scenario, scale, f"uploads {slowest:.1f} s at most, done {time.monotonic() - started:.1f} s later"
    )
    assert slowest < DEADLINE_SECONDS
