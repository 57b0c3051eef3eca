"""Requests to Qdrant's REST API.

They do not go through Qdrant's own client, which takes 35 MB and 0.4 s of processor time in each process, and 1.1 ms
for a request, most of it in its HTTP library.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, quote

import orjson

from shared.domain.retry_after import retry_after
from shared.process import network
from shared.process.network.http import Client, Options, Reply
from shared.process.network.http.errors import ConnectTimedOut
from shared.process.telemetry.metrics import QDRANT_SECONDS
from shared.vectors.transport.addresses import CONNECT_SECONDS, IDLE_SECONDS, Addresses
from shared.vectors.transport.errors import ABSENT, NoAnswer, Refusal
from shared.vectors.transport.spans import request_span

_OK = 200
_OK_SECONDS = QDRANT_SECONDS.labels("ok")
_REFUSED_SECONDS = QDRANT_SECONDS.labels("refused")
_FAILED_SECONDS = QDRANT_SECONDS.labels("failed")

_CONNECTIONS = 100
# The network closes idle connections, and all of the pool may be lost. Repetitions are harmless.
_OPTIONS = Options(CONNECT_SECONDS, IDLE_SECONDS, _CONNECTIONS, may_repeat=True)

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
        self._clients = dict[SplitResult, Client]()

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
                reply = await self._addresses.answer(lambda url: self._send_to(url, method, path, data, within))
                # A collection does not exist before its first points, so 404 is not a failure.
                answers = reply.status in {_OK, ABSENT}
                if not answers:
                    span.fail(str(reply.status))
            taken = _OK_SECONDS if answers else _REFUSED_SECONDS
        finally:
            taken.observe(time.perf_counter() - started)
        if reply.status != _OK:
            raise Refusal(reply.status, reply.content, retry_after(reply.headers))
        try:
            result = orjson.loads(reply.content)["result"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise NoAnswer(error) from error
        if result is None:
            raise NoAnswer("the answer has no result")
        return result

    async def _send_to(
        self, url: SplitResult, method: str, path: str, data: bytes | None, within: float | None
    ) -> tuple[int, Reply]:
        seconds = self._timeout_seconds if within is None else min(within, self._timeout_seconds)
        try:
            reply = await self._client_of(url).send(method, url.path.rstrip("/") + path, data, seconds=seconds)
        except ConnectTimedOut as error:
            raise NoAnswer(error) from error
        except OSError as error:
            raise NoAnswer(error, may_have_arrived=isinstance(error, TimeoutError)) from error
        return reply.status, reply

    def _client_of(self, url: SplitResult) -> Client:
        client = self._clients.get(url)
        if client is None:
            client = self._clients[url] = Client(url.geturl(), self._headers, _OPTIONS, lambda: _proxy_of(url.geturl()))
        return client

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()


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
