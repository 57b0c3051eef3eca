"""The client for programs with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from httpx_sse import EventSource
from tenacity import AsyncRetrying

from foreask_client import transport
from foreask_client.errors import error_of
from foreask_client.models import Event
from foreask_client.operations import Operations
from foreask_client.requests import Flow, Pages, Request, Stream

T = TypeVar("T")


class AsyncClient(Operations):
    """The API at a URL, for the tenant of a key; one client serves one event loop.

    Every method raises `ApiError` where the server refuses, fails or cannot be reached.

    Args:
        url: of the server, such as http://127.0.0.1:8350.
        key: None where the server asks for none.
        timeout_seconds: how long the server may say nothing.
        attempts: how often a request that may be repeated is sent, while the server cannot take it.
        http_transport: httpx's, in place of the network.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_seconds: float = 60.0,
        attempts: int = 5,
        http_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        options = transport.http_options(self.url, key, timeout_seconds)
        self._http = httpx.AsyncClient(**options, transport=http_transport)
        self._retry_rules = transport.retry_rules(attempts)

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, request: Request[T]) -> T:
        """Send one request, again where that is safe, and return its reply."""
        if not request.repeatable:
            return await self._once(request)
        reply: T = await AsyncRetrying(**self._retry_rules)(self._once, request)
        return reply

    async def _once(self, request: Request[T]) -> T:
        with transport.built(self._http, request) as built:
            with transport.connection_errors(transport.server_of(built, self.url)):
                response = await self._http.send(built)
            return transport.read(request, response)

    async def items(self, pages: Pages[T]) -> AsyncIterator[T]:
        """Yield the items of a list, page by page."""
        for_page = transport.PageRequests(pages)
        while (request := for_page.next()) is not None:
            for item in await self.send(request):
                yield item

    async def events_of(self, stream: Stream) -> AsyncGenerator[Event, None]:
        """Yield events as they come; closing the iterator closes the connection."""
        with transport.connection_errors(self.url):
            response = await self._http.send(transport.built_stream(self._http, stream), stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    raise error_of(response)
                async for event in EventSource(response).aiter_sse():
                    yield transport.read_event(stream, event)
            finally:
                await response.aclose()

    async def run(self, flow: Flow[T]) -> T:
        """Send the requests of a flow in turn, and return its result."""
        received: Any = None
        try:
            while True:
                step = flow.send(received)
                if isinstance(step, Request):
                    received = await self.send(step)
                else:
                    await asyncio.sleep(step.seconds)
        except StopIteration as end:
            result: T = end.value
            return result
