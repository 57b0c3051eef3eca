"""Reads of points: searches, payloads, vectors, pages and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from shared.domain.corpus.ids import chunk_of_point, chunk_point_id
from shared.domain.corpus.index_location import IndexLocation
from shared.domain.vectors import Vectors
from shared.vectors.hits import ChunkPayloads, Hit, PointOwner, RankedPoints, SectionKey, StoredPoint, StoredVector
from shared.vectors.schema import filters
from shared.vectors.schema.fields import READERS
from shared.vectors.schema.filters import Filter, VisiblePoints
from shared.vectors.schema.groups import group
from shared.vectors.schema.points import EXTENDED
from shared.vectors.searches import Search, chunk_search, section_search
from shared.vectors.transport.connection import SEARCH_DEADLINE_SECONDS, SEARCH_SECONDS, QdrantConnection, all_of
from shared.vectors.transport.errors import Refusal, SearchStopped

_SEARCH = "/query/batch"
_SEARCH_WITHIN = f"{_SEARCH}?timeout={SEARCH_DEADLINE_SECONDS}"
_CLAIM = ["document_id", "chunk_id", "version", "hidden"]
_DESCRIPTION = ["title", "metadata", READERS, "group", "question"]
_OWNER = ["tenant", "group", "document_id"]

_Record = Mapping[str, Any]


class Reads(QdrantConnection):
    """Searches and reads points."""

    async def search(self, name: str, searches: Sequence[Search]) -> list[list[Hit]] | None:
        """Run several searches in one request.

        Returns:
            The hits of each search, best first; None if the collection does not exist.

        Raises:
            SearchStopped: Qdrant needed longer than the deadline.
        """
        found = await self._found(name, searches)
        return None if found is None else [[_hit(point) for point in points] for points in found]

    async def rank(self, name: str, searches: Sequence[Search]) -> list[RankedPoints] | None:
        """Run several searches in one request, as `search` does, and return only ids and scores."""
        found = await self._found(name, searches)
        return None if found is None else [_ranked(points) for points in found]

    async def _found(self, name: str, searches: Sequence[Search]) -> list[Any] | None:
        """Return the found points of each search, as Qdrant describes them."""
        with self._if_exists(), _stopped_searches():
            if name in self._searched_apart:
                result = await self._search_apart(name, searches)
            else:
                result = await self._search_together(name, searches)
            self._last_searched = name
            return [one["points"] for one in result]
        return None

    async def _search_together(self, name: str, searches: Sequence[Search]) -> list[Any]:
        try:
            return await self._send_searches(name, searches)
        except Refusal as error:
            if len(searches) < 2 or not error.may_concern_batch:  # noqa: PLR2004 - a batch
                raise
        result = await self._search_apart(name, searches)
        self._searched_apart.add(name)
        return result

    async def _search_apart(self, name: str, searches: Sequence[Search]) -> list[Any]:
        """Send each search alone, because Qdrant limits the searches of a request."""
        return [one for (one,) in await all_of(self._send_searches(name, [each]) for each in searches)]

    async def _send_searches(self, name: str, searches: Sequence[Search]) -> list[Any]:
        """Send searches with their deadline, unless the strict mode of the collection allows only shorter ones."""
        body = {"searches": searches}
        if name not in self._own_deadline:
            try:
                return list(await self._read(name, _SEARCH_WITHIN, body, SEARCH_SECONDS))
            except Refusal as error:
                if error.limit is None or not error.limit.is_timeout:
                    raise
            self._own_deadline.add(name)
        return list(await self._read(name, _SEARCH, body, SEARCH_SECONDS))

    async def section_payloads(
        self, location: IndexLocation, sections: Sequence[SectionKey]
    ) -> dict[SectionKey, list[Mapping[str, Any]]]:
        """Return the payloads of each section's chunks, unordered, including hidden ones."""
        searches = [section_search(location, s.document_id, s.version, s.start, s.end) for s in sections]
        hits = await self.search(location.index_name, searches) or [[] for _ in sections]
        return {section: [hit.payload for hit in part] for section, part in zip(sections, hits, strict=True)}

    async def chunk_payloads(
        self, location: IndexLocation, versions: Mapping[str, int], questions: Sequence[str] = ()
    ) -> ChunkPayloads:
        """Return the payloads of chunks and questions that a search found, in one request; deleted ones are missing.

        Args:
            location: location of the searched collection; an id never returns a point of another one.
            versions: versions of the chunks as the search found them.
            questions: ids of question points.
        """
        ids = [*(chunk_point_id(UUID(chunk), version) for chunk, version in versions.items()), *questions]
        points = []
        with self._if_exists():
            points = await self._read(location.index_name, "", {"ids": ids, "with_payload": True}, SEARCH_SECONDS)
        visible = [(point["id"], point["payload"]) for point in points if not point["payload"].get("hidden")]
        texts, asked = group(location, "t"), group(location, "q")
        return ChunkPayloads(
            {payload["chunk_id"]: payload for _, payload in visible if payload.get("group") == texts},
            {point: payload for point, payload in visible if payload.get("group") == asked},
        )

    async def text_vectors(self, where: VisiblePoints, chunks: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of chunks' texts by chunk id, in the newest visible version.

        Returns:
            Vectors of shape `(dimensions,)` and unit length; chunks without a vector are missing.
        """
        newest = await self._newest(where, chunk_search(where, chunks, text_vectors=True)) if chunks else {}
        return {chunk: _vector(hit.vectors["dense"]) for chunk, hit in newest.items() if "dense" in hit.vectors}

    async def stored_vectors(self, name: str, ids: Sequence[str]) -> dict[str, StoredVector]:
        """Return the embedded texts and their vectors by point id; empty if the collection does not exist.

        Point ids are derived from the chunks' collections, so they never name another tenant's points. Qdrant returns
        vectors as written, even if searches use quantized ones.

        Returns:
            Vectors of shape `(dimensions,)` and unit length. Points without a vector are missing, and so are texts that
            were embedded with their questions or their context.
        """
        with self._if_exists():
            body = {"ids": ids, "with_payload": ["question", EXTENDED], "with_vector": ["dense"]}
            points = await self._read(name, "", body)
            return {str(p["id"]): _stored_vector(p) for p in points if _is_reusable(p)}
        return {}

    async def _newest(self, where: VisiblePoints, listed: Search) -> dict[str, Hit]:
        """Return the hits by chunk id, in the chunk's newest version."""
        (hits,) = await self.search(where.location.index_name, [listed]) or [[]]
        hits.sort(key=lambda hit: chunk_of_point(hit.id)[1])
        return {chunk_of_point(hit.id)[0]: hit for hit in hits}

    async def stored_points(self, location: IndexLocation, ids: Sequence[str]) -> dict[str, StoredPoint]:
        """Return the document, chunk, version and description of points by id; deleted points are missing."""
        if not ids:
            return {}
        fields = [*_CLAIM, *_DESCRIPTION]
        points, _ = await self._scroll(location, filters.points_by_id(location, ids), limit=len(ids), fields=fields)
        return {point.id: point for point in points}

    async def scroll_points(
        self, location: IndexLocation, *, after: str | None = None, limit: int = 1000
    ) -> tuple[list[StoredPoint], str | None]:
        """Return a page of a collection's points in id order, including hidden ones.

        Returns:
            The points, and the `after` of the next page; None on the last page.
        """
        return await self._scroll(location, filters.collection_points(location), limit=limit, after=after)

    async def _scroll(
        self,
        location: IndexLocation,
        selected: Filter,
        *,
        limit: int,
        after: str | None = None,
        fields: Sequence[str] = _CLAIM,
    ) -> tuple[list[StoredPoint], str | None]:
        records, following = await self._page(location.index_name, fields, after, limit, {"filter": selected})
        return [_stored(record) for record in records], following

    async def scroll_owners(
        self, name: str, *, after: str | None = None, limit: int = 1000
    ) -> tuple[dict[str, PointOwner], str | None]:
        """Return a page of all points of a Qdrant collection with their owners, in id order.

        Returns:
            The owners by point, and the `after` of the next page; None on the last page.
        """
        records, following = await self._page(name, _OWNER, after, limit, {})
        return {str(record["id"]): _owner(record) for record in records}, following

    async def _page(
        self, name: str, fields: Sequence[str], after: str | None, limit: int, selected: Mapping[str, Filter]
    ) -> tuple[list[_Record], str | None]:
        """Return the ids of points with some fields of their payloads, and the start of the next page."""
        page = {"limit": limit, "with_payload": fields, "with_vector": False, **selected}
        with self._if_exists():
            result = await self._read(name, "/scroll", page if after is None else page | {"offset": after})
            following = result.get("next_page_offset")
            return result["points"], None if following is None else str(following)
        return [], None

    async def count_points(self, location: IndexLocation) -> int:
        """Count a collection's points."""
        return await self._count_if_exists(location.index_name, filters.collection_points(location), SEARCH_SECONDS)

    async def count_chunks(self, location: IndexLocation) -> int:
        """Count the chunks of a collection in all versions."""
        return await self._count_if_exists(location.index_name, filters.text_points(location), SEARCH_SECONDS)

    async def count_named(self, name: str, field: str, value: str) -> int:
        """Count the points of a Qdrant collection with a field value, in all groups."""
        return await self._count_if_exists(name, filters.named_points(field, value))

    async def _count_if_exists(self, name: str, selected: Filter, within: float | None = None) -> int:
        with self._if_exists():
            return await self._count(name, selected, within)
        return 0


@contextmanager
def _stopped_searches() -> Iterator[None]:
    """Convert Qdrant's answer that a search has reached its deadline."""
    try:
        yield
    except Refusal as error:
        if error.is_slow:
            raise SearchStopped(SEARCH_DEADLINE_SECONDS) from error
        raise


def _hit(point: Mapping[str, Any]) -> Hit:
    return Hit(str(point["id"]), point["score"], point.get("payload") or {}, point.get("vector") or {})


def _ranked(points: Sequence[Mapping[str, Any]]) -> RankedPoints:
    return RankedPoints([point["id"] for point in points], [point["score"] for point in points])


def _is_reusable(point: Mapping[str, Any]) -> bool:
    return "dense" in (point.get("vector") or {}) and not (point.get("payload") or {}).get(EXTENDED)


def _stored_vector(point: Mapping[str, Any]) -> StoredVector:
    return StoredVector((point.get("payload") or {}).get("question"), _vector(point["vector"]["dense"]))


def _vector(values: Sequence[float]) -> Vectors:
    import numpy as np  # noqa: PLC0415 - the scheduler reads no vectors, and NumPy takes 10 MB

    return np.asarray(values, dtype=np.float32)


def _stored(record: _Record) -> StoredPoint:
    payload = record.get("payload") or {}
    version = payload.get("version")
    return StoredPoint(
        str(record["id"]),
        _uuid(payload.get("document_id")),
        _uuid(payload.get("chunk_id")),
        version if isinstance(version, int) else None,
        payload.get("hidden") is True,
        payload.get("title"),
        payload.get("metadata") or {},
        payload.get(READERS) or (),
        payload.get("question"),
        str(payload.get("group")).endswith("/d"),
    )


def _owner(record: _Record) -> PointOwner:
    payload = record.get("payload") or {}
    tenant, build = payload.get("tenant"), str(payload.get("group")).partition("/")[0]
    return PointOwner(tenant if isinstance(tenant, str) else None, _uuid(build), _uuid(payload.get("document_id")))


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None
