"""The addresses of one Qdrant: requests go to one of its nodes, and to the next where that does not answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import SplitResult, urlsplit

import structlog
from httpx import ConnectTimeout, Request, Response, TimeoutException
from qdrant_client.http.exceptions import ResponseHandlingException

_PORT = 6333
_CONNECT_SECONDS = 3.0  # a machine that is gone says nothing
_RETURN_SECONDS = 30.0
_AWAY = frozenset({502, 503, 504})  # the node's peers are away, or the node is behind a proxy
log = structlog.get_logger()

Send = Callable[[Request], Awaitable[Response]]


class Addresses:
    """Middleware of Qdrant's client that chooses the address of each request.

    Every request may be sent twice: points are written and deleted under conditions that make a repetition harmless.

    Args:
        urls: of nodes of one cluster, in the order in which this process uses them.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = [urlsplit(url) for url in urls]
        self._used = 0
        self._return_at = 0.0

    async def send(self, request: Request, call_next: Send) -> Response:
        """Send a request to the address in use and, where that does not answer, once to each of the others.

        A request that was taken and not answered in time goes nowhere else: it may be under way.

        Raises:
            ResponseHandlingException: no address answers.
        """
        *earlier, last = self._in_order()
        for url in earlier:
            try:
                response = await self._send_to(url, request, call_next)
            except ResponseHandlingException as error:
                if isinstance(error.source, TimeoutException) and not isinstance(error.source, ConnectTimeout):
                    raise
            else:
                if response.status_code not in _AWAY:
                    return response
        return await self._send_to(last, request, call_next)

    async def _send_to(self, url: SplitResult, request: Request, call_next: Send) -> Response:
        """Send a request to one address, and leave that where no answer comes while the caller waits."""
        request.url = request.url.copy_with(scheme=url.scheme, host=url.hostname, port=url.port or _PORT)
        request.headers["host"] = request.url.netloc.decode()
        request.extensions["timeout"] = request.extensions["timeout"] | {"connect": _CONNECT_SECONDS}
        answers = False
        try:
            response = await call_next(request)
            answers = response.status_code not in _AWAY
        finally:
            if not answers:
                self._leave(url)
        return response

    def _in_order(self) -> list[SplitResult]:
        if time.monotonic() >= self._return_at:
            self._used = 0
        return self._urls[self._used :] + self._urls[: self._used]

    def _leave(self, url: SplitResult) -> None:
        """Use the next address from now on, for a while."""
        if self._urls[self._used] is not url:  # another request has left it
            return
        self._used = (self._used + 1) % len(self._urls)
        self._return_at = time.monotonic() + _RETURN_SECONDS
        log.warning("qdrant.address_left", left=url.netloc.rpartition("@")[2])
