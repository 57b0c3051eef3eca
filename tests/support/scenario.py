"""The documents and faults of a scenario, and the check of its results, modelled on Jepsen's set checker.

Everything is counted outside the product: the uploaded documents, the prompts that the provider received, and the
points in Qdrant at the end.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from shared.domain.corpus.ids import question_point_id
from shared.domain.corpus.index_location import index_location_of
from tests.support.deployment import ScriptedProvider
from tests.support.fleet import Fleet
from tests.support.waiting import TIMEOUT_SECONDS

_COLLECTION = """
    SELECT index_name, tenant, id AS collection_id FROM collections WHERE name = $1 AND build_state = 'live'
"""
_ROWS = """
    SELECT d.public_id, d.id FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE l.name = $1 AND l.build_state = 'live'
"""
_PAGE = 200  # chunks
SETTLED = ("ready", "degraded", "failed")
_SEARCHABLE = ("searchable", "ready", "degraded")


@dataclass(frozen=True)
class ScenarioResult:
    """A scenario's row in the table of results."""

    scenario: str
    seed: int
    seconds: float
    chunks: int
    calls: int
    lost: tuple[str, ...]
    unexpected: tuple[str, ...]
    paid_twice: int
    in_flight: int
    note: str


@dataclass(frozen=True)
class Section:
    """A part of a document that becomes one chunk; its mark recurs every few words, and so in all its questions."""

    mark: str
    body: str


def section(mark: str, chars: int = 1600) -> Section:
    """Return a section of one chunk, longer than the provider's excerpt for questions, shorter than the limit."""
    start = sum(map(ord, mark)) * 31
    pairs = chars // (len(mark) + len(" item999 "))
    return Section(mark, " ".join(f"{mark} item{(start + n * n) % 997}" for n in range(pairs)) + ".")


def text_of(title: str, sections: Iterable[Section]) -> str:
    parts = [f"## Section {number} of {title}\n\n{part.body}" for number, part in enumerate(sections)]
    return "\n\n".join([f"# {title}", *parts])


@dataclass
class Scenario:
    """One fault and one collection of its own documents.

    Args:
        name: name in the table.
        number: number of the scenario, which is part of the marks of its texts.
        seed: seed of all random choices, which is part of the marks.
        record: function that adds a row to the table.
    """

    fleet: Fleet
    provider: ScriptedProvider
    name: str
    number: str
    seed: int
    record: Callable[[ScenarioResult], None]
    started: float = field(default_factory=time.monotonic)
    documents: dict[str, list[Section]] = field(default_factory=dict)
    in_flight: int = 0
    deferred_uploads: int = 0
    accepted_at: dict[str, float] = field(default_factory=dict)  # monotonic times of uploads under load
    _deaths_before: int = 0

    def __post_init__(self) -> None:
        self._deaths_before = len(self.fleet.deaths)

    @property
    def mark(self) -> str:
        """The common prefix of this scenario's marks."""
        return f"f{self.number}x{self.seed}"

    @property
    def collection(self) -> str:
        return self.mark

    @property
    def chunks(self) -> int:
        return sum(map(len, self.documents.values()))

    def corpus(self, documents: int, sections: int = 5, *, version: int = 1) -> dict[str, list[Section]]:
        """Return `documents` documents with distinct sections by external id."""
        return {
            f"{self.mark}-{d}.md": [section(f"{self.mark}_{d}_{s}_{version}") for s in range(sections)]
            for d in range(documents)
        }

    def submit(self, documents: Mapping[str, list[Section]], **more: Any) -> None:
        """Upload documents; Qdrant must contain their sections at the end."""
        texts = {name: text_of(name, sections) for name, sections in documents.items()}
        replies = self.fleet.ingest(texts, self.collection, **more)
        statuses = Counter(reply.status_code for reply in replies)
        assert set(statuses) <= {200, 202}, (statuses, [r.text for r in replies if r.status_code > 202][:3])
        self.documents |= documents

    @contextmanager
    def load(self, documents: Mapping[str, list[Section]], every: float) -> Iterator[None]:
        """Upload a document every `every` seconds within the block, and the remaining ones at its end.

        Each upload is repeated until it is accepted, as a good client does.
        """
        block_ended = threading.Event()

        def submit() -> None:
            for name, sections in documents.items():
                self.fleet.wait_until(lambda n=name, s=sections: self._accepted(n, s), f"{name} was not accepted", 180)
                self.documents[name], self.accepted_at[name] = sections, time.monotonic()
                block_ended.wait(every)

        with ThreadPoolExecutor(1) as pool:
            uploading = pool.submit(submit)
            try:
                yield
            finally:
                block_ended.set()
            uploading.result()

    def _accepted(self, name: str, sections: list[Section]) -> bool:
        reply = self.fleet.ingest({name: text_of(name, sections)}, self.collection)[0]
        if reply.status_code != 503:
            assert reply.status_code in (200, 202), reply.text
            return True
        assert reply.json()["component"] == "ledger"
        assert int(reply.headers["retry-after"]) >= 1
        self.deferred_uploads += 1
        return False

    def calls(self) -> int:
        return int(self.stats()["calls"])

    def answered(self) -> int:
        return sum(self.stats()["answered"].values())

    def stats(self) -> dict[str, Any]:
        return self.provider.stats(containing=f"{self.mark}_")

    def wait_for_answers(self, count: int, timeout: float = TIMEOUT_SECONDS) -> None:
        self.fleet.wait_until(lambda: self.answered() >= count, f"no {count} calls were answered", timeout)

    def wait_for_chunks(self, state: str) -> None:
        """Wait until the API counts every chunk of every document as `state`."""

        def all_counted() -> bool:
            return sum(d["chunks"][state] for d in self.fleet.documents(self.collection)) == self.chunks

        self.fleet.wait_until(all_counted, f"not every chunk was counted as {state}")

    def is_searchable(self) -> bool:
        """Return whether queries find the newest version of every document."""
        documents = self.fleet.documents(self.collection)
        return len(documents) == len(self.documents) and all(d["state"] in _SEARCHABLE for d in documents)

    def settle(self, timeout: float = 2 * TIMEOUT_SECONDS, *, swept: bool = False) -> list[dict[str, Any]]:
        """Wait until every document is settled; with `swept`, also until all sweeps have finished."""
        documents = self.fleet.wait_until_settled(len(self.documents), self.collection, timeout)
        if swept:
            self.fleet.wait_until(self._swept, "deletions and sweeps did not finish", timeout)
        return documents

    def _swept(self) -> bool:
        statement = """
            SELECT (SELECT count(*) FROM sweeps) + (SELECT count(*) FROM documents WHERE state = 'deleting') AS open
        """
        return bool(self.fleet.query(statement)[0]["open"] == 0)

    def _replaced_deleted(self) -> bool:
        """Return whether points of replaced versions are deleted, as if the searches that may need them had ended."""
        return not self.fleet.query("UPDATE sweeps SET due_at = least(due_at, now()) WHERE repeats RETURNING id")

    def update(self, documents: Mapping[str, list[Section]], *, changed: int, version: int) -> None:
        """Upload documents again with their last sections changed."""
        self.submit(
            {
                name: [
                    part if n < len(sections) - changed else section(f"{part.mark.rsplit('_', 1)[0]}_{version}")
                    for n, part in enumerate(sections)
                ]
                for name, sections in documents.items()
            }
        )

    def delete(self, names: Iterable[str]) -> None:
        ids = {d["external_id"]: d["id"] for d in self.fleet.documents(self.collection)}
        for name in names:
            self.fleet.client.delete(f"/v1/documents/{ids[name]}").raise_for_status()
            del self.documents[name]

    def deaths(self) -> int:
        return len(self.fleet.deaths) - self._deaths_before

    def check(self, *, dead: Collection[str] = (), failed: Collection[str] = (), note: str = "") -> ScenarioResult:
        """Compare the stored points with the uploaded documents, record the row, and fail on a difference.

        Args:
            dead: marks of sections that must be dead letters; they need no question.
            failed: documents that must have failed and have no points.
            note: remark for the table.
        """
        self.fleet.wait_until(self._replaced_deleted, "the points of replaced versions were not deleted")
        stored = self._stored()
        lost, unexpected = self._compare(stored, dead, failed)
        stats = self.stats()
        deaths = self.fleet.deaths[self._deaths_before :]
        self.in_flight += sum(death.in_flight for death in deaths)
        row = ScenarioResult(
            scenario=self.name,
            seed=self.seed,
            seconds=time.monotonic() - self.started,
            chunks=self.chunks,
            calls=stats["calls"],
            lost=tuple(lost),
            unexpected=tuple(unexpected),
            paid_twice=stats["paid_twice"],
            in_flight=self.in_flight,
            note=note,
        )
        self.record(row)
        assert not row.lost, (len(row.lost), row.lost[:10])
        assert not row.unexpected, (len(row.unexpected), row.unexpected[:10])
        assert row.paid_twice <= row.in_flight, row
        return row

    def _stored(self) -> dict[str, dict[str, Any]]:
        """Return the points of the scenario's collection that contain one of its marks."""
        (collection,) = self.fleet.query(_COLLECTION, self.collection)
        points = self.fleet.stored_points(index_location_of(**collection))
        return {id_: point for id_, point in points.items() if f"{self.mark}_" in text_in(point)}

    def _compare(
        self, stored: dict[str, dict[str, Any]], dead: Collection[str], failed: Collection[str]
    ) -> tuple[list[str], list[str]]:
        rows = {str(row["public_id"]): str(row["id"]) for row in self.fleet.query(_ROWS, self.collection)}
        listed = {d["external_id"]: d | {"row": rows[d["id"]]} for d in self.fleet.documents(self.collection)}
        lost = [f"document {name}" for name in self.documents if name not in listed]
        expected: set[str] = set()
        by_mark = defaultdict(list)
        for id_, point in stored.items():
            if "text" in point:
                by_mark[marked(point["text"])].append(id_)
        for name, sections in self.documents.items():
            if name not in listed:
                continue
            document = listed[name]
            degraded = any(part.mark in dead for part in sections)
            if document["state"] != ("failed" if name in failed else "degraded" if degraded else "ready"):
                lost.append(f"document {name} is {document['state']}: {document['error']}")
            if name in failed:
                continue
            passed_counts = self._passed_counts(document)
            for part in sections:
                own = [id_ for id_ in by_mark[part.mark] if _is_stored(stored[id_], document, part)]
                if not own:
                    lost.append(f"chunk {part.mark}")
                    continue
                expected.add(own[0])
                chunk = stored[own[0]]["chunk_id"]
                passed, version = range(passed_counts.get(chunk, 0)), document["version"]
                questions = {question_point_id(UUID(chunk), version, n) for n in passed}
                if not questions and part.mark not in dead:
                    lost.append(f"questions of {part.mark}")
                lost += [f"question of {part.mark}" for id_ in questions if not _is_stored(stored.get(id_), document)]
                expected |= questions
        unexpected = [f"{id_}: {text_in(point)[:60]}" for id_, point in stored.items() if id_ not in expected]
        unexpected += [f"{name} was not uploaded" for name in listed if name not in self.documents]
        return lost, unexpected

    def _passed_counts(self, document: dict[str, Any]) -> dict[str, int]:
        """Return the number of passed questions in the ledger by chunk."""
        path, chunks, more = f"/v1/documents/{document['id']}/chunks", [], True
        while more:
            parameters = {"limit": _PAGE, "from": len(chunks)}
            page = self.fleet.client.get(path, params=parameters).raise_for_status().json()["items"]
            chunks += page
            more = len(page) == _PAGE
        return {chunk["id"]: sum(bool(q["passed"]) for q in chunk["questions"]) for chunk in chunks}


def text_in(point: Mapping[str, Any]) -> str:
    return str(point.get("text") or point.get("question"))


def marked(text: str) -> str | None:
    match = re.search(r"f\w+?x\d+_\d+_\d+_\d+", text)
    return match[0] if match else None


def _is_stored(point: Mapping[str, Any] | None, document: Mapping[str, Any], part: Section | None = None) -> bool:
    """Return whether a point belongs to the document's current version and is visible."""
    return (
        point is not None
        and point["document_id"] == document["row"]
        and point["version"] == document["version"]
        and not point.get("hidden")
        and (part is None or part.body in point["text"])
    )


def rendered(table: Iterable[ScenarioResult]) -> str:
    """Return the table with one line per scenario."""
    head = ("scenario", "seed", "seconds", "chunks", "calls", "lost", "unexpected", "paid twice", "in flight", "note")
    lines = [head]
    for row in table:
        counts = (len(row.lost), len(row.unexpected), row.paid_twice, row.in_flight)
        lines.append(
            (
                row.scenario,
                str(row.seed),
                f"{row.seconds:.1f}",
                str(row.chunks),
                str(row.calls),
                *map(str, counts),
                row.note,
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    numeric = range(1, len(head) - 1)
    return "\n".join(
        "  ".join(c.rjust(w) if i in numeric else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )
