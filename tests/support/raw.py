"""A server of raw bytes: its replies may break off, lie about their length, or never come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import orjson


@dataclass
class RawServer:
    """A running server.

    Args:
        url: its base URL.
        bodies: JSON bodies of the received requests, in order.
    """

    url: str = ""
    bodies: list[dict[str, object]] = field(default_factory=list)


Answer = Callable[[dict[str, object]], bytes | None]
"""Returns the bytes for a request's body, after which the connection is closed; None: it stays open in silence."""


@asynccontextmanager
async def raw_server(answer: Answer) -> AsyncIterator[RawServer]:
    """Serve bytes for each request."""
    server = RawServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].split("\r\n")[0])
            body = orjson.loads(await reader.readexactly(length))
            server.bodies.append(body)
            reply = answer(body)
            if reply is None:
                await asyncio.Event().wait()
            else:
                writer.write(reply)
                await writer.drain()
        finally:
            writer.close()

    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    server.url = "http://{}:{}/v1".format(*listener.sockets[0].getsockname())
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
                await task


def reply(value: object, status: int = 200, *, sent: float = 1.0) -> bytes:
    """Return an HTTP reply with a JSON value or bytes, of which only the share `sent` follows the head."""
    body = value if isinstance(value, bytes) else orjson.dumps(value)
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + body[: int(len(body) * sent)]
