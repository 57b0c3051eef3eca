"""The addresses of a Qdrant cluster: requests are sent to one node, and to the next one if it does not answer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

import structlog

from shared.vectors.transport.errors import NoAnswer

CONNECT_SECONDS = 3.0  # a lost machine sends no reply
IDLE_SECONDS = 4.0  # a server closes connections that are idle for five
_PORT = 6333
_RETURN_SECONDS = 30.0
_UNAVAILABLE = frozenset({502, 503, 504})  # the node's peers are unavailable, or a proxy answers for the node
log = structlog.get_logger()

Answer = TypeVar("Answer")
Send = Callable[[SplitResult], Awaitable[tuple[int, Answer]]]
"""Sends a request to an address; returns the status of the answer, and the answer."""


class Addresses:
    """Chooses the address of each request to Qdrant.

    Every request may be sent twice: points are written and deleted under conditions that make repetitions harmless.

    Args:
        urls: URLs of nodes of one cluster, in the order in which this process uses them.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = [_with_port(urlsplit(url)) for url in urls]
        self._used = 0
        self._return_at = 0.0

    @property
    def are_several(self) -> bool:
        return len(self._urls) > 1

    @property
    def are_encrypted(self) -> bool:
        return any(url.scheme == "https" for url in self._urls)

    async def answer(self, send: Send[Answer]) -> Answer:
        """Send a request to the current address and, if it does not answer, once to each of the others.

        A request that was accepted and not answered in time is not sent elsewhere, because it may be running.

        Raises:
            NoAnswer: no address answers.
        """
        *earlier, last = self._in_order()
        for url in earlier:
            try:
                status, answer = await self._send_to(url, send)
            except NoAnswer as error:
                if error.may_have_arrived:
                    raise
            else:
                if status not in _UNAVAILABLE:
                    return answer
        return (await self._send_to(last, send))[1]

    async def _send_to(self, url: SplitResult, send: Send[Answer]) -> tuple[int, Answer]:
        """Send a request to one address, and switch to the next if no answer arrives while the caller waits."""
        answers = False
        try:
            status, answer = await send(url)
            answers = status not in _UNAVAILABLE
        finally:
            if not answers:
                self._leave(url)
        return status, answer

    def _in_order(self) -> list[SplitResult]:
        if time.monotonic() >= self._return_at:
            self._used = 0
        return self._urls[self._used :] + self._urls[: self._used]

    def _leave(self, url: SplitResult) -> None:
        """Use the next address for some time."""
        if not self.are_several or self._urls[self._used] is not url:  # another request has left it
            return
        self._used = (self._used + 1) % len(self._urls)
        self._return_at = time.monotonic() + _RETURN_SECONDS
        log.warning("qdrant.address_abandoned", address=url.netloc.rpartition("@")[2])


def _with_port(url: SplitResult) -> SplitResult:
    return url if url.port else url._replace(netloc=f"{url.netloc.rstrip(':')}:{_PORT}")
