"""Collections of Qdrant: creation, payload indexes, readiness."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import structlog
from pydantic import SecretStr

from shared.domain.errors import ForeaskError, Permanent, Unavailable
from shared.vectors.schema import definitions
from shared.vectors.schema.layout import Layout
from shared.vectors.schema.payload_indexes import ON_DEMAND, REQUIRED
from shared.vectors.searches import probe
from shared.vectors.transport.connection import QdrantConnection, all_of
from shared.vectors.transport.errors import ABSENT, RETRY_AFTER, CollectionRefused, Refusal, index_errors
from shared.vectors.transport.notices import NoticeBoard
from shared.vectors.transport.readiness import SharedCheck
from shared.vectors.transport.requests import of_collection

_READY_SECONDS = 3.0  # below the interval of an orchestrator's probes
_CHECK_SECONDS = 1.5
_SHORT_SECONDS = 3.0  # a check may be sent earlier than Qdrant asks, but not much
_NO_COLLECTION = "foreask-check"
_NO_POINT = "00000000-0000-0000-0000-000000000000"
log = structlog.get_logger()


class Lifecycle(QdrantConnection):
    """Creates collections of Qdrant, and checks that Qdrant answers and takes writes.

    Args:
        url: address of Qdrant or of one of its nodes.
        others: addresses of other nodes.
        api_key: key of all nodes.
        layout: layout of collections that are created.
        notices: shows the last refusal to people; None in a process without it.
    """

    def __init__(
        self,
        url: str,
        *others: str,
        api_key: SecretStr | None = None,
        layout: Layout | None = None,
        notices: NoticeBoard | None = None,
    ) -> None:
        super().__init__(url, *others, api_key=api_key, notices=notices)
        self._layout = layout or Layout()
        self._existing: set[str] = set()
        self._sizes: dict[str, int] = {}  # of the vectors of collections
        self._base64: set[str] = set()  # collections of an engine that announces to read vectors in base64
        self._creating = asyncio.Lock()
        self._indexed = defaultdict[str, set[str]](set)  # keys of declared fields by collection
        self._readiness = SharedCheck(self._answer_a_query, _READY_SECONDS)

    async def aclose(self) -> None:
        await self._readiness.aclose()
        await super().aclose()

    async def ensure_collection(self, name: str, dimensions: int) -> None:
        """Create a collection of Qdrant unless it exists, and its missing payload indexes.

        Raises:
            CollectionRefused: it exists with vectors of another size, or Qdrant refuses it.
            Unavailable: Qdrant cannot be reached.
        """
        if name in self._existing:
            return
        async with self._creating:  # concurrent batches wait for one creation
            if name not in self._existing:
                await self._complete(name, dimensions)

    async def _complete(self, name: str, dimensions: int) -> None:
        # 404 after 409: another worker's creation is not complete, or the collection was deleted meanwhile.
        with self._writing(name), self._errors(), self._recreated_if_missing(name):
            if not await self._exists(name):
                await self._create(name, dimensions)
            info = await self._info(name)
            _require_size(info, dimensions)
        if differences := self._layout.differences(info):
            log.warning("collection.differs", collection=name, differences=differences)
        # Indexes are created before the first point, because a later index is built over all existing points. An
        # interrupted creation is completed here.
        with self._writing(name), self._errors(), self._recreated_if_missing(name):
            missing = REQUIRED.keys() - info["payload_schema"].keys()
            await all_of(self._index(name, field, REQUIRED[field]) for field in missing)
        if "base64" in info.get("vector_encodings", ()):
            self._base64.add(name)
        self._existing.add(name)
        self._sizes[name] = dimensions

    async def require_dimensions(self, name: str, dimensions: int) -> None:
        """Check that a collection of Qdrant, if it exists, has vectors of this size.

        Raises:
            Permanent: its vectors have another size.
            Unavailable: Qdrant cannot be reached.
        """
        with self._if_exists():
            _require_size(await self._info(name), dimensions)

    async def _exists(self, name: str) -> bool:
        result = await self._requests.send("GET", f"{of_collection(name)}/exists")
        return bool(result["exists"])

    async def _info(self, name: str) -> Mapping[str, Any]:
        """Return Qdrant's description of a collection."""
        info: Mapping[str, Any] = await self._requests.send("GET", of_collection(name))
        return info

    async def _create(self, name: str, dimensions: int) -> None:
        body = self._layout.creation(dimensions)
        if self._layout != Layout():
            await asyncio.to_thread(definitions.check_collection, body)
        try:
            await self._requests.send("PUT", of_collection(name), body)
        except Refusal as error:
            if error.status != 409:  # noqa: PLR2004  another worker created it
                raise

    async def _index_keys(self, name: str, required: AbstractSet[str]) -> None:
        keys = required - self._indexed[name]
        if not keys:
            return
        with self._writing(name), self._errors(), self._recreated_if_missing(name):
            info = await self._info(name)
            for key in sorted(keys - info["payload_schema"].keys()):
                await self._index(name, key, ON_DEMAND[key])
        self._indexed[name] |= keys

    @contextmanager
    def _recreated_if_missing(self, name: str) -> Iterator[None]:
        """Mark a deleted collection, so that the next attempt recreates it."""
        try:
            yield
        except Refusal as error:
            if error.status != ABSENT:
                raise
            self._forget(name)
            raise Unavailable(
                f"Qdrant's collection {name} was deleted", component="qdrant", retry_after=RETRY_AFTER
            ) from error

    def _forget(self, name: str) -> None:
        self._existing.discard(name)
        self._base64.discard(name)
        self._sizes.pop(name, None)
        self._indexed.pop(name, None)

    async def drop_collection(self, name: str) -> None:
        """Delete a collection of Qdrant with the points of all builds in it."""
        self._forget(name)
        with self._errors():
            await self._requests.send("DELETE", of_collection(name))

    async def names(self) -> list[str]:
        """Return the names of all collections in Qdrant, including other deployments' collections."""
        with self._errors():
            result = await self._requests.send("GET", "/collections")
            return sorted(collection["name"] for collection in result["collections"])

    async def nudge(self, name: str) -> bool:
        """Start the optimization of a collection that has been pending since Qdrant's start; return whether it was.

        Qdrant calls such a collection grey: its segments stay unoptimized, and searches slow, until a write or a change
        of its settings.
        """
        with self._if_exists():
            if (await self._info(name))["status"] != "grey":
                return False
            # An empty change is the documented nudge.
            return bool(await self._requests.send("PATCH", of_collection(name), {"optimizers_config": {}}))
        return False

    async def ready(self) -> None:
        """Raise `Unavailable` unless Qdrant answers a query; the answer may be some seconds old."""
        await self._readiness.require()

    async def require(self) -> None:
        """Check Qdrant again if the last request got no answer or the last write was rejected.

        Workers call it before they claim chunks, because embeddings of chunks that cannot be written are wasted.

        Raises:
            Unavailable: Qdrant still does not answer or take writes.
        """
        if self._unavailable:
            await self._any_collection()
        if self._rejecting:
            await self._take_a_write()

    async def check(self) -> None:
        """Check that each node answers, and that the key may write.

        Raises:
            Unavailable: a node does not answer, does not accept the key, or does not let it write.
        """
        problems = dict(await all_of(self._check_node(url) for url in self._nodes))
        failed = {node: problem for node, problem in problems.items() if problem is not None}
        if not failed:
            return
        sentence = next(iter(failed.values()))
        if len(problems) > 1:
            rest = "; the other nodes answer" if len(failed) < len(problems) else ""
            sentence = "; ".join(f"{node}: {problem}" for node, problem in failed.items()) + rest
        raise Unavailable(sentence, component="qdrant", retry_after=RETRY_AFTER)

    async def _check_node(self, url: str) -> tuple[str, str | None]:
        """Return the host of a node, and the problem with it."""
        node, problem = urlsplit(url).netloc.rpartition("@")[2], None
        requests = self._requests.of_one(url)
        try:
            with index_errors():
                await requests.send("GET", "/collections", within=_CHECK_SECONDS)
                # A key without rights gets 403; the collection does not exist, so nothing is written.
                path = f"{of_collection(_NO_COLLECTION)}/points/delete?wait=true"
                try:
                    await requests.send("POST", path, {"points": [_NO_POINT]}, within=_CHECK_SECONDS)
                except Refusal as error:
                    if error.status != ABSENT:
                        raise
        except ForeaskError as error:
            problem = error.message
        finally:
            await requests.aclose()
        return node, problem

    async def _answer_a_query(self) -> None:
        """Send the cheapest query.

        Listing collections is not enough, because a node may list them without their points.

        Raises:
            Unavailable: Qdrant does not answer in time.
        """
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                name = self._last_searched or await self._any_collection()
                if name is not None:
                    self._last_searched = name if await self._can_search(name) else None
        except TimeoutError as error:
            self._unavailable = True
            raise Unavailable("Qdrant did not answer in time", component="qdrant", retry_after=RETRY_AFTER) from error

    async def _can_search(self, name: str) -> bool:
        with self._if_exists():
            await self._read(name, "/query/batch", {"searches": [probe()]})
            return True
        return False

    async def _any_collection(self) -> str | None:
        return min(await self.names(), default=None)

    async def writable(self, name: str) -> None:
        """Check again whether a collection takes writes, if it rejected the last one.

        Workers call it before they embed chunks, because embeddings of chunks that cannot be written are wasted.

        Raises:
            Unavailable: it still rejects them.
        """
        if name in self._rejecting:
            await self._write_neutral(name)

    async def _take_a_write(self) -> None:
        """Send a neutral write to a collection that rejected a write, and to another one if that fails.

        The limits of one collection must not stop writes to others.

        Raises:
            Unavailable: both collections reject it. On a full disk Qdrant rejects all writes, including deletions, but
                answers reads.
        """
        # A refusal of one collection's points does not count: its chunks wait, and others are claimed.
        of_server = sorted(n for n, each in self._rejecting.items() if not isinstance(each.error, CollectionRefused))
        if not of_server:
            return
        first, others = of_server[0], sorted(self._existing - self._rejecting.keys())[:1]
        try:
            await self._write_neutral(first)
        except Unavailable:
            if not others:
                raise
            await self._write_neutral(others[0])

    async def _write_neutral(self, name: str) -> None:
        """Write a point with the vectors of all others, and delete it in the same request.

        It belongs to no document, so its refusal proves that the collection takes no points. If the collection does not
        exist, the next attempt creates it.

        Raises:
            Unavailable: the collection does not take the point, or a pause that Qdrant asked for is not over.
        """
        rejection = self._rejecting.get(name)
        if rejection is not None and (pause := rejection.until - time.monotonic()) > _SHORT_SECONDS:
            message = rejection.error.message
            raise Unavailable(message, component="qdrant", retry_after=timedelta(seconds=pause))
        with self._writing(name), self._if_exists():
            size = self._sizes.get(name) or _vector_size(await self._info(name)) or 1
            self._sizes[name] = size
            await self._change(name, [{"upsert": {"points": [_neutral(size)]}}, {"delete": {"points": [_NO_POINT]}}])


def _require_size(info: Mapping[str, Any], dimensions: int) -> None:
    """Raise `Permanent` unless a collection's vectors have this size."""
    size = _vector_size(info)
    if size != dimensions:
        raise Permanent(
            f"The collection was built with {size} dimensions and the embedding model returns {dimensions}:"
            " set the model that it was built with, or index into a new collection."
        )


def _vector_size(info: Mapping[str, Any]) -> int | None:
    size: int | None = info["config"]["params"].get("vectors", {}).get("dense", {}).get("size")
    return size


def _neutral(size: int) -> Mapping[str, Any]:
    """Return a point of no group with all vectors that a text has."""
    vector = {"dense": [1.0, *[0.0] * (size - 1)], "bm25": {"indices": [0], "values": [1.0]}}
    return {"id": _NO_POINT, "vector": vector, "payload": {"group": "", "hidden": True}}
