"""Writes of points: upserts, sweeps, descriptions, deletions."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

import orjson
import structlog

from shared.domain.corpus.documents import DescribedVersion, Description
from shared.domain.corpus.ids import accepted_point_id, chunk_point_id, question_point_id
from shared.domain.corpus.index_location import IndexLocation
from shared.domain.errors import ForeaskError, Permanent
from shared.domain.stages.indexing import ChunkToIndex
from shared.domain.stages.sweeps import HiddenVersion, Sweep
from shared.vectors.lifecycle import Lifecycle
from shared.vectors.schema import fields, filters
from shared.vectors.schema.filters import Filter
from shared.vectors.schema.groups import group
from shared.vectors.schema.points import Point
from shared.vectors.transport.connection import all_of
from shared.vectors.transport.errors import NoAnswer, Refusal, converted

_REQUEST_POINTS = 128  # a server answers no query while it reads one
_REQUEST_BYTES = 5_000_000  # larger requests are slower, and Qdrant rejects them from 32 MB on

_Operation = Mapping[str, Any]
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A point as JSON, with its size in bytes."""

    id: str
    json: orjson.Fragment
    size: int

    @classmethod
    def of(cls, point: Point, *, as_base64: bool) -> Self:
        """Encode a point; `as_base64` is for a Qdrant that reads 32-bit floats in base64: half of the bytes."""
        fields = point.as_json()
        if as_base64 and "dense" in point.vector:
            dense = base64.b64encode(point.vector["dense"].astype("<f4", copy=False)).decode()
            fields["vector"] = {**point.vector, "dense": dense}
        encoded = orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
        return cls(point.id, orjson.Fragment(encoded), len(encoded))


class Writes(Lifecycle):
    """Writes and deletes points; each write is confirmed by Qdrant."""

    async def upsert(self, name: str, points: Sequence[Point]) -> dict[str, ForeaskError]:
        """Write points of chunks of one claim, and wait until searches find them.

        Points of later claims are not replaced, so a writer whose lease expired cannot overwrite a chunk. All tokens of
        a claim are larger than the tokens of earlier claims.

        If Qdrant refuses a request, a neutral write decides: the collection takes no points, or the request is divided
        until it passes or the refused points are isolated. With n points this takes at most 2 log2(n) requests per
        refused point. A size that passes is used by this process from then on.

        Returns:
            The errors of points that Qdrant refuses although the collection takes others, by id. `Permanent` if the
            point is the cause.

        Raises:
            Unavailable: Qdrant did not confirm, or takes no points; some points may have been written.
        """
        replaceable = filters.replaceable_points(max((point.payload["token"] for point in points), default=0))
        await self._index_fields(name, points)
        # Wait for all requests: a request that outlives the attempt would write points of dead chunks.
        encoded = [_Encoded.of(point, as_base64=name in self._base64) for point in points]
        parts = _parts(encoded, self._most_points.get(name, _REQUEST_POINTS))
        refused = await all_of(self._upsert(name, part, replaceable) for part in parts)
        return {point: error for of_part in refused for point, error in of_part.items()}

    async def renew(self, name: str, chunks: Sequence[ChunkToIndex]) -> None:
        """Give the texts of chunks, which are not rewritten, the token of their claim: they are not leftovers.

        Points of later claims keep theirs. Qdrant has confirmed it when this returns; it is one request.

        Args:
            name: Qdrant collection of the points.
            chunks: chunks of one claim.
        """
        token = max(chunk.lease.token for chunk in chunks)
        operations = []
        for location, version, same in _by_version(chunks):
            ids = [chunk_point_id(chunk.lease.id, version) for chunk in same]
            operations.append(_setting({"token": token}, filters.renewable_texts(location, ids, token)))
        with self._writing(name):
            await self._change(name, operations)

    async def _index_fields(self, name: str, points: Sequence[Point]) -> None:
        """Create missing payload indexes of declared fields that these points have.

        Indexes are created on demand, because an unused one costs memory in every segment. Existing points do not have
        the key, so Qdrant builds the index with one scan.
        """
        await self._index_keys(name, {key for point in points for key in point.payload.keys() & fields.KEYS.keys()})

    async def _upsert(self, name: str, part: Sequence[_Encoded], condition: Filter) -> dict[str, ForeaskError]:
        """Write some points, and divide them if Qdrant refuses them together; return the errors of single points."""
        most = self._most_points.get(name, _REQUEST_POINTS)
        if len(part) > most:  # another part has found the limit
            smaller = [part[start : start + most] for start in range(0, len(part), most)]
            return _merged([await self._upsert(name, each, condition) for each in smaller])
        body = orjson.dumps({"points": [point.json for point in part], "update_filter": condition})
        with self._writing(name), self._errors():
            try:
                with self._recreated_if_missing(name):
                    await self._write(name, "", body, "PUT")
            except (Refusal, NoAnswer) as error:
                if not _may_pass_divided(error, len(part)):
                    raise
                refusal = error
            else:
                return {}
        await self._write_neutral(name)
        if len(part) == 1:
            return {part[0].id: _of_point(refusal)}
        middle = (len(part) + 1) // 2
        refused = _merged([await self._upsert(name, half, condition) for half in (part[:middle], part[middle:])])
        if not refused:  # the size was the cause
            self._most_points[name] = min(self._most_points.get(name, middle), middle)
            log.warning("upsert.divided", index=name, points=self._most_points[name])
        return refused

    async def show_version(self, version: HiddenVersion) -> None:
        """Make the points of a document's version visible; Qdrant has confirmed it when this returns.

        If the collection does not exist, the document has no points.
        """
        location = version.location
        hidden = filters.hidden_points(location, version.document_id, version=version.version)
        with self._if_exists():
            await self._change(location.index_name, [_setting({"hidden": False}, hidden)])

    async def sweep(self, sweep: Sweep) -> None:
        """Delete a document's points that the ledger does not have, in one idempotent request.

        If the collection does not exist, the document has no points.
        """
        operations = list(_operations(sweep))
        if operations:
            with self._if_exists():
                await self._change(sweep.location.index_name, operations)

    async def delete_leftovers(self, name: str, chunks: Sequence[ChunkToIndex]) -> None:
        """Delete points of chunks that earlier claims wrote and this claim did not rewrite, in one request.

        Args:
            name: Qdrant collection of the points.
            chunks: chunks of one claim; their older versions are not touched.
        """
        with self._writing(name):
            await self._delete_before(name, chunks, min(chunk.lease.token for chunk in chunks))

    async def delete_unrecorded(self, name: str, chunks: Sequence[ChunkToIndex]) -> None:
        """Delete the points of chunks that the ledger has not recorded, in one request; see `recorded_points`.

        Args:
            name: Qdrant collection of the points.
            chunks: chunks of one claim; their older versions and the points of later claims are not touched.
        """
        token = max(chunk.lease.token for chunk in chunks) + 1
        await self._delete_before(name, chunks, token, recorded=recorded_points)

    async def _delete_before(
        self,
        name: str,
        chunks: Sequence[ChunkToIndex],
        token: int,
        recorded: Callable[[ChunkToIndex], Sequence[str]] = lambda _: (),
    ) -> None:
        operations = []
        for location, version, same in _by_version(chunks):
            kept = [point for chunk in same for point in recorded(chunk)]
            ids = [str(chunk.lease.id) for chunk in same]
            operations.append(_deletion(filters.leftover_points(location, ids, version, token, kept)))
        with self._if_exists():
            await self._change(name, operations)

    async def show(self, location: IndexLocation, ids: Sequence[str]) -> None:
        """Make hidden points of a collection visible."""
        hidden = filters.points_by_id(location, ids)
        with self._errors():
            await self._write(location.index_name, "/payload", {"payload": {"hidden": False}, "filter": hidden})

    async def describe(self, description: Description) -> None:
        """Update title, metadata, readers and disabled questions of a document's points in one request.

        Vectors are not touched. A disabled question's point gets the token of the change, so that no late writer
        restores it.

        If the collection does not exist, the document has no points.
        """
        location, document_id = description.location, description.document_id
        operations: list[_Operation] = []
        with self._if_exists():
            for version in description.versions:
                indexed = fields.indexed_values(description.filterable, version.metadata)
                await self._index_keys(location.index_name, indexed.keys())
                readers = fields.reader_numbers(version.readable_by)
                described = {"metadata": dict(version.metadata), fields.READERS: readers}
                payload = described | fields.emptied_values(description.filterable) | indexed
                of_version = filters.document_points(location, document_id, version=version.version)
                operations.append(_setting(payload, of_version))
                if version.title is not None:
                    texts = filters.document_texts(location, document_id, version.version)
                    operations.append(_setting({"title": version.title}, texts))
                operations += _disabling(description, version)
            await self._change(location.index_name, operations)

    async def delete_document(self, location: IndexLocation, document_id: UUID) -> None:
        """Delete a document's points, if any."""
        with self._if_exists():
            await self._delete(location.index_name, filters.document_points(location, document_id))

    async def delete_build(self, location: IndexLocation) -> None:
        """Delete all points of a build, if any."""
        with self._if_exists():
            await self._delete(location.index_name, filters.collection_points(location))

    async def delete_all_of(self, name: str, collection_ids: Sequence[UUID], document_ids: Sequence[UUID]) -> int:
        """Delete the points of these collections and documents in a Qdrant collection; return their number."""
        selected = filters.points_of_ids(collection_ids, document_ids)
        with self._if_exists():
            count = await self._count(name, selected)
            if count:
                await self._delete(name, selected)
            return count
        return 0

    async def delete_points(self, name: str, ids: Sequence[str]) -> None:
        """Delete points of a Qdrant collection by id, of all owners."""
        with self._if_exists():
            await self._write(name, "/delete", {"points": list(ids)})

    async def delete_by_id(self, location: IndexLocation, ids: Sequence[str]) -> None:
        """Delete points of a collection by id, if they exist."""
        if not ids:
            return
        with self._if_exists():
            await self._delete(location.index_name, filters.points_by_id(location, ids))


def recorded_points(chunk: ChunkToIndex) -> list[str]:
    """Return the ids of the points that earlier claims have written according to the ledger.

    The points of users' questions are included, although some may be waiting: an earlier claim may have written them.
    """
    if not chunk.has_text:
        return []
    identity, version = chunk.lease.id, chunk.lease.version
    questions = (question_point_id(identity, version, number) for number in range(chunk.passed))
    accepted = (accepted_point_id(question.id, version) for question in chunk.accepted)
    return [chunk_point_id(identity, version), *questions, *accepted]


def _operations(sweep: Sweep) -> Iterator[_Operation]:
    location, document_id, live = sweep.location, sweep.document_id, sweep.live_version
    if sweep.deleted:
        yield _deletion(filters.document_points(location, document_id))
        return
    if sweep.chunk_id is not None and sweep.points_token is not None:
        chunk, version = str(sweep.chunk_id), sweep.below_version
        yield _deletion(filters.leftover_points(location, [chunk], version, sweep.points_token))
        return
    if live is not None:  # a late writer may have hidden a text of it
        yield _setting({"hidden": False}, filters.hidden_points(location, document_id, version=live))
    if not sweep.in_use:
        yield _deletion(filters.document_points(location, document_id, version=sweep.obsolete_version))


def _disabling(description: Description, version: DescribedVersion) -> Iterator[_Operation]:
    """Move the points of disabled questions to their group, and the points of all others back."""
    location, disabled = description.location, version.disabled
    if disabled:
        earlier = filters.earlier_points(location, disabled, description.token)
        yield _setting({"token": description.token}, earlier)
        yield _setting({"group": group(location, "d")}, filters.enabled_questions(location, disabled))
    others = filters.disabled_questions(location, description.document_id, version.version, without=disabled)
    yield _setting({"group": group(location, "q")}, others)


def _by_version(chunks: Sequence[ChunkToIndex]) -> Iterator[tuple[IndexLocation, int, list[ChunkToIndex]]]:
    """Group chunks by collection and version."""
    versions = defaultdict[tuple[IndexLocation, int], list[ChunkToIndex]](list)
    for chunk in chunks:
        versions[chunk.location, chunk.lease.version].append(chunk)
    for (location, version), same in versions.items():
        yield location, version, same


def _setting(payload: Mapping[str, Any], selected: Filter) -> _Operation:
    return {"set_payload": {"payload": payload, "filter": selected}}


def _deletion(selected: Filter) -> _Operation:
    return {"delete": {"filter": selected}}


def _parts(points: Sequence[_Encoded], most: int) -> Iterator[Sequence[_Encoded]]:
    """Divide points into as few requests as the limits allow."""
    part: list[_Encoded] = []
    size = 0
    for point in points:
        if part and (len(part) >= most or size + point.size > _REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(point)
        size += point.size
    if part:
        yield part


def _may_pass_divided(error: Refusal | NoAnswer, points: int) -> bool:
    """Return whether a smaller request may pass, or a point be the cause."""
    if isinstance(error, Refusal):
        return error.may_concern_size if points > 1 else error.may_concern_points
    return points > 1 and error.may_have_arrived


def _of_point(refusal: Refusal | NoAnswer) -> ForeaskError:
    return Permanent(converted(refusal).message if isinstance(refusal, Refusal) else str(refusal))


def _merged(refused: Iterable[Mapping[str, ForeaskError]]) -> dict[str, ForeaskError]:
    return {point: error for of_part in refused for point, error in of_part.items()}
