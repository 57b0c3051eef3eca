"""A collection gets another build while everything that works on it dies, and documents are edited and deleted."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from shared.domain.builds import Build, BuildDifferences
from shared.domain.places import IndexNames, place_of
from shared.domain.records import CollectionOptions
from shared.ledger.builds import Builds
from shared.ledger.collections import Collections
from shared.ledger.database import Database
from tests.faults.fleet import CREW, Fleet
from tests.faults.scenario import Scenario

PLACES = "SELECT index_name, tenant, id AS collection_id FROM collections WHERE name = $1"
AT_REST = """
    SELECT count(*) AS open FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE l.name = $1 AND d.state NOT IN ('ready', 'degraded', 'failed')
"""


class BuildsOfScenario:
    """The builds of a scenario's collection, changed in the ledger itself."""

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

    def begin(self) -> Build:
        model = self._fleet.stack.settings.embedding_model
        built: Build = self.do("begin", "default", self._name, options=CollectionOptions(), embedding_model=model)
        return built

    def state(self, number: int) -> str:
        return str(self.do("get", "default", self._name, number).state)

    def differences(self, number: int) -> BuildDifferences:
        build = self.do("get", "default", self._name, number)
        found: BuildDifferences = self.do("differences", build)
        return found

    def switch(self, number: int) -> None:
        self.do("switch", "default", self._name, number)

    def drop(self, number: int) -> None:
        self.do("drop", "default", self._name, number)
        self._fleet.query(
            "UPDATE collections SET live_until = live_until - interval '1 minute' WHERE name = $1", self._name
        )

    def numbers(self) -> list[int]:
        return [build.number for build in self.do("list", "default", self._name)]

    def at_rest(self) -> bool:
        return bool(self._fleet.query(AT_REST, self._name)[0]["open"] == 0)


def test_killed_at_each_step_of_a_build(fleet, provider, begin, scale):
    scenario = begin("20", "kill -9 at each step of a build")
    chance = random.Random(scenario.seed)
    corpus = scenario.corpus(scale.documents)
    scenario.hand_in(corpus)
    scenario.settle()
    builds = BuildsOfScenario(fleet, scenario)
    edits = 0

    def change_and_kill(version: int) -> None:
        """Kill somebody, edit a document, kill somebody else and delete a document."""
        nonlocal edits
        edited, gone = chance.sample(sorted(scenario.documents), 2)
        fleet.kill(chance.choice(CREW))
        scenario.update({edited: scenario.documents[edited]}, changed=1, version=version)
        edits += 1
        fleet.kill("scheduler-1")
        scenario.delete([gone])

    builds.begin()
    change_and_kill(2)
    fleet.wait_until(lambda: builds.state(2) == "following", "the build was not filled", 120)
    change_and_kill(3)
    fleet.wait_until(builds.at_rest, "the build did not come to rest", 120)
    assert builds.differences(2).none

    for version, number in ((4, 2), (5, 1), (6, 2)):  # there, back and there again
        builds.switch(number)
        change_and_kill(version)
        fleet.wait_until(builds.at_rest, "the builds did not come to rest", 120)
        assert builds.differences(3 - number).none

    (dropped,) = [row for row in fleet.query(PLACES, scenario.collection) if not _is_live(fleet, row)]
    builds.drop(1)
    change_and_kill(7)
    fleet.wait_until(lambda: builds.numbers() == [2], "the build was not dropped", 120)

    scenario.settle(swept=True)
    row = scenario.judge(note=f"{scenario.deaths()} deaths")
    assert fleet.stored_points(place_of(**dropped)) == {}
    assert row.calls - row.paid_twice == 5 * scale.documents + edits


def _is_live(fleet: Fleet, place: dict[str, Any]) -> bool:
    (row,) = fleet.query("SELECT build_state FROM collections WHERE id = $1", place["collection_id"])
    return bool(row["build_state"] == "live")
