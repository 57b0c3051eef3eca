"""PostgreSQL is restarted, dies, or is away: uploads are told when to come back, and nothing is half-written."""

import os
import signal
import time


def under_load(fleet, provider, scenario, documents, fault):
    """Break the ledger while documents are handed in and worked on."""
    provider.script(latency_seconds=0.3)
    with scenario.load(scenario.corpus(documents), every=0.1):
        scenario.wait_for_answers(30)
        scenario.in_flight += fleet.held()
        fault()


def test_ledger_restart_and_kill_lose_nothing(fleet, provider, begin, scale):
    scenario = begin("15a", "PostgreSQL restarted")

    def restart():
        for number in (signal.SIGINT, signal.SIGKILL):
            before = fleet.engine("postgres")
            os.kill(before, number)
            fleet.wait_until(lambda b=before: fleet.engine("postgres") not in (0, b), "PostgreSQL did not come back")
            fleet.wait_until(fleet.accepts, "the API did not accept again")
            scenario.in_flight += fleet.held()

    under_load(fleet, provider, scenario, 2 * scale.documents, restart)

    scenario.settle()
    scenario.judge(note=f"{scenario.turned_away} uploads told to come back")


def test_ledger_outage_delays_but_loses_nothing(fleet, provider, begin, scale):
    scenario = begin("15b", "PostgreSQL gone")

    def away():
        fleet.fault("ledger", "cut")
        time.sleep(scale.away_seconds)
        fleet.fault("ledger")

    under_load(fleet, provider, scenario, 2 * scale.documents, away)

    scenario.settle()
    scenario.judge(note=f"{scenario.turned_away} uploads told to come back")
    assert scenario.turned_away > 0


def test_ledger_outage_beyond_lease_loses_nothing(fleet, provider, begin, scale):
    scenario = begin("15c", "PostgreSQL gone for longer than a lease")
    provider.script(latency_seconds=1.0)
    scenario.hand_in(scenario.corpus(scale.documents))
    scenario.wait_for_answers(30)

    fleet.fault("ledger", "cut")
    time.sleep(max(scale.away_seconds, 3 * scale.lease_seconds))  # every call is answered, and every lease has ended
    fleet.fault("ledger")

    scenario.settle()
    row = scenario.judge()
    assert row.paid_twice == 0  # the answers waited in their workers
