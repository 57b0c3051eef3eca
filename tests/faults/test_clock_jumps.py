"""Clocks are wrong, jump, or stop while a machine sleeps: results do not change.

Times that are compared with each other come from PostgreSQL, and a lease is counted by a clock that counts sleep.
"""

import pytest

from tests.support.fleet import Job, role_of
from tests.support.planted import guards

JUMPS = {"parse-1": 2, "generate-1": -2}


def test_clock_jumps_of_workers_change_no_result(fleet, provider, start_scenario, scale):
    scenario = start_scenario("16", "clocks 2 h fast and slow")
    provider.script(latency_seconds=0.2)
    fleet.replace({name: Job("tests.support.skewed", (role_of(name), str(hours))) for name, hours in JUMPS.items()})
    first, second = scenario.corpus(scale.documents), scenario.corpus(4, version=2)
    scenario.submit(first)
    scenario.wait_for_answers(50)
    scenario.submit(second)  # after both clocks have jumped

    scenario.settle(swept=True)  # points of a first version may be written late
    jumped = [name for name in JUMPS if fleet.log(name).count("clock_jumped") > 0]
    row = scenario.check()
    assert row.paid_twice == 0
    assert jumped == list(JUMPS)


@guards(
    "features/sources/ledger/sources.py",
    "now: datetime = (await connection.execute(SQL.now)).scalar_one()",
    "now = datetime.now().astimezone()",
    means="a scheduler with a slow clock starts a due sync again and again",
    case="-5",
)
@pytest.mark.parametrize("minutes", [-5, 5])
def test_clocks_of_api_and_scheduler_change_no_result(fleet, start_scenario, tmp_path, minutes):
    """The scheduler's clock is wrong by some minutes, and the API's clock by as many in the other direction."""
    scenario = start_scenario("28" + ("a" if minutes < 0 else "b"), f"clock of the scheduler {minutes:+} min")
    (tmp_path / "rules.md").write_text("The harbour opens at six.")
    with fleet.api_as(Job("tests.support.apart", (str(-minutes), "api"))):
        fleet.replace({"scheduler-1": Job("tests.support.apart", (str(minutes), "scheduler"))}, for_good=True)
        source = {"name": scenario.mark, "collection": "clocks", "uri": f"file://{tmp_path}", "schedule": "* * * * *"}
        fleet.client.post("/v1/sources", json=source).raise_for_status()
        scenario.submit(scenario.corpus(4))
        scenario.settle()

        def syncs():
            return fleet.client.get(f"/v1/sources/{scenario.mark}/syncs").raise_for_status().json()["items"]

        fleet.query("UPDATE sources SET next_at = now() - interval '1 hour' WHERE name = $1", scenario.mark)
        fleet.wait_until(lambda: syncs() and syncs()[0]["state"] == "done", "no sync was started")

        def age():
            found = "SELECT extract(epoch FROM now() - next_at) AS seconds FROM sources WHERE name = $1"
            return fleet.query(found, scenario.mark)[0]["seconds"]

        fleet.wait_until(lambda: age() < 1_800, "the next sync has no time")
        assert -60 <= age() < 60  # a minute may have passed since
        fleet.client.delete(f"/v1/sources/{scenario.mark}?documents=delete").raise_for_status()
    row = scenario.check()
    assert row.paid_twice == 0


def test_worker_of_sleeping_machine_pays_nothing_afterwards(fleet, provider, start_scenario):
    scenario = start_scenario("29", "the machine of a worker sleeps past its leases")
    provider.script(latency_seconds=0.2)
    with fleet.executing():
        fleet.replace({"generate-1": Job("tests.support.asleep", ("generate", "after the claim"))})
    with fleet.paused("generate-2"):
        scenario.submit(scenario.corpus(4))
        fleet.wait_until(lambda: fleet.is_stopped("generate-1"), "it claimed nothing")

    scenario.settle()  # the other worker takes its claims over
    fleet.resume("generate-1")

    row = scenario.check()
    assert row.paid_twice == 0
