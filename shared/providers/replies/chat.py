"""Replies of chat models: one reader for complete and streamed replies, of any shape that providers send.

A complete reply is read like a stream with one event. Thinking is never a part of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.domain.errors import Refused, UnusableReply
from shared.domain.spending.tiers import Tier, tier_of_reply
from shared.domain.spending.usage import Usage
from shared.providers.replies.estimates import tokens_in
from shared.providers.replies.thinking import ThinkingFilter, without_thinking

FinishReason = Literal["stop", "length", "content_filter", "interrupted", "tool_calls"]

_MOST_TOKENS = 10_000_000  # of a call; a larger number is a provider's error, and the ledger cannot store it
_SURROGATE, _FIRST_HALF = re.compile("[\ud800-\udfff]"), re.compile("[\ud800-\udbff]")
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details", "thinking")  # fields of a message
_THINKING_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking", "reasoning_content", "thought"})
_REASONS: dict[str, FinishReason | Literal["error"]] = {
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens", "max_completion_tokens"), "length"),
    **dict.fromkeys(
        ("content_filter", "content_filtered", "safety", "recitation", "prohibited_content", "blocklist", "sensitive"),
        "content_filter",
    ),
    **dict.fromkeys(("refusal", "guardrail_intervened"), "content_filter"),
    **dict.fromkeys(
        ("error", "abort", "aborted", "cancelled", "network_error", "insufficient_system_resource", "other"), "error"
    ),
}


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply.

    Args:
        text: the reply without its thinking.
        finish_reason: `stop`; or `length` if it was truncated at the token limit, `content_filter` if the provider
            stopped it, `interrupted` if a stream ended without a sign of its end, and `tool_calls` if the model called
            a tool instead of writing a text.
        usage: billed tokens.
        tier: service tier of the reply.
        has_thought: whether the model has also sent thinking.
        is_estimated: whether the billed tokens are estimated, because the provider has reported none.
    """

    text: str
    finish_reason: str
    usage: Usage
    tier: Tier = Tier.STANDARD
    has_thought: bool = False
    is_estimated: bool = False


class ReplyReader:
    """Reads the events of one reply without the errors among them.

    Args:
        has_schema: whether the request demands JSON; the arguments of a tool call are then the reply.
        may_start_inside: as of `ThinkingFilter`.
        prompt_tokens: estimated tokens of the prompt, which are billed if the reply reports no tokens.

    Attributes:
        thinking: the filter of the text.
        fingerprint: name of the server's version, as the reply has it.
    """

    def __init__(self, *, has_schema: bool, may_start_inside: bool = True, prompt_tokens: int = 0) -> None:
        self._has_schema = has_schema
        self._may_start_inside = may_start_inside
        self._prompt_tokens = prompt_tokens
        self.thinking = ThinkingFilter(may_start_inside=may_start_inside)
        self.fingerprint: object = None
        self._raw: list[str] = []
        self._thoughts: list[str] = []
        self._shown: list[str] = []
        self._arguments: dict[object, str] = {}
        self._refusal = self._half = ""
        self._finish: FinishReason | None = None
        self._has_choices = False
        self._usage, self._tier = Usage(), Tier.STANDARD

    @property
    def usage(self) -> Usage:
        """The tokens that the reply reports."""
        return self._usage

    @property
    def _bill(self) -> tuple[Usage, bool]:
        """The billed tokens, and whether they are estimated by the texts of the request and the reply."""
        if self._usage != Usage():
            return self._usage, False
        written = [*self._raw, *self._thoughts, *self._arguments.values(), self._refusal]
        return Usage(self._prompt_tokens, tokens_in(written)), True

    def feed(self, event: object) -> str:
        """Read an event; return the text that can be shown now.

        Raises:
            UnusableReply: the event says that the reply has failed.
        """
        if isinstance(event, list) and len(event) == 1:
            (event,) = event
        if not isinstance(event, Mapping):
            return ""
        choice = _choice(event)
        self.fingerprint = event.get("system_fingerprint") or self.fingerprint
        self._note_bill(event, choice)
        if choice is None:
            return ""
        if _REASONS.get(_word(choice.get("finish_reason"))) == "error":
            raise unreadable("llm", "stopped its reply because of an error")
        self._has_choices = True
        self._finish = _finish_reason(choice) or self._finish
        text = self._whole_characters("".join(self._texts(_message(choice, is_first=not self._raw))))
        if not text:
            return ""
        self._raw.append(text)
        return self._show(self.thinking.feed(text))

    def end(self, *, is_done: bool) -> tuple[str, Completion]:
        """Return the rest of the text, and the completion, whose text may correct the text that was shown.

        Args:
            is_done: whether the body has ended as it should.

        Raises:
            Refused: the model or a filter refuses to write, and nothing was shown.
            Unavailable: the reply has no choices, or ended before its text.
        """
        rest = self._show(self.thinking.end())
        raw = "".join(self._raw)
        text = "".join(self._shown)
        if not self._may_start_inside and (cleaned := without_thinking(raw)) != text:
            self.thinking.started_inside = True
            text = cleaned
        if not text and self._has_schema and len(self._arguments) == 1:
            (text,) = map(self._whole_characters, self._arguments.values())
        finish_reason: FinishReason = self._finish or ("stop" if is_done else "interrupted")
        if self._refusal:
            finish_reason = "content_filter"
        if not text:
            self._require_answer(finish_reason)
            finish_reason = "tool_calls" if finish_reason == "stop" and self._arguments else finish_reason
        has_thought = bool(self._thoughts) or self.thinking.has_removed or self.thinking.started_inside
        usage, is_estimated = self._bill
        return rest, Completion(text, finish_reason, usage, self._tier, has_thought, is_estimated)

    def complete(self, events: Iterable[object], *, is_done: bool) -> Completion:
        """Read all events of a reply that was not shown in pieces.

        Raises:
            Refused: the model or a filter refuses to write.
            UnusableReply: the reply has failed, or has no choices or no end.
        """
        for event in events:
            self.feed(event)
        _, completion = self.end(is_done=is_done)
        if completion.finish_reason in {"content_filter", "interrupted"}:
            self._require_answer(completion.finish_reason)
        return completion

    def _show(self, text: str) -> str:
        self._shown.append(text)
        return text

    def _whole_characters(self, text: str) -> str:
        """Return the text without halves of surrogate pairs; a server may send both halves in separate events."""
        text = self._half + text
        if not _SURROGATE.search(text):
            return text
        self._half = text[-1] if _FIRST_HALF.match(text[-1]) else ""
        whole = text.removesuffix(self._half) if self._half else text
        return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")

    def _require_answer(self, finish_reason: str) -> None:
        if not self._has_choices:
            raise unreadable("llm", "sent a reply without choices")
        if self._refusal:
            raise self._refused("the model refuses to write about this text")
        if finish_reason == "content_filter":
            raise self._refused("the provider's content filter stopped the reply")
        if finish_reason == "interrupted":
            raise unreadable("llm", "interrupted its reply")

    def _refused(self, message: str) -> Refused:
        usage, is_estimated = self._bill
        return Refused(message, usage=usage, tier=self._tier, is_estimated=is_estimated)

    def _note_bill(self, event: Mapping[str, Any], choice: Mapping[str, Any] | None) -> None:
        billed = [event.get("usage"), (choice or {}).get("usage")]  # Kimi sends it with the choice
        usage = next((usage for usage in map(usage_of, billed) if usage != Usage()), None)
        if usage is not None:
            self._usage = usage  # of the reply so far: the last one counts
        if "service_tier" in event:
            self._tier = tier_of_reply(event["service_tier"])

    def _texts(self, message: object) -> Iterator[str]:
        if isinstance(message, Mapping):
            self._note_others(message)
            message = message.get("content")
        parts = message if isinstance(message, list) else [message]
        for part in parts:
            if isinstance(part, Mapping) and _word(part.get("type")) in _THINKING_PARTS:
                self._thoughts.append(_json_text(part))
            elif isinstance(part, Mapping) and isinstance(part.get("refusal"), str):
                self._refusal += part["refusal"]
            else:
                yield _text(part)

    def _note_others(self, message: Mapping[str, Any]) -> None:
        self._thoughts += [_json_text(message[name]) for name in _THOUGHTS if message.get(name)]
        if isinstance(refusal := message.get("refusal"), str):
            self._refusal += refusal
        calls = message.get("tool_calls") or message.get("function_call")
        for position, call in enumerate(calls if isinstance(calls, list) else [calls]):
            if isinstance(call, Mapping):
                called = call.get("function", call)
                arguments = called.get("arguments") if isinstance(called, Mapping) else None
                index = call.get("index", position)
                index = index if isinstance(index, int) else position
                if arguments is not None:
                    self._arguments[index] = self._arguments.get(index, "") + _json_text(arguments)


def completion_in(reply: object, *, has_schema: bool) -> Completion:
    """Read a complete reply without an error, as `ReplyReader.complete`."""
    return ReplyReader(has_schema=has_schema).complete([reply], is_done=True)


def unreadable(component: str, did: str) -> UnusableReply:
    """Return the error of a reply that cannot be used."""
    return UnusableReply(f"the {component} provider {did}", component=component)


def usage_of(billed: object) -> Usage:
    """Return the tokens in the field `usage` of a reply; a provider may omit any of them, or send another type."""
    if not isinstance(billed, Mapping):
        return Usage()
    prompt, completion = _tokens(billed, "prompt_tokens"), _tokens(billed, "completion_tokens")
    if not prompt and not completion:  # Voyage and Jina report only the sum
        return Usage(_tokens(billed, "total_tokens"))
    details = billed.get("prompt_tokens_details")
    if not isinstance(details, Mapping):
        return Usage(prompt, completion)
    cached = min(prompt, _tokens(details, "cached_tokens"))
    written = min(prompt - cached, _tokens(details, "cache_write_tokens"))
    return Usage(prompt, completion, cached, written)


def _tokens(billed: Mapping[str, Any], name: str) -> int:
    value = billed.get(name)
    return min(value, _MOST_TOKENS) if type(value) is int and value > 0 else 0


def _choice(event: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = event.get("choices")
    if isinstance(choices, Mapping):
        return choices
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else None


def _message(choice: Mapping[str, Any], *, is_first: bool) -> object:
    """Return the message of a choice, or the part of it that an event adds."""
    if choice.get("delta") is not None:
        return choice["delta"]
    # Some streams repeat the complete message in their last event.
    return (choice.get("message") or choice.get("text")) if is_first else None


def _text(value: object) -> str:
    """Return the text of a part of a message; another value is JSON that the server has already parsed."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        text = value.get("text", value.get("content"))
        if isinstance(text, Mapping):
            text = text.get("value")
        if isinstance(text, str):
            return text
        if isinstance(value.get("type"), str) and text is None:
            return ""  # a part of another kind, such as a reference
    return _json_text(value)


def _json_text(value: object) -> str:
    # Not orjson, which rejects large numbers and halves of characters.
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _word(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""


def _finish_reason(choice: Mapping[str, Any]) -> FinishReason | None:
    word = _word(choice.get("finish_reason"))
    reason = _REASONS.get(word, "stop")
    return None if not word or reason == "error" else reason
