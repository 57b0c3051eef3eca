"""The process of a collection: `python -m embedded.qdrant.serving SOCKET DIRECTORY CONFIGURATION`.

Queries overtake writes: between two operations of a write, the queries that have arrived are answered. Tenants take
turns.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import Any

import orjson

from embedded.qdrant import queries
from embedded.qdrant.errors import ErrorReply
from embedded.qdrant.messages import DONE, REFUSED, Inbox, Message, RequestKind, refusal
from embedded.qdrant.shard import Shard, parse
from embedded.qdrant.turns import QueuedRead, Turns, tenant_of

READS_AN_OPERATION = 8  # the most that overtake one, so that writes end


class Serving:
    """Answers the messages of one connection."""

    def __init__(self, inbox: Inbox, shard: Shard) -> None:
        self._inbox = inbox
        self._shard = shard
        self._reads = Turns()
        self._writes: deque[Message] = deque()
        self._writing: tuple[int, Generator[None, None, Any]] | None = None
        self._closed = False

    def run(self) -> None:
        """Answer until the collection is closed or the server ends."""
        overtaken = 0
        wait: float | None = None
        while not self._closed:
            arrived = self._inbox.receive(0 if self._reads or self._writes or self._writing else wait)
            if arrived is None:
                return
            for message in arrived:
                self._arrive(*message)
            is_writing = self._writes or self._writing
            started = self._reads.started
            # A search in several steps must not see a part of a write.
            reading = self._reads.next(may_start=overtaken < READS_AN_OPERATION or not is_writing)
            if reading is not None:
                overtaken += self._reads.started - started
                self._read(reading)
            elif is_writing:
                self._write()
                overtaken = 0
            if not self._reads:
                wait = self._shard.sync_if_due()

    def _arrive(self, number: int, code: int, body: bytes) -> None:
        kind = RequestKind(code)
        if kind is RequestKind.CANCEL:
            self._reads.remove(number)
        elif kind.is_read:
            try:
                request = parse(body)
            except ErrorReply as error:
                self._refuse(number, error)
            else:
                self._reads.add(tenant_of(request), QueuedRead(number, self._shard.read(kind, request)))
        else:
            self._writes.append((number, code, body))

    def _read(self, reading: QueuedRead) -> None:
        """Execute the next step of a read."""
        try:
            next(reading.steps)
        except StopIteration as end:
            self._reads.remove(reading.number)
            self._reply(reading.number, end.value)
        except BaseException as error:  # noqa: BLE001  a panic of the engine is not an `Exception`
            self._reads.remove(reading.number)
            self._refuse(reading.number, error)

    def _write(self) -> None:
        """Apply the next operation of the first write."""
        if self._writing is None:
            number, kind, body = self._writes.popleft()
            self._writing = number, self._steps(RequestKind(kind), body)
        number, steps = self._writing
        try:
            next(steps)
        except StopIteration as end:
            self._writing = None
            self._reply(number, [self._shard.written_points, end.value])
        except BaseException as error:  # noqa: BLE001  as above
            self._writing = None
            self._refuse(number, error)

    def _steps(self, kind: RequestKind, body: bytes) -> Generator[None, None, Any]:
        match kind:
            case RequestKind.HOLD:
                self._shard.hold()
            case RequestKind.RELEASE:
                self._shard.release()
            case RequestKind.REPLAY:
                path, start, end = orjson.loads(body)
                yield from self._shard.replay(Path(path), start, end)
            case RequestKind.CLOSE:
                self._closed = True
                self._shard.close()
            case _:
                return (yield from self._shard.write(kind, body))
        return 0

    def _reply(self, number: int, result: Any) -> None:
        self._inbox.reply(number, DONE, orjson.dumps(result, default=queries.encode))

    def _refuse(self, number: int, error: BaseException) -> None:
        if not isinstance(error, ErrorReply):
            traceback.print_exception(error)
            error = ErrorReply(500, f"Service internal error: {type(error).__name__}")
        self._inbox.reply(number, REFUSED, refusal(error))


def main(descriptor: str, directory: str, configuration: str) -> None:
    """Load the shard, report its state as the first reply, and serve."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to all; the server closes this process
    inbox = Inbox(socket.socket(fileno=int(descriptor)))
    folder = os.open(directory, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # the process of a server that was killed may still write
    shard = Shard(Path(directory), orjson.loads(Path(configuration).read_bytes())["config"])
    inbox.reply(0, DONE, orjson.dumps(shard.info()))
    Serving(inbox, shard).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
