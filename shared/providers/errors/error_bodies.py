"""Errors in the bodies of providers' answers, in every form that is common.

The forms, with their source: `{"error": {...}}` (OpenAI), `{"error": "…"}` (Ollama, LM Studio, TEI),
`{"object": "error", "message": …}` (vLLM before 0.10), `[{"error": {...}}]` (Gemini), `{"detail": "…"}` and
`{"detail": [{"loc", "msg"}]}` (FastAPI), `{"message": {"detail": [...]}}` (Mistral), `{"errors": [...]}` (Cloudflare),
`{"title", "detail"}` (RFC 9457), `{"error_code", "message"}` (Databricks), and `metadata.raw`, the words of the
server that OpenRouter has called.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

_DEPTH = 5
_TEXTS = 3  # entries of a list that are read
_NAMES = (
    "message",
    "Message",
    "detail",
    "msg",
    "error",
    "errors",
    "error_description",
    "description",
    "title",
    "reason",
)
_CONTENT = ("choices", "data", "results")  # of a reply without an error

# Gemini and Vertex (google.rpc.Code), and Anthropic (https://docs.anthropic.com/en/api/errors).
_STATUS_OF_NAME = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}


def error_of(body: Any) -> Any:
    """Return the error in a body: an object, or a text."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return body
    error = body.get("error")
    if isinstance(error, dict):
        return error
    if error:
        return body | {"message": error, "type": body.get("error_type")}
    return body


def error_in_reply(reply: Any) -> Any:
    """Return the error in the body of an answer with status 200; None if it is a reply."""
    body = reply[0] if isinstance(reply, list) and len(reply) == 1 else reply
    if not isinstance(body, dict):
        return None
    if body.get("error"):
        return error_of(body)
    if (of_choice := _error_of_choice(body)) is not None:
        return of_choice
    if any(body.get(name) for name in _CONTENT):
        return None
    is_error = "error" in (body.get("object"), body.get("type"))
    return body if is_error or any(body.get(name) for name in ("message", "detail", "errors")) else None


def _error_of_choice(body: Mapping[str, Any]) -> Any:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else choices
    return (first.get("error") or None) if isinstance(first, Mapping) else None


def text_in(value: Any, depth: int = 0) -> str:
    """Return the text for people in an error, or in a part of one."""
    if depth > _DEPTH:
        return ""
    if isinstance(value, str):
        return _text_in_json(value, depth)
    if isinstance(value, list):
        return "; ".join(text for part in value[:_TEXTS] if (text := text_in(part, depth + 1)))
    if not isinstance(value, Mapping):
        return ""
    text = next((text for name in _NAMES if (text := text_in(value.get(name), depth + 1))), "")
    if text and isinstance(location := value.get("loc"), list):
        text = f"{'.'.join(map(str, location))}: {text}"
    metadata = value.get("metadata")
    inner = text_in(metadata.get("raw"), depth + 1) if isinstance(metadata, Mapping) else ""
    return f"{text}: {inner}" if text and inner else text or inner


def _text_in_json(text: str, depth: int) -> str:
    """Return a text, or the one in it if it is JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return text_in(orjson.loads(text), depth + 1) or text
    except orjson.JSONDecodeError:
        return text


def status_in(error: Any) -> int | None:
    """Return the status of an error as its body names it."""
    if not isinstance(error, Mapping):
        return None
    for name in ("code", "status", "status_code", "http_status", "type"):
        value = error.get(name)
        if isinstance(value, str) and value in _STATUS_OF_NAME:
            return _STATUS_OF_NAME[value]
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == len("429") else value
        if type(number) is int and HTTPStatus.BAD_REQUEST <= number < 600:  # noqa: PLR2004
            return number
    return None
