"""A collector of OpenTelemetry's spans on loopback, and the trees that the spans form."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ExportedSpan:
    """A span as the collector received it; ids are hexadecimal, and `parent_id` is empty for a root span."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    started: int
    nanoseconds: int
    service: str
    resource: dict[str, Any]
    scope: str
    attributes: dict[str, Any]
    failed: bool
    events: int
    links: list[str]


@dataclass
class Collector:
    url: str
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[ExportedSpan]:
        return sorted((span for body in self.bodies for span in _spans(body)), key=lambda span: span.started)

    def named(self, name: str) -> list[ExportedSpan]:
        return [span for span in self.spans if span.name == name]

    def paths(self, trace_id: str) -> list[str]:
        """Return the spans of a trace, each as the names on its path from the root."""
        spans = {span.span_id: span for span in self.spans if span.trace_id == trace_id}

        def path(span: ExportedSpan) -> str:
            parent = spans.get(span.parent_id)
            return f"{path(parent)} > {span.name}" if parent else span.name

        return [path(span) for span in spans.values()]

    def tree(self, trace_id: str) -> str:
        """Return a trace as indented lines, which `pytest -s` prints."""
        spans = [span for span in self.spans if span.trace_id == trace_id]
        ids = {span.span_id for span in spans}

        def lines(parents: set[str], depth: int) -> Iterator[str]:
            for span in spans:
                if span.parent_id in parents or (depth == 0 and span.parent_id not in ids):
                    name = "  " * depth + span.name
                    yield f"{name:<50} {span.nanoseconds / 1e6:8.1f} ms  {span.service}{'  failed' * span.failed}"
                    yield from lines({span.span_id}, depth + 1)

        return "\n".join([f"trace {trace_id}", *lines(set(), 0)])


@contextmanager
def collecting() -> Iterator[Collector]:
    """Serve a collector while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                collector.bodies.append(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _spans(body: bytes) -> Iterator[ExportedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        described = _attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ExportedSpan(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    started=span.start_time_unix_nano,
                    nanoseconds=span.end_time_unix_nano - span.start_time_unix_nano,
                    service=described["service.name"],
                    resource=described,
                    scope=scope.scope.name,
                    attributes=_attributes(span.attributes),
                    failed=span.status.code == span.status.STATUS_CODE_ERROR,
                    events=len(span.events),
                    links=[link.span_id.hex() for link in span.links],
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
