"""Traces: the work of a request or a claim as spans that OpenTelemetry exports.

OpenTelemetry's own variables enable traces. Without them neither its tracer nor its exporter is imported, and a span is
a no-op. A span starts within another one, or with a request or a claim: other work has no trace.

A span contains ids and numbers: no text, no question, no address and no key. An error is recorded by its class only,
because its message may quote any of these.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from shared.process.telemetry.spans import NOTHING, Attributes, Kind, Span, current

if TYPE_CHECKING:
    from shared.process.telemetry.trace_export import Recorder

_CONTEXT_HEADERS = {b"traceparent", b"tracestate"}  # W3C Trace Context
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_FLUSH_SECONDS = 2.0  # for spans left at exit: a supervisor waits five seconds longer than the grace
_NO_ATTRIBUTES: Attributes = {}

log = structlog.get_logger()


class _ProcessRecorder:
    """The recorder of this process; None while traces are disabled."""

    recorder: Recorder | None = None


def request(method: str, headers: Iterable[tuple[bytes, bytes]], attributes: Attributes) -> Span:
    """Create the span of an HTTP request; its parent is the span in the caller's `traceparent`."""
    recorder = _ProcessRecorder.recorder
    if recorder is None:
        return NOTHING
    context = {name.decode(): value.decode("latin-1") for name, value in headers if name in _CONTEXT_HEADERS}
    return recorder.request(method, context, attributes)


def work(stage: str, traced: Mapping[str, Attributes]) -> Span:
    """Create the span of a claim, one in each trace of its work; without a trace nothing is recorded.

    Args:
        stage: name of the stage.
        traced: attributes by `traceparent`. Work within the span belongs to the first sampled trace, and the spans in
            other traces link to the span there: a batch makes its calls once for all its documents.
    """
    recorder = _ProcessRecorder.recorder
    return recorder.work(stage, traced) if recorder is not None and traced else NOTHING


def span(name: str, kind: Kind = "internal", attributes: Attributes = _NO_ATTRIBUTES) -> Span:
    """Create a child of the current span."""
    return current.get().child(name, kind, attributes)


def note(name: str, value: str | int) -> None:
    """Add an attribute to the current span."""
    current.get().note(name, value)


def is_recording() -> bool:
    """Return whether a span that started now would be recorded."""
    return current.get().is_recording


def traceparent() -> str | None:
    """Return the current span's header for other processes; None if traces are disabled."""
    return current.get().traceparent


def add_ids(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Name the current span in a log line."""
    event.update(current.get().ids)
    return event


@asynccontextmanager
async def exporting(role: str, grace: timedelta) -> AsyncIterator[None]:
    """Export the spans of this process while the block runs, if OpenTelemetry's variables enable it.

    A thread sends spans in batches. An unavailable collector costs spans and nothing else; the exit waits for it for
    two seconds at most, and never longer than the grace.

    Args:
        role: role of the process.
        grace: time that the process has to stop.
    """
    recorder = _recorder(role) if _is_enabled(os.environ) else None
    if recorder is None:
        yield
        return
    before, _ProcessRecorder.recorder = _ProcessRecorder.recorder, recorder
    try:
        yield
    finally:
        _ProcessRecorder.recorder = before
        await asyncio.to_thread(recorder.close, min(_FLUSH_SECONDS, grace.total_seconds()))


def _is_enabled(given: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's variables enable traces; its SDK reads all other variables itself."""

    def first_set(*names: str) -> str:
        return next((value for name in names if (value := given.get(name, "").strip())), "")

    exporter, protocol = first_set("OTEL_TRACES_EXPORTER").lower(), first_set(*_PROTOCOLS).lower()
    if (
        first_set("OTEL_SDK_DISABLED").lower() == "true"
        or exporter == "none"
        or not (exporter or first_set(*_ENDPOINTS))
    ):
        return False
    if exporter not in {"", "otlp"} or protocol not in {"", "http/protobuf"}:
        reason = "spans use OTLP over HTTP only: OTEL_TRACES_EXPORTER=otlp, OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
        log.warning("traces.off", reason=reason)
        return False
    return True


def _recorder(role: str) -> Recorder | None:
    try:
        from shared.process.telemetry.trace_export import Recorder  # noqa: PLC0415  - otherwise every process would load the exporter

        return Recorder(role)
    except ValueError as error:  # a variable is not a number; traces must not prevent service
        log.warning("traces.off", reason=f"a variable of OpenTelemetry cannot be used: {error}")
        return None
