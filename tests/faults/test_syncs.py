"""Workers, the scheduler and the API are killed at every step of a sync: the documents equal the source afterwards.

No text is paid twice, and only documents are deleted whose entries two complete listings lacked.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.dying import POINTS
from tests.support.fleet import CREW, Job
from tests.support.large_bucket import BUCKET, LargeBucket
from tests.support.planted import guards
from tests.support.scenario import Scenario, section, text_of

AT_SYNCS = [point for point in POINTS if point.endswith("a sync")]
NTH = {"within the fetches of a sync": 3}
_PAGE = 1_000  # objects of a list request, and of a saved part if they are unchanged
_ITEMS = """
    INSERT INTO source_items (source_id, key, version)
    SELECT s.id, i.key, i.version FROM sources s, unnest($2::text[], $3::text[]) AS i(key, version) WHERE s.name = $1
"""


@dataclass
class SyncedFolder:
    """A folder whose files are documents of a scenario, because its source is synced.

    Args:
        folder: folder of the files.
        texts: texts that ever were in the folder; each is paid once.
    """

    scenario: Scenario
    folder: Path
    texts: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, scenario: Scenario, **options: Any) -> SyncedFolder:
        """Create an empty folder and its source with these options."""
        folder = scenario.fleet.data_dir / "corpora" / scenario.mark
        folder.mkdir(parents=True)
        place = {"collection": scenario.collection, "uri": f"file://{folder}"}
        source = {"name": scenario.mark, **place, "options": options}
        scenario.fleet.client.post("/v1/sources", json=source).raise_for_status()
        return cls(scenario, folder)

    def write(self, *numbers: int, version: int = 1) -> None:
        """Write files of one chunk each."""
        for number in numbers:
            part = section(f"{self.scenario.mark}_{number}_0_{version}")
            (self.folder / f"{number}.md").write_text(text_of(str(number), [part]))
            self.scenario.documents[self.external_id(number)] = [part]
            self.texts.add(part.mark)

    def remove(self, *numbers: int) -> None:
        """Remove files; their documents stay until syncs delete them."""
        for number in numbers:
            (self.folder / f"{number}.md").unlink()

    def external_id(self, number: int) -> str:
        return f"{self.scenario.mark}/{number}.md"

    def change_modes(self, modes: Mapping[int, int]) -> None:
        """Change the permissions of files by their numbers."""
        for number, mode in modes.items():
            (self.folder / f"{number}.md").chmod(mode)

    def readers(self) -> dict[int, list[str]]:
        """Return who reads each document, by the number of its file."""
        documents = self.scenario.fleet.documents(self.scenario.collection)
        return {int(Path(each["external_id"]).stem): each["readable_by"] for each in documents}

    def start(self) -> None:
        self.scenario.fleet.client.post(f"/v1/sources/{self.scenario.mark}/sync").raise_for_status()

    def newest_sync(self) -> dict[str, Any]:
        return newest_sync(self.scenario, self.scenario.mark)

    def ended(self, timeout: float = 60) -> dict[str, Any]:
        """Wait until the newest sync has ended, and return it."""
        self.scenario.fleet.wait_until(lambda: bool(self.newest_sync()["ended_at"]), "the sync did not end", timeout)
        return self.newest_sync()

    def sync(self) -> dict[str, Any]:
        self.start()
        return self.ended()

    def forget(self, *numbers: int) -> None:
        """Expect that the documents of removed files are deleted."""
        for number in numbers:
            del self.scenario.documents[self.external_id(number)]

    def require_documents(self) -> None:
        """Check that the documents which are not being deleted are the expected ones."""
        documents = self.scenario.fleet.documents(self.scenario.collection)
        found = {each["external_id"] for each in documents if each["state"] != "deleting"}
        assert found == self.scenario.documents.keys()


def newest_sync(scenario: Scenario, source: str) -> dict[str, Any]:
    return scenario.fleet.client.get(f"/v1/sources/{source}").raise_for_status().json()["newest_sync"]


@pytest.mark.parametrize("point", AT_SYNCS)
def test_kill_at_step_of_sync_loses_nothing(fleet, provider, start_scenario, point):
    scenario = start_scenario("24" + "abcdefgh"[AT_SYNCS.index(point)], f"kill -9 {point}")
    folder = SyncedFolder.of(scenario)
    folder.write(*range(8))
    folder.sync()
    scenario.wait_for_answers(8)  # a text that is removed or replaced before is not paid at all
    folder.remove(0, 1)
    assert folder.sync()["missing"] == 2
    folder.write(1, 8)
    folder.write(2, 3, version=2)
    folder.remove(4)
    fleet.signal_at("parse-1", point, nth=NTH.get(point, 1))

    folder.start()
    fleet.wait_until(lambda: scenario.deaths() == 1, f"no worker died {point}")
    fleet.kill("scheduler-1")
    fleet.kill("api")

    done = folder.ended()
    assert {name: done[name] for name in ("seen", "created", "changed", "missing", "deleted", "error")} == {
        "seen": 7, "created": 1, "changed": 2, "missing": 2, "deleted": 1, "error": None
    }  # fmt: skip
    folder.forget(0)
    folder.require_documents()  # only one listing lacks 4.md, and 1.md exists again
    assert folder.sync()["deleted"] == 1
    folder.forget(4)
    scenario.settle(swept=True)
    assert scenario.check().calls == len(folder.texts)


@pytest.mark.parametrize("point", ["within a part of a sync", "after a part of a sync"])
def test_kill_during_change_of_permissions_keeps_rights(fleet, provider, start_scenario, point):
    number = "24y" if point.startswith("within") else "24z"
    scenario = start_scenario(number, f"kill -9 {point} that changes permissions")
    folder = SyncedFolder.of(scenario, permissions=True)
    folder.write(*range(9))
    modes = [0o644, 0o640, 0o600]  # public, of the group, and of the owner
    folder.change_modes({number: modes[number % 3] for number in range(9)})
    folder.sync()
    scenario.wait_for_answers(9)
    before = folder.readers()
    everyone, group, owner = before[0], before[1], before[2]
    assert (everyone, set(owner) < set(group)) == (["everyone"], True)
    folder.change_modes({number: modes[(number + 1) % 3] for number in range(9)})
    folder.write(8, version=2)
    fleet.signal_at("parse-1", point)

    folder.start()
    fleet.wait_until(lambda: scenario.deaths() == 1, f"no worker died {point}")
    fleet.kill("scheduler-1")
    fleet.kill("api")

    done = folder.ended()
    assert {name: done[name] for name in ("seen", "created", "changed", "unchanged", "error")} == {
        "seen": 9, "created": 0, "changed": 1, "unchanged": 8, "error": None
    }  # fmt: skip
    assert folder.readers() == {number: [group, owner, everyone][number % 3] for number in range(9)}
    scenario.settle(swept=True)
    assert fleet.query("SELECT count(*) AS due FROM documents WHERE description_due_at IS NOT NULL")[0]["due"] == 0
    assert folder.readers() == {number: [group, owner, everyone][number % 3] for number in range(9)}
    assert scenario.check().calls == len(folder.texts)


@guards(
    "features/sources/ledger/listings.sql",
    "SET after = :after, ",
    "SET ",
    means="a listing whose worker was killed starts from its first page",
)
def test_killed_listing_continues_within_a_page(fleet, provider, start_scenario, scale):
    scenario = start_scenario("24x", "kill -9 during a listing")
    pages = 2 * scale.sync_kills  # of which each is a part, and the end of the listing is one, too
    with LargeBucket(_PAGE * pages) as bucket:
        secret = bucket.secret()
        dying = ("parse", "after a part of a sync", "2", "KILL")
        fleet.replace({"parse-1": Job("tests.support.dying", dying, {"source_secret_large": secret})}, for_good=True)
        source = {"name": "large", "collection": scenario.collection, "uri": f"s3://{BUCKET}/", "secret_name": "large"}
        fleet.client.post("/v1/sources", json=source).raise_for_status()
        fleet.query(_ITEMS, "large", *map(list, zip(*bucket.items(), strict=True)))

        fleet.client.post("/v1/sources/large/sync").raise_for_status()
        ended = lambda: bool(newest_sync(scenario, "large")["ended_at"])  # noqa: E731
        fleet.wait_until(ended, "the sync did not end", scale.timeout_seconds)
        requests = bucket.change()

    done = newest_sync(scenario, "large")
    assert (done["seen"], done["unchanged"], done["error"]) == (_PAGE * pages, _PAGE * pages, None)
    deaths = scenario.deaths()
    assert deaths >= scale.sync_kills  # a slow machine saves some pages in two parts
    assert requests["get"] == 0
    assert requests["list"] <= pages + 4 * deaths  # up to three pages are read ahead, and read again


@pytest.mark.long
def test_random_kills_during_syncs_lose_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("24z", "kill -9 during syncs")
    chance = random.Random(scenario.seed)
    folder, count = SyncedFolder.of(scenario), 5 * scale.documents
    folder.write(*range(count))

    folder.start()
    for round_ in range(scale.storm_kills // 4):
        for _ in range(4):
            fleet.kill(chance.choice((*CREW, "api", "parse-1", "parse-1")))
            time.sleep(1)
        folder.ended(scale.timeout_seconds)
        folder.remove(round_)
        folder.write(*chance.sample(range(count // 2, count), count // 100), version=round_ + 2)
        folder.start()
    folder.ended(scale.timeout_seconds)
    folder.sync()
    folder.forget(*range(scale.storm_kills // 4))

    scenario.settle(timeout=scale.timeout_seconds, swept=True)
    row = scenario.check(note=f"{scenario.deaths()} deaths")
    assert row.calls >= row.chunks  # a file that was removed early has not been asked about
