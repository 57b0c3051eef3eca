"""A connection pool for the reads of points during queries.

A request through Qdrant's client takes 1.1 ms of CPU, most of it in its HTTP library; over aiohttp it takes 0.3 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, quote

import aiohttp
import httpx
import orjson

from shared.vectors.addresses import CONNECT_SECONDS, IDLE_SECONDS, Addresses
from shared.vectors.qdrant import ResourceExhaustedResponse, ResponseHandlingException, UnexpectedResponse
from shared.vectors.spans import request_span

_OK, _ABSENT, _TOO_MANY = 200, 404, 429


class ReadPool:
    """A connection pool to Qdrant for requests that read points; close it with `aclose`.

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

    async def read(self, name: str, path: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Send a request about a collection's points and return its result; its body may contain NumPy vectors.

        Raises:
            UnexpectedResponse, ResourceExhaustedResponse, ResponseHandlingException: as the client does.
        """
        path = f"/collections/{quote(name, safe='')}/points{path}"
        data = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)

        async def send(url: SplitResult) -> tuple[int, tuple[aiohttp.ClientResponse, bytes]]:
            try:
                async with self._session().post(
                    f"{url.geturl().rstrip('/')}{path}", data=data, allow_redirects=False
                ) as reply:
                    return reply.status, (reply, await reply.read())
            except aiohttp.ConnectionTimeoutError as error:
                raise ResponseHandlingException(ConnectionError(str(error))) from error
            except (aiohttp.ClientError, TimeoutError) as error:
                raise ResponseHandlingException(error) from error

        with request_span("POST", path) as span:
            reply, content = await self._addresses.answer(send)
            if reply.status not in {_OK, _ABSENT}:
                span.fail(str(reply.status))
        if reply.status != _OK:
            raise _refusal(reply, content)
        try:
            return list(orjson.loads(content)["result"])
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise ResponseHandlingException(error) from error

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            # The certificates that the client trusts: a small system has none of its own.
            trusted = httpx.create_ssl_context(trust_env=False) if self._addresses.are_encrypted else True
            connector = aiohttp.TCPConnector(ssl=trusted, keepalive_timeout=IDLE_SECONDS)
            self._opened = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=self._timeout)
        return self._opened


def _refusal(reply: aiohttp.ClientResponse, content: bytes) -> Exception:
    after = reply.headers.get("retry-after", "")
    if reply.status == _TOO_MANY and after.isdecimal():
        return ResourceExhaustedResponse("Qdrant asks for fewer requests", int(after))
    return UnexpectedResponse(reply.status, reply.reason or "", content, httpx.Headers(dict(reply.headers)))
