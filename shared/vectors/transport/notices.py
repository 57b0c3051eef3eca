"""Notices about refusals of Qdrant, which other processes show to people."""

from __future__ import annotations

from typing import Protocol

READS, WRITES = "qdrant:reads", "qdrant:writes"
_SECONDS = 90.0  # a refused write is repeated earlier


class NoticeBoard(Protocol):
    """Stores sentences for other processes without delaying the caller."""

    def put(self, name: str, sentence: str, seconds: float) -> None:
        """Store a sentence for some time."""

    def drop(self, name: str) -> None:
        """Delete a sentence."""


class _NoNotices:
    def put(self, name: str, sentence: str, seconds: float) -> None: ...

    def drop(self, name: str) -> None: ...


class Refusals:
    """The last refusal of reads or writes, which is a notice until a request succeeds.

    Args:
        name: `READS` or `WRITES`.
        notices: store of the notice; None in a process without one.
    """

    def __init__(self, name: str, notices: NoticeBoard | None) -> None:
        self._name = name
        self._notices: NoticeBoard = notices or _NoNotices()
        self._is_put = False

    def record(self, sentence: str, pause_seconds: float) -> None:
        """Store the refusal; it expires some time after the requested pause, if no process repeats the request."""
        self._is_put = True
        self._notices.put(self._name, sentence, pause_seconds + _SECONDS)

    def end(self) -> None:
        """Delete the refusal that this process has recorded."""
        if self._is_put:
            self._is_put = False
            self._notices.drop(self._name)
