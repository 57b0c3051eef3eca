"""Requests to Qdrant's REST API.

Qdrant's own client is not used: it takes 35 MB and 0.4 s of processor time in each process, and a request of it 1.1 ms,
most of it in its HTTP library. Over aiohttp a request takes 0.3 ms.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import SplitResult, quote

import aiohttp
import orjson

from shared.process.metrics import QDRANT_SECONDS
from shared.vectors.addresses import CONNECT_SECONDS, IDLE_SECONDS, Addresses
from shared.vectors.errors import ABSENT, NoAnswer, Refusal
from shared.vectors.spans import request_span

_OK = 200
_OK_SECONDS = QDRANT_SECONDS.labels("ok")
_REFUSED_SECONDS = QDRANT_SECONDS.labels("refused")
_FAILED_SECONDS = QDRANT_SECONDS.labels("failed")

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
        self._headers = {"content-type": "application/json"} | ({"api-key": api_key} if api_key else {})
        self._timeout = aiohttp.ClientTimeout(timeout_seconds, sock_connect=CONNECT_SECONDS)
        self._opened: aiohttp.ClientSession | None = None

    async def send(self, method: str, path: str, body: Body = None) -> Any:
        """Send a request, and return the `result` of its answer.

        Args:
            method: HTTP method.
            path: path and query; `of_collection` returns the start of most.
            body: object, which may contain NumPy vectors, or JSON.

        Raises:
            NoAnswer: no address answers, or the answer has no result.
            Refusal: Qdrant answers with an error.
        """
        data = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY) if isinstance(body, Mapping) else body
        started, taken = time.perf_counter(), _FAILED_SECONDS
        try:
            with request_span(method, path.partition("?")[0]) as span:
                reply, content = await self._addresses.answer(lambda url: self._send_to(url, method, path, data))
                # A collection does not exist before its first points, so 404 is not a failure.
                answers = reply.status in {_OK, ABSENT}
                if not answers:
                    span.fail(str(reply.status))
            taken = _OK_SECONDS if answers else _REFUSED_SECONDS
        finally:
            taken.observe(time.perf_counter() - started)
        if reply.status != _OK:
            raise Refusal(reply.status, content, _pause(reply))
        try:
            result = orjson.loads(content)["result"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise NoAnswer(error) from error
        if result is None:
            raise NoAnswer("the answer has no result")
        return result

    async def _send_to(
        self, url: SplitResult, method: str, path: str, data: bytes | None
    ) -> tuple[int, tuple[aiohttp.ClientResponse, bytes]]:
        try:
            address = f"{url.geturl().rstrip('/')}{path}"
            async with self._session().request(method, address, data=data, allow_redirects=False) as reply:
                return reply.status, (reply, await reply.read())
        except aiohttp.ConnectionTimeoutError as error:
            raise NoAnswer(error) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NoAnswer(error, may_have_arrived=isinstance(error, TimeoutError)) from error

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(ssl=self._trusted(), keepalive_timeout=IDLE_SECONDS)
            self._opened = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=self._timeout)
        return self._opened

    def _trusted(self) -> Any:
        if not self._addresses.are_encrypted:
            return True
        import httpx  # noqa: PLC0415 - only for its certificates: a small system has none of its own

        return httpx.create_ssl_context(trust_env=False)


def of_collection(name: str) -> str:
    """Return the path of a collection."""
    return f"/collections/{quote(name, safe='')}"


def _pause(reply: aiohttp.ClientResponse) -> timedelta | None:
    after = reply.headers.get("retry-after", "")
    return timedelta(seconds=int(after)) if after.isdecimal() else None
