"""Bodies and replies with one JSON object per line, read and written piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shared.http.openapi import NDJSON


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a request, without its end.

    Args:
        number: number from 1, including empty lines.
        content: None if the line was too long; its bytes are dropped.
    """

    number: int
    content: bytes | None


async def read_lines(pieces: AsyncIterator[bytes], max_bytes: int) -> AsyncGenerator[Line, None]:
    """Yield the lines of a body, without empty ones.

    Args:
        pieces: pieces of the body.
        max_bytes: maximum size of a line; a longer line is not held in memory.
    """
    number, line, too_long = 1, bytearray(), False
    async for piece in pieces:
        parts = piece.split(b"\n")
        for index, part in enumerate(parts):
            if index:
                if too_long or line.strip():
                    yield Line(number, None if too_long else bytes(line))
                number, too_long = number + 1, False
                line.clear()
            too_long = too_long or len(line) + len(part) > max_bytes
            if too_long:
                line.clear()
            else:
                line += part
    if too_long or line.strip():
        yield Line(number, None if too_long else bytes(line))


class LineStream(Response):
    """Lines of a reply, sent while the request is still being read.

    Most clients read nothing before they have sent everything, so this does not wait for the client: unread lines are
    kept in memory, and the producer limits their number.
    """

    # The class has no media type, because FastAPI would describe its replies as text.
    def __init__(self, results: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"content-type": NDJSON})
        del self.headers["content-length"]
        self._results = results

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive  # the results read the request
        lines = asyncio.Queue[bytes]()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._make(lines))
            body = await lines.get()  # a client that waits for "100 Continue" gets it before the reply starts
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while body:
                await send({"type": "http.response.body", "body": body, "more_body": True})
                body = await lines.get()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _make(self, lines: asyncio.Queue[bytes]) -> None:
        async with aclosing(self._results):
            async for piece in self._results:
                lines.put_nowait(piece)
        lines.put_nowait(b"")
