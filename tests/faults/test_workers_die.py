"""Workers are killed, stopped and replaced while they work."""

import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import groupby

import pytest

from tests.support.dying import POINTS
from tests.support.fleet import CREW, role_of
from tests.support.planted import guards

# Late enough that calls are in flight, replies have arrived and commits have been made.
NTH = {"after the claim": 3, "after the answer": 30, "after its commit": 3}
AT_A_POINT = ("after the claim", "after the answer", "after its commit", "after the upsert")


@guards(
    "shared/domain/stages/poison.py",
    "return lost_leases >= SUSPECT_AFTER + DEATHS_ALONE",
    "return lost_leases >= 1",
    means="the work of a dead worker is treated as the cause of its death",
)
@pytest.mark.long
def test_random_worker_kills_lose_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("1a", "kill -9 every second")
    provider.script(latency_seconds=scale.storm_latency_seconds)
    chance = random.Random(scenario.seed)

    scenario.submit(scenario.corpus(scale.storm_documents))
    for _ in range(scale.storm_kills):
        fleet.kill(chance.choice(CREW))
        time.sleep(1)

    scenario.settle(timeout=scale.timeout_seconds)
    row = scenario.check(note=f"{scenario.deaths()} deaths")
    assert scenario.deaths() >= scale.storm_kills * 0.7  # two kills of one worker during its start count once
    assert row.calls >= row.chunks


@guards(
    "shared/ledger/work/claims_generate.sql",
    "NOT EXISTS (\n    SELECT 1 FROM chunks_open o",
    "w.leased_by IS NULL AND NOT EXISTS (\n    SELECT 1 FROM chunks_open o",
    means="a chunk with an expired lease is never claimed again",
    case="after the claim",
)
@guards(
    "shared/ingest/drain.py",
    "await self._commit(group)",
    "[self._release(i) for i, _ in group]; await asyncio.sleep(1); await self._commit(group)",
    "self._release(member)",
    "pass",
    means="a slot is free before its answer is committed",
    case="after the answer",
)
@guards(
    "shared/ledger/work/generation.py",
    "await connection.execute(SQL.insert_completions, generated_rows(paid))",
    "pass",
    means="a paid reply is not stored at the commit",
    case="after its commit",
)
@guards(
    "shared/ledger/work/claims_index.sql",
    "AND w.embedding_model = m.name\n",
    "AND w.embedding_model = m.name AND w.leased_by IS NULL\n",
    "AND w.embedding_model = m.name AND {no",
    "AND w.embedding_model = m.name AND w.leased_by IS NULL AND {no",
    means="a chunk whose indexer died is never indexed again",
    case="after the upsert",
)
@pytest.mark.parametrize("point", AT_A_POINT)
def test_worker_killed_at_point_loses_nothing(fleet, provider, start_scenario, scale, point):
    scenario = start_scenario("2" + "abcd"[AT_A_POINT.index(point)], f"kill -9 {point}")
    provider.script(latency_seconds=0.1)
    role = POINTS[point].role
    fleet.signal_at(f"{role}-1", point, nth=NTH.get(point, 1))

    with fleet.paused(f"{role}-2"):
        with fleet.paused(f"{role}-1"):  # so that it has a full backlog from the start
            scenario.submit(scenario.corpus(scale.documents // 2))
            scenario.wait_for_chunks("searchable" if role == "generate" else "total")
        fleet.wait_until(lambda: scenario.deaths() == 1, f"no worker died {point}")

    scenario.settle()
    row = scenario.check()
    if role == "index":
        assert row.calls == row.chunks


@pytest.mark.parametrize("point", AT_A_POINT)
def test_ingest_worker_killed_at_point_loses_nothing(fleet, provider, start_scenario, scale, point):
    scenario = start_scenario("2" + "ghij"[AT_A_POINT.index(point)], f"kill -9 of a worker of two stages {point}")
    provider.script(latency_seconds=0.1)

    with fleet.paused("generate-1", "generate-2", "index-1", "index-2"):
        fleet.signal_at("ingest-1", point, nth=NTH.get(point, 1))
        scenario.submit(scenario.corpus(scale.documents // 2))
        fleet.wait_until(lambda: scenario.deaths() == 1, f"no worker died {point}")
        scenario.settle()

    row = scenario.check()
    assert row.chunks > 0


@guards(
    "shared/maintenance/cleanup.py",
    '            "finish": self.finish,',
    "",
    means="the complete version of a killed worker is never shown",
    case="before the show",
)
@pytest.mark.parametrize("point", ["before the show", "after the show"])
def test_kill_during_version_replacement_loses_nothing(fleet, provider, start_scenario, scale, point):
    scenario = start_scenario("2e" if point.startswith("before") else "2f", f"kill -9 {point}")
    first = scenario.corpus(scale.documents // 2)
    scenario.submit(first)
    scenario.settle()
    fleet.signal_at("index-1", point)

    with fleet.paused("index-2"):
        if point.startswith("before"):
            scenario.update(first, changed=2, version=2)
        else:  # every question is paid: no later chunk finishes the document
            fleet.client.post(f"/v1/collections/{scenario.collection}/reindex").raise_for_status()
        fleet.wait_until(lambda: scenario.deaths() == 1, f"no worker died {point}")

    scenario.settle()
    row = scenario.check()
    assert row.calls == row.chunks + (2 * len(first) if point.startswith("before") else 0)


@guards(
    "shared/ledger/work/claims_generate.sql",
    "NOT EXISTS (\n    SELECT 1 FROM chunks_open o",
    "w.leased_by IS NULL AND NOT EXISTS (\n    SELECT 1 FROM chunks_open o",
    means="a stopped worker keeps its claims for ever",
)
def test_generating_worker_stalled_past_lease_changes_nothing(fleet, provider, start_scenario):
    scenario = start_scenario("3a", "SIGSTOP while generating")
    provider.script(latency_seconds=1.0)
    scenario.submit(scenario.corpus(10))  # with few documents, its claims are soon due again
    scenario.wait_for_answers(20)

    pid = fleet.processes["generate-1"].pid
    with fleet.paused("generate-1"):
        scenario.in_flight += fleet.calls_claimed_by(pid)
        provider.script(latency_seconds=3.0)
        fleet.wait_until(lambda: fleet.calls_claimed_by(pid) == 0, "its claims were not taken over")
        time.sleep(1.5)  # its calls time out before it resumes, and the other worker's calls are in flight
    provider.script(latency_seconds=0.2)

    scenario.settle()
    scenario.check()


@guards(
    "shared/ledger/postgres/database.py",
    "'idle_in_transaction_session_timeout', '15s'",
    "'idle_in_transaction_session_timeout', '0'",
    'return f"{seconds:g}s"',
    'return "0"',
    means="a stopped process keeps its locks",
)
def test_worker_stalled_in_transaction_does_not_block_work(fleet, provider, start_scenario, scale):
    scenario = start_scenario("3d", "SIGSTOP in a transaction")
    provider.script(latency_seconds=0.1)
    pid = fleet.signal_at("generate-1", "within its transaction", nth=2, number="STOP")
    with fleet.paused("generate-2"):  # otherwise it could finish all work before the other worker is woken
        scenario.submit(scenario.corpus(scale.documents // 2))
        fleet.wait_until(lambda: fleet.is_stopped("generate-1"), "it reached no commit")
        scenario.in_flight += fleet.calls_claimed_by(pid)

    scenario.settle()  # while it is still stopped
    fleet.signal("generate-1", signal.SIGCONT)
    scenario.settle()

    scenario.check()


@guards(
    "shared/ledger/work/leftovers.py",
    "    if late:",
    "    if late and not stale:",
    "[s.id for s in sweeps if not s.again]",
    "[s.id for s in sweeps]",
    means="the points that a late writer adds to an old version remain",
)
def test_stalled_indexing_worker_cannot_write_old_version(fleet, provider, start_scenario, scale):
    scenario = start_scenario("3b", "SIGSTOP before the upsert")
    first = scenario.corpus(scale.documents // 2)
    fleet.signal_at("index-1", "before the upsert", number="STOP")
    with fleet.paused("index-2"):
        scenario.submit(first)
        fleet.wait_until(lambda: fleet.is_stopped("index-1"), "it did not reach the upsert")

    scenario.update(first, changed=2, version=2)
    scenario.settle()
    fleet.resume("index-1")
    scenario.settle(swept=True)

    row = scenario.check()
    assert row.paid_twice == 0


def test_stalled_indexing_worker_cannot_damage_live_version(fleet, provider, start_scenario, scale):
    scenario = start_scenario("3e", "SIGSTOP before an edit's upsert")
    first = scenario.corpus(scale.documents // 4)
    scenario.submit(first)
    scenario.settle()
    fleet.signal_at("index-1", "before the upsert", number="STOP")
    with fleet.paused("index-2"):
        scenario.update(first, changed=2, version=2)
        fleet.wait_until(lambda: fleet.is_stopped("index-1"), "it did not reach the upsert")

    scenario.settle()  # the other worker takes over its claims, and the edit is live
    fleet.resume("index-1")
    scenario.settle(swept=True)

    row = scenario.check()
    assert row.paid_twice == 0


@guards(
    "shared/ledger/work/parsing.sql",
    "AND d.id = v.id AND d.lease_token = v.token AND",
    "AND d.id = v.id AND",
    means="a parse is recorded without its fencing token",
)
def test_stalled_parsing_worker_cannot_write_old_chunks(fleet, provider, start_scenario):
    scenario = start_scenario("3c", "SIGSTOP while parsing")
    first = scenario.corpus(4)
    fleet.signal_at("parse-1", "after the file was read", number="STOP")
    scenario.submit(first)
    fleet.wait_until(lambda: fleet.is_stopped("parse-1"), "it read no file")
    fleet.signal_at("parse-2", "after the file was read", number="STOP")  # an additional worker
    scenario.update(first, changed=5, version=2)
    fleet.wait_until(lambda: fleet.is_stopped("parse-2"), "the newer content was not read")

    fleet.resume("parse-1")  # its settlement must be rejected
    fleet.signal("parse-2", signal.SIGCONT)

    scenario.settle(swept=True)  # an older version may have been indexed before it was replaced
    scenario.check()


@guards(
    "shared/ingest/drain.py",
    "timeout=self._limits.grace.total_seconds()",
    "timeout=0",
    means="a stopping worker drops its calls",
)
@pytest.mark.long
def test_rolling_restart_under_load_loses_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("14", "rolling restart")
    provider.script(latency_seconds=1.0)
    by_role = [list(names) for _, names in groupby((*CREW, "api"), role_of)]
    with (
        fleet.executing() if scale.executed else nullcontext(),
        scenario.load(scenario.corpus(2 * scale.documents), every=0.3),
    ):
        scenario.wait_for_answers(20)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda names: [fleet.roll(name) for name in names], by_role))

    scenario.settle(timeout=scale.timeout_seconds)
    row = scenario.check(note=f"{scenario.deaths()} restarts")
    assert row.paid_twice == 0
    # After an orderly shutdown, uvicorn exits with the signal that requested it.
    assert {death.code for death in fleet.deaths[-scenario.deaths() :] if death.name != "api"} == {0}
