"""Conversion of providers' errors.

An error has our sentence for its cause, with the remedy, and then the provider's own words in quotes. These may contain
keys, an organisation or another caller's text, so `words_of` removes all of it: the sentence is shown to every tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Self

import orjson
import structlog

from shared.domain.errors import (
    ForeaskError,
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
from shared.process.telemetry.repetitions import Repetitions
from shared.process.words import is_page, shortened, words_for_people
from shared.providers.errors.error_bodies import error_in_reply, error_of, status_in, text_in
from shared.providers.errors.known_messages import Meaning, meaning_of
from shared.providers.errors.pauses import pause_in

_QUOTA_PAUSE = timedelta(minutes=5)
_UNAVAILABLE_PAUSE = timedelta(seconds=5)
_MISCONFIGURED_PAUSE = timedelta(seconds=30)
_TRANSIENT_STATUSES = {408, 409, 425}
NO_KEY = "none"  # value that is sent if no key is set
_BODY_CHARS = 2_000

_NO_KEY_SET = (
    "it wants an API key, and none is set for its address: set FOREASK_{component}_API_KEY; the key of another address"
    " is not sent"
)
_SENTENCES = {
    Meaning.KEY: "it does not accept the API key, or not for this model: check both",
    Meaning.NO_MODEL: "it has no such model: check the model's name and the base URL",
    Meaning.NO_ADDRESS: "it does not know this call: check the base URL, which mostly ends in /v1",
    Meaning.NO_QUOTA: "its quota is used up: raise it, and the work continues automatically",
    Meaning.DAILY_LIMIT: "its limit for a day is used up: raise it, or wait; the work continues automatically",
    Meaning.SLOWER: "it asks for fewer requests",
    Meaning.TOO_LONG: "the text is too long for the model: choose a model that takes more, or smaller chunks",
    Meaning.FILTERED: "its content filter stops this text",
    Meaning.FIREWALL: "a firewall or proxy in front of it stops this request: ask its administrator",
    Meaning.REGION: "it does not serve the region of this machine: choose another provider or region",
    Meaning.LOADING: "it is still loading the model",
    Meaning.NOT_TAKEN: "it rejects this request: check that the model supports it",
    Meaning.FAILED: "it failed",
    Meaning.NO_CAPACITY: "it has no capacity left in this service tier, and bills nothing: the call is repeated later",
    Meaning.NO_TIER: "it does not offer the service tier: set FOREASK_LLM_TIER=standard, or choose a model that has it",
}

_OF_STATUS = {
    401: Meaning.KEY,
    402: Meaning.NO_QUOTA,
    403: Meaning.KEY,
    404: Meaning.NO_MODEL,
    405: Meaning.NO_ADDRESS,
    413: Meaning.TOO_LONG,
    429: Meaning.SLOWER,
    498: Meaning.NO_CAPACITY,  # Groq
    501: Meaning.NO_ADDRESS,  # llama.cpp without --embeddings
} | dict.fromkeys(_TRANSIENT_STATUSES, Meaning.FAILED)
# The codes that our sentences may name: of OpenAI, Azure, Groq, vLLM, llama.cpp and DashScope.
_OF_CODE = {
    "billing_hard_limit_reached": Meaning.NO_QUOTA,
    "capacity_exceeded": Meaning.NO_CAPACITY,
    "content_filter": Meaning.FILTERED,
    "content_policy_violation": Meaning.FILTERED,
    "context_length_exceeded": Meaning.TOO_LONG,
    "data_inspection_failed": Meaning.FILTERED,
    "exceed_context_size_error": Meaning.TOO_LONG,
    "insufficient_quota": Meaning.NO_QUOTA,
    "invalid_api_key": Meaning.KEY,
    "model_not_found": Meaning.NO_MODEL,
    "rate_limit_exceeded": Meaning.SLOWER,
    "resource_unavailable": Meaning.NO_CAPACITY,
    "string_above_max_length": Meaning.TOO_LONG,
    "unsupported_country_region_territory": Meaning.REGION,
    "unsupported_parameter": Meaning.NOT_TAKEN,
    "unsupported_value": Meaning.NOT_TAKEN,
    "DeploymentNotFound": Meaning.NO_MODEL,
    "NotFoundError": Meaning.NO_MODEL,
}
_STATUS_OF_MEANING = {
    Meaning.KEY: 401,
    Meaning.NO_QUOTA: 402,
    Meaning.DAILY_LIMIT: 429,
    Meaning.SLOWER: 429,
    Meaning.NO_MODEL: 404,
    Meaning.NO_ADDRESS: 404,
    Meaning.REGION: 403,
    Meaning.TOO_LONG: 400,
    Meaning.FILTERED: 400,
    Meaning.LOADING: 503,
    Meaning.NO_CAPACITY: 503,
}
_ABOUT_ALL_CALLS = {Meaning.KEY, Meaning.NO_MODEL, Meaning.NO_ADDRESS, Meaning.REGION}
_ABOUT_THE_TEXT = {Meaning.TOO_LONG, Meaning.FILTERED}

log = structlog.get_logger()
_repetitions = Repetitions()


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An answer that is an error; the fields are values of the provider's JSON, of any type.

    Args:
        status: HTTP status, or the status of the error inside a reply; None without any.
        headers: header fields, whose names are in lower case or in any case.
        message: its words, of any form that `text_in` reads.
        code: its code.
        type: its type.
        param: the field of the request that it names.
        is_page: whether it is a page of HTML, which no model sends.
        body: its JSON.
    """

    status: int | None
    headers: Mapping[str, str] = field(default_factory=dict)
    message: object = None
    code: object = None
    type: object = None
    param: object = None
    is_page: bool = False
    body: object = None

    @classmethod
    def of(cls, status: int | None, headers: Mapping[str, str], body: Any) -> Self:
        """Read the body of an answer: JSON of any common form, or text."""
        error = error_of(body)
        if not isinstance(error, dict):
            return cls(status, headers, error, is_page=isinstance(error, str) and is_page(error))
        code = error.get("code") or error.get("error_code")
        status = status or status_in(error)
        return cls(status, headers, text_in(error), code, error.get("type"), error.get("param"), body=body)

    @classmethod
    def in_reply(cls, headers: Mapping[str, str], reply: Any) -> Self | None:
        """Return the error inside an answer with status 200; None if it is a reply.

        OpenRouter, LM Studio and gateways answer so. The error may name its status.
        """
        error = error_in_reply(reply)
        return None if error is None else replace(cls.of(None, headers, error), body=reply)


def body_of(content: bytes) -> Any:
    """Return the JSON value of an error's body, or its text."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return content[:_BODY_CHARS].decode(errors="replace")


def text_of(body: Mapping[str, Any]) -> str:
    """Return the texts of a request, which its error may quote: messages, inputs, questions and documents."""
    texts = [body.get(name) for name in ("messages", "input", "query", "documents")]
    return "\n".join(_texts_in(texts))


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for part in value for text in _texts_in(part)]
    if isinstance(value, Mapping):
        return _texts_in([value.get("content"), value.get("text")])
    return []


def words_of(answer: ErrorAnswer, api_key: str, sent: str = "", most_chars: int = 200) -> str:
    """Return the provider's words as every tenant may read them.

    Args:
        answer: the answer.
        api_key: the key of the request.
        sent: the texts of the request, as of `text_of`.
        most_chars: longest result.
    """
    secrets = () if api_key == NO_KEY else (api_key,)
    return words_for_people(text_in(answer.message), secrets, sent, most_chars)


def refusal(answer: ErrorAnswer, component: str, api_key: str, sent: str = "") -> ForeaskError:
    """Return the error of an answer, and log it.

    Args:
        answer: the answer.
        component: the provider.
        api_key: removed from everything that is shown or logged.
        sent: the texts of the request, which are removed, too.
    """
    words = words_of(answer, api_key, sent, _BODY_CHARS)
    meaning, code = _meaning(answer, words)
    status = answer.status or _STATUS_OF_MEANING.get(meaning)
    pause = pause_in(answer.headers, answer.body, words, status)
    words = shortened(words)
    sentence = _SENTENCES[meaning]
    if meaning is Meaning.KEY and api_key == NO_KEY:
        sentence = _NO_KEY_SET.format(component=component.upper())
    answered = f"answered {status}" if status else "answered with an error"
    message = f"the {component} provider {answered}{f' ({code})' if code else ''}: {sentence}{said(words)}"
    error = _converted(meaning, status, message, component, pause)
    error.words, error.status = words, status
    _log(answer, component, error)
    return error


def page_in_reply(content: bytes, component: str, api_key: str, sent: str = "") -> ForeaskError:
    """Return the error of an answer with status 200 without JSON: a page of a login or a proxy, or broken text."""
    text = content[:_BODY_CHARS].decode(errors="replace")
    answer = ErrorAnswer(None, message=text, is_page=is_page(text))
    # Half a reply was written about a text of one tenant, so it is not shown.
    words = "" if text.lstrip().startswith(("{", "[", "data:")) else words_of(answer, api_key, sent)
    remedy = (
        "sent a web page: check the base URL, which mostly ends in /v1, and whether a proxy wants a login"
        if answer.is_page
        else "sent no JSON: check that the base URL belongs to an OpenAI-compatible API"
    )
    message = f"the {component} provider {remedy}{said(words)}"
    if answer.is_page:  # not of the model, so nothing is billed
        error = Unavailable(message, component=component, answered=True)
    else:
        error = UnusableReply(message, component=component)
    error.words = words
    _log(answer, component, error)
    return error


def said(words: str) -> str:
    """Return the end of a sentence with the words of a provider or an engine."""
    quoted = words.replace('"', "'")
    return f'; it says "{quoted}"' if words else ""


def interrupted(component: str) -> InterruptedReply:
    """Return the error of a connection that broke after the request, before the end of the reply."""
    return InterruptedReply(f"the {component} provider interrupted its reply", component=component)


def no_answer(component: str, why: str = "") -> TimedOut:
    """Return the error of a call that took too long; `why` names the time."""
    cause = f": {why}" if why else ""
    return TimedOut(f"the {component} provider did not answer in time{cause}", component=component, answered=True)


def unreachable(component: str, why: str = "") -> Unavailable:
    """Return the error of a call whose request was not sent; `why` names the cause in words for people."""
    cause = f": {why}" if why else ""
    return Unavailable(
        f"the {component} provider cannot be reached{cause}", component=component, retry_after=_UNAVAILABLE_PAUSE
    )


def _log(answer: ErrorAnswer, component: str, error: ForeaskError) -> None:
    """Log an answer: as a warning once a minute, and repetitions for a search of errors only."""
    repeated = _repetitions.repeats(component, error.status, str(answer.code), type(error).__name__)
    level = log.debug if repeated else log.info if isinstance(error, NoCapacity) else log.warning
    level(
        "provider.answered",
        component=component,
        code=answer.code,
        type=answer.type,
        words=error.words,
        status=error.status,
        provider_request_id=answer.headers.get("x-request-id"),
    )


def _meaning(answer: ErrorAnswer, words: str) -> tuple[Meaning, str | None]:
    """Return the cause of an error, and its code if our sentences may name it."""
    if _is_about_tier(answer):
        return Meaning.NO_TIER, None
    code = next((code for code in (answer.code, answer.type) if isinstance(code, str) and code in _OF_CODE), None)
    of_code = _OF_CODE.get(code or "")
    status = answer.status or 0
    if status == 413 and of_code is Meaning.SLOWER:  # noqa: PLR2004  Groq: no later time is better for this text
        return Meaning.TOO_LONG, code
    if of_code is not None and of_code is not Meaning.SLOWER:
        return of_code, code
    named = meaning_of(words)
    # Gemini names a quota of a minute as OpenAI names an exhausted one. For a text that is larger than the limit of a
    # minute, no later time is better.
    if named is not None and (status != 429 or named in {Meaning.DAILY_LIMIT, Meaning.TOO_LONG}):  # noqa: PLR2004
        return named, code
    if answer.is_page and status in {401, 403, 406}:
        return Meaning.FIREWALL, code
    general = Meaning.FAILED if not status or status >= 500 else Meaning.NOT_TAKEN  # noqa: PLR2004
    return of_code or _OF_STATUS.get(status, general), code


def _converted(
    meaning: Meaning, status: int | None, message: str, component: str, wait: timedelta | None
) -> ForeaskError:
    status = status or 0
    if meaning is Meaning.NO_CAPACITY and status in {429, 498}:
        return NoCapacity(message, retry_after=wait)
    slower = status == 429 and meaning is not Meaning.TOO_LONG  # noqa: PLR2004
    if slower or meaning in {Meaning.NO_QUOTA, Meaning.DAILY_LIMIT}:
        return RateLimited(message, retry_after=wait or (None if meaning is Meaning.SLOWER else _QUOTA_PAUSE))
    if meaning is Meaning.NO_TIER:
        return UnsupportedTier(message, component=component, retry_after=_MISCONFIGURED_PAUSE)
    if meaning not in _ABOUT_THE_TEXT:
        if status in {401, 403} or meaning in _ABOUT_ALL_CALLS:
            # Every call would fail alike: the configuration is wrong, not the chunk, so the chunk waits for a person.
            return Misconfigured(message, component=component, retry_after=_MISCONFIGURED_PAUSE)
        if not status or status in _TRANSIENT_STATUSES or status >= 500:  # noqa: PLR2004
            return Unavailable(message, component=component, retry_after=wait, answered=True)
    return Refused(message)


def _is_about_tier(answer: ErrorAnswer) -> bool:
    """Return whether a request was rejected because of its service tier.

    OpenAI names the parameter, or only mentions it in the message ("Unsupported service_tier: flex"), as others do.
    """
    return answer.status in {400, 422} and "service_tier" in f"{answer.param} {answer.message}"
