"""Spans: no-ops while traces are disabled. `RecordedSpan` in `trace_export` is exported."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Literal, Self

Kind = Literal["internal", "client"]
Attributes = Mapping[str, str | int | float | bool]


class Span:
    """A span as a `with` block. This one is not recorded, and ignores all attributes."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        return None

    @property
    def is_recording(self) -> bool:
        """Whether attributes will be recorded."""
        return False

    @property
    def traceparent(self) -> str | None:
        """Its W3C Trace Context header for other processes; None if traces are disabled."""
        return None

    @property
    def ids(self) -> Mapping[str, str]:
        """Its fields for log lines."""
        return {}

    def child(self, name: str, kind: Kind, attributes: Attributes) -> Span:
        """Create a child span."""
        del name, kind, attributes
        return NOTHING

    def note(self, name: str, value: str | int) -> None:
        """Add an attribute: an id or a number."""

    def rename(self, name: str) -> None:
        """Set a name that was unknown at its start."""

    def fail(self, kind: str) -> None:
        """Record a failure; `kind` is the class of the error, or a status."""


NOTHING = Span()
current: ContextVar[Span] = ContextVar("span", default=NOTHING)
