"""A large document is edited while it is queried, and workers and the scheduler are killed."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from tests.support.fleet import CREW, Fleet
from tests.support.planted import guards
from tests.support.scale import Scale
from tests.support.scenario import Scenario, Section, text_of

READERS = 2
CHANGED = 0.2  # share of the sections that an edit changes
KILLED = tuple(name for name in CREW if not name.startswith("parse"))
_MARK = re.compile(r"f\w+?x\d+_0_(\d+)_(\d+)")


@dataclass
class Edits:
    """A document and its editions: `marks[n]` has the marks of the sections of edition n."""

    scenario: Scenario
    sections: int
    chance: random.Random
    marks: list[dict[int, int]] = field(default_factory=list)

    def submit(self) -> None:
        """Upload the next edition, which changes some sections."""
        edition = len(self.marks)
        before = self.marks[-1] if self.marks else {}
        changed = self.chance.sample(range(self.sections), int(self.sections * CHANGED)) if before else before
        self.marks.append({n: edition if n in changed or not before else before[n] for n in range(self.sections)})
        parts = [_section(self.scenario.mark, n, self.marks[-1][n]) for n in range(self.sections)]
        name = f"{self.scenario.mark}-0.md"
        self.scenario.documents[name] = parts
        (reply,) = self.scenario.fleet.ingest(
            {name: text_of(name, parts)}, self.scenario.collection, metadata={"edition": edition}
        )
        assert reply.status_code == 202, reply.text

    def difference(self, section: int, found: Mapping[int, tuple[int, int]], oldest: int) -> str | None:
        """Return how the result of a query for a section differs from one complete edition.

        Args:
            section: requested section.
            found: found sections, each with its edition and its mark.
            oldest: edition that queries have seen before this query.
        """
        editions = {edition for edition, _ in found.values()}
        if section not in found:
            return f"section {section} is missing after edition {oldest}, found {found}"
        if len(editions) > 1:
            return f"several editions: {found}"
        if min(editions) < oldest:
            return f"edition {min(editions)} after edition {oldest}"
        wrong = {n: mark for n, (edition, mark) in found.items() if self.marks[edition][n] != mark}
        return f"texts of other editions: {wrong}" if wrong else None


@dataclass
class Readers:
    """Clients that ask for random sections, and compare each reply with the document's editions."""

    fleet: Fleet
    edits: Edits
    queries: int = 0
    newest: int = 0  # edition that a query has seen
    differences: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def asking(self) -> Iterator[None]:
        ended = threading.Event()

        def ask(seed: int) -> None:
            chance = random.Random(seed)
            with httpx.Client(
                base_url=self.fleet.client.base_url, headers=self.fleet.client.headers, timeout=60
            ) as client:
                while not ended.is_set():
                    self._ask(client, chance.randrange(self.edits.sections))

        with ThreadPoolExecutor(READERS) as pool:
            asking = [pool.submit(ask, seed) for seed in range(READERS)]
            try:
                yield
            finally:
                ended.set()
            for each in asking:
                each.result()

    def _ask(self, client: httpx.Client, section: int) -> None:
        oldest = self.newest
        body = {"collection": self.edits.scenario.collection, "question": f"place{section}", "record": False}
        reply = client.post("/v1/retrieve", json=body | {"top_k": 10})
        assert reply.status_code == 200, reply.text
        found: dict[int, tuple[int, int]] = {}
        for chunk in reply.json()["chunks"]:
            match = _MARK.search(chunk["text"])
            assert match is not None
            edition = (chunk["metadata"]["edition"], int(match[2]))
            known = found.setdefault(int(match[1]), edition)
            if known != edition:
                self.differences.append(f"two texts of section {match[1]}: {known} and {edition}")
        difference = self.edits.difference(section, found, oldest)
        with self._lock:
            self.queries += 1
            self.newest = max(self.newest, *(edition for edition, _ in found.values()), oldest)
            if difference:
                self.differences.append(difference)


def _section(prefix: str, number: int, edition: int) -> Section:
    """Return a section that a query finds by its number, whatever its edition is."""
    mark = f"{prefix}_0_{number}_{edition}"
    words = f"{mark} place{number} {mark} item"
    count = 1600 // (len(words) + len("999 "))  # as long as other sections of scenarios
    return Section(mark, " ".join(f"{words}{(number * 31 + edition * 7 + n * n) % 997}" for n in range(count)) + ".")


@guards(
    "shared/ledger/work/claims_index.sql",
    " AND {no_other_is_live}\n        ORDER",
    "\n        ORDER",
    means="a late writer of the next version hides texts of the live one",
)
def test_edits_under_kills_show_one_complete_version(fleet, provider, start_scenario, scale):
    scenario = start_scenario("27", "edits of a large document, kill -9")
    edits = Edits(scenario, scale.edited_sections, random.Random(scenario.seed))
    edits.submit()
    scenario.settle(scale.timeout_seconds)
    provider.script(latency_seconds=0.3, latency_spread_seconds=0.3, embedding_latency_seconds=0.05)
    readers = Readers(fleet, edits)
    started = time.monotonic()

    with readers.asking():
        for _ in range(scale.edits):
            _edit(fleet, edits, readers, scale)
        scenario.settle(scale.timeout_seconds, swept=True)

    seconds = time.monotonic() - started
    scenario.check(
        note=f"{scale.edits} edits, {scenario.deaths()} deaths, {readers.queries} queries in {seconds:.0f} s"
    )
    assert not readers.differences, (len(readers.differences), readers.differences[:10])
    assert readers.newest == scale.edits


def _edit(fleet: Fleet, edits: Edits, readers: Readers, scale: Scale) -> None:
    """Edit the document, kill a process at a random moment, and usually wait until queries see the edition."""
    chance, edition = edits.chance, len(edits.marks)
    edits.submit()
    time.sleep(chance.uniform(0, 1))
    if chance.random() < scale.share_of_kills:
        fleet.kill(chance.choice(KILLED))
    if chance.random() < 0.8 or edition == scale.edits:  # otherwise the next edit abandons this one
        fleet.wait_until(lambda: readers.newest >= edition, f"queries did not see edition {edition}", 180)
