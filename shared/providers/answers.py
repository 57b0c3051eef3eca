"""Conversion of providers' errors.

Their messages may contain the end of the key, an organisation, a deployment or other callers' input. They are only
logged, as `provider.answered`; an error has our sentence for the status, and the provider's code if we list it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import openai
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

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUOTA_PAUSE = timedelta(minutes=5)
_UNAVAILABLE_PAUSE = timedelta(seconds=5)
_MISCONFIGURED_PAUSE = timedelta(seconds=30)
_TRANSIENT_STATUSES = {408, 409, 425}
NO_KEY = "none"  # value for the SDK if no key is set
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


@contextmanager
def provider_errors(component: str, api_key: str) -> Iterator[None]:
    """Convert the SDK's errors, and log the provider's message.

    Args:
        component: the provider.
        api_key: removed from everything that is shown or logged.
    """
    try:
        yield
    except openai.APIStatusError as error:
        converted = _from_status(error, component, has_key=api_key != NO_KEY)
        level = "info" if isinstance(converted, NoCapacity) else "warning"
        _log_words(error, component, api_key, level, status=error.status_code, provider_request_id=error.request_id)
        raise converted from error
    except openai.APITimeoutError as error:
        raise TimedOut(
            f"the {component} provider did not answer in time", component=component, answered=True
        ) from error
    except openai.APIConnectionError as error:
        raise Unavailable(
            f"the {component} provider cannot be reached", component=component, retry_after=_UNAVAILABLE_PAUSE
        ) from error
    except openai.APIError as error:
        _log_words(error, component, api_key)
        raise Unavailable(
            f"the {component} provider interrupted its reply; {_IN_THE_LOG}", component=component, answered=True
        ) from error


def _log_words(error: openai.APIError, component: str, api_key: str, level: str = "warning", **fields: object) -> None:
    said = error.body.get("message") if isinstance(error.body, dict) else error.body
    words = _KEYS.sub("***", (said if isinstance(said, str) else "").replace(api_key, "***"))
    getattr(log, level)(
        "provider.answered", component=component, code=error.code, type=error.type, words=words[:_WORDS], **fields
    )


def _from_status(error: openai.APIStatusError, component: str, *, has_key: bool = True) -> ForeaskError:
    status = error.status_code
    code = next((code for code in (error.code, error.type) if code in _OF_CODE), None)
    meaning = _OF_CODE[code] if code else _OF_STATUS.get(status, _FAILED if status >= 500 else _NOT_TAKEN)  # noqa: PLR2004
    if _is_about_tier(error):
        meaning = _NO_TIER
    named = f" ({code})" if code else ""
    said = meaning if has_key or meaning != _KEY else _NO_KEY_SET.format(component=component.upper())
    message = f"the {component} provider answered {status}{named}: {said}; {_IN_THE_LOG}"
    wait = retry_after(error.response.headers)
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


def _is_about_tier(error: openai.APIStatusError) -> bool:
    """Return whether a request was rejected because of its service tier.

    OpenAI names the parameter, or only mentions it in the message ("Unsupported service_tier: flex"), as others do.
    """
    said = error.body.get("message") if isinstance(error.body, dict) else error.body
    return error.status_code in {400, 422} and "service_tier" in f"{error.param} {said}"


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return the pause that the provider requests: `retry-after-ms`, else `retry-after` in seconds or as a date.

    RFC 9110, 10.2.3. A date is relative to the reply's own `date`, because this machine's clock may be wrong.

    Returns:
        None if the reply has no valid value, or a date without a `date` header.
    """
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
