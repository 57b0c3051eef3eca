"""Workers' clocks jump by hours: results do not change, because no decision depends on a worker's clock."""

from tests.support.fleet import Job, role_of
from tests.support.planted import guards

JUMPS = {"parse-1": 2, "generate-1": -2}


@guards(
    "shared/broker/wakeups.py",
    "retry=False)",
    "retry=False, expires=3600)",
    means="a wake-up expires by the clock of the worker that receives it",
)
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
