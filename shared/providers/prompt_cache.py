"""OpenAI's prompt cache: from GPT-5.6 on, a call selects the prefix that is written to it.

By default such a model writes each prompt of 1,024 tokens or more to the cache, at 1.25 times the price, whether or not
another call reads it. Prompts of the ingest differ after their instructions, so these writes would only cost money. In
the mode `explicit` only the part in front of a breakpoint is written:
https://developers.openai.com/api/docs/guides/prompt-caching

These fields are sent with a request, but are not part of it: paid replies are found under the request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from shared.providers.chat import ChatRequest, Message

MIN_CACHED_BYTES = 4 * 1_024  # of a part with 1,024 tokens, the fewest that are cached
_FIRST_EXPLICIT = (5, 6)
_VERSION = re.compile(r"(?:ft:)?gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")
_HOST = "api.openai.com"
_BREAKPOINT = {"mode": "explicit"}


def has_explicit_cache(url: str, model: str) -> bool:
    """Return whether calls to this model can select the cached prefix: OpenAI's models, from GPT-5.6 on."""
    host = urlsplit(url).hostname or ""
    version = _VERSION.match(model)
    if version is None or not (host == _HOST or host.endswith(f".{_HOST}")):
        return False
    return (int(version[1]), int(version[2] or 0)) >= _FIRST_EXPLICIT


def cache_fields(request: ChatRequest, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields to add to a request's body, or to replace in it.

    Nothing is written to the cache unless the fixed part, which all requests of a template share, has 1,024 tokens.
    """
    *before, last = request.messages
    fixed = last.content[: request.fixed_chars]
    fields: dict[str, Any] = {
        "prompt_cache_options": {"mode": "explicit"},
        "prompt_cache_key": _key((*(message.content for message in before), fixed)),
    }
    if fixed and _size([*before], fixed) >= MIN_CACHED_BYTES:
        rest = last.content[request.fixed_chars :]
        parts: list[dict[str, Any]] = [{"type": "text", "text": fixed, "prompt_cache_breakpoint": _BREAKPOINT}]
        if rest:
            parts.append({"type": "text", "text": rest})
        fields["messages"] = [*body["messages"][:-1], {"role": last.role, "content": parts}]
    return fields


def _size(before: list[Message], fixed: str) -> int:
    return sum(len(message.content.encode()) for message in before) + len(fixed.encode())


@lru_cache(maxsize=256)
def _key(fixed: tuple[str, ...]) -> str:
    """Return the key by which calls with the same fixed part reach the same cache."""
    return hashlib.sha256("\n".join(fixed).encode()).hexdigest()[:32]
