"""A language model whose calls respect the shared limits."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import orjson

from shared.domain.errors import FailsOnText, Transient
from shared.providers.chat import ChatModel, ChatRequest, Completion, Message, Picture
from shared.providers.limiter.judge import Neutral
from shared.providers.limiter.limiter import INGEST, Call, Limiter, MaxWait
from shared.providers.limiter.script import CallKind

NEUTRAL = ChatRequest((Message("user", "Reply with OK."),), max_tokens=16)  # quotes no document
# A grey square of 64 pixels.
_JPEG = b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19i"
    "Z2hnPk1xeXBkeFxlZ2P/wAALCABAAEABAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAP/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAI"
    "AQEAAD8AAAAAAAAAAAAAAAAAAAAAAP/Z"
)
NEUTRAL_PICTURE = Picture(hashlib.sha256(_JPEG).hexdigest(), _JPEG)

# Shortest pauses after the first failures of a chat model on a text, if it answers others; the next one is final.
_PAUSES_OF_TEXT = (timedelta(seconds=5), timedelta(seconds=20))
_FILLER = "The quick brown fox jumps over the lazy dog. "  # makes a neutral call as long as another call
_USUAL_SIZE, _SIZE_STEP = 5_000, 1_000  # bytes of a request for a chunk, and steps in which neutral calls grow


@dataclass(frozen=True, slots=True)
class LimitedChat:
    """A `ChatModel` that waits for a grant before each call, charged to a tenant.

    Args:
        chat: the model.
        limiter: limits of its provider.
        tenant: tenant charged for the calls.
        max_wait: maximum wait for a grant.
        before_call: called when a call is granted; may reject the call by an error.
        neutral: the same model for calls that no tenant is charged for; by default `chat`.
    """

    chat: ChatModel
    limiter: Limiter
    tenant: str
    max_wait: MaxWait = INGEST
    before_call: Callable[[], None] = lambda: None
    neutral: ChatModel | None = None

    @property
    def name(self) -> str:
        return self.chat.name

    async def complete(self, request: ChatRequest) -> Completion:
        if request.picture is None:
            return await self._repeated(request)
        async with self.limiter.pictures.reading(self._ask_with_picture):
            return await self._repeated(request)

    async def _ask_with_picture(self) -> None:
        """Make the plain neutral call with a picture, which no tenant is charged for."""
        request = replace(NEUTRAL, picture=NEUTRAL_PICTURE)
        async with self.limiter.call("", request.prompt_tokens, request.max_tokens, self.max_wait):
            await (self.neutral or self.chat).complete(request)

    async def _repeated(self, request: ChatRequest) -> Completion:
        try:
            return await self._completed(request)
        except FailsOnText as failure:
            if self.max_wait.kind is not CallKind.QUERY:
                raise await self._cause(failure, request) from None
        return await self._completed(request)  # a question is not stored, so it has no later attempt

    async def stream(self, request: ChatRequest) -> AsyncIterator[str | Completion]:
        try:
            async with (
                self._call(request) as call,
                aclosing(self.chat.stream(request)) as events,  # type: ignore[type-var]
            ):
                async for event in events:
                    if isinstance(event, Completion):
                        call.took(event.usage.prompt_tokens, event.usage.completion_tokens)
                    yield event
        except FailsOnText as failure:
            raise _failure_of(failure) from None

    async def _cause(self, failure: FailsOnText, request: ChatRequest) -> BaseException:
        """Return the failure on a text for another attempt, or the third one as a refusal of the text.

        A provider whose servers fail now and then answers the neutral call and may still fail on a good text, so the
        attempts are some time apart.
        """
        digest = hashlib.sha256(orjson.dumps([self.tenant, request.body(self.name)])).hexdigest()
        failures = await self.limiter.count_failure(digest)
        if failures > len(_PAUSES_OF_TEXT):
            return failure
        cause = _failure_of(failure)
        if isinstance(cause, Transient):
            pause = _PAUSES_OF_TEXT[failures - 1]
            cause.retry_after = max(cause.retry_after or pause, pause)
        return cause

    async def _completed(self, request: ChatRequest) -> Completion:
        async with self._call(request) as call:
            self.before_call()
            completion = await self.chat.complete(request)
            call.took(completion.usage.prompt_tokens, completion.usage.completion_tokens)
            return completion

    def _call(self, request: ChatRequest) -> AbstractAsyncContextManager[Call]:
        neutral = self._neutral(request)
        return self.limiter.call(self.tenant, request.prompt_tokens, request.max_tokens, self.max_wait, neutral)

    def _neutral(self, request: ChatRequest) -> Neutral:
        """Return the call without the texts and the picture."""
        call = neutral_request(request)
        options = [call.schema, call.max_tokens, call.temperature]
        # The calls of a limiter are of one model, in one of two tiers.
        form = (self.max_wait.kind is CallKind.FLEX, len(call.messages[0].content), orjson.dumps(options))
        is_plain = call.messages == NEUTRAL.messages and options == [None, None, None]
        make = partial((self.neutral or self.chat).complete, call)
        return Neutral(form, make, self.max_wait.kind, call.prompt_tokens, call.max_tokens, is_plain=is_plain)


def neutral_request(request: ChatRequest) -> ChatRequest:
    """Return a request with the same options, but without the texts and the picture.

    It is about as long, because a model whose context is too short for usual chunks refuses each of them. A text that
    is longer than usual may be too long by itself.
    """
    size = sum(len(message.content.encode()) for message in request.messages)
    fill = min(size // _SIZE_STEP * _SIZE_STEP, _USUAL_SIZE) // len(_FILLER) * _FILLER
    (asked,) = NEUTRAL.messages
    messages = (Message(asked.role, f"{asked.content} {fill}".rstrip()),)
    return replace(request, messages=messages, fixed_chars=0, picture=None)


def _failure_of(error: FailsOnText) -> BaseException:
    """Return the failure, which counts as an attempt that is repeated later."""
    return error.__cause__ or error
