"""The kind of confined process that reads contents of sources with the readers of one module.

A message starts with a byte: `MESSAGE` for one of the reader, `END` for the last one, which has the outcome.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from shared.confined import usage
from shared.confined.protocol import DETAIL_CHARS, REASON_CHARS, Load, ProcessMustExit, Work
from shared.domain.errors import Unreadable

MESSAGE, END = b"m", b"e"

Read = Callable[[Mapping[str, Any], Sequence[BinaryIO]], Generator[bytes]]
"""Yields the messages of the worker's options and files."""


def prepare(_: Path, module: str) -> Load:
    """Import a module of readers."""
    readers: Mapping[str, Read] = import_module(module).READERS

    def load() -> Work:
        return _Answers(readers).messages

    return load


class _Answers:
    """Answers requests with readers."""

    def __init__(self, readers: Mapping[str, Read]) -> None:
        self._readers = readers

    def messages(self, body: bytes, descriptors: Sequence[int]) -> Iterator[bytes]:
        request = orjson.loads(body)
        usage.empty_scratch()
        outcome, reason, detail = "done", "", ""
        with ExitStack() as stack:
            files = [stack.enter_context(_opened(descriptor)) for descriptor in descriptors]
            try:
                usage.start_clock(request["seconds"])
                reading = stack.enter_context(closing(self._readers[request["reader"]](request["options"], files)))
                for message in reading:
                    yield MESSAGE + message
                    usage.start_clock(request["seconds"])
            except Unreadable as error:
                outcome, reason, detail = "unreadable", error.message, error.detail
            except MemoryError:
                outcome = "memory"
            except RecursionError:
                outcome, reason = "unreadable", "it is nested too deeply to be read"
            except Exception as error:  # noqa: BLE001 - the process boundary: the parent classifies the error
                outcome, detail = "broken", f"{type(error).__name__}: {error}"
        yield END + orjson.dumps(
            {
                "outcome": outcome,
                "reason": reason[:REASON_CHARS],
                "detail": detail[:DETAIL_CHARS],
                "resident_bytes": usage.resident_bytes(),
                "cpu_seconds": usage.cpu_seconds(),
            }
        )
        if outcome == "memory":
            raise ProcessMustExit


def _opened(descriptor: int) -> BinaryIO:
    """Return a file at its start: a descriptor's position is shared with processes that had it before."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.fdopen(descriptor, "rb")
