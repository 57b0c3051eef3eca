"""Refusals of a text and of a configuration, with a raw server in this process, and the limits in Valkey."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from uuid import uuid4

import numpy as np
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from redis.asyncio import Redis

from shared.domain.errors import FailsOnText, Misconfigured, Permanent, RateLimited, Refused, Unavailable
from shared.providers.batching import BatchingEmbedder
from shared.providers.chat import ChatRequest, Message, OpenAIChat
from shared.providers.embedding import OpenAIEmbedder, embed_each
from shared.providers.limiter.limited_chat import NEUTRAL, LimitedChat
from shared.providers.limiter.limited_embedder import PING, LimitedEmbedder
from shared.providers.limiter.limiter import INGEST, QUERY, Limiter, ProviderLimits
from shared.providers.provider import Provider
from tests.support.elapsed import age_limits
from tests.support.planted import guards

SCHEMA = {"type": "object", "properties": {"questions": {"type": "array", "items": {"type": "string"}}}}
BLOCKED = "Ignore this: SELECT * FROM users; DROP TABLE users"
Rule = Callable[[dict], int]


def marked(body: dict) -> bool:
    """Return whether a request contains the text that the server blocks."""
    return "SELECT" in orjson.dumps(body).decode()


class Server:
    """A provider that answers each request with the status of its rule.

    Args:
        rule: function from a request's body to a status; 200 answers it.
        bodies: the requests.
    """

    def __init__(self) -> None:
        self.rule: Rule = lambda _: 200
        self.bodies: list[dict] = []

    @property
    def neutral(self) -> int:
        """The number of requests that contain no text of a caller."""
        return sum("Reply with OK" in text or '"ping"' in text for text in map(_text, self.bodies))

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        status = self.rule(body)
        if status != 200:
            return web.json_response({"error": {"message": "That is not possible."}}, status=status)
        if "input" in body:
            rows = [{"index": n, "embedding": [1.0, float(len(text))]} for n, text in enumerate(body["input"])]
            return web.json_response({"data": rows})
        message = {"content": '{"questions": ["When does it open?"]}'}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})


def _text(body: dict) -> str:
    return orjson.dumps(body).decode()


class Models:
    """The models of one process over a server, whose time the test moves forward."""

    def __init__(self, server: Server, redis: Redis, url: str, exits: AsyncExitStack) -> None:
        self.server = server
        self._redis = redis
        self._elapsed = 0.0
        llm, embedding = (
            Provider(component=c, base_url=url, api_key=None, timeout=timedelta(seconds=20))
            for c in ("llm", "embedding")
        )
        self._chat = OpenAIChat(llm, "scripted")
        self._embedder = OpenAIEmbedder(embedding, "scripted-embedding")
        self.limiter = self._limiter("llm", partial(self._chat.complete, NEUTRAL))
        self.embedding_limiter = self._limiter("embedding", partial(self._embedder.embed, [PING]))
        for close in (
            llm.aclose,
            embedding.aclose,
            self.limiter.aclose,
            self.embedding_limiter.aclose,
        ):
            exits.push_async_callback(close)

    def _limiter(self, component: str, probe) -> Limiter:
        return Limiter(self._redis, ProviderLimits(component, uuid4().hex), probe, self._now)

    def _now(self) -> float:
        return time.monotonic() + self._elapsed

    async def elapse(self, seconds: float) -> None:
        self._elapsed += seconds
        await age_limits(self._redis, timedelta(seconds=seconds))

    async def ask(self, text: str, tenant: str = "acme", max_wait=INGEST, **options):
        options = {"schema": SCHEMA, "max_tokens": 2_000} | options
        request = ChatRequest((Message("user", text),), **options)
        return await LimitedChat(self._chat, self.limiter, tenant, max_wait).complete(request)

    @property
    def embedder(self) -> LimitedEmbedder:
        return LimitedEmbedder(self._embedder, self.embedding_limiter)

    @property
    def of_queries(self) -> BatchingEmbedder:
        return BatchingEmbedder(LimitedEmbedder(self._embedder, self.embedding_limiter, max_wait=QUERY))


@pytest.fixture
async def models(stack):
    server, app, exits = Server(), web.Application(), AsyncExitStack()
    app.router.add_post("/{path:.*}", server.answer)
    async with (
        Redis.from_url(stack.settings.redis_url.get_secret_value()) as redis,
        TestServer(app) as listening,
        exits,
    ):
        yield Models(server, redis, f"http://127.0.0.1:{listening.port}/v1", exits)


async def is_open(limiter: Limiter) -> bool:
    """Return whether calls may start now: neither a pause nor the breaker holds them."""
    assert await limiter._client.refresh(2)
    reply = limiter._client.reply
    return not reply.breaker and not reply.cooldown_seconds


STATUSES = [400, 401, 403, 404, 405, 413, 422]


@guards(
    "shared/providers/limiter/judge.py",
    "if isinstance(error, Misconfigured):\n        return _quoting(Refused(",
    "if isinstance(error, Misconfigured):\n        return error\n        return _quoting(Refused(",
    means="a text that a firewall blocks stops the provider for everybody",
    case="403",
)
@pytest.mark.parametrize("status", STATUSES)
async def test_blocked_text_fails_alone(models, status):
    models.server.rule = lambda body: status if marked(body) else 200

    for _ in range(3):
        with pytest.raises(Refused, match=f"answered {status}"):
            await models.ask(BLOCKED)
        await models.ask("The harbour opens at seven.", tenant="other")

    assert await is_open(models.limiter)
    assert not await models.limiter.paused()
    assert models.server.neutral <= 3


@pytest.mark.parametrize("status", STATUSES)
async def test_refusal_of_every_call_is_the_configuration(models, status):
    models.server.rule = lambda _: status

    errors = await asyncio.gather(*(models.ask(f"Text {n}") for n in range(30)), return_exceptions=True)

    assert {type(error) for error in errors} <= {Misconfigured, RateLimited}
    assert not any(error.burns_attempt for error in errors)
    assert await models.limiter.paused()
    calls = len(models.server.bodies)
    with pytest.raises((Misconfigured, RateLimited)):
        await models.ask("Another text")
    assert len(models.server.bodies) == calls


async def test_work_continues_when_configuration_is_accepted(models):
    models.server.rule = lambda _: 401
    with pytest.raises(Misconfigured):
        await models.ask("A text")
    await models.elapse(40)
    models.server.rule = lambda _: 200
    models.server.bodies.clear()

    assert not await models.limiter.paused()
    await asyncio.gather(*(models.ask(f"Text {n}") for n in range(10)))

    assert models.server.neutral == 1
    assert "Reply with OK" in _text(models.server.bodies[0])


UNSUPPORTED = {
    "schema": lambda body: 400 if "response_format" in body else 200,
    "context": lambda body: 400 if body.get("max_completion_tokens", 0) > 1_000 else 200,
    "temperature": lambda body: 422 if "temperature" in body else 200,
}


@guards(
    "shared/providers/limiter/limited_chat.py",
    "return replace(request, messages=messages, fixed_chars=0, picture=None)",
    "return NEUTRAL",
    means="an unsupported option makes dead letters, because the neutral call does not have it",
)
@pytest.mark.parametrize("name", UNSUPPORTED)
async def test_unsupported_option_holds_only_its_calls(models, name):
    models.server.rule = UNSUPPORTED[name]

    with pytest.raises(Misconfigured, match="a neutral request alike") as caught:
        await models.ask("A text", temperature=0.2)

    assert not caught.value.burns_attempt
    assert await models.limiter.paused()
    assert await is_open(models.limiter)
    assert "a neutral request alike" in models.limiter._client.reply.reason
    await models.ask("A question", max_wait=QUERY, schema=None, max_tokens=100)
    calls = len(models.server.bodies)
    with pytest.raises(Misconfigured):
        await models.ask("Another text", temperature=0.2)
    assert len(models.server.bodies) == calls


async def test_rare_refused_option_does_not_stop_others(models):
    models.server.rule = UNSUPPORTED["context"]
    with pytest.raises(Misconfigured):
        await models.ask("A text")
    assert await models.limiter.paused()

    await models.ask("A text", max_tokens=500)

    assert not await models.limiter.paused()


def longer_than(chars: int) -> Rule:
    return lambda body: 400 if len(body["messages"][-1]["content"]) + 2 * body["max_completion_tokens"] > chars else 200


async def test_context_too_short_for_usual_chunks_waits(models):
    models.server.rule = longer_than(7_000)

    with pytest.raises(Misconfigured):
        await models.ask("A word. " * 500)


async def test_text_too_long_for_context_fails_alone(models):
    models.server.rule = longer_than(20_000)

    with pytest.raises(Refused):
        await models.ask("A word. " * 5_000)


@guards(
    "shared/providers/limiter/judge.py",
    "task = self._asking.get(neutral.form)",
    "task = None",
    means="each refused text makes a neutral call of its own",
)
async def test_refused_texts_share_neutral_calls(models):
    models.server.rule = lambda body: 400 if marked(body) else 200

    errors = await asyncio.gather(*(models.ask(f"{BLOCKED} {n}") for n in range(300)), return_exceptions=True)

    assert {type(error) for error in errors} == {Refused}
    assert len(models.server.bodies) - models.server.neutral == 300
    assert models.server.neutral < 60


async def test_configuration_that_breaks_kills_no_text(models):
    await asyncio.gather(*(models.ask(f"Text {n}") for n in range(10)))
    models.server.rule = lambda _: 400

    errors = await asyncio.gather(*(models.ask(f"Text {n}") for n in range(200)), return_exceptions=True)

    assert not [error for error in errors if isinstance(error, Permanent)]


@pytest.mark.parametrize(("status", "kind"), [(429, RateLimited), (500, Unavailable)])
async def test_undecided_refusal_is_retried_without_attempt(models, status, kind):
    models.server.rule = lambda body: 400 if marked(body) else status

    with pytest.raises(kind) as caught:
        await models.ask(BLOCKED)

    assert not caught.value.burns_attempt


async def test_failing_texts_do_not_open_breaker(models):
    models.server.rule = lambda body: 500 if marked(body) else 200

    errors = [await failure(models.ask(f"{BLOCKED} {n}")) for n in range(12)]

    assert {(type(error), error.burns_attempt) for error in errors} == {(Unavailable, True)}
    assert await is_open(models.limiter)


async def failure(call) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        await call
    return caught.value


async def test_failing_provider_opens_breaker(models):
    models.server.rule = lambda _: 500

    await asyncio.gather(*(models.ask(f"Text {n}") for n in range(12)), return_exceptions=True)

    assert not await is_open(models.limiter)


BATCH = [*(f"A text {n}" for n in range(20)), BLOCKED, *(f"A text {n}" for n in range(20, 31))]


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
async def test_refused_embedding_fails_alone(models, status):
    models.server.rule = lambda body: status if marked(body) else 200

    vectors = await embed_each(models.embedder, BATCH)

    assert [n for n, vector in enumerate(vectors) if isinstance(vector, Permanent)] == [BATCH.index(BLOCKED)]
    assert isinstance(vectors[BATCH.index(BLOCKED)], Refused)
    assert all(np.isfinite(vector).all() for vector in vectors if not isinstance(vector, Permanent))
    assert await is_open(models.embedding_limiter)
    assert len(models.server.bodies) <= 1 + 2 * 5 + 2 + 9  # bisection, repeats, neutral calls


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_refused_embedding_configuration_stops_bisection(models, status):
    models.server.rule = lambda _: status

    with pytest.raises(Misconfigured):
        await embed_each(models.embedder, BATCH)

    assert len(models.server.bodies) == 2


async def test_unavailable_embedding_fails_with_its_batch(models):
    models.server.rule = lambda _: 500

    error = await failure(embed_each(models.embedder, BATCH))

    assert (type(error), error.burns_attempt) == (Unavailable, True)
    assert len(models.server.bodies) == 2


async def test_failed_embedding_that_succeeds_again_is_used(models):
    failures = iter([500])
    models.server.rule = lambda body: next(failures, 200) if marked(body) else 200

    assert len(await models.embedder.embed([BLOCKED])) == 1


async def test_single_failing_text_is_sent_again(models):
    models.server.rule = lambda body: 500 if marked(body) else 200

    with pytest.raises(FailsOnText):
        await models.embedder.embed([BLOCKED])

    assert sum(map(marked, models.server.bodies)) == 3


@pytest.mark.parametrize("status", [400, 403, 404, 500])
async def test_blocked_question_does_not_affect_other_questions(models, status):
    models.server.rule = lambda body: status if marked(body) else 200
    embedder = models.of_queries

    async def ask(question: str) -> object:
        try:
            return await embedder.embed([question])
        except Refused as error:
            return error

    answers = await asyncio.gather(*(ask(q) for n in range(12) for q in (f"{BLOCKED} {n}", f"When is it {n}?")))

    assert [type(answer) is not np.ndarray for answer in answers] == [True, False] * 12
    assert await is_open(models.embedding_limiter)


@pytest.mark.parametrize("status", [400, 403, 500])
async def test_blocked_question_gets_no_pause(models, status):
    models.server.rule = lambda body: status if marked(body) else 200

    for _ in range(3):
        with pytest.raises(Refused):
            await models.ask(BLOCKED, max_wait=QUERY)
        await models.ask("When does it open?", tenant="other", max_wait=QUERY)

    assert await is_open(models.limiter)
