"""OpenTelemetry's environment variables enable and disable traces."""

import pytest
from structlog.testing import capture_logs

from shared.process.telemetry import traces
from shared.process.telemetry.spans import NOTHING
from shared.process.telemetry.traces import _is_enabled

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("variables", "enabled", "warned"),
    [
        ({}, False, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False, False),
        (ENDPOINT, True, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True, False),  # spans are sent to the SDK's default address
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
def test_opentelemetry_variables_enable_traces(variables, enabled, warned):
    with capture_logs() as logs:
        assert _is_enabled(variables) is enabled

    assert [entry["event"] for entry in logs] == ["traces.off"] * warned


def test_span_has_no_effect_if_traces_are_disabled():
    with traces.request("GET", [(b"traceparent", b"x")], {}) as span, traces.span("search") as child:
        child.note("http.route", "/")
        child.rename("other")
        child.fail("Unavailable")
        assert span is child is NOTHING
        assert traces.traceparent() is None
        assert traces.add_ids(None, "", {"event": "a"}) == {"event": "a"}
    assert traces.work("parse", {"00-" + "1" * 32 + "-" + "2" * 16 + "-01": {}}) is NOTHING
