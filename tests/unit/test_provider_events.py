"""Bodies of streams: server-sent events in every form that servers send, lines of JSON, and JSON."""

import pytest

from shared.providers.replies.event_stream import EventReader, UnreadableEvents, values_in

EVENTS = 'data: {"n": 1}\n\ndata: {"n": 2}\n\ndata: [DONE]\n\n'
BODIES = [
    EVENTS,
    EVENTS.replace("\n", "\r\n"),
    EVENTS.replace("\n", "\r"),
    EVENTS.replace("data: ", "data:"),
    EVENTS.replace("\n\n", "\n"),  # no blank lines
    ": PROCESSING\n\nretry: 10\nid: 7\n" + EVENTS.replace("\n\n", "\n\n: a comment\n\n"),
    EVENTS.replace("data", "event: message\ndata"),
    "\ufeff" + EVENTS,
    'data: {"n":\ndata: 1}\n\ndata: {\ndata: "n": 2\ndata: }\n\ndata: [DONE]',
    EVENTS.replace("data: {", "data:    {"),
    "data: ping\n\n" + EVENTS,
]


def read(body, size):
    reader, values = EventReader(), []
    for start in range(0, len(body), size):
        values += reader.feed(body[start : start + size])
    return values + reader.end(), reader.is_done


@pytest.mark.parametrize("body", BODIES)
def test_events_are_read_from_blocks_of_any_size(body):
    for size in (1, 2, 3, 7, 10_000):
        assert read(body.encode(), size) == ([{"n": 1}, {"n": 2}], True)


@pytest.mark.parametrize(
    ("body", "values", "is_done"),
    [
        ('data: {"n": 1}\n\n', [{"n": 1}], False),
        ('data: {"n": 1}', [{"n": 1}], False),
        ('{"n": 1}', [{"n": 1}], True),
        (' \n{\n "n": 1\n}\n', [{"n": 1}], True),
        ('[{"n": 1}]', [[{"n": 1}]], True),
        ('{"n": 1}\n{"n": 2}\n', [{"n": 1}, {"n": 2}], False),
        ('event: error\ndata: {"message": "x"}\n\n', [{"error": {"message": "x"}}], False),
        ('event: error\ndata: {"error": "x"}\n\n', [{"error": "x"}], False),
        ("data: [DONE]\n\n", [], True),
        ('{"n": "\\ud83d"}', [{"n": "\ud83d"}], True),
        ('data: {"n": Infinity}\n\n', [{"n": float("inf")}], False),
    ],
)
def test_other_bodies_are_read_as_they_are(body, values, is_done):
    for size in (1, 10_000):
        assert read(body.encode(), size) == (values, is_done)


@pytest.mark.parametrize(
    "body", ["<!DOCTYPE html>\n<p>Sign in</p>", '{"choices": [{"mess', "data: {broken}\n\n", "", "no", "[" * 100_000]
)
def test_body_without_json_is_unreadable(body):
    with pytest.raises(UnreadableEvents):
        values_in(body.encode())
