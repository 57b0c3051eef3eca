"""Types of setting values."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

_FORM = "must be a URL such as https://api.openai.com/v1, with http:// or https://"
# Paths of calls, which people copy from the pages of providers.
_CALLS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/rerank")

PositiveInt = Annotated[int, Field(gt=0)]


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return timedelta(seconds=float(value))
    except ValueError:
        return value


def model_url(value: str) -> str:
    """Return the base URL of a model server.

    Raises:
        ValueError: it is not one; the message contains no part of it, because it may contain a password.
    """
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.fragment or any(character.isspace() for character in value):
        raise ValueError(_FORM)
    for call in _CALLS:
        if parts.path.rstrip("/").endswith(call):
            raise ValueError(f"must end before {call}, which foreask appends")
    return value


Duration = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta())]  # a number without a unit is seconds
