"""Workers are killed or stall during a tenant's erasure: no data of it remains, and another tenant keeps all data."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial

from tests.support.deployment import ScriptedProvider
from tests.support.fleet import Fleet, worker
from tests.support.planted import guards
from tests.support.scale import Scale
from tests.support.scenario import Scenario, ScenarioResult

TENANT, OTHER, STALLED = "leaving", "staying", "stalled"
GENERATING = ("generate-1", "generate-2")
GENERATING_DOCUMENTS = 36  # documents whose questions are being generated when the erasure starts

# Lock a finished document, so that the slice that deletes it waits.
LOCK_DOCUMENT = "SELECT 1 FROM documents WHERE tenant = $1 AND state = 'ready' LIMIT 1 FOR UPDATE"
# Lock a logged query, so that the slice that deletes the remaining rows waits.
LOCK_QUERY = "SELECT 1 FROM queries WHERE tenant = $1 LIMIT 1 FOR UPDATE"
QUERIES = "SELECT count(*) FROM queries WHERE tenant = $1"
DOCUMENTS = "SELECT count(*) FROM documents WHERE tenant = $1"
STORED = "SELECT DISTINCT split_part(upload, '#', 1) AS name FROM document_versions"
FILLED = "SELECT count(*) FROM collections WHERE tenant = $1 AND emptied_at IS NULL"
FINISHED = "SELECT count(*) FROM erasures WHERE tenant = $1 AND finished_at IS NOT NULL"
SWEEPS = "SELECT count(*) FROM sweeps WHERE tenant = $1"
LOCATIONS = {"postgresql", "provider", "qdrant", "uploads", "valkey"}
# Skip the time for which emptied collections wait for late writers.
SKIP_WAIT = "UPDATE collections SET emptied_at = emptied_at - interval '1 minute' WHERE tenant = $1"


def count(fleet: Fleet, statement: str, tenant: str = TENANT) -> int:
    return int(fleet.query(statement, tenant)[0]["count"])


def foreask(fleet: Fleet, *arguments: str) -> tuple[int, str]:
    """Run a command against the running deployment; return its exit code and output."""
    printed = fleet.data_dir / "printed.txt"
    printed.unlink(missing_ok=True)
    process = fleet.launch([sys.executable, "-m", "cli", *arguments], fleet.environment(), printed)
    return process.wait(timeout=300), printed.read_text()


def check(fleet: Fleet, tenant: str = TENANT) -> dict[str, int]:
    """Return the tenant's remaining data by location, as `foreask erase --check` counts it."""
    code, printed = foreask(fleet, "erase", "--check", "--tenant", tenant)
    counts = re.findall(r"^(\w+ +\S.*?) +([\d,]+)$", printed, re.MULTILINE)
    assert {location.split()[0] for location, _ in counts} == LOCATIONS, printed
    remaining = {location: number for location, digits in counts if (number := int(digits.replace(",", "")))}
    assert code == bool(remaining), printed
    return remaining


def logged_content(fleet: Fleet, scenario: Scenario) -> Iterator[str]:
    """Yield the lines of all logs, including the engines', with a text, question, file name or id of the tenant."""
    mark = re.compile(rf"{scenario.mark}[-_]")
    for path in (fleet.data_dir / "logs").iterdir():
        lines = path.read_text(errors="replace").splitlines()
        yield from (f"{path.name}: {line[:300]}" for line in lines if mark.search(line))


def remove_stray_files(fleet: Fleet) -> None:
    """Remove stored files that killed processes of earlier scenarios left, because the check would count them."""
    named = {row["name"] for row in fleet.query(STORED)}
    for path in (fleet.data_dir / "uploads").glob("??/*"):
        if path.name not in named:
            path.unlink()


def kill_scheduler(fleet: Fleet) -> None:
    fleet.kill("scheduler-1")
    fleet.query("UPDATE deployment SET scheduler_until = now()")  # as if its lease of five seconds had expired


def has_claims(fleet: Fleet, name: str) -> bool:
    """Return whether a worker has claims; only this tenant has work."""
    return fleet.calls_claimed_by(fleet.processes[name].pid) > 0


@guards(
    "features/erasure/ledger/searches.py",
    "unused = [row.key for row in found if row.unused]",
    "unused = []",
    means="a tenant's paid replies outlive its erasure",
)
@guards(
    "features/erasure/feature.py",
    '        Step("erase", parts.settings.tuning.reconcile_interval, eraser.erase, erasures.SQL.are_open),\n',
    "",
    means="an erasure does not continue after its documents are deleted",
)
@guards(
    "shared/ledger/documents/versions.py",
    "    if outdated:",
    "    if not outdated:",
    "return sorted({row.stored for row in outdated} - in_use)",
    "return []",
    means="the uploads of an erased tenant remain",
)
def test_tenant_erasure_with_kills_deletes_all_data(fleet, provider, start_scenario, scale):
    staying, erased = (
        start_scenario("21b", "erasure: another tenant"),
        start_scenario("21a", "kill -9 while a tenant is erased"),
    )
    documents = erased.corpus(scale.erased_documents, sections=1)
    names = list(documents)
    remove_stray_files(fleet)
    fleet.use_key_of(OTHER)
    staying.submit(staying.corpus(10, sections=1))
    fleet.use_key_of(TENANT)
    erased.submit({name: documents[name] for name in names[:-GENERATING_DOCUMENTS]})
    erased.settle(timeout=scale.timeout_seconds)
    ask(fleet, erased)
    fleet.use_key_of(OTHER)
    staying.settle()
    provider.script(latency_seconds=3.0)
    fleet.use_key_of(TENANT)
    erased.submit({name: documents[name] for name in names[-GENERATING_DOCUMENTS:]})
    fleet.wait_until(lambda: all(map(partial(has_claims, fleet), GENERATING)), "no questions were being generated")

    with fleet.paused(*GENERATING):
        kill_during_erasure(fleet, provider, scale)
        fleet.wait_until(lambda: count(fleet, FINISHED) == 1, "the erasure did not finish", scale.timeout_seconds / 4)
    fleet.replace({name: worker(name) for name in GENERATING})  # before they exit, they settle their claims

    record(
        erased,
        [f"{location}: {number}" for location, number in check(fleet).items()] + list(logged_content(fleet, erased)),
    )
    fleet.use_key_of(OTHER)
    staying.check()


@guards(
    "shared/ledger/work/indexing.py",
    "            await sweep_late(connection, self.lease, stale, taken_over)",
    "            pass",
    means="the points that a stalled worker writes after an erasure remain",
)
def test_stalled_indexing_worker_leaves_no_points_after_erasure(fleet, start_scenario, scale):
    scenario = start_scenario("21c", "SIGSTOP before the upsert while a tenant is erased")
    remove_stray_files(fleet)
    fleet.use_key_of(STALLED)
    fleet.signal_at("index-1", "before the upsert", number="STOP")
    with fleet.paused("index-2"):
        scenario.submit(scenario.corpus(2, sections=1))
        fleet.wait_until(lambda: fleet.is_stopped("index-1"), "it did not reach the upsert")
    code, printed = foreask(fleet, "erase", "tenant", STALLED, "--yes")
    assert code == 0, printed
    fleet.wait_until(lambda: count(fleet, FINISHED, STALLED) == 1, "the erasure did not finish", scale.timeout_seconds)

    with fleet.paused("scheduler-1"):  # so that the test sees the sweep of the late write
        fleet.signal("index-1", signal.SIGCONT)
        fleet.wait_until(lambda: count(fleet, SWEEPS, STALLED) > 0, "no late write was reported")
    fleet.wait_until(lambda: count(fleet, SWEEPS, STALLED) == 0, "the late points were not swept")

    record(scenario, [f"{location}: {number}" for location, number in check(fleet, STALLED).items()])


def kill_during_erasure(fleet: Fleet, provider: ScriptedProvider, scale: Scale) -> None:
    """Kill a worker and the scheduler in a slice of documents, then the scheduler in a slice of the remaining rows."""
    with fleet.holding(LOCK_DOCUMENT, TENANT) as wait:
        code, printed = foreask(fleet, "erase", "tenant", TENANT, "--yes")
        assert code == 0, printed
        wait()
        assert has_claims(fleet, GENERATING[0])
        fleet.kill(GENERATING[0])
        kill_scheduler(fleet)
        assert count(fleet, DOCUMENTS) > 0
    provider.script(latency_seconds=0)  # the killed worker's successor may call for the remaining chunks
    with fleet.holding(LOCK_QUERY, TENANT) as wait:
        fleet.wait_until(lambda: count(fleet, FILLED) == 0, "documents remain", scale.timeout_seconds)
        if scale.tuning:
            fleet.query(SKIP_WAIT, TENANT)
        wait()
        kill_scheduler(fleet)
        assert count(fleet, QUERIES) > 0


def ask(fleet: Fleet, scenario: Scenario) -> None:
    """Ask a question with the tenant's mark and wait until it is logged."""
    question = {"collection": scenario.collection, "question": f"What is {scenario.mark}_asked?"}
    fleet.client.post("/v1/retrieve", json=question).raise_for_status()
    fleet.wait_until(lambda: count(fleet, QUERIES) > 0, "the question was not logged")


def record(scenario: Scenario, remaining: list[str]) -> None:
    """Record the scenario's row; all remaining data of the tenant is unexpected."""
    stats = scenario.stats()
    row = ScenarioResult(
        scenario=scenario.name,
        seed=scenario.seed,
        seconds=time.monotonic() - scenario.started,
        chunks=scenario.chunks,
        calls=stats["calls"],
        lost=(),
        unexpected=tuple(remaining),
        paid_twice=stats["paid_twice"],
        in_flight=scenario.in_flight,
        note=f"{scenario.deaths()} deaths, {len(remaining)} remaining",
    )
    scenario.record(row)
    assert not row.unexpected, (len(row.unexpected), row.unexpected[:10])
