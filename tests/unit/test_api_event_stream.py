"""A failing event stream reports the error in its last event and closes its source."""

import orjson
import pytest

from shared.domain.errors import Unavailable
from shared.http.event_stream import end_with_error, event


class Source:
    """A source of events; `closed` is set when its generator has ended."""

    def __init__(self, error=None):
        self.error, self.closed = error, False

    async def events(self):
        try:
            yield event("token", {"text": "Yes"})
            if self.error is not None:
                raise self.error
            yield event("done", {})
        finally:
            self.closed = True


def problem_in(piece):
    name, _, data = piece.partition(b"\n")
    assert name == b"event: error"
    return orjson.loads(data.removeprefix(b"data: "))


async def test_events_of_working_stream_pass_unchanged():
    passed = [piece async for piece in end_with_error(Source().events(), {"path": "/v1/query"})]
    assert passed == [event("token", {"text": "Yes"}), event("done", {})]


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unavailable("Qdrant is unavailable.", component="qdrant"), 503), (RuntimeError("secret"), 500)],
)
async def test_failing_stream_ends_with_error_naming_path(error, status):
    source = Source(error)

    first, last = [piece async for piece in end_with_error(source.events(), {"path": "/v1/query"})]

    assert first == event("token", {"text": "Yes"})
    problem = problem_in(last)
    assert (problem["status"], problem["instance"]) == (status, "/v1/query")
    assert b"secret" not in last
    assert source.closed


async def test_disconnected_listener_closes_source():
    source = Source()
    stream = end_with_error(source.events(), {"path": "/v1/query"})

    await anext(stream)
    assert not source.closed
    await stream.aclose()

    assert source.closed
