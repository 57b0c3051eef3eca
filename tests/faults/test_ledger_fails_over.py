"""PostgreSQL's primary dies and its standby replaces it: replicated work is kept, and no lost document is found."""

import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

import httpx
import pytest

from tests.faults.conftest import PROPERTY, SETTINGS
from tests.support.fleet import Fleet
from tests.support.planted import guards
from tests.support.scenario import Scenario
from tests.support.standby import ReplicatedPostgres

LAG_SECONDS = 2
SCHEDULER = "scheduler-1"


@dataclass(frozen=True)
class Replicated:
    """A deployment of its own over two servers of PostgreSQL, and its scenario."""

    fleet: Fleet
    servers: ReplicatedPostgres
    scenario: Scenario


@pytest.fixture
def start_replicated(provider, forks, tmp_path, scale, request):
    """A function that starts a deployment over two servers, whose standby is synchronous or not, and a scenario."""
    opened, record = [], request.getfixturevalue("record_property")

    def start(number, name, *, synchronous):
        servers = ReplicatedPostgres(tmp_path / "servers", synchronous=synchronous)
        opened.append(servers)
        servers.__enter__()
        tuning = {**SETTINGS["tuning"], **scale.tuning, "lease": scale.lease_seconds}
        settings = provider.settings(**SETTINGS | {"tuning": tuning, "database_url": servers.url})
        fleet = Fleet(settings, tmp_path / "fleet", launch=forks.launch)
        opened.append(fleet)
        fleet.__enter__()
        seed = int(request.config.getoption("--seed"))
        scenario = Scenario(
            fleet, provider, f"{number} {name}", number, seed, lambda row: record(PROPERTY, asdict(row))
        )
        return Replicated(fleet, servers, scenario)

    yield start
    for each in reversed(opened):
        each.__exit__(None, None, None)


@contextmanager
def asking(fleet, collection):
    """Ask a question again and again within the block, and yield the counts of the replies by status."""
    ended, statuses = threading.Event(), Counter()
    question = {"collection": collection, "question": "What is said of item7?"}

    def ask():
        while not ended.wait(0.05):
            with suppress(httpx.HTTPError):
                reply = fleet.client.post("/v1/retrieve", json=question, timeout=30)
                statuses[reply.status_code if "retry-after" in reply.headers or reply.is_success else reply.text] += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        thread.join()


def found(fleet, collection, documents):
    """Return the documents, of these, that a query finds by the mark of their first section."""
    ghosts = set()
    for name, (first, *_) in documents.items():
        question = {"collection": collection, "question": f"What is said of {first.mark}?"}
        reply = fleet.client.post("/v1/retrieve", json=question).raise_for_status().json()
        ghosts |= {chunk["external_id"] for chunk in reply["chunks"]} & {name}
    return ghosts


def is_repaired(fleet):
    (row,) = fleet.query("SELECT count(*) FROM collections WHERE damage IS NOT NULL")
    status = fleet.client.get("/v1/status").raise_for_status().json()
    return row["count"] == 0 and status["damaged"] == []


@guards(
    "features/verification/damage_monitor.py",
    "if await self.repairs.note_server(server, lost_commits=lost, late=self.late_writes_end_after):",
    "if False:",
    means="a failover that lost commits leaves ghosts in the index",
    case="lag of two seconds",
)
@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "lag of two seconds"])
def test_failover_loses_only_lag_and_leaves_no_ghosts(start_replicated, provider, scale, synchronous):
    name = "PostgreSQL failed over, synchronous" if synchronous else "PostgreSQL failed over, lag of 2 s"
    replicated = start_replicated("25a" if synchronous else "25b", name, synchronous=synchronous)
    fleet, servers, scenario = replicated.fleet, replicated.servers, replicated.scenario
    provider.script(latency_seconds=0.3)
    with asking(fleet, scenario.collection) as statuses:
        with scenario.load(scenario.corpus(2 * scale.documents), every=0.1):
            scenario.wait_for_answers(40)
            lagged_at, answered = time.monotonic(), scenario.answered()
            scenario.in_flight += fleet.calls_claimed()
            if not synchronous:
                servers.lag()
                time.sleep(LAG_SECONDS)  # commits of this time are lost
            servers.kill_primary()
            scenario.in_flight += 0 if synchronous else scenario.answered() - answered  # their replies are lost, too
            servers.promote()
            fleet.move_ledger(servers.url)
            fleet.wait_until(fleet.accepts, "the API did not become ready again")
        fleet.wait_until(lambda: "failover.noticed" in fleet.log(SCHEDULER), "the failover was not noticed")
        listed = {document["external_id"] for document in fleet.documents(scenario.collection)}
        lost = {each: sections for each, sections in scenario.documents.items() if each not in listed}
        ghosts = len(found(fleet, scenario.collection, lost))
        for each in lost:
            del scenario.documents[each]
        scenario.settle(swept=True)
        fleet.wait_until(lambda: is_repaired(fleet), "the repair did not end")

    replied = f"{statuses[503]} of {statuses.total()} queries refused"
    scenario.check(note=f"{len(lost)} lost within the lag, {ghosts} ghosts before the repair; {replied}")
    assert not [each for each in lost if synchronous or scenario.accepted_at[each] < lagged_at]
    assert not found(fleet, scenario.collection, lost)
    assert fleet.log(SCHEDULER).count("failover.noticed") == 1
    assert set(statuses) <= {200, 503}
