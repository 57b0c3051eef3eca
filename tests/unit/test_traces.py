"""When traces are on: OpenTelemetry's own variables decide it."""

import pytest
from structlog.testing import capture_logs

from shared.process import traces
from shared.process.spans import NOTHING
from shared.process.traces import _is_enabled

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("given", "wanted", "warned"),
    [
        ({}, False, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False, False),
        (ENDPOINT, True, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True, False),  # to the address that the SDK has without one
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "True"}, False, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "zipkin"}, False, True),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False, True),
        (
            ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            True,
            False,
        ),
    ],
)
def test_the_variables_of_opentelemetry_switch_traces_on(given, wanted, warned):
    with capture_logs() as logs:
        assert _is_enabled(given) is wanted

    assert [entry["event"] for entry in logs] == ["traces.off"] * warned


def test_a_span_without_traces_does_nothing():
    with traces.request("GET", [(b"traceparent", b"x")], {}) as span, traces.span("search") as child:
        child.note("http.route", "/")
        child.rename("other")
        child.fail("Unavailable")
        assert span is child is NOTHING
        assert traces.traceparent() is None
        assert traces.add_ids(None, "", {"event": "a"}) == {"event": "a"}
    assert traces.work("parse", {"00-" + "1" * 32 + "-" + "2" * 16 + "-01": {}}) is NOTHING
