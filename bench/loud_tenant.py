"""A tenant far above its limits: `python -m bench.loud_tenant PORT KEY LIMIT SECONDS`, for `bench.tenants`.

It sends 20 times the allowed requests a second: queries, lists, small documents and the largest bodies, also bodies
over the limit, from many connections. It ignores `Retry-After` and replies that arrive while it is still sending. At
its end it prints one line of JSON: the replies by request kind and status, and its processor seconds.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import orjson
import uvloop

TIMES = 20
_LARGE = 24  # of the requests a second
_LARGE_AT_ONCE, _SMALL_AT_ONCE, _LISTENERS = 12, 64, 40
_JSON_BYTES, _FILE_BYTES = 20 * 1024 * 1024, 100 * 1024 * 1024  # the settings' defaults
_TEXT_CHARS = 19_900_000  # near FOREASK_TUNING__PARSE_MAX_TEXT_CHARS: longer texts are refused when they are parsed
_WORDS = b"The harbour opens at nine and closes when the last ferry has left. "
_PIECE_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30.0
_LEEWAY_BYTES = 1_000  # for JSON around a text, or the form around a file
_CHUNKED = -1
_FORM = "multipart/form-data; boundary=edge"
_PART = b'--edge\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b'


@dataclass(frozen=True, slots=True)
class Attack:
    """A request.

    Args:
        name: name under which its replies are counted.
        head: start of the body, different in each request.
        body: rest of the body; repeated if the request announces a longer body.
        announced: value of Content-Length; `_CHUNKED` for none.
    """

    name: str
    method: str
    path: str
    head: bytes = b""
    body: bytes = b""
    media_type: str = "application/json"
    announced: int | None = None

    def request_head(self, key: str) -> bytes:
        size = len(self.head) + len(self.body) if self.announced is None else self.announced
        length = "transfer-encoding: chunked" if size == _CHUNKED else f"content-length: {size}"
        lines = [f"{self.method} {self.path} HTTP/1.1", "host: 127.0.0.1", f"x-api-key: {key}", length]
        return "\r\n".join([*lines, f"content-type: {self.media_type}", "", ""]).encode()


class RawConnection:
    """One connection, opened again after the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, attack: Attack, key: str) -> str:
        """Send the complete request, even if a reply arrives meanwhile, and return its status or the failure."""
        try:
            return str(await asyncio.wait_for(self._send(attack, key), _TIMEOUT_SECONDS))
        except TimeoutError:
            outcome = "no reply"
        except (OSError, asyncio.IncompleteReadError):
            outcome = "cut off"
        self.close()
        return outcome

    async def _send(self, attack: Attack, key: str) -> int:
        if self._writer is None or self._reader is None or self._writer.is_closing() or self._reader.at_eof():
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        reply = asyncio.create_task(_reply(self._reader))  # a reset would lose a reply that was not read yet
        try:
            with suppress(OSError):  # a server may answer and close before it has received everything
                self._writer.write(attack.request_head(key))
                for piece in _pieces(attack):
                    self._writer.write(piece)
                    await self._writer.drain()
            status, closes = await reply
        finally:
            reply.cancel()
        if closes:
            self.close()
        return status

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def _reply(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read a reply to its end; return its status, and whether the server closes the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"content-length: " in head:
        await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
    elif b"transfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return int(head.split(b" ", 2)[1]), b"connection: close" in head


def _pieces(attack: Attack) -> Iterator[bytes | memoryview]:
    body = memoryview(attack.body)
    pieces = [body[start : start + _PIECE_BYTES] for start in range(0, len(body), _PIECE_BYTES)]
    if attack.announced is None:
        yield attack.head
        yield from pieces
        return
    left = 2 * _FILE_BYTES
    for piece in itertools.chain([memoryview(attack.head)], itertools.cycle(pieces)):
        part = piece[:left]
        yield b"%x\r\n%b\r\n" % (len(part), part) if attack.announced == _CHUNKED else part
        left -= len(part)
        if not left:
            break
    if attack.announced == _CHUNKED:
        yield b"0\r\n\r\n"


def _words(size: int) -> bytes:
    return (_WORDS * (size // len(_WORDS) + 1))[:size]


def large_attacks() -> Iterator[Attack]:
    """Yield documents of the largest allowed size, and larger ones, each under another name."""
    text = b'"text": "%b"}' % _words(_TEXT_CHARS)
    coded = b'"content_base64": "%b"}' % base64.b64encode(_words((_JSON_BYTES - _LEEWAY_BYTES) // 4 * 3))
    file = _words(_FILE_BYTES) + b"\r\n--edge--\r\n"
    path = "/v1/documents"
    for number in itertools.count():
        json = b'{"external_id": "large-%d", ' % number
        form = _PART % (b"external_id", b"large-%d\r\n" % number) + _PART % (b'file"; filename="a.txt', b"")
        yield Attack("20 MB of text", "POST", path, json, text)
        yield Attack("20 MiB of base 64", "POST", path, json, coded)
        yield Attack("a file of 100 MiB", "POST", path, form, file, _FORM)
        yield Attack("JSON over the limit", "POST", path, json, text, announced=2 * _FILE_BYTES)
        yield Attack("a file over the limit", "POST", path, form, file, _FORM, announced=2 * _FILE_BYTES)
        yield Attack("a file without an end", "POST", path, form, file[:-20], _FORM, announced=_CHUNKED)
        yield Attack("a query of 20 MB", "POST", "/v1/retrieve", json, text)


def small_attacks() -> Iterator[Attack]:
    """Yield the most frequent requests, numbered so that no two documents are equal."""
    question = orjson.dumps({"question": "When does the harbour open?"})
    for number in itertools.count():
        document = orjson.dumps({"external_id": f"loud-{number}", "text": f"Ferry {number} leaves at noon. " * 40})
        yield Attack("queries", "POST", "/v1/retrieve", body=question)
        yield Attack("lists", "GET", "/v1/documents?limit=200")
        yield Attack("queries", "POST", "/v1/retrieve", body=question)
        yield Attack("small documents", "POST", "/v1/documents", body=document)
        yield Attack("status", "GET", "/v1/status")
        yield Attack("collections", "PUT", f"/v1/collections/loud-{number}", body=b"{}")


@dataclass
class Loud:
    """All requests of the tenant.

    Args:
        limit: allowed requests a second.
    """

    port: int
    key: str
    limit: float
    replies: Counter[str] = field(default_factory=Counter)
    late: int = 0

    async def run(self, seconds: float) -> Self:
        tasks = [
            asyncio.create_task(self._keep_sending(small_attacks(), TIMES * self.limit - _LARGE, _SMALL_AT_ONCE)),
            asyncio.create_task(self._keep_sending(large_attacks(), _LARGE, _LARGE_AT_ONCE)),
            *(asyncio.create_task(self._keep_listening()) for _ in range(_LISTENERS)),
        ]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self

    async def _keep_sending(self, attacks: Iterator[Attack], rate: float, at_once: int) -> None:
        """Send at a rate; a request for which no connection is idle is counted as late and not sent."""
        idle = deque(RawConnection(self.port) for _ in range(at_once))
        running = set[asyncio.Task[None]]()

        async def send(attack: Attack, connection: RawConnection) -> None:
            outcome = await connection.send(attack, self.key)
            self.replies[f"{attack.name}: {outcome}"] += 1
            idle.append(connection)

        following = time.monotonic()
        try:
            for attack in attacks:
                await asyncio.sleep(max(0.0, following - time.monotonic()))
                following += 1 / rate
                if idle:
                    task = asyncio.create_task(send(attack, idle.popleft()))
                    running.add(task)
                    task.add_done_callback(running.discard)
                else:
                    self.late += 1
        finally:
            for task in running:
                task.cancel()

    async def _keep_listening(self) -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(Attack("", "GET", "/v1/events").head(self.key))
                status = (await reader.readuntil(b"\r\n")).split(b" ", 2)[1].decode()
                self.replies[f"listeners: {status}"] += 1
                if status == "200":
                    await reader.read(-1)
            except (OSError, asyncio.IncompleteReadError):
                self.replies["listeners: cut off"] += 1
            finally:
                writer.close()
            await asyncio.sleep(1)


def main() -> None:
    port, key, limit, seconds = sys.argv[1:]
    started = time.monotonic()
    loud = uvloop.run(Loud(int(port), key, float(limit)).run(float(seconds)))
    used = {"cpu_seconds": time.process_time(), "seconds": time.monotonic() - started, "late": loud.late}
    print(orjson.dumps({"replies": dict(loud.replies), **used}).decode())


if __name__ == "__main__":
    main()
