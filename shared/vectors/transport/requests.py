"""Requests to Qdrant's REST API.

They do not go through Qdrant's own client, which takes 35 MB and 0.4 s of processor time in each process, and 1.1 ms
for a request, most of it in its HTTP library. Over aiohttp a request takes 0.3 ms.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, quote

import aiohttp
import orjson

from shared.domain.retry_after import retry_after
from shared.process import network
from shared.process.telemetry.metrics import QDRANT_SECONDS
from shared.vectors.transport.addresses import CONNECT_SECONDS, IDLE_SECONDS, Addresses
from shared.vectors.transport.errors import ABSENT, NoAnswer, Refusal
from shared.vectors.transport.spans import request_span

_OK = 200
_OK_SECONDS = QDRANT_SECONDS.labels("ok")
_REFUSED_SECONDS = QDRANT_SECONDS.labels("refused")
_FAILED_SECONDS = QDRANT_SECONDS.labels("failed")

# A connection was lost before or within the reply.
_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError)

Body = Mapping[str, Any] | bytes | None


class Requests:
    """A connection pool to Qdrant; close it with `aclose`.

    Args:
        addresses: Qdrant's addresses.
        api_key: Qdrant's key; None if it needs none.
        timeout_seconds: timeout of a request.
    """

    def __init__(self, addresses: Addresses, api_key: str | None, timeout_seconds: float) -> None:
        self._addresses = addresses
        self._api_key = api_key
        self._headers = {"content-type": "application/json", "user-agent": "foreask"}
        self._headers |= {"api-key": api_key} if api_key else {}
        self._timeout_seconds = timeout_seconds
        self._timeout = aiohttp.ClientTimeout(timeout_seconds, sock_connect=CONNECT_SECONDS)
        self._opened: aiohttp.ClientSession | None = None
        self._unpooled: aiohttp.ClientSession | None = None
        self._is_closed = False

    def of_one(self, url: str) -> Requests:
        """Return requests to one address only."""
        return Requests(Addresses([url]), self._api_key, self._timeout_seconds)

    async def send(self, method: str, path: str, body: Body = None, within: float | None = None) -> Any:
        """Send a request, and return the `result` of its answer.

        Args:
            method: HTTP method.
            path: path and query; `of_collection` returns the start of most.
            body: object, which may contain NumPy vectors, or JSON.
            within: shorter timeout of a request that a person waits for, in seconds.

        Raises:
            NoAnswer: no address answers, or the answer has no result.
            Refusal: Qdrant answers with an error.
        """
        data = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY) if isinstance(body, Mapping) else body
        started, taken = time.perf_counter(), _FAILED_SECONDS
        try:
            with request_span(method, path.partition("?")[0]) as span:
                reply, content = await self._addresses.answer(
                    lambda url: self._send_to(url, method, path, data, within)
                )
                # A collection does not exist before its first points, so 404 is not a failure.
                answers = reply.status in {_OK, ABSENT}
                if not answers:
                    span.fail(str(reply.status))
            taken = _OK_SECONDS if answers else _REFUSED_SECONDS
        finally:
            taken.observe(time.perf_counter() - started)
        if reply.status != _OK:
            raise Refusal(reply.status, content, retry_after(reply.headers))
        try:
            result = orjson.loads(content)["result"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise NoAnswer(error) from error
        if result is None:
            raise NoAnswer("the answer has no result")
        return result

    async def _send_to(
        self, url: SplitResult, method: str, path: str, data: bytes | None, within: float | None
    ) -> tuple[int, tuple[aiohttp.ClientResponse, bytes]]:
        try:
            address = f"{url.geturl().rstrip('/')}{path}"
            seconds = self._timeout_seconds if within is None else min(within, self._timeout_seconds)
            limits = aiohttp.ClientTimeout(seconds, sock_connect=CONNECT_SECONDS)
            try:
                return await _exchange(self._session(), method, address, data, limits)
            except _LOST as error:
                if self._is_closed or isinstance(error, aiohttp.ClientConnectorError):
                    raise
            # The network closes idle connections, and all of the pool may be lost. Repetitions are harmless.
            return await _exchange(self._fresh_session(), method, address, data, limits)
        except aiohttp.ConnectionTimeoutError as error:
            raise NoAnswer(error) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NoAnswer(error, may_have_arrived=isinstance(error, TimeoutError)) from error

    async def aclose(self) -> None:
        self._is_closed = True  # a request that loses its connection now is not sent again
        for session in (self._opened, self._unpooled):
            if session is not None:
                await session.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(ssl=self._trusted(), keepalive_timeout=IDLE_SECONDS)
            self._opened = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=self._timeout)
        return self._opened

    def _fresh_session(self) -> aiohttp.ClientSession:
        """Return a session that opens a connection for each request."""
        if self._unpooled is None:
            connector = aiohttp.TCPConnector(ssl=self._trusted(), force_close=True)
            self._unpooled = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=self._timeout)
        return self._unpooled

    def _trusted(self) -> Any:
        return network.ssl_context() if self._addresses.are_encrypted else True


async def _exchange(
    session: aiohttp.ClientSession, method: str, address: str, data: bytes | None, limits: aiohttp.ClientTimeout
) -> tuple[int, tuple[aiohttp.ClientResponse, bytes]]:
    proxy = _proxy_of(address)
    async with session.request(method, address, data=data, allow_redirects=False, timeout=limits, proxy=proxy) as reply:
        return reply.status, (reply, await reply.read())


def _proxy_of(address: str) -> str | None:
    """Return the proxy of a node; one without TLS is in the own network, which a proxy may not reach."""
    if not address.startswith("https:"):
        return None
    try:
        return network.proxy_of(address)
    except ValueError as error:
        raise NoAnswer(error) from error


def of_collection(name: str) -> str:
    """Return the path of a collection."""
    return f"/collections/{quote(name, safe='')}"
