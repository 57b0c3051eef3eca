"""The server: it reads requests from sockets, and writes the bytes of replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Self

import orjson

from tests.support.quirks.chats import CHATS
from tests.support.quirks.vectors import VECTORS
from tests.support.quirks.wire import Call, Reply, said

_DRIP_SECONDS = 0.05
_MOST_BYTES = 2**24


class QuirkServer:
    """A model server with quirks.

    Args:
        calls: requests that arrived, with their replies.
        everywhere: the quirk of requests whose texts choose none; "" for none.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Call, Reply]] = []
        self.everywhere = ""
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()

    @classmethod
    @asynccontextmanager
    async def serving(cls) -> AsyncIterator[Self]:
        """Serve on a free port of the loopback interface, in the running loop."""
        self = cls()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_MOST_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._open:
                writer.transport.abort()
            await server.wait_closed()

    def url(self, name: str = "") -> str:
        """Return a base URL; each name is another provider for the limiter."""
        return f"http://127.0.0.1:{self.port}/{name}/v1".replace("//v1", "/v1")

    def forget(self) -> None:
        """Forget the calls and the quirk of all requests."""
        self.calls = []
        self.everywhere = ""

    def count(self, containing: str = "", *, billed: bool = False) -> int:
        """Count the calls with a text; the billed ones, if `billed`."""
        return sum(
            any(containing in text for text in call.texts) and (reply.is_billed or not billed)
            for call, reply in self.calls
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while (call := await self._received(reader)) is not None:
                    reply = _reply_to(call)
                    self.calls.append((call, reply))
                    if not await _sent(reply, reader, writer):
                        return
        finally:
            self._open.discard(writer)
            writer.close()

    async def _received(self, reader: asyncio.StreamReader) -> Call | None:
        """Read a request; None at the end of the connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().strip().split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        content = await reader.readexactly(int(fields.get("content-length", 0)))
        call = Call(first.split(" ")[1], fields, orjson.loads(content) if content else {})
        known = CHATS if call.is_chat else VECTORS
        chosen = next((marker for marker in call.markers if marker in known), "")
        return replace(call, quirk=chosen or self.everywhere, everywhere=not chosen)


def _reply_to(call: Call) -> Reply:
    if call.is_chat:
        return CHATS[call.quirk](call) if call.quirk in CHATS else said(call, call.answer)
    if call.path.partition("?")[0].endswith("/embeddings"):
        return VECTORS[call.quirk if call.quirk in VECTORS else ""](call)
    return Reply(404, "404 page not found", kind="text/plain")


async def _sent(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Send a reply, and return whether the connection stays open."""
    match reply.ends:
        case "closed":
            return False
        case "half":
            writer.write(reply.head + reply.content[: len(reply.content) // 2])
            await writer.drain()
            return False
        case "dripping":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
            while not reader.at_eof():
                writer.write(b"1\r\n\n\r\n")
                await asyncio.sleep(_DRIP_SECONDS)
            return False
    if reply.pieces:
        writer.write(reply.head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in reply.pieces))
        await writer.drain()
        if reply.ends == "complete":
            writer.write(b"0\r\n\r\n")
    elif reply.ends == "complete":
        writer.write(reply.head + reply.content)
    await writer.drain()
    if reply.ends == "hung":
        await reader.read()  # until the client closes
    return reply.ends == "complete"
