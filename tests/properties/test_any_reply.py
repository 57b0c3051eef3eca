"""Any JSON that a provider sends is read, or is an error with a sentence: no other exception reaches a worker."""

import json
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.errors import ForeaskError
from shared.ingest.generate.replies import context_in, questions_in
from shared.providers.adapt import ModelQuirks
from shared.providers.errors.answers import ErrorAnswer, refusal
from shared.providers.replies.chat import ReplyReader
from shared.providers.replies.event_stream import UnreadableEvents, values_in
from shared.providers.replies.json_replies import MalformedReply
from shared.providers.replies.thinking import ThinkingFilter, without_thinking
from shared.providers.replies.vectors import vectors_in

NAMES = (
    *("choices", "message", "delta", "text", "content", "type", "refusal", "tool_calls", "function", "arguments"),
    *("finish_reason", "usage", "prompt_tokens", "error", "code", "param", "index", "data", "embedding", "embeddings"),
)
WORDS = (
    "\ud83d",
    "text",
    "thinking",
    "stop",
    "length",
    "error",
    "<think>",
    "</think>",
    "429",
    "AAAAAA==",
    "temperature",
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 600)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
)
REPLIES = JSON | st.builds(lambda choice, more: {"choices": [choice]} | more, JSON, st.just({}) | st.just({"usage": 1}))
TAGS = st.sampled_from(
    ["<think>", "</think>", "[THINK]", "<|channel|>", "analysis", "final<|message|>", "`", "```", "{"]
)
TEXTS = st.lists(TAGS | st.sampled_from(["a", " ", "\n", "Who is it?", '"', ",", "[1]", "}"]), max_size=12).map("".join)


def refuse(answer):
    return refusal(answer, "llm", "a-key")


@settings(deadline=None)
@given(st.lists(REPLIES, max_size=3), st.booleans(), st.booleans())
def test_any_reply_is_read_or_an_error(events, has_schema, is_done):
    for may_start_inside in (True, False):
        reader = ReplyReader(has_schema=has_schema, may_start_inside=may_start_inside)
        with suppress(ForeaskError):
            for event in events:
                if (error := ErrorAnswer.in_reply({}, event)) is not None:
                    raise refuse(error)
                assert isinstance(reader.feed(event), str)
            _, completion = reader.end(is_done=is_done)
            assert isinstance(completion.text.encode(), bytes)


@settings(deadline=None)
@given(JSON)
def test_any_vectors_are_read_or_an_error(reply):
    with suppress(ForeaskError):
        assert vectors_in(reply, 2).shape[0] == 2


@settings(deadline=None)
@given(st.sampled_from([400, 422, 500]), JSON)
def test_any_refusal_is_converted(status, answer):
    assert ModelQuirks().next_step(status, answer, {"temperature": 1}) in {None, "temperature"}
    assert isinstance(refuse(ErrorAnswer.of(status, {}, answer)), ForeaskError)


@settings(deadline=None)
@given(st.lists(JSON, max_size=3), st.sampled_from(["\n", "\r\n", "\n\n", "\r"]), st.integers(1, 9))
def test_any_events_are_read(values, end, size):
    body = "".join(f"data: {json.dumps(value)}{end}{end}" for value in values) + "data: [DONE]"
    assert values_in(body.encode()) == (values, True)
    with suppress(UnreadableEvents):
        values_in(body.encode()[size:])


@settings(deadline=None)
@given(TEXTS, st.integers(1, 5), st.booleans())
def test_pieces_of_reply_lose_the_same_thinking(text, size, may_start_inside):
    pieces = ThinkingFilter(may_start_inside=may_start_inside)
    shown = "".join(pieces.feed(text[start : start + size]) for start in range(0, len(text), size)) + pieces.end()
    whole = ThinkingFilter(may_start_inside=may_start_inside)
    assert shown == whole.feed(text) + whole.end()
    assert without_thinking(text) in text


@settings(deadline=None)
@given(TEXTS)
def test_any_text_has_questions_or_is_malformed(text):
    with suppress(MalformedReply):
        assert questions_in(text)
        context_in(text)  # raises no other exception
