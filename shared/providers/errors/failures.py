"""The errors of calls without an answer: the connection failed, or the provider was too slow."""

from __future__ import annotations

from datetime import timedelta

import structlog

from shared.domain.durations import duration
from shared.domain.errors import Misconfigured, Unavailable
from shared.process.network.problems import is_untrusted, problem_of
from shared.process.telemetry.repetitions import Repetitions
from shared.providers.errors.answers import interrupted, no_answer, unreachable

_PAUSE = timedelta(seconds=30)
# Errors of our client, of aiohttp, and of the SDK's transport, before a request is sent.
_UNSENT = frozenset(
    {
        *("ConnectFailed", "ConnectTimedOut"),
        *("ClientConnectorError", "ConnectionTimeoutError", "ClientHttpProxyError", "InvalidURL"),
        *("ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"),
    }
)
_SETTINGS = {"llm": "FOREASK_LLM_TIMEOUT", "embedding": "FOREASK_EMBEDDING_TIMEOUT"}
log = structlog.get_logger()
_repetitions = Repetitions()


def failure(component: str, error: BaseException, timeout: timedelta | None) -> Unavailable:
    """Return the error of a call, and log its reason: as a warning once a minute.

    Args:
        component: the provider.
        error: error of the client's library, with its causes.
        timeout: timeout of the call, for the message.
    """
    reason = problem_of(error)
    why = reason or type(error).__name__
    level = log.debug if _repetitions.repeats(component, why) else log.warning
    level("provider.unreachable", component=component, reason=why)
    if is_untrusted(error):  # every call fails alike until a person acts
        message = f"the {component} provider cannot be reached: {reason}"
        return Misconfigured(message, component=component, retry_after=_PAUSE)
    if _is_late(error):
        return no_answer(component, _limit(component, timeout))
    if _is_unsent(error):
        return unreachable(component, reason or "")
    return interrupted(component)


def _is_late(error: BaseException) -> bool:
    """Return whether a connected provider took too long."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError):
            return type(cause).__name__ not in _UNSENT
        cause = cause.__cause__
    return False


def _is_unsent(error: BaseException) -> bool:
    """Return whether the request was not sent, so that the provider bills nothing."""
    cause: BaseException | None = error
    while cause is not None:
        if not _UNSENT.isdisjoint(kind.__name__ for kind in type(cause).__mro__):
            return True
        cause = cause.__cause__
    return False


def _limit(component: str, timeout: timedelta | None) -> str:
    if timeout is None:
        return ""
    setting = _SETTINGS.get(component)
    return f"no complete answer within {duration(timeout.total_seconds())}" + (f" ({setting})" if setting else "")
