"""The connection to Qdrant: its client, and the conversion of its errors."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import httpx
import structlog
from pydantic import SecretStr

from shared.domain.errors import Permanent, Unavailable
from shared.process.metrics import QDRANT_SECONDS
from shared.vectors.addresses import IDLE_SECONDS, Addresses
from shared.vectors.qdrant import (
    ApiException,
    AsyncQdrantClient,
    ResourceExhaustedResponse,
    ResponseHandlingException,
    UnexpectedResponse,
    models,
)
from shared.vectors.spans import request_span

if TYPE_CHECKING:
    from shared.vectors.read_pool import ReadPool

RETRY_AFTER = timedelta(seconds=2)
_TIMEOUT_SECONDS = 60
# By default the client opens a new connection per request if Qdrant is on the same machine.
_CONNECTIONS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=IDLE_SECONDS)
_REFUSED = 400
ABSENT = 404
_OK_SECONDS = QDRANT_SECONDS.labels("ok")
_REFUSED_SECONDS = QDRANT_SECONDS.labels("refused")
_FAILED_SECONDS = QDRANT_SECONDS.labels("failed")
_NOTHING_LEFT = httpx.ByteStream(b"")
log = structlog.get_logger()


class QdrantConnection:
    """Qdrant's client, whether Qdrant answers, and which collections reject writes.

    Every method of a subclass converts the client's errors: `Unavailable` if Qdrant does not answer, does not confirm a
    write or asks for a pause; `Permanent` if Qdrant rejects a request.

    Args:
        url: address of Qdrant or of one of its nodes.
        others: addresses of other nodes, which receive requests while that node does not answer.
        api_key: key of all nodes.
    """

    def __init__(self, url: str, *others: str, api_key: SecretStr | None = None) -> None:
        key = self._key = api_key.get_secret_value() if api_key else None
        with warnings.catch_warnings():  # about a key without TLS: the API warns once, at a better time
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
        self._client.http.client.add_middleware(_release_response)
        if others:
            self._client.http.client.add_middleware(self._addresses.middleware)
        self._unavailable = False  # whether the last request got no answer
        self._rejecting: set[str] = set()  # collections that rejected their last write
        self._last_searched: str | None = None  # collection of the last search

    @cached_property
    def _read_pool(self) -> ReadPool:
        from shared.vectors.read_pool import ReadPool  # noqa: PLC0415  not imported by roles that never search

        return ReadPool(self._addresses, self._key, _TIMEOUT_SECONDS)

    async def aclose(self) -> None:
        if "_read_pool" in self.__dict__:
            await self._read_pool.aclose()
        await self._client.close()

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Record whether a collection takes writes; a collection that rejects writes may still answer reads."""
        try:
            yield
        except Unavailable:
            self._rejecting.add(name)
            raise
        self._rejecting.discard(name)

    @contextmanager
    def _if_exists(self) -> Iterator[None]:
        """Exit the block if the collection does not exist: the first upsert creates it."""
        with self._errors():
            try:
                yield
            except UnexpectedResponse as error:
                if error.status_code != ABSENT:
                    raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the client's errors, and record whether Qdrant answers."""
        try:
            with index_errors():
                yield
        except Unavailable:
            self._unavailable = True
            raise
        self._unavailable = False


async def _release_response(
    request: httpx.Request, send: Callable[[httpx.Request], Awaitable[httpx.Response]]
) -> httpx.Response:
    """Send a request of the client, and break the reference cycle of its response.

    A response and its stream refer to each other and to the request. Without this, half a megabyte of points per
    request would wait for the garbage collector, which runs rarely.
    """
    started, taken = time.perf_counter(), _FAILED_SECONDS
    try:
        with request_span(request.method, request.url.path) as span:
            response = await send(request)
            # A collection does not exist before its first points, so 404 is not a failure.
            answers = response.status_code < _REFUSED or response.status_code == ABSENT
            if not answers:
                span.fail(str(response.status_code))
        taken = _OK_SECONDS if answers else _REFUSED_SECONDS
    finally:
        taken.observe(time.perf_counter() - started)
    response.stream = _NOTHING_LEFT
    return response


async def all_of(requests: Iterable[Awaitable[object]]) -> None:
    """Run requests concurrently, and wait for all of them even if one fails."""
    for result in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def require_completed(status: models.UpdateStatus | None) -> None:
    """Raise `Unavailable` unless Qdrant has applied a write."""
    # `acknowledged` covers the write-ahead log only; `wait_timeout` not even that.
    if status != models.UpdateStatus.COMPLETED:
        raise Unavailable(
            f"Qdrant did not confirm a write (status {status})", component="qdrant", retry_after=RETRY_AFTER
        )


@contextmanager
def index_errors() -> Iterator[None]:
    """Convert the client's errors."""
    try:
        yield
    except ResourceExhaustedResponse as error:
        wait = timedelta(seconds=float(error.retry_after_s))
        raise Unavailable("Qdrant asks for fewer requests", component="qdrant", retry_after=wait) from error
    except UnexpectedResponse as error:
        status = error.status_code or 0
        # Qdrant's message names nodes, folders and collections of other tenants, so it is logged but not returned.
        log.warning("qdrant.answered", status=status, words=error.content[:300].decode(errors="replace"))
        message = f"Qdrant answered {status}; its message is logged as qdrant.answered"
        if 400 <= status < 500 and status not in {401, 403, 408, 429}:  # noqa: PLR2004
            raise Permanent(message) from error
        raise Unavailable(message, component="qdrant", retry_after=RETRY_AFTER) from error
    except (ResponseHandlingException, ApiException, OSError) as error:
        raise Unavailable("Qdrant cannot be reached", component="qdrant", retry_after=RETRY_AFTER) from error
