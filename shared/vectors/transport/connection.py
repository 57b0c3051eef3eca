"""The connection to Qdrant: its requests, and whether Qdrant answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import SecretStr

from shared.domain.errors import Unavailable
from shared.vectors.schema.filters import Filter
from shared.vectors.schema.payload_indexes import ON_DEMAND
from shared.vectors.transport.addresses import Addresses
from shared.vectors.transport.errors import (
    ABSENT,
    RETRY_AFTER,
    Refusal,
    SearchStopped,
    index_errors,
    refusals_of_collection,
)
from shared.vectors.transport.notices import READS, WRITES, NoticeBoard, Refusals
from shared.vectors.transport.requests import Body, Requests, of_collection
from shared.vectors.transport.words import TOO_MANY, missing_index, sentence_of

T = TypeVar("T")
_TIMEOUT_SECONDS = 60
_LONGEST_WAIT_SECONDS = 2.0  # of a person, if Qdrant asks for a pause
SEARCH_SECONDS = 15.0  # a search of a large index on a busy machine takes two
SEARCH_DEADLINE_SECONDS = 10  # after which Qdrant stops a search, so that it costs nothing more


@dataclass(frozen=True, slots=True)
class Rejection:
    """The rejection of a collection's last write.

    Args:
        error: the reason.
        until: end of the pause that Qdrant asks for, in monotonic seconds.
    """

    error: Unavailable
    until: float


class QdrantConnection:
    """Requests to Qdrant, whether Qdrant answers, and which collections reject writes.

    Every method of a subclass converts the errors of requests: `Unavailable` if Qdrant does not answer, does not
    confirm a write or asks for a pause; `Permanent` if Qdrant rejects a request.

    Args:
        url: address of Qdrant or of one of its nodes.
        others: addresses of other nodes, which receive requests while that node does not answer.
        api_key: key of all nodes.
        notices: shows the last refusal to people; None in a process without it.
    """

    def __init__(
        self, url: str, *others: str, api_key: SecretStr | None = None, notices: NoticeBoard | None = None
    ) -> None:
        key = api_key.get_secret_value() if api_key else None
        self._nodes = (url, *others)
        self._requests = Requests(Addresses([url, *others]), key, _TIMEOUT_SECONDS)
        self._unavailable = False  # whether the last request got no answer
        self._rejecting: dict[str, Rejection] = {}  # collections that rejected their last write
        self._refused_reads, self._refused_writes = Refusals(READS, notices), Refusals(WRITES, notices)
        self._most_points: dict[str, int] = {}  # of one write to a collection that refuses more
        self._searched_apart: set[str] = set()  # collections that refuse several searches in one request
        self._own_deadline: set[str] = set()  # collections whose strict mode has a shorter deadline of its own
        self._last_searched: str | None = None  # collection of the last search

    async def aclose(self) -> None:
        await self._requests.aclose()

    async def _read(self, name: str, path: str, body: Mapping[str, Any], within: float | None = None) -> Any:
        """Read points of a collection; return the result.

        Args:
            name: the collection.
            path: the path below its points.
            body: the request.
            within: timeout in seconds, if a person waits for the result.
        """
        address, waited = f"{of_collection(name)}/points{path}", 0.0
        missing = set(ON_DEMAND)
        while True:
            try:
                result = await self._requests.send("POST", address, body, within)
            except Refusal as error:
                if (key := missing_index(error.words)) in missing:
                    missing.discard(key)
                    await self._index(name, key, ON_DEMAND[key])
                    continue
                if error.status != TOO_MANY:
                    raise
                pause = error.retry_after.total_seconds() if error.retry_after else 0.0
                self._refused_reads.record(sentence_of(error.status, error.words), pause)
                waited += pause
                if within is None or not 0 < waited <= _LONGEST_WAIT_SECONDS:
                    raise
                await asyncio.sleep(pause)
            else:
                self._refused_reads.end()
                return result

    async def _index(self, name: str, key: str, index: Mapping[str, Any]) -> None:
        """Create a payload index, and wait until it exists."""
        body = {"field_name": key, "field_schema": index}
        await self._requests.send("PUT", f"{of_collection(name)}/index?wait=true", body)

    async def _write(self, name: str, path: str, body: Body, method: str = "POST") -> None:
        """Write points of a collection, and wait until searches find the change.

        Raises:
            Unavailable: Qdrant did not confirm a change.
        """
        result = await self._requests.send(method, f"{of_collection(name)}/points{path}?wait=true", body)
        for each in result if isinstance(result, list) else [result]:
            _require_completed(each)

    async def _change(self, name: str, operations: Sequence[Mapping[str, Any]]) -> None:
        """Change points of a collection by several operations, in their order, in one request."""
        await self._write(name, "/batch", {"operations": operations})

    async def _delete(self, name: str, selected: Filter) -> None:
        """Delete the points that a filter selects."""
        await self._write(name, "/delete", {"filter": selected})

    async def _count(self, name: str, selected: Filter, within: float | None = None) -> int:
        """Count the points that a filter selects; `within` is as for `_read`."""
        result = await self._read(name, "/count", {"filter": selected, "exact": True}, within)
        return int(result["count"])

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Record whether a collection takes writes; a collection that rejects writes may still answer reads.

        Raises:
            CollectionRefused: Qdrant refuses a request that concerns the collection and none of its points.
        """
        try:
            with refusals_of_collection():
                yield
        except Unavailable as error:
            pause = error.retry_after or timedelta()
            self._rejecting[name] = Rejection(error, time.monotonic() + pause.total_seconds())
            self._refused_writes.record(error.message, pause.total_seconds())
            raise
        self._rejecting.pop(name, None)
        if not self._rejecting:
            self._refused_writes.end()

    @contextmanager
    def _if_exists(self) -> Iterator[None]:
        """Exit the block if the collection does not exist: the first upsert creates it."""
        with self._errors():
            try:
                yield
            except Refusal as error:
                if error.status != ABSENT:
                    raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the errors of requests, and record whether Qdrant answers."""
        try:
            with index_errors():
                yield
        except SearchStopped:
            self._unavailable = False
            raise
        except Unavailable:
            self._unavailable = True
            raise
        self._unavailable = False


async def all_of(requests: Iterable[Awaitable[T]]) -> list[T]:
    """Run requests concurrently, and wait for all of them even if one fails; return their results."""
    results = await asyncio.gather(*requests, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def _require_completed(result: Any) -> None:
    """Raise `Unavailable` unless Qdrant has applied a write."""
    # `acknowledged` covers the write-ahead log only; `wait_timeout` not even that.
    status = result.get("status") if isinstance(result, dict) else None
    if status != "completed":
        raise Unavailable(
            f"Qdrant did not confirm a write (status {status})", component="qdrant", retry_after=RETRY_AFTER
        )
