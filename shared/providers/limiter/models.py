"""Models whose calls respect the shared limits."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import orjson

from shared.domain.errors import FailsOnText, Misconfigured, Transient
from shared.domain.vectors import Vectors
from shared.providers.chat import ChatModel, ChatRequest, Completion, Message
from shared.providers.embedding import Billing, Embedder, Input, Prefixes, estimated_tokens, free
from shared.providers.limiter.judge import Neutral
from shared.providers.limiter.limiter import INGEST, Call, Limiter, MaxWait
from shared.providers.limiter.pictures import NEUTRAL_PICTURE
from shared.providers.limiter.script import CallKind

PING = Input("ping")
NEUTRAL = ChatRequest((Message("user", "Reply with OK."),), max_tokens=16)  # quotes no document

_REPEATS_SECONDS = (0.2, 1.0)  # pauses before a text on which the provider fails is sent again
# Shortest pauses after the first failures of a chat model on a text, if it answers others; the next one is final.
_PAUSES_OF_TEXT = (timedelta(seconds=5), timedelta(seconds=20))
_SIZE_PAUSE = timedelta(seconds=30)
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


@dataclass(slots=True)
class LimitedEmbedder:
    """An `Embedder` that waits for a grant before each request. One request may contain the texts of many tenants."""

    embedder: Embedder
    limiter: Limiter
    tenant: str = ""
    max_wait: MaxWait = INGEST
    seen: int | None = None

    @property
    def name(self) -> str:
        return self.embedder.name

    @property
    def prefixes(self) -> Prefixes:
        return self.embedder.prefixes

    async def dimensions(self) -> int:
        if self.seen is None:
            await self.embed([PING])
        assert self.seen is not None
        return self.seen

    async def embed(self, texts: Sequence[Input], billed: Billing = free) -> Vectors:
        """Embed texts; a single text on which the provider fails is sent again before it is the cause."""
        for pause in _REPEATS_SECONDS:
            try:
                return await self._embed(texts, billed)
            except FailsOnText:
                if len(texts) > 1:
                    raise
            await asyncio.sleep(pause)
        return await self._embed(texts, billed)

    async def _embed(self, texts: Sequence[Input], billed: Billing) -> Vectors:
        ping = partial(self._of_same_size, [PING])
        of_batch = len(texts) > 1
        neutral = Neutral(None, ping, self.max_wait.kind, 1, 0, is_plain=True, is_of_batch=of_batch)
        tokens = sum(map(estimated_tokens, texts))
        async with self.limiter.call(self.tenant, tokens, 0, self.max_wait, neutral):
            return await self._of_same_size(texts, billed)

    async def _of_same_size(self, texts: Sequence[Input], billed: Billing = free) -> Vectors:
        vectors = await self.embedder.embed(texts, billed)
        size = vectors.shape[1]
        if self.seen not in {None, size}:
            raise Misconfigured(
                f"the embedding model {self.name} returns {size} dimensions now, and returned {self.seen} before: its"
                " server has another model under this name",
                component="embedding",
                retry_after=_SIZE_PAUSE,
            )
        self.seen = size
        return vectors


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
