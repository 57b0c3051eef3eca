"""The border to Qdrant: collections, points and searches; its errors become ours."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import httpx
import numpy as np
import orjson
import structlog
from pydantic import SecretStr
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from shared.domain.documents import Description
from shared.domain.errors import Permanent, Unavailable
from shared.domain.ids import chunk_of_point, chunk_point_id
from shared.domain.index_location import IndexLocation
from shared.domain.vectors import Vectors
from shared.domain.work import ChunkToIndex, Sweep
from shared.process.metrics import QDRANT_SECONDS
from shared.vectors import fields, filters
from shared.vectors.addresses import IDLE_SECONDS, Addresses
from shared.vectors.filters import VisiblePoints
from shared.vectors.groups import group
from shared.vectors.layout import Layout
from shared.vectors.points import PREPENDED, Point
from shared.vectors.readiness import Readiness
from shared.vectors.searches import Search, chunk_search, probe, section_search
from shared.vectors.spans import request_span

if TYPE_CHECKING:
    from shared.vectors.reads import Reads

_RETRY_AFTER = timedelta(seconds=2)
_TIMEOUT_SECONDS = 60
# To a Qdrant on this machine the client would make a connection for each request.
_CONNECTIONS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=IDLE_SECONDS)
_REFUSED = 400
_ABSENT = 404
_OK_SECONDS = QDRANT_SECONDS.labels("ok")
_REFUSED_SECONDS = QDRANT_SECONDS.labels("refused")
_FAILED_SECONDS = QDRANT_SECONDS.labels("failed")
_NOTHING_LEFT = httpx.ByteStream(b"")
_READY_SECONDS = 3.0  # less than between two probes of an orchestrator
_CHECK_SECONDS = 1.5
_NOBODY = "00000000-0000-0000-0000-000000000000"
_REQUEST_POINTS = 512
_REQUEST_BYTES = 5_000_000  # FACTS of the server: larger requests are slower, and refused at 32 MB
_CLAIM = ["document_id", "chunk_id", "version", "hidden"]
# Without `enable_hnsw=False` Qdrant would build graphs for the values of a field, which took five times the CPU.
_KEYWORD = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False)
_INTEGER = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, enable_hnsw=False)
_INDEXED: Mapping[str, models.PayloadSchemaParams] = {
    "group": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "tenant": _KEYWORD,
    "document_id": _KEYWORD,
    "chunk_id": _KEYWORD,
    "version": _INTEGER,
    "token": _INTEGER,
    "hidden": models.BoolIndexParams(type=models.BoolIndexType.BOOL, enable_hnsw=False),
}
_FIELD_INDEXES: Mapping[str, models.PayloadSchemaParams] = {
    "keyword": _KEYWORD,
    "float": models.FloatIndexParams(type=models.FloatIndexType.FLOAT, enable_hnsw=False),
    "datetime": models.DatetimeIndexParams(type=models.DatetimeIndexType.DATETIME, enable_hnsw=False),
}
log = structlog.get_logger()


class Hit(NamedTuple):
    """A point that a search found, with the payload and the vectors that were asked for. A query makes hundreds."""

    id: str
    score: float
    payload: Mapping[str, Any] = MappingProxyType({})
    vectors: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SectionKey:
    """A section of a document's version, by its span."""

    document_id: str
    version: int
    start: int
    end: int


class ChunkPayloads(NamedTuple):
    """The payloads of chunks by their ids, and of questions by the ids of their points."""

    chunks: dict[str, Mapping[str, Any]]
    questions: dict[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """The document, chunk and version that a point claims to belong to; None where its payload is unreadable."""

    id: str
    document_id: UUID | None
    chunk_id: UUID | None
    version: int | None
    hidden: bool


class StoredVector(NamedTuple):
    """What was embedded for a point: its question, or None for the text of a chunk alone; and the vector."""

    question: str | None
    vector: Vectors


class Index:
    """A client of Qdrant.

    Each method maps the client's errors: `Unavailable` where Qdrant does not answer, does not confirm a write or asks
    for a pause, `Permanent` where it refuses a request for good.

    Args:
        url: of Qdrant, or of one of its nodes.
        others: of other nodes, to which requests go while that one does not answer.
        api_key: of all of them.
        layout: of the collections that are created.
    """

    def __init__(self, url: str, *others: str, api_key: SecretStr | None = None, layout: Layout | None = None) -> None:
        key = self._key = api_key.get_secret_value() if api_key else None
        with warnings.catch_warnings():  # of a key without TLS: the API says so once, where it matters
            warnings.simplefilter("ignore", UserWarning)
            self._client = AsyncQdrantClient(
                url=url,
                api_key=key,
                timeout=_TIMEOUT_SECONDS,
                check_compatibility=False,
                trust_env=False,
                limits=_CONNECTIONS,
            )
        self._addresses = Addresses([url, *others])
        self._client.http.client.add_middleware(_let_go)
        if others:
            self._client.http.client.add_middleware(self._addresses.middleware)
        self._layout = layout or Layout()
        self._known: set[str] = set()
        self._creating = asyncio.Lock()
        self._indexed = defaultdict[str, set[str]](set)  # the keys of declared fields, by collection
        self._away = False  # whether the last request got no answer
        self._refusing: set[str] = set()  # collections whose last write was not taken
        self._searched: str | None = None  # the collection of the last search
        self._readiness = Readiness(self._answer_a_query, _READY_SECONDS)

    @cached_property
    def _reads(self) -> Reads:
        from shared.vectors.reads import Reads  # noqa: PLC0415  roles that search nothing do without its library

        return Reads(self._addresses, self._key, _TIMEOUT_SECONDS)

    async def ensure_collection(self, name: str, dimensions: int) -> None:
        """Create a collection of Qdrant unless it exists, and the payload indexes that it lacks.

        Raises:
            Permanent: it exists with vectors of another size.
            Unavailable: Qdrant cannot be reached.
        """
        if name in self._known:
            return
        async with self._creating:  # batches that begin together wait for one creation
            if name not in self._known:
                await self._complete(name, dimensions)

    async def _complete(self, name: str, dimensions: int) -> None:
        with self._writing(name), self._errors():
            if not await self._client.collection_exists(name):
                await self._create(name, dimensions)
            info = await self._client.get_collection(name)
        vectors = info.config.params.vectors
        size = vectors["dense"].size if isinstance(vectors, dict) and "dense" in vectors else None
        if size != dimensions:
            raise Permanent(
                f"The collection was built with {size} dimensions and the embedding model gives {dimensions}:"
                " set the model that it was built with, or index into a new collection."
            )
        if differences := self._layout.differences(info):
            log.warning("collection.differs", collection=name, differences=differences)
        # Before the first point: an index made later is built over everything that is there. A creation that was
        # interrupted is completed here.
        with self._writing(name), self._errors():
            lacking = _INDEXED.keys() - info.payload_schema.keys()
            await _all_of(
                self._client.create_payload_index(name, field, field_schema=_INDEXED[field], wait=True)
                for field in lacking
            )
        self._known.add(name)

    async def _create(self, name: str, dimensions: int) -> None:
        try:
            await self._client.create_collection(name, **self._layout.creation(dimensions))
        except UnexpectedResponse as error:
            if error.status_code != 409:  # noqa: PLR2004  another worker made it
                raise

    async def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points of chunks that were claimed together, and wait until they can be searched.

        A point of a later claim is not replaced, so that a writer who slept through its lease cannot take a chunk back.
        The tokens of one claim are all larger than those of the claims before it.

        Raises:
            Unavailable: Qdrant did not confirm; some of the points may have been written.
            Permanent: Qdrant refused one of the points; others may have been written.
        """
        replaceable = filters.replaceable_points(max((point.payload["token"] for point in points), default=0))
        condition = replaceable.model_dump(mode="json", exclude_none=True)
        await self._index_fields(name, points)
        # To the end of each: a request that ended after its chunks were given up would write points of the dead.
        await _all_of(self._upsert(name, body) for body in _bodies(points, condition))

    async def _index_fields(self, name: str, points: Sequence[Point]) -> None:
        """Make the payload indexes that the collection lacks of declared fields which these points have.

        Most are never needed, and an unused one costs memory in every segment. The points that are there lack the key:
        Qdrant has only to look through them.
        """
        await self._index_keys(name, {key for point in points for key in point.payload.keys() & fields.KEYS.keys()})

    async def _index_keys(self, name: str, wanted: AbstractSet[str]) -> None:
        keys = wanted - self._indexed[name]
        if not keys:
            return
        with self._writing(name), self._errors(), self._gone(name):
            info = await self._client.get_collection(name)
            for key in sorted(keys - info.payload_schema.keys()):
                await self._client.create_payload_index(
                    name, key, field_schema=_FIELD_INDEXES[fields.KEYS[key]], wait=True
                )
        self._indexed[name] |= keys

    async def _upsert(self, name: str, body: bytes) -> None:
        # Below the typed methods: building their models and encoding them costs seven times the CPU of orjson.
        with self._writing(name), self._errors(), self._gone(name):
            reply = await self._client.http.client.request(
                type_=models.InlineResponse2008,
                method="PUT",
                url="/collections/{collection_name}/points",
                path_params={"collection_name": name},
                params={"wait": "true"},
                headers={"content-type": "application/json"},
                content=body,
            )
        _require_completed(reply.result.status if reply.result else None)

    @contextmanager
    def _gone(self, name: str) -> Iterator[None]:
        """Let the next attempt create a collection that has vanished."""
        try:
            yield
        except UnexpectedResponse as error:
            if error.status_code != _ABSENT:
                raise
            self._forget(name)
            raise Unavailable(
                f"Qdrant has no collection {name} any more", component="qdrant", retry_after=_RETRY_AFTER
            ) from error

    def _forget(self, name: str) -> None:
        self._known.discard(name)
        self._indexed.pop(name, None)

    async def sweep(self, sweep: Sweep) -> None:
        """Make a document's points what the ledger says, in one request; once more changes nothing.

        The live version is shown before the older ones go: queries that come between the two see both, and none sees
        neither. No such collection: none of its chunks had a point, so there is nothing to do.
        """
        operations = list(_operations(sweep))
        with self._if_there():
            for result in await self._client.batch_update_points(sweep.location.index_name, operations, wait=True):
                _require_completed(result.status)

    async def delete_leftovers(self, name: str, chunks: Sequence[ChunkToIndex], *, own: bool = False) -> None:
        """Delete the points of chunks that earlier claims wrote and this claim has not written again, in one request.

        No such collection: nothing to do.

        Args:
            name: the collection of Qdrant in which they are.
            chunks: claimed together; their older versions stay.
            own: delete what this claim wrote, too.
        """
        tokens = [chunk.lease.token for chunk in chunks]
        token = max(tokens) + 1 if own else min(tokens)
        operations = [
            _deletion(filters.leftover_points(location, [str(chunk.lease.id) for chunk in same], version, token))
            for location, version, same in _by_version(chunks)
        ]
        with self._if_there():
            for result in await self._client.batch_update_points(name, operations, wait=True):
                _require_completed(result.status)

    async def show(self, location: IndexLocation, ids: Sequence[str]) -> None:
        """Show hidden points of a collection."""
        hidden = filters.points_by_id(location, ids)
        with self._errors():
            result = await self._client.set_payload(location.index_name, {"hidden": False}, points=hidden, wait=True)
        _require_completed(result.status)

    async def describe(self, description: Description) -> None:
        """Have the points of a document say its title and metadata, in one request; their vectors stay.

        No such collection: none of its chunks had a point, so there is nothing to do.
        """
        location, document_id = description.location, description.document_id
        operations: list[models.UpdateOperation] = []
        with self._if_there():
            for said in description.versions:
                indexed = fields.indexed_values(description.filterable, said.metadata)
                await self._index_keys(location.index_name, indexed.keys())
                payload = {"metadata": dict(said.metadata)} | fields.emptied_values(description.filterable) | indexed
                of_version = filters.document_points(location, document_id, version=said.version)
                operations.append(_setting(payload, of_version))
                if said.title is not None:
                    texts = filters.document_texts(location, document_id, said.version)
                    operations.append(_setting({"title": said.title}, texts))
            for result in await self._client.batch_update_points(location.index_name, operations, wait=True):
                _require_completed(result.status)

    async def delete_document(self, location: IndexLocation, document_id: UUID) -> None:
        """Delete a document's points. No such collection: nothing to do."""
        selector = models.FilterSelector(filter=filters.document_points(location, document_id))
        with self._if_there():
            result = await self._client.delete(location.index_name, selector, wait=True)
            _require_completed(result.status)

    async def delete_build(self, location: IndexLocation) -> None:
        """Delete all points of a build. No such collection: nothing to do."""
        selector = models.FilterSelector(filter=filters.collection_points(location))
        with self._if_there():
            result = await self._client.delete(location.index_name, selector, wait=True)
            _require_completed(result.status)

    async def delete_by_id(self, location: IndexLocation, ids: Sequence[str]) -> None:
        """Delete points of a collection by id. No points or no such collection: nothing to do."""
        if not ids:
            return
        selector = models.FilterSelector(filter=filters.points_by_id(location, ids))
        with self._if_there():
            result = await self._client.delete(location.index_name, selector, wait=True)
            _require_completed(result.status)

    async def drop_collection(self, name: str) -> None:
        """Delete a collection of Qdrant, with the points of all that have theirs in it."""
        self._forget(name)
        with self._errors():
            await self._client.delete_collection(name)

    async def search(self, name: str, searches: Sequence[Search]) -> list[list[Hit]] | None:
        """Run several searches in one request.

        Returns:
            The hits of each, best first; None where there is no such collection.
        """
        with self._if_there():
            result = await self._reads.read(name, "/query/batch", {"searches": searches})
            self._searched = name
            return [[_hit(point) for point in one["points"]] for one in result]
        return None

    async def section_payloads(
        self, location: IndexLocation, sections: Sequence[SectionKey]
    ) -> dict[SectionKey, list[Mapping[str, Any]]]:
        """Return the payloads of each section's chunks, in no order; hidden ones too."""
        searches = [section_search(location, s.document_id, s.version, s.start, s.end) for s in sections]
        hits = await self.search(location.index_name, searches) or [[] for _ in sections]
        return {section: [hit.payload for hit in part] for section, part in zip(sections, hits, strict=True)}

    async def chunk_payloads(
        self, where: VisiblePoints, versions: Mapping[str, int], questions: Sequence[str] = ()
    ) -> ChunkPayloads:
        """Return the payloads of chunks, and of questions that a search found; what is gone is missing.

        Args:
            where: what the query may see.
            versions: the chunks, and in which version a search found each. Their points are read by their ids, which
                no filter has to find. A chunk whose point an edit has replaced since is searched for, and is of the
                newest version that queries may see.
            questions: the points of questions.
        """
        payloads = await self._payloads_by_id(where.location, versions, questions)
        if replaced := [chunk for chunk in versions if chunk not in payloads.chunks]:
            newest = await self._newest(where, chunk_search(where, replaced))
            payloads.chunks.update({chunk: hit.payload for chunk, hit in newest.items()})
        return payloads

    async def _payloads_by_id(
        self, location: IndexLocation, versions: Mapping[str, int], questions: Sequence[str]
    ) -> ChunkPayloads:
        """Read visible points in one request. The group of each is checked: ids open no other's points."""
        ids = [*(chunk_point_id(UUID(chunk), version) for chunk, version in versions.items()), *questions]
        points = []
        with self._if_there():
            points = await self._reads.read(location.index_name, "", {"ids": ids, "with_payload": True})
        visible = [(point["id"], point["payload"]) for point in points if not point["payload"].get("hidden")]
        texts, asked = group(location, "t"), group(location, "q")
        return ChunkPayloads(
            {payload["chunk_id"]: payload for _, payload in visible if payload.get("group") == texts},
            {point: payload for point, payload in visible if payload.get("group") == asked},
        )

    async def text_vectors(self, where: VisiblePoints, chunks: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of chunks' texts by chunk id, each of the newest version that queries may see.

        Returns:
            Each of shape `(dimensions,)` and unit length; chunks without one are missing.
        """
        newest = await self._newest(where, chunk_search(where, chunks, text_vectors=True)) if chunks else {}
        vectors = {chunk: hit.vectors["dense"] for chunk, hit in newest.items() if "dense" in hit.vectors}
        return {chunk: np.asarray(vector, dtype=np.float32) for chunk, vector in vectors.items()}

    async def stored_vectors(self, name: str, ids: Sequence[str]) -> dict[str, StoredVector]:
        """Return by point id what was embedded, and its vector; none where there is no such collection.

        The ids are made of the chunks' collections, so they name no other's points. Qdrant returns vectors as they were
        written, also where searches read quantized ones.

        Returns:
            Vectors of shape `(dimensions,)` and unit length; missing are points without one, and points of texts that
            were embedded with their questions.
        """
        with self._if_there():
            body = {"ids": ids, "with_payload": ["question", PREPENDED], "with_vector": ["dense"]}
            points = await self._reads.read(name, "", body)
            return {str(p["id"]): _stored_vector(p) for p in points if _is_reusable(p)}
        return {}

    async def _newest(self, where: VisiblePoints, listed: Search) -> dict[str, Hit]:
        """Return the hits by chunk id, each of its newest version."""
        (hits,) = await self.search(where.location.index_name, [listed]) or [[]]
        hits.sort(key=lambda hit: chunk_of_point(hit.id)[1])
        return {chunk_of_point(hit.id)[0]: hit for hit in hits}

    async def stored_points(self, location: IndexLocation, ids: Sequence[str]) -> dict[str, StoredPoint]:
        """Return what points of a collection claim by id; deleted points are missing."""
        if not ids:
            return {}
        points, _ = await self._scroll(location, filters.points_by_id(location, ids), limit=len(ids))
        return {point.id: point for point in points}

    async def scroll_points(
        self, location: IndexLocation, *, after: str | None = None, limit: int = 1000
    ) -> tuple[list[StoredPoint], str | None]:
        """Return a page of a collection's points in the order of their ids, hidden ones too.

        Returns:
            The points, and the `after` of the next page; None on the last.
        """
        return await self._scroll(location, filters.collection_points(location), limit=limit, after=after)

    async def _scroll(
        self, location: IndexLocation, selected: models.Filter, *, limit: int, after: str | None = None
    ) -> tuple[list[StoredPoint], str | None]:
        with self._if_there():
            records, following = await self._client.scroll(
                location.index_name, scroll_filter=selected, offset=after, limit=limit, with_payload=_CLAIM
            )
            return [_stored(record) for record in records], None if following is None else str(following)
        return [], None

    async def count_points(self, location: IndexLocation) -> int:
        """Count a collection's points; 0 where there is none yet."""
        return await self._count(location.index_name, filters.collection_points(location))

    async def count_chunks(self, location: IndexLocation) -> int:
        """Count the chunks of a collection, of all versions."""
        return await self._count(location.index_name, filters.text_points(location))

    async def names(self) -> list[str]:
        """Return the names of all collections of Qdrant, those of other deployments too."""
        with self._errors():
            return sorted(collection.name for collection in (await self._client.get_collections()).collections)

    async def count_named(self, name: str, field: str, value: str) -> int:
        """Count the points of a collection of Qdrant whose field has a value, in whichever group they are."""
        return await self._count(name, filters.named_points(field, value))

    async def _count(self, name: str, selected: models.Filter) -> int:
        with self._if_there():
            return (await self._client.count(name, count_filter=selected, exact=True)).count
        return 0

    async def nudge(self, name: str) -> bool:
        """Have a collection optimized that waits since Qdrant's start; return whether it waited.

        Qdrant calls it grey: its segments stay unoptimized, and searches slow, until a write or a change of settings.
        """
        with self._if_there():
            if (await self._client.get_collection(name)).status != models.CollectionStatus.GREY:
                return False
            # An empty change is the documented nudge.
            return await self._client.update_collection(name, optimizers_config=models.OptimizersConfigDiff())
        return False

    async def ready(self) -> None:
        """Raise `Unavailable` unless Qdrant answers a query; the answer may be some seconds old."""
        await self._readiness.require()

    async def require(self) -> None:
        """Raise `Unavailable` if Qdrant did not answer or did not take a write the last time, and still does not.

        A worker calls it before it claims chunks: it would embed them in vain.
        """
        if self._away:
            await self._any_collection()
        if self._refusing:
            await self._take_a_write()

    async def aclose(self) -> None:
        await self._readiness.aclose()
        if "_reads" in self.__dict__:
            await self._reads.aclose()
        await self._client.close()

    async def _answer_a_query(self) -> None:
        """Send the cheapest query: a node that lists the collections may still miss their points.

        Raises:
            Unavailable: Qdrant does not answer it, or not in time.
        """
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                name = self._searched or await self._any_collection()
                if name is not None and await self.search(name, [probe()]) is None:
                    self._searched = None  # it has been deleted
        except TimeoutError as error:
            self._away = True
            raise Unavailable("Qdrant did not answer in time", component="qdrant", retry_after=_RETRY_AFTER) from error

    async def _any_collection(self) -> str | None:
        with self._errors():
            collections = (await self._client.get_collections()).collections
        return min((collection.name for collection in collections), default=None)

    async def _take_a_write(self) -> None:
        """Write nothing to a collection that refused a write, then to another: the limit of one stops no other.

        Raises:
            Unavailable: both refuse it. A full disk refuses every write, also deletions, and reads go on.
        """
        first, *_ = sorted(self._refusing)
        others = sorted(self._known - self._refusing)[:1]
        try:
            await self._write_nothing(first)
        except Unavailable:
            if not others:
                raise
            await self._write_nothing(others[0])

    async def _write_nothing(self, name: str) -> None:
        with self._writing(name), self._if_there():
            await self._client.delete(name, models.PointIdsList(points=[_NOBODY]), wait=True)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Remember whether a collection takes writes: Qdrant may go on to read meanwhile."""
        try:
            yield
        except Unavailable:
            self._refusing.add(name)
            raise
        self._refusing.discard(name)

    @contextmanager
    def _if_there(self) -> Iterator[None]:
        """Leave the block where there is no such collection: the first points create it."""
        with self._errors():
            try:
                yield
            except UnexpectedResponse as error:
                if error.status_code != _ABSENT:
                    raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Map the client's exceptions to ours, and remember whether Qdrant answers."""
        try:
            with index_errors():
                yield
        except Unavailable:
            self._away = True
            raise
        self._away = False


async def _let_go(request: httpx.Request, send: Callable[[httpx.Request], Awaitable[httpx.Response]]) -> httpx.Response:
    """Send a request of the client, and free it with its answer.

    An answer and its stream hold each other, and the request: half a megabyte of points would stay until the garbage
    collector comes, which is seldom.
    """
    began, taken = time.perf_counter(), _FAILED_SECONDS
    try:
        with request_span(request.method, request.url.path) as span:
            response = await send(request)
            # Until its first points a collection is not there, which is no failure of Qdrant.
            answers = response.status_code < _REFUSED or response.status_code == _ABSENT
            if not answers:
                span.fail(str(response.status_code))
        taken = _OK_SECONDS if answers else _REFUSED_SECONDS
    finally:
        taken.observe(time.perf_counter() - began)
    response.stream = _NOTHING_LEFT
    return response


async def _all_of(requests: Iterable[Awaitable[object]]) -> None:
    """Send requests at once, and wait for each of them, also where one fails."""
    for result in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _operations(sweep: Sweep) -> Iterator[models.UpdateOperation]:
    location, document_id, live = sweep.location, sweep.document_id, sweep.live_version
    if sweep.deleted:
        yield _deletion(filters.document_points(location, document_id))
        return
    if sweep.chunk_id is not None and sweep.points_token is not None:
        chunk, token = str(sweep.chunk_id), sweep.points_token
        yield _deletion(filters.leftover_points(location, [chunk], sweep.below_version, token))
    if live is None:
        yield _deletion(filters.document_points(location, document_id, below=sweep.below_version))
        return
    hidden = filters.hidden_points(location, document_id, version=live)
    shown = models.SetPayload(payload={"hidden": False}, filter=hidden)
    yield models.SetPayloadOperation(set_payload=shown)
    yield _deletion(filters.document_points(location, document_id, below=live))
    if sweep.below_version > live:  # the versions in between were given up: nothing will show them
        yield _deletion(filters.hidden_points(location, document_id, below=sweep.below_version))


def _by_version(chunks: Sequence[ChunkToIndex]) -> Iterator[tuple[IndexLocation, int, list[ChunkToIndex]]]:
    """Put the chunks of a collection in the same version together."""
    versions = defaultdict[tuple[IndexLocation, int], list[ChunkToIndex]](list)
    for chunk in chunks:
        versions[chunk.location, chunk.lease.version].append(chunk)
    for (location, version), same in versions.items():
        yield location, version, same


def _setting(payload: Mapping[str, Any], selected: models.Filter) -> models.SetPayloadOperation:
    return models.SetPayloadOperation(set_payload=models.SetPayload(payload=dict(payload), filter=selected))


def _deletion(selected: models.Filter) -> models.DeleteOperation:
    return models.DeleteOperation(delete=models.FilterSelector(filter=selected))


def _hit(point: Mapping[str, Any]) -> Hit:
    return Hit(str(point["id"]), point["score"], point.get("payload") or {}, point.get("vector") or {})


def _is_reusable(point: Mapping[str, Any]) -> bool:
    return "dense" in (point.get("vector") or {}) and not (point.get("payload") or {}).get(PREPENDED)


def _stored_vector(point: Mapping[str, Any]) -> StoredVector:
    vector = np.asarray(point["vector"]["dense"], dtype=np.float32)
    return StoredVector((point.get("payload") or {}).get("question"), vector)


def _stored(record: models.Record) -> StoredPoint:
    payload = record.payload or {}
    version = payload.get("version")
    return StoredPoint(
        str(record.id),
        _uuid(payload.get("document_id")),
        _uuid(payload.get("chunk_id")),
        version if isinstance(version, int) else None,
        payload.get("hidden") is True,
    )


def _uuid(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


def _bodies(points: Sequence[Point], condition: Mapping[str, Any]) -> Iterator[bytes]:
    """Encode points into as few requests as their limits allow."""
    batch: list[orjson.Fragment] = []
    size = 0
    for point in points:
        encoded = orjson.dumps(point.as_json(), option=orjson.OPT_SERIALIZE_NUMPY)
        if batch and (len(batch) >= _REQUEST_POINTS or size + len(encoded) > _REQUEST_BYTES):
            yield orjson.dumps({"points": batch, "update_filter": condition})
            batch, size = [], 0
        batch.append(orjson.Fragment(encoded))
        size += len(encoded)
    if batch:
        yield orjson.dumps({"points": batch, "update_filter": condition})


def _require_completed(status: models.UpdateStatus | None) -> None:
    # `acknowledged` means the write-ahead log alone, `wait_timeout` not even an attempt.
    if status != models.UpdateStatus.COMPLETED:
        raise Unavailable(
            f"Qdrant did not confirm a write (status {status})", component="qdrant", retry_after=_RETRY_AFTER
        )


@contextmanager
def index_errors() -> Iterator[None]:
    """Map the client's exceptions to ours."""
    try:
        yield
    except ResourceExhaustedResponse as error:
        wait = timedelta(seconds=float(error.retry_after_s))
        raise Unavailable("Qdrant asks for fewer requests", component="qdrant", retry_after=wait) from error
    except UnexpectedResponse as error:
        status = error.status_code or 0
        # Its own words name nodes, folders and collections of other tenants: they are for the log alone.
        log.warning("qdrant.answered", status=status, words=error.content[:300].decode(errors="replace"))
        said = f"Qdrant answered {status}; the log has its words at qdrant.answered"
        if 400 <= status < 500 and status not in {401, 403, 408, 429}:  # noqa: PLR2004
            raise Permanent(said) from error
        raise Unavailable(said, component="qdrant", retry_after=_RETRY_AFTER) from error
    except (ResponseHandlingException, ApiException, OSError) as error:
        raise Unavailable("Qdrant cannot be reached", component="qdrant", retry_after=_RETRY_AFTER) from error
