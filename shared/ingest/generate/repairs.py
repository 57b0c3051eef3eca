"""Unusable replies: the reason of each, and the number of calls that are worth paying for its repair."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.spending.usage import Usage
from shared.ingest.generate.types import BadQuestions
from shared.providers.chat import Completion
from shared.providers.replies.json_replies import MalformedReply, spoken

_MOST = 2
_OTHER_MODEL = "set FOREASK_LLM_MODEL to another model"
_THINKING_TRUNCATED = (
    "the model thought until it reached the token limit, and wrote no questions: turn its thinking off on its"
    f" server, or {_OTHER_MODEL}"
)
_ONLY_THOUGHT = (
    "the reply contains only the model's thinking, and no questions: turn its thinking off on its server, or"
    f" {_OTHER_MODEL}"
)
_CALLED_TOOL = f"the model called a tool instead of writing questions: {_OTHER_MODEL}"


class TruncatedReply(MalformedReply):
    """A reply that stopped at the token limit."""


class EmptyReply(MalformedReply):
    """A reply without an answer; another call rarely has one."""


class ThinkingTruncated(EmptyReply, TruncatedReply):
    """A reply whose token limit was used up by thinking."""


def require_answer(completion: Completion) -> None:
    """Check that a reply has an answer, up to its end.

    Raises:
        TruncatedReply: it stopped at the token limit.
        EmptyReply: the model did not answer.
    """
    is_cut = completion.finish_reason == "length"
    if _has_text(completion.text):
        if is_cut:
            raise TruncatedReply("cut at the token limit")
        return
    if is_cut:
        raise ThinkingTruncated(_THINKING_TRUNCATED)
    if completion.finish_reason in {"tool_calls", "function_call"}:
        raise EmptyReply(_CALLED_TOOL)
    has_thought = completion.has_thought or completion.text or completion.usage.completion_tokens
    raise EmptyReply(_ONLY_THOUGHT if has_thought else "an empty reply")


def _has_text(reply: str) -> bool:
    try:
        return bool(spoken(reply))
    except MalformedReply:
        return False


def may_be_repaired(faults: Sequence[MalformedReply]) -> bool:
    """Return whether another call is worth its price, after replies with these faults.

    Another wording or a larger limit repairs many malformed or truncated replies. A model that does not answer at all
    seldom does so in the second call, and hardly ever in the third.
    """
    most = 1 if isinstance(faults[-1], EmptyReply) else _MOST
    return len(faults) <= most


def failure(faults: Sequence[MalformedReply], usage: Usage, *, subject: str = "reply") -> BadQuestions:
    """Return the error of a chunk whose replies had these faults, and are not repaired any more.

    Args:
        faults: the fault of each reply, in order.
        usage: tokens billed for these replies.
        subject: part of the reply, for the message.
    """
    reasons = tuple(map(str, faults))
    message = f"the model's {subject} stayed malformed after {len(faults) - 1} repairs: {reasons[-1]}"
    if isinstance(faults[-1], EmptyReply):
        message = reasons[-1]
    return BadQuestions(message, usage=usage, calls=len(faults), faults=reasons)
