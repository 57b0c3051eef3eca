"""A TCP proxy that fails on demand: one process with a link to each engine, under remote control.

Run it as `python -m tests.support.proxy '{"broker": "127.0.0.1:6379"}'`; it prints its ports as JSON, with the port of
the remote control under `control`. `POST /broker {"mode": "cut"}` changes a link, `PUT /broker` with an address turns
it to another engine, `GET /broker` returns its counts.
"""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import orjson
import uvloop
from aiohttp import web

Mode = Literal["pass", "cut", "hole", "stale", "deaf", "reset", "drip"]
_READ_BYTES = 65_536
REFUSAL = b'{"status":{"error":"Service internal error: No space left on device: WAL buffer size exceeds"},"time":0.1}'
_DRIP_BYTES = 64
_DRIP_SECONDS = 0.05
_SO_ATTACH_FILTER, _SO_MEMINFO = 26, 55
_MEMINFO = struct.Struct("9I")  # the last number counts dropped packets
_WATCH_SECONDS = 0.005
_DROP_ALL = struct.pack("HBBI", 6, 0, 0, 0)  # a program of BPF: return 0
_RST_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


@dataclass
class Fault:
    """The behaviour of a link.

    Args:
        mode: `pass`; `cut`: all connections are closed, including new ones; `reset`: the same with RST; `hole`:
            connections are accepted and stay open, but no data passes; `stale`: existing connections stay open and
            silent, and new ones pass; `deaf`: the kernel drops every packet of existing connections without an
            acknowledgement, as after a network failure, and new ones pass (Linux); `drip`: a few bytes at a time.
        latency_seconds: delay of each piece of data.
        swallow: text of requests whose replies are lost and whose connections are closed.
        times: number of replies that are lost.
        refuse: text of HTTP requests that get `status` and never reach the server.
        status: HTTP status of refused requests.
        idle_seconds: time without data after which a connection is closed, as by a load balancer; 0 for never.
        forgets: whether an idle connection is not closed, but reset at its next data, as by a router that forgot it.
        torn: number of replies that are reset after their first bytes, as is the request's connection.
    """

    mode: Mode = "pass"
    latency_seconds: float = 0.0
    swallow: str = ""
    times: int = 0
    refuse: str = ""
    status: int = 500
    idle_seconds: float = 0.0
    forgets: bool = False
    torn: int = 0


@dataclass(eq=False)
class ProxiedConnection:
    """A client's connection and the proxy's connection to the engine."""

    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    swallowing: bool = False
    stale: bool = False
    torn: bool = False
    forgotten: bool = False
    used_at: float = field(default_factory=time.monotonic)
    watching: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """Reset the connection at its next data; on Linux without an acknowledgement of it, as a router does."""
        self.forgotten = True
        if sys.platform == "linux":
            self.ignore_client()
            self.watching = asyncio.create_task(self._reset_at_next_packet())

    async def _reset_at_next_packet(self) -> None:
        opened = self.writers[0].get_extra_info("socket")
        while not _MEMINFO.unpack(opened.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size))[-1]:
            await asyncio.sleep(_WATCH_SECONDS)
        self.watching = None
        self.close(reset=True)

    def ignore_client(self) -> None:
        """Drop every packet that the client sends from now on."""
        program = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
        filter_ = struct.pack("HP", 1, ctypes.addressof(program))
        self.writers[0].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)

    def close(self, *, reset: bool) -> None:
        if self.watching is not None:
            self.watching.cancel()
        for writer in self.writers:
            if reset:
                with suppress(OSError):  # it is already closed
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            writer.transport.abort()


class Link:
    """Forwards connections to one engine."""

    def __init__(self, target: str) -> None:
        self._host, self._port = target.rsplit(":", 1)
        self.fault = Fault()
        self.swallowed = 0
        self.refused = 0
        self.accepted = 0
        self.idle_closed = 0
        self._closing: asyncio.Task[None] | None = None
        self._connections: set[ProxiedConnection] = set()
        self._server: asyncio.Server
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        return int(self._server.sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        self._server.close()
        for connection in list(self._connections):
            connection.close(reset=True)
        await self._server.wait_closed()

    def turn(self, target: str) -> None:
        """Forward new connections to another engine, and close all others, as a virtual address does in a failover."""
        self._host, self._port = target.rsplit(":", 1)
        for connection in list(self._connections):
            connection.close(reset=True)

    def change(self, fault: Fault) -> None:
        self.fault = fault
        if self._closing is not None:
            self._closing.cancel()
        self._closing = asyncio.create_task(self._close_idle(fault.idle_seconds)) if fault.idle_seconds else None
        if fault.mode in ("cut", "reset"):
            for connection in list(self._connections):
                connection.close(reset=fault.mode == "reset")
        if fault.mode == "stale":
            for connection in self._connections:
                connection.stale = True
        if fault.mode == "deaf":
            for connection in self._connections:
                connection.ignore_client()
        if fault.mode == "hole":
            self._flowing.clear()
        else:
            self._flowing.set()  # delayed data continues, as after a network failure

    async def _close_idle(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(min(seconds / 10, 0.05))
            for connection in list(self._connections):
                if connection.forgotten or time.monotonic() - connection.used_at < seconds:
                    continue
                self.idle_closed += 1
                if self.fault.forgets:
                    connection.forget()
                else:
                    self._connections.discard(connection)
                    connection.close(reset=False)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        connection = ProxiedConnection([writer])
        self._connections.add(connection)
        try:
            await self._flowing.wait()
            if connection.stale:
                await reader.read()
            if connection.stale or self.fault.mode in ("cut", "reset"):
                return
            with suppress(OSError):
                upstream = await asyncio.open_connection(self._host, int(self._port))
                connection.writers.append(upstream[1])
                await self._forward(connection, (reader, upstream[1]), (upstream[0], writer))
        finally:
            self._connections.discard(connection)
            connection.close(reset=connection.torn or self.fault.mode == "reset")

    async def _forward(
        self, connection: ProxiedConnection, *directions: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        """Forward data in both directions until one of them ends."""
        up, down = (
            asyncio.create_task(self._pump(connection, *direction, up=i == 0)) for i, direction in enumerate(directions)
        )
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _pump(
        self, connection: ProxiedConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool
    ) -> None:
        while data := await reader.read(_READ_BYTES):
            connection.used_at = time.monotonic()
            if connection.forgotten:
                connection.torn = True
                return
            await self._flowing.wait()
            if connection.stale:
                await asyncio.Event().wait()
            if up and self.fault.refuse and self.fault.refuse.encode() in data:
                await self._refuse(connection, reader)
                return
            if up:
                self._watch(connection, data)
            elif connection.swallowing:
                self.swallowed += 1
                return
            elif self.fault.torn > 0:
                self.fault.torn -= 1
                connection.torn = True
                await self._write(writer, data[: len(data) // 2])
                return
            if self.fault.latency_seconds:
                await asyncio.sleep(self.fault.latency_seconds)
            await self._write(writer, data)

    async def _refuse(self, connection: ProxiedConnection, reader: asyncio.StreamReader) -> None:
        """Answer instead of the server, and read the rest of the request until the client closes."""
        self.refused += 1
        head = f"HTTP/1.1 {self.fault.status} Refused\r\ncontent-type: application/json\r\nconnection: close\r\n"
        connection.writers[0].write(f"{head}content-length: {len(REFUSAL)}\r\n\r\n".encode() + REFUSAL)
        while await reader.read(_READ_BYTES):
            pass

    def _watch(self, connection: ProxiedConnection, data: bytes) -> None:
        if self.fault.times > 0 and self.fault.swallow.encode() in data:
            self.fault.times -= 1
            connection.swallowing = True

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        while data and self.fault.mode == "drip":
            writer.write(data[:_DRIP_BYTES])
            data = data[_DRIP_BYTES:]
            await asyncio.sleep(_DRIP_SECONDS)
        writer.write(data)
        await writer.drain()


class Control:
    """Remote control of the links over HTTP."""

    def __init__(self, links: dict[str, Link]) -> None:
        self._links = links

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [web.post("/{link}", self.change), web.put("/{link}", self.turn), web.get("/{link}", self.report)]
        )
        return app

    async def change(self, request: web.Request) -> web.Response:
        self._links[request.match_info["link"]].change(Fault(**orjson.loads(await request.read())))
        return web.json_response({})

    async def turn(self, request: web.Request) -> web.Response:
        self._links[request.match_info["link"]].turn((await request.read()).decode())
        return web.json_response({})

    async def report(self, request: web.Request) -> web.Response:
        link = self._links[request.match_info["link"]]
        counts = ("accepted", "swallowed", "refused", "idle_closed")
        return web.json_response({name: getattr(link, name) for name in counts})


async def serve(targets: dict[str, str]) -> None:
    links = {name: Link(target) for name, target in targets.items()}
    ports = {name: await link.listen() for name, link in links.items()}
    runner = web.AppRunner(Control(links).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(orjson.dumps(ports | {"control": runner.addresses[0][1]}).decode(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(orjson.loads(sys.argv[1])))
