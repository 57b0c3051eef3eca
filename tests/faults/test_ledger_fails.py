"""PostgreSQL is restarted, dies or is unavailable: uploads get `retry-after`, and no document is half-written."""

import os
import signal
import time

from tests.support.fleet import Job, role_of
from tests.support.planted import guards


def under_load(fleet, provider, scenario, documents, fault):
    """Break the ledger while documents are uploaded and processed."""
    provider.script(latency_seconds=0.3)
    with scenario.load(scenario.corpus(documents), every=0.1):
        scenario.wait_for_answers(30)
        scenario.in_flight += fleet.calls_claimed()
        fault()


def test_ledger_restart_and_kill_lose_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("15a", "PostgreSQL restarted")

    def restart():
        for number in (signal.SIGINT, signal.SIGKILL):
            before = fleet.engine("postgres")
            os.kill(before, number)
            fleet.wait_until(lambda b=before: fleet.engine("postgres") not in (0, b), "PostgreSQL was not restarted")
            fleet.wait_until(fleet.accepts, "the API did not become ready again")
            scenario.in_flight += fleet.calls_claimed()

    under_load(fleet, provider, scenario, 2 * scale.documents, restart)

    scenario.settle()
    scenario.check(note=f"{scenario.deferred_uploads} uploads deferred")


@guards(
    "shared/http/problems.py",
    'Unavailable: ProblemKind(503, "unavailable"',
    'Unavailable: ProblemKind(500, "unavailable"',
    means="an unavailable ledger returns 500 instead of 503",
)
def test_ledger_outage_delays_but_loses_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("15b", "PostgreSQL unavailable")

    def interrupt():
        fleet.fault("ledger", "cut")
        time.sleep(scale.outage_seconds)
        fleet.fault("ledger")

    under_load(fleet, provider, scenario, 2 * scale.documents, interrupt)

    scenario.settle()
    scenario.check(note=f"{scenario.deferred_uploads} uploads deferred")
    assert scenario.deferred_uploads > 0


@guards(
    "shared/ingest/drain.py",
    "await asyncio.sleep(_LEDGER_PAUSE_SECONDS)",
    "return",
    means="replies are discarded while the ledger is unavailable",
)
def test_ledger_outage_beyond_lease_loses_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("15c", "PostgreSQL unavailable beyond a lease")
    provider.script(latency_seconds=1.0)
    scenario.submit(scenario.corpus(scale.documents))
    scenario.wait_for_answers(30)

    fleet.fault("ledger", "cut")
    time.sleep(
        max(scale.outage_seconds, 3 * scale.lease_seconds)
    )  # by then every call is answered and every lease has expired
    fleet.fault("ledger")

    scenario.settle()
    row = scenario.check()
    assert row.paid_twice == 0  # the workers kept the replies


def test_silent_ledger_connections_pay_nothing_twice(fleet, provider, start_scenario, scale):
    """A statement may wait for its reply longer than a lease lasts, so leases are extended over another connection."""
    scenario = start_scenario("15d", "PostgreSQL's connections silent")
    settings = {"tuning__lease": 14, "tuning__transaction_timeout": 20, "llm_timeout": 30}
    names = ("generate-1", "generate-2")
    fleet.replace({name: Job("workers", (role_of(name),), settings) for name in names})
    provider.script(latency_seconds=5.0)  # the replies arrive when the connections are silent
    scenario.submit(scenario.corpus(max(8, scale.documents // 5)))
    pids = [fleet.processes[name].pid for name in names]
    fleet.wait_until(lambda: all(fleet.calls_claimed_by(pid) for pid in pids), "a worker has no calls in flight")

    def failures():
        return sum(fleet.log(name).count("heartbeat.failed") for name in names)

    before = failures()
    try:
        fleet.fault("ledger", "stale")
        fleet.wait_until(lambda: failures() > before, "no heartbeat failed")
        provider.script(latency_seconds=0.2)
        scenario.settle()
        row = scenario.check()
    finally:
        fleet.kill("api")  # its silent connections would delay the next scenario's requests
        fleet.wait_until(fleet.accepts, "the API was not restarted")
    assert row.paid_twice == 0
