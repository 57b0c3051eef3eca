"""Optional fields of requests: a model that refuses one receives its requests without it from then on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import structlog

log = structlog.get_logger()

_STATUSES = frozenset({400, 422, 500, 501})  # llama.cpp answers 500 if it cannot read a schema
# Tokens beyond the limit after which a model has ignored it; servers count the end of a reply differently.
_TOLERATED_TOKENS = 16
_OLLAMA = "fp_ollama"

Body = Mapping[str, Any]


def _without(field: str) -> Callable[[Body], Body]:
    return lambda body: {name: value for name, value in body.items() if name != field}


def _renamed(field: str, other: str) -> Callable[[Body], Body]:
    return lambda body: {other if name == field else name: value for name, value in body.items()}


def _without_schema(body: Body) -> Body:
    return {**body, "response_format": {"type": "json_object"}}


# Each step changes one field. `service_tier` is not optional: a call in another tier has another price.
_STEPS: dict[str, tuple[str, Callable[[Body], Body]]] = {
    "json_schema": ("response_format", _without_schema),
    "json_object": ("response_format", _without("response_format")),
    "stream_options": ("stream_options", _without("stream_options")),
    "encoding_format": ("encoding_format", _without("encoding_format")),
    "max_completion_tokens": ("max_completion_tokens", _renamed("max_completion_tokens", "max_tokens")),
    "max_tokens": ("max_tokens", _renamed("max_tokens", "max_completion_tokens")),
    "temperature": ("temperature", _without("temperature")),
    "dimensions": ("dimensions", _without("dimensions")),
}
_LIMITS = {"max_completion_tokens", "max_tokens"}
# Words by which providers name a field in a message.
_WORDS = {
    "response_format": re.compile(
        r"response_format|json_schema|json_object|structured.output|grammar|guided", re.IGNORECASE
    ),
    "stream_options": re.compile(r"stream_options|include_usage", re.IGNORECASE),
    "encoding_format": re.compile(r"encoding_format|base64", re.IGNORECASE),
    "max_completion_tokens": re.compile(r"\bmax_completion_tokens\b", re.IGNORECASE),
    "max_tokens": re.compile(r"\bmax_tokens\b", re.IGNORECASE),
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "dimensions": re.compile(r"\bdimensions?\b|matryoshka", re.IGNORECASE),
}
_TOO_MUCH = re.compile(r"context|too (?:large|long|high)|exceed|at most|greater than|\bmaximum\b", re.IGNORECASE)
_UNKNOWN = re.compile(r"support|unknown|unrecogni[sz]ed|unexpected|extra|permitted|invalid param", re.IGNORECASE)
_ECHOES = frozenset({"input", "ctx", "body", "request", "url"})  # fields of errors that may quote the request


class ModelQuirks:
    """Observed properties of a model at one base URL, for the lifetime of the process.

    Attributes:
        may_start_inside: whether its replies may start inside of their thinking (`replies.thinking`). Until a reply
            has shown it, they may.
    """

    def __init__(self) -> None:
        self._steps: dict[str, None] = {}
        self._has_started_inside = False
        self.may_start_inside = True

    def adapted(self, body: Body, more: Mapping[str, None] | None = None) -> Body:
        """Return a request without the fields that the model refuses.

        Args:
            body: the request.
            more: steps that are only tried.
        """
        for step in {**self._steps, **(more or {})}:
            field, change = _STEPS[step]
            if field in body and not (step == "json_schema" and not _has_schema(body)):
                body = change(body)
        return body

    def next_step(self, status: int, answer: Any, sent: Body) -> str | None:
        """Return the step that answers a refusal; None if the refusal names no optional field of the request.

        Args:
            status: status of the answer.
            answer: its body.
            sent: the refused request.
        """
        if status not in _STATUSES:
            return None
        param = next(_strings(answer, "param"), None)
        words = param if param is not None else " ".join(_words(answer))
        for step, (field, _) in _STEPS.items():
            if step in self._steps or field not in sent or (step == "json_schema" and not _has_schema(sent)):
                continue
            if _WORDS[field].search(words) and not (field in _LIMITS and _is_number_refused(answer)):
                return step
        return None

    def learn(self, steps: Mapping[str, None], *, model: str) -> None:
        """Remember steps with which a call was accepted: a text may be refused with the same words."""
        new = [step for step in steps if step not in self._steps]
        self._steps.update(dict.fromkeys(new))
        for step in new:
            log.info("request.adapted", model=model, field=_STEPS[step][0], step=step)

    def note_length(self, model: str, limit: int, completion_tokens: int, *, fingerprint: object = None) -> None:
        """Notice a model that ignores `max_completion_tokens`: Ollama, llama-cpp-python, llama.cpp before 2026.

        OpenAI and Volcengine refuse requests with both fields, so a request never has both.

        Args:
            model: name of the model, for the log.
            limit: limit of the reply.
            completion_tokens: length of the reply.
            fingerprint: the reply's `system_fingerprint`.
        """
        if completion_tokens > limit + _TOLERATED_TOKENS or fingerprint == _OLLAMA:
            self.learn({"max_completion_tokens": None}, model=model)

    def note_start(self, *, is_inside: bool) -> None:
        """Notice whether a reply has started inside of its thinking; a model that did so once may do so again."""
        self._has_started_inside |= is_inside
        self.may_start_inside = self._has_started_inside


def _has_schema(body: Body) -> bool:
    wanted = body.get("response_format")
    return isinstance(wanted, Mapping) and wanted.get("type") == "json_schema"


def _is_number_refused(answer: Any) -> bool:
    """Return whether a limit of tokens is refused for its number: under another name it would be refused, too."""
    words = " ".join(_words(answer))
    return bool(_TOO_MUCH.search(words)) and not _UNKNOWN.search(words)


def _strings(value: Any, name: str) -> Iterator[str]:
    """Yield the texts of a field anywhere in an answer."""
    if isinstance(value, Mapping):
        if isinstance(found := value.get(name), str) and found:
            yield found
        for inner in value.values():
            yield from _strings(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)


def _words(value: Any) -> Iterator[str]:
    """Yield the texts of an answer, except quotations of the request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _ECHOES:
                yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
