"""The fields of every log line."""

import logging
import threading

import orjson
import pytest
import structlog

from shared.process.telemetry import spans
from shared.process.telemetry.logging import configure


@pytest.fixture
def in_a_process(capsys):
    """Set logging up as in a separate process, and restore it afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure("generate")
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_log_lines_of_all_threads_name_process(in_a_process, capsys):
    def work():
        structlog.get_logger().warning("drain.interrupted")

    for step in (work, lambda: _in_a_thread(work)):
        step()
        assert orjson.loads(capsys.readouterr().out)["process"] == "generate"


def test_log_lines_within_span_contain_trace_ids(in_a_process, capsys):
    class Recorded(spans.Span):
        @property
        def ids(self):
            return {"trace_id": "0af7", "span_id": "b7ad"}

    token = spans.current.set(Recorded())
    structlog.get_logger().warning("request.served")
    spans.current.reset(token)

    line = orjson.loads(capsys.readouterr().out)
    assert (line["trace_id"], line["span_id"]) == ("0af7", "b7ad")


def _in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
