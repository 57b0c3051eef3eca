"""Replies of chat models of any shape: read, or an error with a sentence, never another exception."""

from contextlib import suppress

import pytest

from shared.domain.errors import ForeaskError, Misconfigured, RateLimited, Refused, Unavailable
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.providers.errors.answers import ErrorAnswer, refusal
from shared.providers.replies.chat import Completion, ReplyReader, completion_in
from tests.support.planted import guards

TEXT = '{"questions": ["What is a lease?"]}'
RUBBISH = [None, True, 7, 1.5, "text", [], {}, [[]], [None], [{"x": 1}], {"x": {"y": [1]}}]
USAGE = {"prompt_tokens": 50, "completion_tokens": 7}


def passed(value):
    """Return a reply, as the provider passes it on; raise its error."""
    if (error := ErrorAnswer.in_reply({}, value)) is not None:
        raise refusal(error, "llm", "a-key")
    return value


def reply(message, finish="stop", **more):
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE} | more


def message_with(content, **more):
    return {"role": "assistant", "content": content, **more}


def read(value, *, has_schema=True):
    return completion_in(passed(value), has_schema=has_schema)


def streamed(*events, is_done=True, has_schema=False, may_start_inside=False):
    """Return the shown text, and the completion."""
    reader = ReplyReader(has_schema=has_schema, may_start_inside=may_start_inside)
    shown = "".join(reader.feed(passed(event)) for event in events)
    rest, completion = reader.end(is_done=is_done)
    return shown + rest, completion


def event(delta, finish=None, **more):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more


CALL = {"id": "t", "type": "function", "function": {"name": "reply", "arguments": TEXT}}


@pytest.mark.parametrize(
    "message",
    [
        message_with(TEXT),
        message_with([{"type": "text", "text": TEXT}]),
        message_with([{"type": "text", "text": TEXT[:9]}, {"type": "text", "text": TEXT[9:]}]),
        message_with(
            [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": TEXT}]
        ),
        message_with(
            [{"type": "output_text", "text": TEXT, "annotations": []}, {"type": "reference", "reference_ids": [1]}]
        ),
        message_with([TEXT]),
        message_with({"type": "text", "text": TEXT}),
        message_with({"text": {"value": TEXT}}),
        message_with(TEXT, reasoning_content="hm", reasoning=None, refusal=None),
        message_with(f"<think>hm</think>{TEXT}"),
        message_with(None, tool_calls=[CALL]),
        message_with("", tool_calls=[CALL]),
        message_with(None, function_call={"name": "reply", "arguments": TEXT}),
        TEXT,
        [{"type": "text", "text": TEXT}],
    ],
)
def test_text_of_any_message_is_read(message):
    completion = read(reply(message))
    assert (completion.text, completion.finish_reason, completion.usage) == (TEXT, "stop", Usage(50, 7))


def test_parsed_json_is_written_again():
    assert read(reply(message_with({"questions": ["What is a lease?"]}))).text == '{"questions":["What is a lease?"]}'
    assert read(reply(message_with(None, tool_calls=[{"function": {"arguments": {"a": 1}}}]))).text == '{"a":1}'
    assert [read(reply(message_with(value))).text for value in (7, True)] == ["7", "true"]


def test_tool_call_without_schema_is_ignored():
    assert read(reply(message_with(None, tool_calls=[CALL])), has_schema=False).text == ""


@pytest.mark.parametrize(
    ("message", "has_thought"),
    [
        (message_with(None, reasoning_content="hm"), True),
        (message_with("", reasoning="hm"), True),
        (message_with([{"type": "thinking", "thinking": "hm"}]), True),
        (message_with("<think>hm"), True),
        (message_with(None), False),
        (None, False),
    ],
)
def test_reply_without_text_notes_its_thinking(message, has_thought):
    completion = read(reply(message, "length"))
    assert (completion.text, completion.finish_reason, completion.has_thought) == ("", "length", has_thought)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ({"error": {"message": "Rate limit exceeded: free-models-per-day", "code": 429}}, RateLimited, "429"),
        ({"error": {"message": "Slow down", "code": "rate_limit_exceeded"}}, RateLimited, "429"),
        ({"error": {"message": "Provider returned error", "code": 502}, "choices": []}, Unavailable, "502"),
        ({"error": {"message": "no credits", "code": "402"}}, RateLimited, "402"),
        ({"error": "Unexpected endpoint or method. (POST /chat/completions)"}, Misconfigured, "check the base URL"),
        ({"object": "error", "message": "overloaded", "code": 503}, Unavailable, "503"),
        ({"message": "overloaded"}, Unavailable, ""),
        (reply(message_with("x"), "error", error={"code": 500, "message": "x"}), Unavailable, "500"),
        ({"choices": [{"message": message_with("x"), "error": {"code": 429, "message": "x"}}]}, RateLimited, "429"),
        (reply(message_with("Half of"), "error"), Unavailable, "because of an error"),
        ({"choices": []}, Unavailable, "without choices"),
        ({"choices": None}, Unavailable, "without choices"),
        ({}, Unavailable, "without choices"),
        ([], Unavailable, "without choices"),
        (7, Unavailable, "without choices"),
        (reply(message_with(None, refusal="I cannot")), Refused, "refuses to write"),
        (reply(message_with([{"type": "refusal", "refusal": "I cannot"}])), Refused, "refuses to write"),
        (reply(message_with("Half of"), "content_filter"), Refused, "content filter"),
        (reply(message_with("Half of"), "SAFETY"), Refused, "content filter"),
    ],
)
def test_error_inside_reply_has_its_class(value, kind, words):
    with pytest.raises(kind) as caught:
        read(value)
    assert words in caught.value.message
    assert type(caught.value) is not Unavailable or caught.value.burns_attempt


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_rubbish_anywhere_is_read_or_unavailable(rubbish):
    values = [
        rubbish,
        {"choices": rubbish},
        {"choices": [rubbish]},
        {"choices": [{"message": rubbish}]},
        {"choices": [{"delta": rubbish, "message": rubbish}]},
        {"choices": [{"text": rubbish}]},
        reply(message_with(rubbish)),
        reply(message_with([rubbish, {"type": rubbish, "text": rubbish}])),
        reply(message_with(TEXT), rubbish),
        reply(message_with(TEXT), usage=rubbish, service_tier=rubbish),
        reply(message_with(TEXT), usage={"prompt_tokens": rubbish, "prompt_tokens_details": rubbish}),
        reply(message_with(None, refusal=rubbish, tool_calls=rubbish, reasoning_content=rubbish)),
        reply(message_with(None, tool_calls=[rubbish])),
        reply(message_with(None, tool_calls=[{"function": rubbish, "index": rubbish}])),
        reply(message_with(None, tool_calls=[{"function": {"arguments": rubbish}}])),
        {"error": rubbish},
        {"error": {"code": rubbish, "message": rubbish, "type": rubbish}},
        {"message": rubbish, "detail": rubbish},
    ]
    for value in values:
        for events in ([value], [event(message_with("a")), value]):
            with suppress(ForeaskError):
                shown, completion = streamed(*events, has_schema=True)
                assert completion.text == shown or not shown


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("tool_calls", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "content_filter"),
        ("RECITATION", "content_filter"),
        ({"reason": "stop"}, "stop"),
    ],
)
def test_stream_has_its_finish_reason(finish, expected):
    shown, completion = streamed(event(message_with("Half ")), event({"content": "of it"}), event({}, finish))
    assert (shown, completion.text, completion.finish_reason) == ("Half of it", "Half of it", expected)


@guards(
    "shared/providers/replies/chat.py",
    'self._finish or ("stop" if is_done else "interrupted")',
    'self._finish or "stop"',
    means="a stream that ends without a sign of its end looks complete",
)
def test_silent_end_of_stream_is_interruption():
    pieces = [event(message_with("Half ")), event({"content": "of it"})]
    assert streamed(*pieces, is_done=False)[1].finish_reason == "interrupted"
    assert streamed(*pieces, is_done=True)[1].finish_reason == "stop"
    assert streamed(*pieces, event({}, "stop"), is_done=False)[1].finish_reason == "stop"
    with pytest.raises(Unavailable, match="interrupted"):
        streamed(event(message_with("")), is_done=False)


@pytest.mark.parametrize(
    "last",
    [
        {"choices": [{"index": 0, "finish_reason": "stop"}]},
        {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]},
        {"choices": [{"index": 0, "message": message_with("A lease."), "finish_reason": "stop"}]},
        {"choices": []},
        {"usage": USAGE},
    ],
)
def test_stream_with_odd_events_is_read(last):
    events = [
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},  # Azure's first event
        event(message_with("")),
        event({"reasoning_content": "hm"}),
        event({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
        event({"content": "A ", "reasoning": None}),
        event({"content": [{"type": "text", "text": "lease."}]}),
        last,
    ]
    assert streamed(*events)[0] == "A lease."


def test_last_usage_of_stream_counts():
    growing = [event({"content": "a"}, usage={"prompt_tokens": 50, "completion_tokens": n}) for n in (1, 2, 3)]
    kimi = event({}, "stop")
    kimi["choices"][0]["usage"] = {"prompt_tokens": 50, "completion_tokens": 4}
    assert streamed(*growing, {"choices": [], "usage": None})[1].usage == Usage(50, 3)
    assert streamed(*growing, kimi)[1].usage == Usage(50, 4)


def test_refusal_in_stream_after_text_is_a_filter():
    shown, completion = streamed(event(message_with("The lease ")), event({"refusal": "I cannot"}, "stop"))
    assert (shown, completion.finish_reason) == ("The lease ", "content_filter")
    with pytest.raises(Refused):
        streamed(event({"refusal": "I "}), event({"refusal": "cannot"}, "stop"))


def test_tool_call_in_pieces_is_joined():
    pieces = [{"index": 0, "function": {"name": "reply", "arguments": part}} for part in ("", TEXT[:5], TEXT[5:])]
    events = [event({"tool_calls": [piece]}) for piece in pieces]
    assert streamed(*events, event({}, "tool_calls"), has_schema=True)[1].text == TEXT


def test_halves_of_characters_are_joined_or_dropped():
    smile = "\ud83d", "\ude00"
    assert (
        streamed(event(message_with("A" + smile[0])), event({"content": smile[1] + "B"}, "stop"))[0] == "A\U0001f600B"
    )
    assert streamed(event(message_with("".join(smile))), event({}, "stop"))[0] == "\U0001f600"
    assert (
        streamed(event(message_with(smile[1] + "A" + smile[0])), event({"content": "B" + smile[0]}, "stop"))[0] == "AB"
    )


def test_error_in_stream_is_raised_after_text():
    with pytest.raises(RateLimited):
        streamed(event(message_with("Half ")), {"error": {"message": "slow", "code": 429}})
    with pytest.raises(Unavailable):
        streamed(event(message_with("Half ")), event({"content": ""}, "error"))


def test_unexpected_thinking_is_corrected_at_the_end():
    events = [event(message_with("Hm [9].")), event({"content": "</think>A lease [1]."}, "stop")]
    shown, completion = streamed(*events)
    assert (shown, completion.text) == ("Hm [9].</think>A lease [1].", "A lease [1].")
    assert streamed(*events, may_start_inside=True)[0] == "A lease [1]."


def test_tier_and_odd_finish_are_read():
    completion = read(reply(message_with("x"), None, service_tier="flex"))
    assert completion == Completion("x", "stop", Usage(50, 7), Tier.FLEX)
