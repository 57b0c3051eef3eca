"""Workers are killed at every step of a batch: no batch is created twice, and no line is lost, paid or booked twice.

The provider cuts connections after creates, uploads and within results, and lists a batch a second after its creation.
"""

import random
import time

import pytest

from tests.support.dying import POINTS
from tests.support.fleet import CREW, Job, worker
from tests.support.planted import guards

AT_BATCHES = [point for point in POINTS if point.endswith("a batch")]
FAULTS = {
    "lost_creates": 0.3,
    "lost_uploads": 0.2,
    "cut_creates": 0.1,
    "cut_contents": 0.3,
    "list_lag_seconds": 1,
    "running_seconds": 0.3,
}
_SPENT = """
    SELECT coalesce(sum(s.prompt_tokens), 0)::bigint AS prompt_tokens,
           coalesce(sum(s.completion_tokens), 0)::bigint AS completion_tokens
    FROM (SELECT collection_id, kind, prompt_tokens, completion_tokens FROM spent_changes
          UNION ALL SELECT collection_id, kind, prompt_tokens, completion_tokens FROM spent_by_day) s
    JOIN collections l ON l.id = s.collection_id
    WHERE l.name = $1 AND s.kind = 'generate'
"""
DIVISIONS = {"rejected_above": 3}  # of the six lines of a batch
_OPEN = "SELECT count(*) FROM batches WHERE ended_at IS NULL"
_LINES = "SELECT count(*) FROM batch_lines"
_DIVIDED = "SELECT count(*) FROM batches WHERE root_id IS NOT NULL"
_FAILED = """
    SELECT count(*) FROM batches b
    WHERE b.state = 'failed' AND NOT EXISTS (SELECT 1 FROM batches p WHERE p.root_id = coalesce(b.root_id, b.id))
"""


@guards(
    "shared/ingest/batches/lane.py",
    "listed = await self.api.list_since(batch.created_at)",
    "listed = []",
    means="a batch is created without a look at the list",
    case="after the create of a batch",
)
@guards(
    "shared/ingest/batches/lane.py",
    "                await self.batches.try_create(batch)",
    "                pass",
    means="the time of a create is recorded after it",
    case="after the create of a batch",
)
@guards(
    "shared/ledger/work/batches.py",
    "_LINES_LEASE = timedelta(days=7)",
    "_LINES_LEASE = timedelta(seconds=1)",
    means="the leases of lines end while their batch runs",
    case="after a poll of a batch",
)
@pytest.mark.parametrize("point", AT_BATCHES)
def test_kills_during_batch_pay_nothing_twice(fleet, provider, start_scenario, scale, point):
    number = "23" + "abcdefghijk"[AT_BATCHES.index(point)]
    scenario = start_scenario(number, f"kill -9 {point}")
    provider.batch_script(**FAULTS | (DIVISIONS if "division" in point else {}))
    dying = Job("tests.support.dying", ("generate", point, "1", "KILL"))
    documents = scenario.corpus(4 * scale.batch_kills)  # each batch is created once, and some replies are lost

    with fleet.paused("generate-2"):
        fleet.replace({"generate-1": dying}, for_good=True)
        scenario.submit(documents, lane="batch")
        fleet.wait_until(
            lambda: scenario.deaths() >= scale.batch_kills, f"too few workers died {point}", 60 * scale.batch_kills
        )
        fleet.replace({"generate-1": worker("generate-1")})

    check(fleet, provider, scenario, scale, note=f"{scenario.deaths()} deaths", divided="division" in point)


@pytest.mark.long
def test_random_kills_during_batches_pay_nothing_twice(fleet, provider, start_scenario, scale):
    scenario = start_scenario("23z", "kill -9 during batches")
    provider.batch_script(**FAULTS | {"running_seconds": 1})
    fleet.assign("generate-3", worker("generate-3"))
    fleet.assign("scheduler-2", worker("scheduler-2"))
    chance = random.Random(scenario.seed)

    scenario.submit(scenario.corpus(scale.documents), lane="batch")
    for _ in range(scale.storm_kills):
        fleet.kill(chance.choice([*CREW, "generate-3", "scheduler-2"]))
        time.sleep(1)

    check(fleet, provider, scenario, scale, note=f"{scenario.deaths()} deaths")


def check(fleet, provider, scenario, scale, *, divided=False, **more):
    scenario.settle(timeout=scale.timeout_seconds)
    fleet.wait_until(lambda: fleet.query(_OPEN)[0]["count"] == 0, "a batch did not end", scale.timeout_seconds)
    row = scenario.check(**more)
    assert row.calls == 0

    batches = provider.batch_stats(f"{scenario.mark}_")
    assert batches["second_batches"] == 0
    assert batches["lines_twice"] == 0
    assert batches["lines"] == scenario.chunks
    (spent,) = fleet.query(_SPENT, scenario.collection)
    assert spent == {name: batches[name] for name in spent}
    assert fleet.query(_LINES)[0]["count"] == 0
    assert fleet.query(_FAILED)[0]["count"] == 0
    assert not divided or fleet.query(_DIVIDED)[0]["count"] > 0
