"""A connection to the server, through which every method sends its requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from copy import copy
from types import TracebackType
from typing import Self, TypeVar

import httpx
from httpx_sse import EventSource

from foreask_client import transport
from foreask_client.errors import ApiError, error_of
from foreask_client.requests import AsyncEvents, Pages, Request, Stream

T = TypeVar("T")


class Connection:
    """Sends requests, reads replies, and repeats requests if that is safe."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        user: str | None = None,
        groups: Sequence[str] = (),
        timeout_seconds: float = 60.0,
        attempts: int = 5,
        headers: Mapping[str, str] | None = None,
        http_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        options = transport.http_options(self.url, timeout_seconds)
        self._auth = transport.Bearer(options["base_url"], key, user, groups)
        self._http = transport.AsyncHttp(**options, headers=headers, transport=http_transport)
        self._attempts = attempts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    def acting_for(self, user: str | None, groups: Sequence[str] = ()) -> Self:
        """Return a client for another person. Both have the same connections: closing one closes the other.

        Args:
            user: name of the person for whom the key acts, which needs the scope `delegate`; None: the key itself.
            groups: groups of this person.

        Raises:
            ValueError: there are groups without a user.
        """
        other = copy(self)
        other._auth = self._auth.acting_for(user, groups)  # noqa: SLF001  of the same class
        return other

    async def send(self, request: Request[T]) -> T:
        """Send one request and return its reply. A repeatable request is sent again after a transient error."""
        attempts = self._attempts if request.repeatable else 1
        attempt = 1
        while True:
            try:
                return await self._send_once(request)
            except ApiError as error:
                if attempt >= attempts or not transport.is_worth_repeating(error):
                    raise
                pause = transport.seconds_until_next(error, attempt)
            await self._pause(pause)
            attempt += 1

    async def _send_once(self, request: Request[T]) -> T:
        with transport.built(self._http, request) as built:
            with transport.connection_errors(transport.server_of(built, self.url)):
                response = await self._http.send(built, auth=self._auth)
            return transport.read(request, response)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def items(self, pages: Pages[T]) -> AsyncIterator[T]:
        """Yield the items of a list, page by page."""
        requests = transport.PageRequests(pages)
        while (request := requests.next()) is not None:
            for item in await self.send(request):
                yield item

    async def events_of(self, stream: Stream) -> AsyncEvents:
        """Yield events when they arrive. Closing the iterator closes the connection."""
        with transport.connection_errors(self.url):
            built = transport.built_stream(self._http, stream)
            response = await self._http.send(built, auth=self._auth, stream=True)
            try:
                if response.is_error:
                    await response.aread()
                    raise error_of(response)
                async for event in EventSource(response).aiter_sse():
                    yield transport.read_event(stream, event)
            finally:
                await response.aclose()
