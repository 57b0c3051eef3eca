"""A tenant is erased while whoever works on it is killed: nothing of it remains, and another tenant has everything."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from functools import partial

from tests.support.deployment import ScriptedProvider
from tests.support.fleet import Fleet
from tests.support.scale import Scale
from tests.support.scenario import Row, Scenario

TENANT, OTHER = "leaving", "staying"
GENERATING = ("generate-1", "generate-2")
IN_WORK = 36  # documents whose questions are being written when the erasure begins

# Lock a finished document, for which the slice that deletes it waits.
HOLD_DOCUMENT = "SELECT 1 FROM documents WHERE tenant = $1 AND state = 'ready' LIMIT 1 FOR UPDATE"
# Lock a logged query, for which the slice waits that deletes what documents have left.
HOLD_QUERY = "SELECT 1 FROM queries WHERE tenant = $1 LIMIT 1 FOR UPDATE"
QUERIES = "SELECT count(*) FROM queries WHERE tenant = $1"
DOCUMENTS = "SELECT count(*) FROM documents WHERE tenant = $1"
STORED = "SELECT DISTINCT split_part(upload, '#', 1) AS name FROM document_versions"
FILLED = "SELECT count(*) FROM collections WHERE tenant = $1 AND emptied_at IS NULL"
FINISHED = "SELECT count(*) FROM erasures WHERE tenant = $1 AND finished_at IS NOT NULL"
# Let the time have passed for which the points of emptied collections wait for late writers.
HASTEN = "UPDATE collections SET emptied_at = emptied_at - interval '1 minute' WHERE tenant = $1"


def count(fleet: Fleet, statement: str) -> int:
    return int(fleet.query(statement, TENANT)[0]["count"])


def foreask(fleet: Fleet, *arguments: str) -> tuple[int, str]:
    """Run a command beside the deployment; return its exit code and what it printed."""
    printed = fleet.data_dir / "printed.txt"
    printed.unlink(missing_ok=True)
    process = fleet.launch([sys.executable, "-m", "cli", *arguments], fleet.environment(), printed)
    return process.wait(timeout=300), printed.read_text()


def check(fleet: Fleet) -> dict[str, int]:
    """What `foreask erase --check` finds of the tenant, by place."""
    code, printed = foreask(fleet, "erase", "--check", "--tenant", TENANT)
    looked = re.findall(r"^(\w+ +\S.*?) +([\d,]+)$", printed, re.MULTILINE)
    assert {place.split()[0] for place, _ in looked} == {"postgresql", "qdrant", "valkey", "uploads"}, printed
    found = {place: number for place, digits in looked if (number := int(digits.replace(",", "")))}
    assert code == bool(found), printed
    return found


def told(fleet: Fleet, scenario: Scenario) -> Iterator[str]:
    """The lines of all logs, the engines' too, that have a text, a question, a file's name or an id of the owner's."""
    written = re.compile(rf"{scenario.mark}[-_]")
    for path in (fleet.data_dir / "logs").iterdir():
        lines = path.read_text(errors="replace").splitlines()
        yield from (f"{path.name}: {line[:300]}" for line in lines if written.search(line))


def forget_strays(fleet: Fleet) -> None:
    """Remove what processes that earlier scenarios killed have left in the store: the check counts it too."""
    named = {row["name"] for row in fleet.query(STORED)}
    for path in (fleet.data_dir / "uploads").glob("??/*"):
        if path.name not in named:
            path.unlink()


def kill_scheduler(fleet: Fleet) -> None:
    fleet.kill("scheduler-1")
    fleet.query("UPDATE deployment SET scheduler_until = now()")  # its lease of five seconds


def holds(fleet: Fleet, name: str) -> bool:
    """Whether a worker has claims: nobody but the tenant has work."""
    return fleet.held_by(fleet.processes[name].pid) > 0


def test_kills_during_tenant_erasure_leave_no_data(fleet, provider, begin, scale):
    kept, erased = begin("21b", "erasure: another tenant"), begin("21a", "kill -9 while a tenant is erased")
    documents = erased.corpus(scale.erased_documents, sections=1)
    names = list(documents)
    forget_strays(fleet)
    fleet.speak_as(OTHER)
    kept.submit(kept.corpus(10, sections=1))
    fleet.speak_as(TENANT)
    erased.submit({name: documents[name] for name in names[:-IN_WORK]})
    erased.settle(timeout=scale.timeout_seconds)
    ask(fleet, erased)
    fleet.speak_as(OTHER)
    kept.settle()
    provider.script(latency_seconds=3.0)
    fleet.speak_as(TENANT)
    erased.submit({name: documents[name] for name in names[-IN_WORK:]})
    fleet.wait_until(lambda: all(map(partial(holds, fleet), GENERATING)), "no questions were being written")

    with fleet.paused(*GENERATING):
        kill_while_it_is_erased(fleet, provider, scale)
        fleet.wait_until(lambda: count(fleet, FINISHED) == 1, "the erasure did not end", scale.timeout_seconds / 4)
    time.sleep(1)  # for the settlement of the worker that stood still meanwhile

    record(erased, [f"{place}: {number}" for place, number in check(fleet).items()] + list(told(fleet, erased)))
    fleet.speak_as(OTHER)
    kept.check()


def kill_while_it_is_erased(fleet: Fleet, provider: ScriptedProvider, scale: Scale) -> None:
    """Kill a worker and the scheduler inside a slice of documents, and the scheduler inside one of what they left."""
    with fleet.holding(HOLD_DOCUMENT, TENANT) as wait:
        code, printed = foreask(fleet, "erase", "tenant", TENANT, "--yes")
        assert code == 0, printed
        wait()
        assert holds(fleet, GENERATING[0])
        fleet.kill(GENERATING[0])
        kill_scheduler(fleet)
        assert count(fleet, DOCUMENTS) > 0
    provider.script(latency_seconds=0)  # who follows the killed worker may call for what is still there
    with fleet.holding(HOLD_QUERY, TENANT) as wait:
        fleet.wait_until(lambda: count(fleet, FILLED) == 0, "documents are left", scale.timeout_seconds)
        if scale.tuning:
            fleet.query(HASTEN, TENANT)
        wait()
        kill_scheduler(fleet)
        assert count(fleet, QUERIES) > 0


def ask(fleet: Fleet, scenario: Scenario) -> None:
    """Ask a question that no other tenant asks, and wait until it is logged."""
    question = {"collection": scenario.collection, "question": f"What is {scenario.mark}_asked?"}
    fleet.client.post("/v1/retrieve", json=question).raise_for_status()
    fleet.wait_until(lambda: count(fleet, QUERIES) > 0, "the question was not logged")


def record(scenario: Scenario, found: list[str]) -> None:
    """Write the scenario's row: what was found of the tenant is unexpected."""
    stats = scenario.stats()
    row = Row(
        scenario=scenario.name,
        seed=scenario.seed,
        seconds=time.monotonic() - scenario.began,
        chunks=scenario.chunks,
        calls=stats["calls"],
        lost=(),
        unexpected=tuple(found),
        paid_twice=stats["paid_twice"],
        in_flight=scenario.in_flight,
        note=f"{scenario.deaths()} deaths, {len(found)} found",
    )
    scenario.record(row)
    assert not row.unexpected, (len(row.unexpected), row.unexpected[:10])
