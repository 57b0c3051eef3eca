"""Doubtful errors, and their cause by the result of the neutral call."""

import asyncio

import pytest

from shared.domain.errors import (
    BadReply,
    FailsOnText,
    InterruptedReply,
    Misconfigured,
    NoCapacity,
    RateLimited,
    Refused,
    TimedOut,
    Unavailable,
    UnsupportedTier,
    UnusableReply,
)
from shared.domain.spending.usage import Usage
from shared.providers.limiter.judge import Judge, Neutral, NeutralCall, as_configuration, is_doubtful, judged
from shared.providers.limiter.script import CallKind

REFUSED = Refused("the llm provider answered 400: it rejects this request")
KEY = Misconfigured("the llm provider answered 403: it does not accept the API key", component="llm")
FAILED = Unavailable("the llm provider answered 500: it failed", component="llm", answered=True)
LATE = TimedOut("the llm provider did not answer in time", component="llm", answered=True)
LIMITED = RateLimited("slow")


@pytest.mark.parametrize(
    ("error", "doubtful"),
    [
        (REFUSED, True),
        (KEY, True),
        (FAILED, True),
        (Refused("the model refuses", usage=Usage(10, 2)), False),
        (UnsupportedTier("no flex", component="llm"), False),
        (LATE, False),
        (UnusableReply("half a reply", component="llm"), False),
        (InterruptedReply("broke", component="llm"), True),
        (UnusableReply("half a reply", component="embedding"), True),
        (Unavailable("cannot be reached", component="llm"), False),
        (NoCapacity("none left"), False),
        (LIMITED, False),
        (BadReply("broken"), False),
    ],
)
def test_errors_with_two_possible_causes_are_doubtful(error, doubtful):
    assert is_doubtful(error) is doubtful


def test_timeout_of_batch_is_doubtful():
    assert is_doubtful(LATE, of_batch=True)


@pytest.mark.parametrize(
    ("error", "of_neutral", "kind", "message"),
    [
        (REFUSED, None, Refused, REFUSED.message),
        (KEY, None, Refused, "the llm provider answered 403: it refuses this text, and answers others"),
        (FAILED, None, FailsOnText, "the llm provider answered 500: it fails on this text, and answers others"),
        (REFUSED, KEY, Misconfigured, KEY.message),
        (KEY, KEY, Misconfigured, KEY.message),
        (FAILED, KEY, Misconfigured, KEY.message),
        (REFUSED, FAILED, Unavailable, FAILED.message),
        (KEY, LIMITED, RateLimited, LIMITED.message),
        (FAILED, LIMITED, Unavailable, FAILED.message),
        (FAILED, FAILED, Unavailable, FAILED.message),
        (LATE, None, FailsOnText, "the llm provider did not answer in time: it fails on this text, and answers others"),
        (LATE, LATE, TimedOut, LATE.message),
    ],
)
def test_neutral_call_decides_cause_of_error(error, of_neutral, kind, message):
    cause = judged(error, of_neutral, "llm")

    assert (type(cause), cause.message) == (kind, message)


async def test_newer_error_waits_for_next_neutral_call():
    sent, answer = [], asyncio.Event()

    async def ask(_: Neutral) -> NeutralCall:
        sent.append(len(sent))
        await answer.wait()
        return NeutralCall(float(sent[-1]), None)

    judge = Judge("llm", ask, lambda: 0.0)
    neutral = Neutral("form", NotImplemented, CallKind.INGEST, 1)
    causes = [asyncio.create_task(judge.cause(REFUSED, neutral, sent_at)) for sent_at in (0.0, 0.5, 1.0)]
    await asyncio.sleep(0)
    answer.set()

    assert await asyncio.gather(*causes) == [REFUSED] * 3
    assert sent == [0, 1]


def test_cause_keeps_words_of_provider():
    error = Misconfigured('the llm provider answered 403: check the key; it says "Blocked"', component="llm")
    error.words, error.status = "Blocked", 403

    text, configuration = judged(error, None, "llm"), as_configuration(judged(error, None, "llm"), "llm")

    assert text.message == 'the llm provider answered 403: it refuses this text, and answers others; it says "Blocked"'
    assert configuration.message.endswith('its context length and its options; it says "Blocked"')
    assert {(each.words, each.status) for each in (text, configuration)} == {("Blocked", 403)}


def test_undecided_refusal_uses_no_attempt():
    assert not judged(REFUSED, FAILED, "llm").burns_attempt
