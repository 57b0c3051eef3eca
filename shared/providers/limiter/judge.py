"""Decides whether a text or the configuration is the cause of a refusal, by a neutral call of the same form.

A provider refuses one text with the same statuses as every call: a firewall answers 403 to a text with SQL, and a
server answers 400 to a text that is too long, and to a schema that it does not support. Only a call without the text
shows the cause. A text that is refused alone fails alone. If the neutral call is refused, too, the work waits and uses
no attempt, and a later neutral call ends the wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import structlog

from shared.domain.errors import (
    FailsOnText,
    ForeaskError,
    InterruptedReply,
    Misconfigured,
    Refused,
    TimedOut,
    Unavailable,
    UnsupportedTier,
    UnusableReply,
)
from shared.providers.errors.answers import said
from shared.providers.limiter.script import CallKind

_REFUSED_PAUSE = timedelta(seconds=30)
_TRUSTED_SECONDS = 60.0  # age of a success that suffices to divide a refused batch: its texts need a newer one
_PAUSE_SECONDS = (5.0, 60.0)  # the first and the longest pause before a refused form is tried again
_FORMS = 256  # a request for more questions has another limit of tokens, and so another form

Error = TypeVar("Error", bound=ForeaskError)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Neutral:
    """A call of the same form as another one, but without its text.

    Args:
        form: the model and the options; calls of one form share a neutral call.
        call: makes the call.
        kind: kind of the other call.
        prompt_tokens: estimated tokens of the prompt.
        completion_tokens: maximum tokens of the reply; None without a limit.
        is_plain: whether it has no options, so that its refusal concerns every call of the model.
        is_of_batch: whether the other call has several texts, so that a refusal is only a reason to divide it.
    """

    form: Hashable
    call: Callable[[], Awaitable[object]]
    kind: CallKind
    prompt_tokens: int
    completion_tokens: int | None = None
    is_plain: bool = False
    is_of_batch: bool = False


@dataclass(frozen=True, slots=True)
class NeutralCall:
    """A neutral call: the time when it was sent, and its error; None if it passed."""

    sent_at: float
    error: ForeaskError | None


@dataclass(slots=True)
class _Pause:
    """A pause of the calls of a form, after a neutral call was refused."""

    error: Misconfigured
    kind: CallKind
    since: float
    seconds: float

    @property
    def until(self) -> float:
        return self.since + self.seconds


class Judge:
    """Decides for one process about the errors of one provider.

    Concurrent errors of one form share a neutral call. Its success counts only for errors of calls that were sent
    earlier, so a configuration that breaks never makes dead letters of calls in flight.

    Args:
        component: the provider, for messages.
        ask: makes a neutral call within the limits.
        now: clock in monotonic seconds.
    """

    def __init__(
        self, component: str, ask: Callable[[Neutral], Awaitable[NeutralCall]], now: Callable[[], float]
    ) -> None:
        self._component = component
        self._ask = ask
        self._now = now
        self._asking: dict[Hashable, asyncio.Task[NeutralCall]] = {}
        self._paused: OrderedDict[Hashable, _Pause] = OrderedDict()
        self._passed: OrderedDict[Hashable, float] = OrderedDict()  # time at which the last good call was sent
        self._passed_of: dict[CallKind, float] = {}

    def is_stalled(self, kind: CallKind) -> bool:
        """Return whether calls of a kind are paused, and none of any form has succeeded since."""
        now, passed = self._now(), self._passed_of.get(kind, float("-inf"))
        return any(pause.kind is kind and passed < pause.since and now < pause.until for pause in self._paused.values())

    async def require(self, neutral: Neutral) -> None:
        """Make sure that a call is not of a refused form; the first one after a pause waits for a neutral call.

        Raises:
            Misconfigured: the form is refused.
            Transient: the neutral call could not be made.
        """
        if neutral.form in self._paused:
            error = await self._error_since(neutral, self._now())
            if error is not None:
                raise error

    def passed(self, neutral: Neutral, sent_at: float) -> None:
        """Record a successful call."""
        self._record(neutral, sent_at)
        self._passed_of[neutral.kind] = max(sent_at, self._passed_of.get(neutral.kind, sent_at))

    async def cause(self, error: ForeaskError, neutral: Neutral, sent_at: float) -> ForeaskError:
        """Return a doubtful error as `judged` does, by a call without the text that was sent later."""
        if neutral.is_of_batch and isinstance(error, Refused):
            sent_at -= _TRUSTED_SECONDS
        return judged(error, await self._error_since(neutral, sent_at), self._component)

    async def _error_since(self, neutral: Neutral, earliest: float) -> ForeaskError | None:
        while True:
            pause = self._paused.get(neutral.form)
            if pause is not None and self._now() < pause.until:
                return _again(pause.error, pause.until - self._now())
            if self._passed.get(neutral.form, float("-inf")) >= earliest:
                return None
            tried = await self._tried(neutral)
            if tried.sent_at >= earliest:
                return tried.error

    async def aclose(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _tried(self, neutral: Neutral) -> NeutralCall:
        task = self._asking.get(neutral.form)
        if task is None:
            # It serves all callers: a cancelled caller does not cancel it, and it does not carry the caller's ids.
            task = asyncio.create_task(self._try(neutral), context=Context())
            self._asking[neutral.form] = task
        return await asyncio.shield(task)

    async def _try(self, neutral: Neutral) -> NeutralCall:
        try:
            tried = await self._ask(neutral)
        finally:
            self._asking.pop(neutral.form, None)  # not in a callback: a caller whose error is newer asks again at once
        if tried.error is None:
            self._record(neutral, tried.sent_at)
        elif isinstance(tried.error, Misconfigured):
            self._pause(neutral, tried.error)
        return tried

    def _record(self, neutral: Neutral, sent_at: float) -> None:
        self._passed[neutral.form] = max(sent_at, self._passed.pop(neutral.form, sent_at))
        if len(self._passed) > _FORMS:
            self._passed.popitem(last=False)
        pause = self._paused.get(neutral.form)
        if pause is not None and pause.since <= sent_at:
            del self._paused[neutral.form]

    def _pause(self, neutral: Neutral, error: Misconfigured) -> None:
        first, longest = _PAUSE_SECONDS
        before = self._paused.pop(neutral.form, None)
        seconds = first if before is None else min(longest, 2 * before.seconds)
        self._paused[neutral.form] = _Pause(error, neutral.kind, self._now(), seconds)
        if len(self._paused) > _FORMS:
            self._paused.popitem(last=False)
        log.warning("configuration.refused", component=error.component, reason=error.message, seconds=seconds)


def _again(error: Misconfigured, seconds: float) -> Misconfigured:
    again = Misconfigured(error.message, component=error.component, retry_after=timedelta(seconds=seconds))
    return _quoting(again, error)


def is_doubtful(error: ForeaskError, *, of_batch: bool = False) -> bool:
    """Return whether a text or the configuration may be the cause of an error.

    A refusal that was billed is the model's own, so it concerns the text. A call that timed out may succeed later, but
    a batch is divided, because otherwise its other texts would fail again and again with the text that hangs.
    """
    if isinstance(error, Refused):
        return error.usage is None
    if isinstance(error, TimedOut):
        return of_batch
    if isinstance(error, UnsupportedTier):
        return False
    if isinstance(error, UnusableReply) and error.component == "llm":
        # A model that writes nothing usable is not unavailable, so a neutral call would be paid in vain.
        return isinstance(error, InterruptedReply)
    return isinstance(error, Misconfigured) or (isinstance(error, Unavailable) and error.burns_attempt)


def judged(error: ForeaskError, of_neutral: ForeaskError | None, component: str) -> ForeaskError:
    """Return a doubtful error as an error of its text or of the configuration.

    Args:
        error: the error of a call.
        of_neutral: the error of the neutral call; None if it passed.
        component: the provider, for messages.

    Returns:
        Refused: the text is the cause.
        FailsOnText: it seems to be the cause of a failure, which may be a coincidence.
        Misconfigured: the configuration is the cause.
        Transient: neither was found: `error` itself if the provider fails on both calls.
    """
    if of_neutral is None:
        return _of_text(error)
    if isinstance(of_neutral, Misconfigured):
        return of_neutral
    if not isinstance(error, Refused | Misconfigured):
        return error
    if isinstance(of_neutral, Unavailable):  # it has answered the text, so this failure is not an attempt
        unknown = Unavailable(of_neutral.message, component=component, retry_after=of_neutral.retry_after)
        return _quoting(unknown, of_neutral)
    return of_neutral


def _of_text(error: ForeaskError) -> ForeaskError:
    if isinstance(error, Refused):
        return error
    answer, words = error.message.partition(": ")[0], said(error.words)
    if isinstance(error, Misconfigured):
        return _quoting(Refused(f"{answer}: it refuses this text, and answers others{words}"), error)
    return _quoting(FailsOnText(f"{answer}: it fails on this text, and answers others{words}"), error)


def _quoting(error: Error, answered: ForeaskError) -> Error:
    """Return an error with the words and the status of another one."""
    error.words, error.status = answered.words, answered.status
    return error


def as_configuration(refusal: Refused, component: str) -> Misconfigured:
    """Return the refusal of a neutral call as an error of the configuration, because the call has no text."""
    sentence = refusal.message.removesuffix(said(refusal.words))
    error = Misconfigured(
        f"{sentence}; it refuses a neutral request alike: check the model, its context length and its options"
        f"{said(refusal.words)}",
        component=component,
        retry_after=_REFUSED_PAUSE,
    )
    return _quoting(error, refusal)
