"""The network closes, forgets, resets or silences connections to engines: nothing fails that need not fail."""

import time

import pytest

from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS

LINKS = ("ledger", "broker", "qdrant")
IDLE_SECONDS = 2
FAILURES = ("step.failed", "query_log.failed", "heartbeat.failed", "election.failed", "wakeup.failed", "job.failed")


def failures(fleet):
    """Return the lines of all logs that report a failure."""
    lines = [line for path in sorted((fleet.data_dir / "logs").glob("*.log")) for line in path.read_text().splitlines()]
    return [line for line in lines if any(f'"{failure}"' in line for failure in FAILURES)]


def ask(fleet, scenario):
    question = {"collection": scenario.collection, "question": "What is said of item7?"}
    return fleet.client.post("/v1/retrieve", json=question)


def verify(fleet, scenario):
    """Verify as `foreask verify` does, which requests it over HTTP."""
    return fleet.client.post(f"/v1/collections/{scenario.collection}/verify", json={"repair": False}, timeout=120)


@guards(
    "shared/ledger/postgres/pool.py",
    "if connection.is_closed or now - connection.opened_at > _OLDEST_SECONDS:",
    "if False:",
    "if now - connection.idle_since < _FRESH_SECONDS:",
    "if True:",
    means="a process uses a connection to PostgreSQL that the network has forgotten",
    case="forgotten",
)
@pytest.mark.parametrize("forgets", [False, True], ids=["closed", "forgotten"])
def test_lost_idle_connections_fail_nothing(fleet, provider, start_scenario, scale, forgets):
    scenario = start_scenario("26b" if forgets else "26a", f"idle connections {'forgotten' if forgets else 'closed'}")
    before = len(failures(fleet))
    for link in LINKS:
        fleet.fault(link, idle_seconds=IDLE_SECONDS, forgets=forgets)
    statuses, lost = [], 0
    for round_ in range(3):
        scenario.submit(dict(list(scenario.corpus(scale.documents).items())[round_::3]))
        scenario.settle()
        lost = fleet.report("ledger")["idle_closed"]
        fleet.wait_until(lambda seen=lost: fleet.report("ledger")["idle_closed"] >= seen + 3, "no connection was idle")
        statuses += [ask(fleet, scenario).status_code, verify(fleet, scenario).status_code]
        statuses.append(fleet.client.get("/v1/status").status_code)

    assert failures(fleet)[before:] == []
    assert set(statuses) == {200}
    lost = sum(fleet.report(link)["idle_closed"] for link in LINKS)
    row = scenario.check(note=f"{lost} connections lost, 0 of {len(statuses)} requests refused")
    assert row.paid_twice == 0


def test_reset_replies_of_engines_lose_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("26c", "replies of engines reset")
    provider.script(latency_seconds=0.2)
    statuses = []
    with scenario.load(scenario.corpus(scale.documents), every=0.1):
        scenario.wait_for_answers(10)
        for _ in range(10):
            for link in LINKS:
                fleet.fault(link, torn=2)
            statuses.append(ask(fleet, scenario))
            scenario.wait_for_answers(min(scenario.answered() + 2, 5 * scale.documents))
        for link in LINKS:
            fleet.fault(link)

    assert all(reply.status_code == 200 or int(reply.headers["retry-after"]) >= 1 for reply in statuses)
    assert {reply.status_code for reply in statuses} <= {200, 503}
    scenario.settle()
    refused = sum(reply.status_code == 503 for reply in statuses)
    row = scenario.check(note=f"{refused} of {len(statuses)} queries refused")
    assert row.paid_twice == 0


def test_silent_qdrant_refuses_queries_in_bounded_time(fleet, provider, start_scenario, scale):
    scenario = start_scenario("26d", "Qdrant accepts and stays silent")
    scenario.submit(scenario.corpus(scale.documents // 2))
    scenario.settle()
    fleet.fault("qdrant", "hole")
    started = time.monotonic()
    reply = ask(fleet, scenario)
    seconds = time.monotonic() - started
    scenario.submit({f"late-{name}": parts for name, parts in scenario.corpus(4, version=2).items()})
    fleet.fault("qdrant")

    assert reply.status_code == 503
    assert int(reply.headers["retry-after"]) >= 1
    assert seconds < TIMEOUT_SECONDS
    scenario.settle()
    scenario.check(note=f"503 after {seconds:.0f} s")
