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


def test_it_is_restarted_and_killed(fleet, provider, begin, scale):
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


def test_it_is_gone_for_a_while(fleet, provider, begin, scale):
    scenario = begin("15b", "PostgreSQL gone")

    def away():
        fleet.fault("ledger", "cut")
        time.sleep(scale.away_seconds)
        fleet.fault("ledger")

    under_load(fleet, provider, scenario, 2 * scale.documents, away)

    scenario.settle()
    scenario.judge(note=f"{scenario.turned_away} uploads told to come back")
    assert scenario.turned_away > 0
