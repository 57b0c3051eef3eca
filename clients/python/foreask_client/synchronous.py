"""The client for programs without asyncio."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from httpx_sse import EventSource
from tenacity import Retrying

from foreask_client import transport
from foreask_client.errors import error_of
from foreask_client.models import Event
from foreask_client.operations import Operations
from foreask_client.requests import Flow, Pages, Request, Stream

T = TypeVar("T")


class Client(Operations):
    """The API at a URL, for the tenant of a key. Safe to use from many threads.

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
        http_transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        options = transport.http_options(self.url, key, timeout_seconds)
        self._http = httpx.Client(**options, transport=http_transport)
        self._retry_rules = transport.retry_rules(attempts)

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, request: Request[T]) -> T:
        """Send one request, again where that is safe, and return its reply."""
        if not request.repeatable:
            return self._once(request)
        reply: T = Retrying(**self._retry_rules)(self._once, request)
        return reply

    def _once(self, request: Request[T]) -> T:
        with transport.built(self._http, request) as built:
            with transport.connection_errors(transport.server_of(built, self.url)):
                response = self._http.send(built)
            return transport.read(request, response)

    def items(self, pages: Pages[T]) -> Iterator[T]:
        """Yield the items of a list, page by page."""
        for_page = transport.PageRequests(pages)
        while (request := for_page.next()) is not None:
            yield from self.send(request)

    def events_of(self, stream: Stream) -> Generator[Event, None, None]:
        """Yield events as they come; closing the iterator closes the connection."""
        with transport.connection_errors(self.url):
            response = self._http.send(transport.built_stream(self._http, stream), stream=True)
            try:
                if response.is_error:
                    response.read()
                    raise error_of(response)
                for event in EventSource(response).iter_sse():
                    yield transport.read_event(stream, event)
            finally:
                response.close()

    def run(self, flow: Flow[T]) -> T:
        """Send the requests of a flow in turn, and return its result."""
        received: Any = None
        try:
            while True:
                step = flow.send(received)
                if isinstance(step, Request):
                    received = self.send(step)
                else:
                    time.sleep(step.seconds)
        except StopIteration as end:
            result: T = end.value
            return result
