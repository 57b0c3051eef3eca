"""Verification: compare Qdrant's points with the ledger, and repair differences.

Two passes, each in bounded memory. The first reads every stored point and finds unexpected ones (strays). The second
reads every document and finds missing or wrong points (gaps). Work in progress is never reported: a difference counts
only if the document's row was the same before and after the request to Qdrant, and it is repaired only while that row
is locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as Some
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import dataclass, replace
from math import isclose
from uuid import UUID

from features.verification.domain import DifferingPoint, FindingKind, Position, VerificationCounts
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.ids import accepted_point_id, chunk_point_id, question_point_id
from shared.domain.corpus.questions import plain
from shared.ledger.documents.audit import Audit, AuditedChunk, DocumentSnapshot, LockedDocuments
from shared.vectors.hits import StoredPoint
from shared.vectors.index import Index
from shared.vectors.schema.fields import reader_numbers

_POINTS = 1000  # compared together
_CHUNKS = 200
_DOCUMENTS = 100

Intend = Callable[[Sequence[DifferingPoint], Some[UUID]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Difference:
    kind: FindingKind
    reason: str
    point_id: str
    document_id: UUID | None
    chunk_id: UUID | None
    public_id: UUID | None  # the document's id for its owner
    rewrite: bool = False  # mended only by writing its chunk again


class Verification:
    """One verification of a collection.

    Args:
        repair: whether to repair differences.
        position: position of an earlier verification; by default the start.
        reopened: documents after the position that an earlier verification may have returned to processing.
        intend: function that records differences before they are repaired, because a repaired difference is not found
            again; and the documents that are then returned to processing.
    """

    def __init__(
        self,
        audit: Audit,
        index: Index,
        collection: Collection,
        *,
        repair: bool,
        position: Position | None = None,
        reopened: Iterable[UUID] = (),
        intend: Intend | None = None,
    ) -> None:
        self.position = position or Position()
        self._save_intended = intend
        self._reopened = set(reopened)  # of the current page
        self._audit = audit
        self._index = index
        self._collection = collection
        self._location = collection.location
        self._repair = repair
        self._documents = 0
        self._points = 0
        self._differences: Counter[str] = Counter()

    @property
    def so_far(self) -> VerificationCounts:
        count = self._differences
        return VerificationCounts(
            self._documents, self._points, count["missing"], count["stale"], count["orphaned"], count["repaired"]
        )

    async def run(self) -> AsyncGenerator[DifferingPoint | VerificationCounts, None]:
        """Compare; yield each difference when it is found, and counts in between.

        Raises:
            Unavailable: the ledger or Qdrant is unavailable; earlier repairs are kept.
        """
        # Strays come first: repairing a gap starts work on the document, and documents in progress are skipped.
        if self.position.part == "points":
            async for item in self._strays():
                yield item
            self.position = Position("documents")
        async for item in self._gaps():
            yield item

    async def _strays(self) -> AsyncIterator[DifferingPoint | VerificationCounts]:
        """Yield unexpected points."""
        after = self.position.after
        while True:
            page, after = await self._index.scroll_points(self._location, after=after, limit=_POINTS)
            self._points += len(page)
            for finding in await self._repair_strays(page):
                yield finding
            self.position = Position("points", after) if after is not None else Position("documents")
            yield self.so_far
            if after is None:
                return

    async def _repair_strays(self, points: Sequence[StoredPoint]) -> list[DifferingPoint]:
        _, suspects = await self._classify_strays(points)
        if not suspects:
            return []
        # The points were read before the ledger, so they may have been replaced by now: read them again.
        ids = [difference.point_id for difference in suspects]
        again = await self._index.stored_points(self._location, ids)
        before, strays = await self._classify_strays(list((await self._unswept(again)).values()))
        now = await self._audit.snapshots(list(before))
        return await self._remove([s for s in strays if _unchanged(s.document_id, before, now)], before)

    async def _unswept(self, points: Mapping[str, StoredPoint]) -> dict[str, StoredPoint]:
        """Return the points that no sweep will delete."""
        swept = await self._audit.swept_below([p.document_id for p in points.values() if p.document_id])
        return {
            identity: point
            for identity, point in points.items()
            if point.document_id is None or (point.version or 0) >= swept.get(point.document_id, 0)
        }

    async def _classify_strays(
        self, points: Sequence[StoredPoint]
    ) -> tuple[dict[UUID, DocumentSnapshot], list[_Difference]]:
        snapshots = await self._audit.snapshots(list({p.document_id for p in points if p.document_id}))
        expected = await self._audit.expected_by_id(list({p.chunk_id for p in points if p.chunk_id}))
        differences = (
            _stray(
                point,
                snapshots.get(point.document_id) if point.document_id else None,
                expected.get(point.chunk_id) if point.chunk_id else None,
            )
            for point in points
        )
        return snapshots, [difference for difference in differences if difference]

    async def _remove(
        self, strays: Sequence[_Difference], snapshots: Mapping[UUID, DocumentSnapshot]
    ) -> list[DifferingPoint]:
        if not (self._repair and strays):
            return [self._finding(stray, repaired=False) for stray in strays]
        await self._record(strays)
        document_ids = {stray.document_id for stray in strays}
        async with self._audit.locked([snapshot for i, snapshot in snapshots.items() if i in document_ids]) as held:
            # A deleted document cannot return: its id is never reused.
            safe = [s for s in strays if s.document_id in held.ids or s.document_id not in snapshots]
            await self._index.delete_by_id(self._location, [stray.point_id for stray in safe])
        return [self._finding(stray, repaired=True) for stray in safe]

    async def _gaps(self) -> AsyncIterator[DifferingPoint | VerificationCounts]:
        """Yield expected points that are missing or wrong."""
        after = self.position.after or ""
        while True:
            page = await self._audit.page(self._collection.id, after=after, limit=_DOCUMENTS)
            if not page:
                return
            settled = [s for s in page if self._is_settled(s)]
            self._documents += len(settled)
            async for finding in self._repair_gaps(settled):
                yield finding
            after = page[-1].external_id
            self.position = Position("documents", after)
            self._reopened.clear()
            yield self.so_far

    async def has_lost(self, documents: Sequence[DocumentSnapshot]) -> bool:
        """Return whether Qdrant lacks a point of these documents, as they were and still are."""
        settled = [document for document in documents if self._is_settled(document)]
        async with aclosing(self._repair_gaps(settled)) as gaps:
            async for gap in gaps:
                if gap.kind == "missing":
                    return True
        return False

    def _is_settled(self, document: DocumentSnapshot) -> bool:
        """Return whether a document has a live version and no worker changes it, except for a repair of this page."""
        is_reopened = document.id in self._reopened and document.is_reopened
        return document.live_version is not None and (document.is_final or is_reopened)

    async def _repair_gaps(self, documents: Sequence[DocumentSnapshot]) -> AsyncGenerator[DifferingPoint]:
        before = {document.id: document for document in documents}
        async for gaps in self._find_gaps(list(before)):
            for finding in await self._repair_slice(gaps, before):
                yield finding

    async def _repair_slice(
        self, gaps: Sequence[_Difference], before: Mapping[UUID, DocumentSnapshot]
    ) -> list[DifferingPoint]:
        """Repair the gaps of a few chunks, whose documents may be processed again because of that."""
        now = await self._audit.snapshots([gap.document_id for gap in gaps if gap.document_id])
        swept = await self._audit.swept_below(list(before))  # a sweep shows hidden points
        gaps = [gap for gap in gaps if gap.rewrite or gap.document_id not in swept]
        gaps = [gap for gap in gaps if _unchanged(gap.document_id, before, now, self._reopened)]
        if not (self._repair and gaps):
            return [self._finding(gap, repaired=False) for gap in gaps]
        await self._record(gaps)
        documents = [now[i] for i in {gap.document_id for gap in gaps} if i]
        async with self._audit.locked(documents, reopened=self._reopened) as held:
            gaps = [gap for gap in gaps if gap.document_id in held.ids]
            mended = await self._fill(gaps, held)
        self._reopened.update(gap.document_id for gap in gaps if gap.document_id and gap.chunk_id in mended)
        return [self._finding(gap, repaired=not gap.rewrite or gap.chunk_id in mended) for gap in gaps]

    async def _find_gaps(self, document_ids: Sequence[UUID]) -> AsyncIterator[list[_Difference]]:
        """Yield the gaps of documents, a few chunks at a time."""
        after: tuple[UUID, int] | None = None
        while True:
            chunks = await self._audit.expected(document_ids, after=after, limit=_CHUNKS)
            required = {point: chunk for chunk in chunks for point in _required(chunk)}
            stored = await self._stored(list(required))
            differences = (_gap(point, chunk, stored.get(point)) for point, chunk in required.items())
            if gaps := [difference for difference in differences if difference]:
                yield gaps
            if len(chunks) < _CHUNKS:
                return
            after = (chunks[-1].document_id, chunks[-1].ordinal)

    async def _stored(self, ids: Sequence[str]) -> dict[str, StoredPoint]:
        stored: dict[str, StoredPoint] = {}
        for start in range(0, len(ids), _POINTS):
            stored |= await self._index.stored_points(self._location, ids[start : start + _POINTS])
        return stored

    async def _fill(self, gaps: Sequence[_Difference], held: LockedDocuments) -> set[UUID]:
        if hidden := [gap.point_id for gap in gaps if not gap.rewrite]:
            await self._index.show(self._location, hidden)
        return await held.index_again(list({g.chunk_id for g in gaps if g.rewrite and g.chunk_id}))

    async def _record(self, differences: Sequence[_Difference]) -> None:
        if self._save_intended is not None:
            reopened = {each.document_id for each in differences if each.rewrite and each.document_id}
            await self._save_intended([_point(difference) for difference in differences], self._reopened | reopened)

    def _finding(self, difference: _Difference, *, repaired: bool) -> DifferingPoint:
        self._differences[difference.kind] += 1
        self._differences["repaired"] += repaired
        return replace(_point(difference), repaired=repaired)


def _point(difference: _Difference) -> DifferingPoint:
    d = difference
    return DifferingPoint(d.kind, d.reason, d.point_id, d.public_id, d.chunk_id)


def _unchanged(
    document_id: UUID | None,
    before: Mapping[UUID, DocumentSnapshot],
    now: Mapping[UUID, DocumentSnapshot],
    reopened: AbstractSet[UUID] = frozenset(),
) -> bool:
    if document_id is None or document_id not in before:
        return document_id not in now
    return before[document_id].is_unchanged(now.get(document_id), reopened=document_id in reopened)


def _required(chunk: AuditedChunk) -> list[str]:
    """Return the points that must exist."""
    questions = [*_questions(chunk), *_accepted(chunk, chunk.accepted)] if chunk.required else []
    return [chunk_point_id(chunk.id, chunk.version), *questions] if chunk.text_required else questions


def _allowed(chunk: AuditedChunk) -> set[str]:
    """Return the points that may exist."""
    accepted = _accepted(chunk, [*chunk.accepted, *chunk.accepted_open])
    return {chunk_point_id(chunk.id, chunk.version), *_questions(chunk), *accepted}


def _questions(chunk: AuditedChunk) -> list[str]:
    return [question_point_id(chunk.id, chunk.version, number) for number in range(chunk.passed)]


def _accepted(chunk: AuditedChunk, questions: Sequence[UUID]) -> list[str]:
    return [accepted_point_id(question, chunk.version) for question in questions]


def _stray(point: StoredPoint, document: DocumentSnapshot | None, chunk: AuditedChunk | None) -> _Difference | None:
    """Return the difference of a stored, unexpected point; None if a chunk may have it."""

    def difference(kind: FindingKind, reason: str) -> _Difference:
        public_id = point.document_id if document is None else document.public_id
        return _Difference(kind, reason, point.id, point.document_id, point.chunk_id, public_id)

    if document is None:
        return difference("orphaned", "its document is not in the ledger")
    if not document.is_final:
        return None
    if chunk is not None and chunk.document_id == document.id and (chunk.in_progress or point.id in _allowed(chunk)):
        return None  # the second pass checks the point
    if document.live_version is not None and (point.version or 0) < document.live_version:
        return difference("stale", f"of version {point.version}, and queries see {document.live_version}")
    return difference("orphaned", "its chunk or question is not in the ledger")


def _gap(point_id: str, chunk: AuditedChunk, stored: StoredPoint | None) -> _Difference | None:
    """Return the difference of an expected point; None if it is correct."""

    def difference(kind: FindingKind, reason: str, *, rewrite: bool) -> _Difference:
        return _Difference(kind, reason, point_id, chunk.document_id, chunk.id, chunk.public_id, rewrite)

    if stored is None:
        return difference("missing", "not stored", rewrite=True)
    if stored.version != chunk.version:
        return difference("stale", f"of version {stored.version}, and queries see {chunk.version}", rewrite=True)
    if not _is_described(point_id, chunk, stored):
        return difference("stale", "of another title, other metadata or other readers", rewrite=True)
    if fault := _fault_of_group(point_id, chunk, stored):
        return difference("stale", fault, rewrite=True)
    if stored.hidden:
        return difference("stale", "hidden, though its version is live", rewrite=False)
    return None


def _fault_of_group(point_id: str, chunk: AuditedChunk, stored: StoredPoint) -> str | None:
    """Return the fault of a point that searches find although its question is disabled, or the other way around."""
    is_question = stored.question is not None and point_id not in _accepted(chunk, chunk.accepted)
    is_disabled = is_question and plain(stored.question or "") in chunk.disabled
    if chunk.metadata is None or stored.disabled == is_disabled:  # a point that is being updated counts as correct
        return None
    return (
        "searches find it, though its question is disabled" if is_disabled else "disabled, though its question is not"
    )


def _is_described(point_id: str, chunk: AuditedChunk, stored: StoredPoint) -> bool:
    """Return whether a point has its chunk's title, metadata and readers, or is being updated."""
    if chunk.metadata is None:
        return True
    has_title = point_id != chunk_point_id(chunk.id, chunk.version) or stored.title == chunk.title
    has_readers = set(stored.readers) == set(reader_numbers(chunk.readable_by))
    return has_title and has_readers and _are_equal(stored.metadata, chunk.metadata)


def _are_equal(stored: object, expected: object) -> bool:
    """Compare values of metadata; Qdrant may round the last digit of a number."""
    if isinstance(stored, Mapping) and isinstance(expected, Mapping):
        return stored.keys() == expected.keys() and all(_are_equal(stored[key], expected[key]) for key in stored)
    if isinstance(stored, list) and isinstance(expected, list):
        return len(stored) == len(expected) and all(map(_are_equal, stored, expected))
    if isinstance(stored, bool) or isinstance(expected, bool):
        return stored is expected
    if isinstance(stored, float) and isinstance(expected, float | int):
        return isclose(stored, expected, rel_tol=1e-12)
    return stored == expected
