"""What every line of a log has."""

import logging
import threading

import orjson
import pytest
import structlog

from shared.process import spans
from shared.process.logging import configure


@pytest.fixture
def in_a_process(capsys):
    """Logging set up as in a process of its own, and put back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure("generate")
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_lines_of_every_thread_name_the_process(in_a_process, capsys):
    def work():
        structlog.get_logger().warning("drain.interrupted")

    for step in (work, lambda: _in_a_thread(work)):
        step()
        assert orjson.loads(capsys.readouterr().out)["process"] == "generate"


def test_lines_within_a_span_name_it(in_a_process, capsys):
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
