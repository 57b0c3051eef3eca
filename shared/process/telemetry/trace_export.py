"""OpenTelemetry spans of this process and their export; imported only if traces are enabled."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Token
from threading import Thread
from typing import Any, Self

import requests
import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace import Span as OpenSpan
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.process import network
from shared.process.identity import instance, version_of_code
from shared.process.network.certificates import new_ssl_context
from shared.process.telemetry.spans import NOTHING, Attributes, Kind, Span, current

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_PROPAGATOR = TraceContextTextMapPropagator()

log = structlog.get_logger()


class Recorder:
    """Creates the spans of a process.

    It is not OpenTelemetry's global provider: libraries would use that, and record addresses and error messages.

    Args:
        role: role of the process; its service is `foreask-ROLE`, unless the variables name it.

    Raises:
        ValueError: a variable of OpenTelemetry must be a number and is not.
    """

    def __init__(self, role: str) -> None:
        # The SDK's own log lines contain addresses and headers; `traces.lost` replaces them.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        ours = {
            "service.name": f"foreask-{role}",
            "service.version": version_of_code(),
            "service.instance.id": instance(),
            "foreask.role": role,
        }
        self._collector = _Collector()
        self._provider = TracerProvider(
            resource=Resource.create({**ours, **OTELResourceDetector().detect().attributes}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(self._collector))
        self._tracer = self._provider.get_tracer("foreask")
        log.info("traces.exported", role=role)

    def request(self, method: str, headers: Mapping[str, str], attributes: Attributes) -> Span:
        return RecordedSpan(self, [self.start(method, SpanKind.SERVER, _named(headers), attributes)])

    def work(self, stage: str, traced: Mapping[str, Attributes]) -> Span:
        parents = [(_named({"traceparent": name}), attributes) for name, attributes in traced.items()]
        parents.sort(key=lambda parent: not parent[0].get_span_context().trace_flags.sampled)
        spans: list[OpenSpan] = []
        for parent, attributes in parents:
            links = [Link(first.get_span_context()) for first in spans[:1]]
            spans.append(self.start(stage, SpanKind.CONSUMER, parent, _prefixed(attributes), links))
        return RecordedSpan(self, spans)

    def start(
        self, name: str, kind: SpanKind, parent: OpenSpan, attributes: Attributes, links: Sequence[Link] = ()
    ) -> OpenSpan:
        within = set_span_in_context(parent, Context())
        return self._tracer.start_span(name, within, kind, attributes, links)

    def close(self, seconds: float) -> None:
        """Send the remaining spans, within this time."""
        flushing = Thread(target=self._provider.shutdown, name="traces", daemon=True)  # it waits for half a minute
        flushing.start()
        flushing.join(seconds)
        self._collector.shutdown()


class RecordedSpan(Span):
    """A span, and copies of it in other traces; within the block the first one is the current one."""

    __slots__ = ("_recorder", "_spans", "_token")

    def __init__(self, recorder: Recorder, spans: Sequence[OpenSpan]) -> None:
        self._recorder = recorder
        self._spans = spans

    def __enter__(self) -> Self:
        self._token: Token[Span] = current.set(self)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self.fail(type(error).__name__)
        with suppress(ValueError):  # a stream may be closed by another task than its reader
            current.reset(self._token)
        for one in self._spans:
            one.end()

    @property
    def is_recording(self) -> bool:
        return self._spans[0].is_recording()

    @property
    def traceparent(self) -> str | None:
        context = self._spans[0].get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    @property
    def ids(self) -> Mapping[str, str]:
        if not self.is_recording:
            return {}
        context = self._spans[0].get_span_context()
        return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}

    def child(self, name: str, kind: Kind, attributes: Attributes) -> Span:
        # An unsampled span has no children. A finished span has none either, because a task that started in it may work
        # for others long afterwards.
        if not self.is_recording:
            return NOTHING
        return RecordedSpan(self._recorder, [self._recorder.start(name, _KINDS[kind], self._spans[0], attributes)])

    def note(self, name: str, value: str | int) -> None:
        if self.is_recording:
            for one in self._spans:
                one.set_attribute(name, value)

    def rename(self, name: str) -> None:
        for one in self._spans:
            one.update_name(name)

    def fail(self, kind: str) -> None:
        for one in self._spans:
            one.set_attribute("error.type", kind)
            one.set_status(StatusCode.ERROR)


class _Collector(SpanExporter):
    """Sends spans, and logs when the collector rejects them and when it accepts them again."""

    def __init__(self) -> None:
        self._exporter = OTLPSpanExporter(session=_session())
        self._unavailable = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        if failed and not self._unavailable:
            log.warning("traces.lost", spans=len(spans), reason="the collector does not accept them")
        elif self._unavailable and not failed:
            log.info("traces.resumed")
        self._unavailable = failed
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class _Connections(requests.adapters.HTTPAdapter):
    """Connections with the certificates and the proxies of all other clients of this process."""

    def init_poolmanager(self, *sizes: Any, **options: Any) -> None:
        self._trusted: ssl.SSLContext = new_ssl_context()
        super().init_poolmanager(*sizes, ssl_context=self._trusted, **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._trusted, **options)

    def cert_verify(self, conn: Any, url: str, verify: bool | str, cert: Any) -> None:
        super().cert_verify(conn, url, verify, cert)
        if verify is True:  # otherwise OTEL_EXPORTER_OTLP_CERTIFICATE names a file
            conn.ca_certs = None  # `requests` would trust certifi's list in addition

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        proxy = network.proxy_of(request.url or "")
        proxies = dict.fromkeys(("http", "https"), proxy) if proxy else {}
        return super().send(request, *args, **options | {"proxies": proxies})


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # `network` has read the variables
    for scheme in ("https://", "http://"):
        session.mount(scheme, _Connections())
    return session


def _named(headers: Mapping[str, str]) -> OpenSpan:
    """Return the span named by headers, of this process or another; an invalid one if they name none."""
    return get_current_span(_PROPAGATOR.extract(headers, Context()))


def _prefixed(attributes: Attributes) -> Attributes:
    return {f"foreask.{name}": value for name, value in attributes.items()}
