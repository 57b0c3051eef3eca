"""A collection is rebuilt while its workers are killed and its documents are edited and deleted."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from shared.domain.corpus.builds import Build, BuildDifferences
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.index_location import IndexNames, index_location_of
from shared.ledger.builds.builds import Builds
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import Database
from tests.support.fleet import CREW, Fleet, Job
from tests.support.planted import guards
from tests.support.scenario import Scenario, section

ROUNDS = 5  # rounds of two concurrent switches

LOCATIONS = "SELECT index_name, tenant, id AS collection_id FROM collections WHERE name = $1"
OPEN_DOCUMENTS = """
    SELECT count(*) AS open FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE l.name = $1 AND d.state NOT IN ('ready', 'degraded', 'failed')
"""

COPIED = """
    SELECT count(*) FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE l.name = $1 AND l.build_state <> 'live' AND d.state <> 'deleting'
"""
# Lock the n-th document of a build.
LOCK_DOCUMENT = """
    SELECT 1 FROM documents WHERE id = (
        SELECT d.id FROM documents d JOIN collections l ON l.id = d.collection_id
        WHERE l.name = $1 AND l.build = $2 ORDER BY d.external_id OFFSET $3 LIMIT 1)
    FOR UPDATE
"""
# Insert the n-th document of the live build into another build, without a commit.
INSERT_DOCUMENT = """
    INSERT INTO documents (id, public_id, tenant, collection_id, external_id, state)
    SELECT gen_random_uuid(), gen_random_uuid(), 'default', b.id, d.external_id, 'queued'
    FROM documents d JOIN collections l ON l.id = d.collection_id JOIN collections b ON b.name = l.name AND b.build = $2
    WHERE l.name = $1 AND l.build_state = 'live' ORDER BY d.external_id OFFSET $3 LIMIT 1
"""


class BuildsOfScenario:
    """The builds of a scenario's collection, changed directly in the ledger."""

    def __init__(self, fleet: Fleet, scenario: Scenario) -> None:
        self._fleet = fleet
        self._name = scenario.collection

    def do(self, method: str, *arguments: Any, **named: Any) -> Any:
        return asyncio.run(self._do(method, *arguments, **named))

    async def _do(self, method: str, *arguments: Any, **named: Any) -> Any:
        settings = self._fleet.stack.settings
        assert settings.database_url is not None
        database = Database(settings.database_url.get_secret_value())
        try:
            spaces = {name: embedding.space for name, embedding in settings.served_embeddings().items()}
            collections = Collections(database, IndexNames(settings.qdrant_prefix, spaces))
            return await getattr(Builds(database, collections), method)(*arguments, **named)
        finally:
            await database.aclose()

    def start(self) -> Build:
        model = self._fleet.stack.settings.embedding_model
        built: Build = self.do("start", "default", self._name, options=CollectionOptions(), embedding_model=model)
        return built

    def state(self, number: int) -> str:
        return str(self.do("get", "default", self._name, number).state)

    def differences(self, number: int) -> BuildDifferences:
        build = self.do("get", "default", self._name, number)
        differences: BuildDifferences = self.do("differences", build)
        return differences

    def switch(self, number: int) -> None:
        self.do("switch", "default", self._name, number)

    def drop(self, number: int) -> None:
        self.do("drop", "default", self._name, number)
        self._fleet.query(
            "UPDATE collections SET live_until = live_until - interval '1 minute' WHERE name = $1", self._name
        )

    def numbers(self) -> list[int]:
        return [build.number for build in self.do("list", "default", self._name)]

    def post(self, number: int, action: str) -> httpx.Response:
        path = f"/v1/collections/{self._name}/builds/{number}/{action}"
        return self._fleet.client.post(path, json={"force": True})

    def copied(self) -> int:
        """Return the number of documents in builds that are not live."""
        (row,) = self._fleet.query(COPIED, self._name)
        return int(row["count"])

    def live(self) -> list[int]:
        """Return the numbers of the live builds; there must be exactly one."""
        return [build.number for build in self.do("list", "default", self._name) if build.state == "live"]

    def is_settled(self) -> bool:
        return bool(self._fleet.query(OPEN_DOCUMENTS, self._name)[0]["open"] == 0)


@guards(
    "shared/ledger/documents/submission.py",
    "for build in others if accepted else ():",
    "for build in ():",
    means="an upload is not written to the following builds",
)
@guards(
    "shared/ledger/documents/documents.sql",
    "d.tenant = :tenant AND {exists:d} AND l.id =",
    "d.id = :id AND {exists:d} AND l.id =",
    means="a deletion does not delete the document in other builds",
)
@guards(
    "shared/maintenance/cleanup.py",
    "await self.index.delete_build(build.location)",
    "pass",
    means="the points of a dropped build remain",
)
def test_kills_at_each_build_step_lose_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("20", "kill -9 at each step of a build")
    chance = random.Random(scenario.seed)
    corpus = scenario.corpus(scale.documents)
    scenario.submit(corpus)
    scenario.settle()
    builds = BuildsOfScenario(fleet, scenario)
    edits = 0

    def change_and_kill(version: int) -> None:
        """Kill a worker, edit a document, kill the scheduler and delete a document."""
        nonlocal edits
        edited, deleted = chance.sample(sorted(scenario.documents), 2)
        fleet.kill(chance.choice(CREW))
        scenario.update({edited: scenario.documents[edited]}, changed=1, version=version)
        edits += 1
        fleet.kill("scheduler-1")
        scenario.delete([deleted])

    builds.start()
    change_and_kill(2)
    fleet.wait_until(lambda: builds.state(2) == "following", "the build was not filled", 120)
    change_and_kill(3)
    fleet.wait_until(builds.is_settled, "the build did not settle", 120)
    assert builds.differences(2).none

    for version, number in ((4, 2), (5, 1), (6, 2)):  # switch to the new build, back, and to the new build again
        builds.switch(number)
        change_and_kill(version)
        fleet.wait_until(builds.is_settled, "the builds did not settle", 120)
        assert builds.differences(3 - number).none

    (dropped,) = [row for row in fleet.query(LOCATIONS, scenario.collection) if not _is_live(fleet, row)]
    builds.drop(1)
    change_and_kill(7)
    fleet.wait_until(lambda: builds.numbers() == [2], "the build was not dropped", 120)

    scenario.settle(swept=True)
    row = scenario.check(note=f"{scenario.deaths()} deaths")
    assert fleet.stored_points(index_location_of(**dropped)) == {}
    assert row.calls - row.paid_twice == 5 * scale.documents + edits


def test_kill_during_slice_switch_and_drop_loses_nothing(fleet, provider, start_scenario):
    scenario = start_scenario("20b", "kill -9 during a fill, a switch and a drop")
    scenario.submit(scenario.corpus(10, sections=1))
    scenario.settle()
    builds = BuildsOfScenario(fleet, scenario)
    fleet.replace({"scheduler-1": Job("tests.support.slices", ("2",))}, for_good=True)

    def kill_scheduler() -> None:
        fleet.kill("scheduler-1")
        fleet.query("UPDATE deployment SET scheduler_until = now()")  # as if its lease of five seconds had expired

    with fleet.holding(LOCK_DOCUMENT, scenario.collection, 1, 3) as wait:
        builds.start()
        wait()  # the second slice has found its documents
        kill_scheduler()
        assert builds.copied() == 2
    with fleet.holding(INSERT_DOCUMENT, scenario.collection, 2, 9) as wait:
        wait()  # the last slice has written one of its two documents
        kill_scheduler()
        assert builds.copied() == 8
    fleet.wait_until(lambda: builds.state(2) == "following", "the build was not filled")
    fleet.wait_until(builds.is_settled, "the build did not settle")

    with ThreadPoolExecutor(2) as pool:
        _kill_a_switch(fleet, scenario, builds, pool)
        _switch_concurrently(builds, pool)
    builds.switch(2)
    scenario.update({name: scenario.documents[name] for name in sorted(scenario.documents)[:2]}, changed=1, version=2)
    scenario.submit({f"{scenario.mark}-new.md": [section(f"{scenario.mark}_77_0_1")]})
    builds.switch(1)  # switch back while these are processed
    fleet.wait_until(builds.is_settled, "the builds did not settle")
    assert builds.differences(2).none

    (dropped,) = [row for row in fleet.query(LOCATIONS, scenario.collection) if not _is_live(fleet, row)]
    with fleet.holding(LOCK_DOCUMENT, scenario.collection, 2, 1) as wait:
        builds.drop(2)
        wait()
        kill_scheduler()
    fleet.wait_until(lambda: builds.numbers() == [1], "the build was not dropped")

    scenario.settle(swept=True)
    row = scenario.check(note=f"{scenario.deaths()} deaths, {2 * ROUNDS} concurrent switches")
    assert fleet.stored_points(index_location_of(**dropped)) == {}
    assert row.calls - row.paid_twice == 10 + 2 + 1


def _kill_a_switch(fleet: Fleet, scenario: Scenario, builds: BuildsOfScenario, pool: ThreadPoolExecutor) -> None:
    """Kill the API while its switch waits for an upload; the client then repeats the request."""
    with fleet.holding("SELECT 1 FROM collections WHERE name = $1 FOR KEY SHARE", scenario.collection) as wait:
        reply = pool.submit(builds.post, 2, "switch")
        wait()
        fleet.kill("api")
        assert isinstance(reply.exception(), httpx.HTTPError)
    fleet.wait_until(fleet.accepts, "the API was not restarted")
    assert builds.live() == [1]
    assert builds.post(2, "switch").status_code == 200
    assert builds.live() == [2]


def _switch_concurrently(builds: BuildsOfScenario, pool: ThreadPoolExecutor) -> None:
    """Switch to both builds concurrently, several times: both requests succeed, and one build is live at any time."""
    for _ in range(ROUNDS):
        replies = [pool.submit(builds.post, number, "switch") for number in (1, 2)]
        while not all(reply.done() for reply in replies):
            assert len(builds.live()) == 1
        assert [reply.result().status_code for reply in replies] == [200, 200]


def _is_live(fleet: Fleet, location: dict[str, Any]) -> bool:
    (row,) = fleet.query("SELECT build_state FROM collections WHERE id = $1", location["collection_id"])
    return bool(row["build_state"] == "live")
