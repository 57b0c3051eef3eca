"""Conversion of providers' errors.

Their messages may contain the end of the key, an organisation, a deployment or other callers' input. They are only
logged, as `provider.answered`; an error has our sentence for the status, and the provider's code if we list it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Self

import orjson
import structlog

from shared.domain.errors import (
    ForeaskError,
    Misconfigured,
    NoCapacity,
    RateLimited,
    Refused,
    TimedOut,
    Unavailable,
    UnsupportedTier,
)
from shared.domain.retry import MOST_REQUESTED

_QUOTA_PAUSE = timedelta(minutes=5)
_UNAVAILABLE_PAUSE = timedelta(seconds=5)
_MISCONFIGURED_PAUSE = timedelta(seconds=30)
_TRANSIENT_STATUSES = {408, 409, 425}
NO_KEY = "none"  # value that is sent if no key is set
_WORDS = 300  # characters for the log

_IN_THE_LOG = "its message is logged as provider.answered"
_KEY = "it does not accept the API key, or not for this model: check both"
_NO_KEY_SET = (
    "it wants an API key, and none is set for its address: set FOREASK_{component}_API_KEY; the key of another address"
    " is not sent"
)
_NO_MODEL = "it has no such model: check the model's name and the base URL"
_NO_QUOTA = "its quota is used up: raise it, and the work continues automatically"
_SLOWER = "it asks for fewer requests"
_TOO_LONG = "the text is too long for the model: choose a model that takes more, or smaller chunks"
_FILTERED = "its content filter stops this text"
_NOT_TAKEN = "it rejects this request: check that the model supports it"
_FAILED = "it failed"
_NO_CAPACITY = "it has no capacity left in this service tier, and bills nothing: the call is repeated later"
_NO_TIER = "it does not offer the service tier: set FOREASK_LLM_TIER=standard, or choose a model that has it"

_OF_STATUS = {
    401: _KEY,
    402: _NO_QUOTA,
    403: _KEY,
    404: _NO_MODEL,
    413: _TOO_LONG,
    429: _SLOWER,
    498: _NO_CAPACITY,  # Groq
} | dict.fromkeys(_TRANSIENT_STATUSES, _FAILED)
# The codes that our sentences may name: of OpenAI, Azure, Groq, vLLM and llama.cpp.
_OF_CODE = {
    "billing_hard_limit_reached": _NO_QUOTA,
    "capacity_exceeded": _NO_CAPACITY,
    "content_filter": _FILTERED,
    "content_policy_violation": _FILTERED,
    "context_length_exceeded": _TOO_LONG,
    "exceed_context_size_error": _TOO_LONG,
    "insufficient_quota": _NO_QUOTA,
    "invalid_api_key": _KEY,
    "model_not_found": _NO_MODEL,
    "rate_limit_exceeded": _SLOWER,
    "resource_unavailable": _NO_CAPACITY,
    "string_above_max_length": _TOO_LONG,
    "unsupported_parameter": _NOT_TAKEN,
    "unsupported_value": _NOT_TAKEN,
    "DeploymentNotFound": _NO_MODEL,
    "NotFoundError": _NO_MODEL,
}
_KEYS = re.compile(r"\bsk-\S+|\S*\*{3}\S*")  # the whole key, or its end after asterisks

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An answer that is an error; the fields are values of the provider's JSON, of any type.

    Args:
        status: HTTP status; None if a reply was interrupted.
        headers: header fields, whose names are in lower case or in any case.
    """

    status: int | None
    headers: Mapping[str, str] = field(default_factory=dict)
    message: object = None
    code: object = None
    type: object = None
    param: object = None

    @classmethod
    def of(cls, status: int | None, headers: Mapping[str, str], body: Any) -> Self:
        """Read the body of an answer: an object with `error`, the error itself, or text."""
        error = body.get("error", body) if isinstance(body, dict) else body
        if not isinstance(error, dict):
            return cls(status, headers, error)
        return cls(status, headers, *(error.get(name) for name in ("message", "code", "type", "param")))


def body_of(content: bytes) -> Any:
    """Return the JSON value of an error's body, or its text."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return content[:_WORDS].decode(errors="replace")


def refusal(answer: ErrorAnswer, component: str, api_key: str) -> ForeaskError:
    """Return the error of an answer, and log the provider's message.

    Args:
        answer: the answer.
        component: the provider.
        api_key: removed from everything that is logged.
    """
    if answer.status is None:
        _log_words(answer, component, api_key)
        return Unavailable(
            f"the {component} provider interrupted its reply; {_IN_THE_LOG}", component=component, answered=True
        )
    converted = _from_status(answer, answer.status, component, has_key=api_key != NO_KEY)
    level = "info" if isinstance(converted, NoCapacity) else "warning"
    request_id = answer.headers.get("x-request-id")
    _log_words(answer, component, api_key, level, status=answer.status, provider_request_id=request_id)
    return converted


def interrupted(component: str) -> Unavailable:
    """Return the error of a reply that ended too early."""
    return Unavailable(f"the {component} provider interrupted its reply", component=component, answered=True)


def no_answer(component: str) -> TimedOut:
    """Return the error of a call that took too long."""
    return TimedOut(f"the {component} provider did not answer in time", component=component, answered=True)


def unreachable(component: str) -> Unavailable:
    """Return the error of a broken connection."""
    return Unavailable(
        f"the {component} provider cannot be reached", component=component, retry_after=_UNAVAILABLE_PAUSE
    )


def _log_words(answer: ErrorAnswer, component: str, api_key: str, level: str = "warning", **fields: object) -> None:
    said = answer.message
    words = _KEYS.sub("***", (said if isinstance(said, str) else "").replace(api_key, "***"))
    getattr(log, level)(
        "provider.answered", component=component, code=answer.code, type=answer.type, words=words[:_WORDS], **fields
    )


def _from_status(answer: ErrorAnswer, status: int, component: str, *, has_key: bool) -> ForeaskError:
    code = next((code for code in (answer.code, answer.type) if isinstance(code, str) and code in _OF_CODE), None)
    meaning = _OF_CODE[code] if code else _OF_STATUS.get(status, _FAILED if status >= 500 else _NOT_TAKEN)  # noqa: PLR2004
    if _is_about_tier(answer):
        meaning = _NO_TIER
    named = f" ({code})" if code else ""
    said = meaning if has_key or meaning != _KEY else _NO_KEY_SET.format(component=component.upper())
    message = f"the {component} provider answered {status}{named}: {said}; {_IN_THE_LOG}"
    wait = retry_after(answer.headers)
    if meaning == _NO_CAPACITY and status in {429, 498}:
        return NoCapacity(message, retry_after=wait)
    if status == 429 or meaning == _NO_QUOTA:  # noqa: PLR2004
        return RateLimited(message, retry_after=wait or (_QUOTA_PAUSE if meaning == _NO_QUOTA else None))
    if meaning == _NO_TIER:
        return UnsupportedTier(message, component=component, retry_after=_MISCONFIGURED_PAUSE)
    if status in {401, 403} or meaning in {_KEY, _NO_MODEL}:
        # Every call would fail alike: the configuration is wrong, not the chunk, so the chunk waits for a person.
        return Misconfigured(message, component=component, retry_after=_MISCONFIGURED_PAUSE)
    if status in _TRANSIENT_STATUSES or status >= 500:  # noqa: PLR2004
        return Unavailable(message, component=component, retry_after=wait, answered=True)
    return Refused(message)


def _is_about_tier(answer: ErrorAnswer) -> bool:
    """Return whether a request was rejected because of its service tier.

    OpenAI names the parameter, or only mentions it in the message ("Unsupported service_tier: flex"), as others do.
    """
    return answer.status in {400, 422} and "service_tier" in f"{answer.param} {answer.message}"


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return the pause that the provider requests: `retry-after-ms`, else `retry-after` in seconds or as a date.

    RFC 9110, 10.2.3. A date is relative to the reply's own `date`, because this machine's clock may be wrong.

    Returns:
        At most an hour; None if the reply has no valid value, or a date without a `date` header.
    """
    requested = _requested(headers)
    return None if requested is None else min(requested, MOST_REQUESTED)


def _requested(headers: Mapping[str, str]) -> timedelta | None:
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return timedelta(milliseconds=milliseconds)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return timedelta(seconds=seconds)
    then, sent = _date(value), _date(headers.get("date"))
    return None if then is None or sent is None else max(then - sent, timedelta())


def _date(value: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)  # the zone `-0000` is read as none


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < 1e7 else None  # noqa: PLR2004  also refuses inf and nan
