"""The highest bill of a call, and the calls whose bills never arrive."""

from __future__ import annotations

from math import ceil

from shared.domain.errors import ForeaskError, TimedOut, Unavailable
from shared.domain.usage import Usage
from shared.providers.chat import ChatRequest

_BYTES_PER_TOKEN = 3  # of UTF-8: three letters of English, one or two of other alphabets, one ideograph
_MARGIN = 1.2
_TOKENS_BESIDE = 100  # the schema, and the overhead of the chat format
_TOKENS_A_PICTURE = 4_000  # 765 to 3,800 for 1,024 pixels, by model; gpt-4o-mini counts up to 26,000


def highest_usage(request: ChatRequest) -> Usage:
    """Return the tokens that a provider may bill for a call: a high estimate of the prompt, and the longest reply."""
    prompt = sum(len(message.content.encode()) for message in request.messages) / _BYTES_PER_TOKEN
    picture = _TOKENS_A_PICTURE if request.picture else 0
    return Usage(ceil(prompt * _MARGIN) + _TOKENS_BESIDE + picture, request.max_tokens or 0)


def may_be_billed(error: ForeaskError) -> bool:
    """Return whether the provider may charge for the call that failed: no answer arrived."""
    if isinstance(error, TimedOut):
        return error.component == "llm"
    return type(error) is Unavailable and error.component == "llm" and not error.burns_attempt
