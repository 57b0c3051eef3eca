"""Calls to models wait for the limiter; a scripted provider counts them."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from shared.domain.errors import Unavailable
from shared.domain.spending.rates import Rates, Window
from shared.providers.chat import ChatRequest, Message, OpenAIChat
from shared.providers.embedding import OpenAIEmbedder
from shared.providers.limiter.limited_chat import NEUTRAL, LimitedChat
from shared.providers.limiter.limited_embedder import PING, LimitedEmbedder
from shared.providers.limiter.limiter import Limiter, ProviderLimits
from shared.providers.limiter.script import Timing
from shared.providers.limiter.usage import usage_of
from shared.providers.provider import Provider
from tests.support.api import work
from tests.support.elapsed import age_limits
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually


@pytest.fixture
async def exits():
    async with AsyncExitStack() as exits:
        yield exits


@pytest.fixture
async def redis(stack):
    async with Redis.from_url(stack.settings.redis_url.get_secret_value()) as redis:
        yield redis


@pytest.fixture
def pool(stack, provider, exits):
    """Return a function that makes a process's chat model and limiter in one pool."""
    name = uuid4().hex

    def process(rates: Rates, **more):
        redis = Redis.from_url(stack.settings.redis_url.get_secret_value(), socket_timeout=2)
        connection = Provider(component="llm", base_url=provider.url, api_key=None, timeout=timedelta(seconds=20))
        chat = OpenAIChat(connection, "scripted")
        limiter = Limiter(redis, ProviderLimits("llm", name, rates, **more), partial(chat.complete, NEUTRAL))
        for close in (redis.aclose, connection.aclose, limiter.aclose):
            exits.push_async_callback(close)
        return chat, limiter

    return process


def question(number: int) -> ChatRequest:
    return ChatRequest((Message("user", f"Question {number}?"),), max_tokens=100)


WINDOW = Window(seconds=6, burst_seconds=0.2, jitter_seconds=1.0)
LIMIT = 240  # calls in a window, of which the burst and the jitter leave 208
USED = 0.8  # share of the limit that one window at least must use; on a busy machine others have fewer calls


async def test_calls_use_declared_limit_without_429(pool, provider):
    provider.script(requests_per_minute=2_400, window_seconds=WINDOW.seconds, latency_seconds=0.3)
    models = [LimitedChat(*pool(Rates(requests=LIMIT, window=WINDOW)), "acme") for _ in range(4)]
    numbers = iter(range(1_000_000))

    async def caller(model: LimitedChat) -> None:
        while True:
            await model.complete(question(next(numbers)))

    def most_calls() -> int:
        """Count the calls in the fullest window so far."""
        arrivals = sorted(provider.stats()["arrivals"])
        return max((n + 1 - bisect_left(arrivals, at - WINDOW.seconds) for n, at in enumerate(arrivals)), default=0)

    callers = [asyncio.create_task(caller(model)) for model in models for _ in range(16)]
    await eventually(lambda: most_calls() >= USED * LIMIT, "no window uses the limit", poll_seconds=0.5)
    for task in callers:
        task.cancel()
    ended = await asyncio.gather(*callers, return_exceptions=True)

    assert "429" not in provider.stats()["statuses"]
    assert {type(error) for error in ended} == {asyncio.CancelledError}
    assert most_calls() <= LIMIT


async def is_free(limiter: Limiter) -> bool:
    """Return whether no call is in flight."""
    return (await usage_of(limiter, "acme"))[0].in_flight == 0


@guards(
    "shared/providers/limiter/limited_chat.py",
    "call.took(completion.usage.prompt_tokens, completion.usage.completion_tokens)",
    "pass",
    means="a reply counts as many tokens as were reserved for it",
)
async def test_reply_counts_its_tokens(pool):
    chat, limiter = pool(Rates(tokens=600_000))

    took = (await LimitedChat(chat, limiter, "acme").complete(question(1))).usage
    await eventually(lambda: is_free(limiter))

    uses = {use.name: use for use in await usage_of(limiter, "acme")}
    assert uses["llm tokens"].used == took.prompt_tokens + took.completion_tokens


async def test_stream_counts_and_reports_its_tokens(pool, provider):
    chat, limiter = pool(Rates(tokens=600_000))
    model = LimitedChat(chat, limiter, "acme")

    pieces = [piece async for piece in model.stream(question(1))]
    await eventually(lambda: is_free(limiter))

    took = pieces[-1].usage
    uses = {use.name: use for use in await usage_of(limiter, "acme")}
    assert (uses["llm requests"].used, uses["llm requests"].in_flight) == (1, 0)
    assert uses["llm tokens"].used == took.prompt_tokens + took.completion_tokens


async def test_abandoned_stream_releases_its_slot(pool):
    chat, limiter = pool(Rates())
    stream = LimitedChat(chat, limiter, "acme").stream(question(1))
    await anext(stream)
    assert not await is_free(limiter)

    await stream.aclose()

    await eventually(lambda: is_free(limiter))


async def test_breaker_probe_is_a_neutral_call(pool, provider, redis):
    chat, limiter = pool(Rates())
    model = LimitedChat(chat, limiter, "acme")
    provider.script(down=True)
    for number in range(10):
        with pytest.raises(Unavailable):
            await model.complete(question(number))
    provider.script(down=False)
    provider.reset()
    await age_limits(redis, Timing().open)

    await model.complete(question(77))

    assert provider.stats()["calls"] == 2  # the neutral call and the request


async def test_vector_size_request_counts_toward_limit(pool, provider):
    _, limiter = pool(Rates())
    connection = Provider(component="embedding", base_url=provider.url, api_key=None, timeout=timedelta(seconds=20))
    embedder = LimitedEmbedder(OpenAIEmbedder(connection, "scripted-embedding"), limiter)

    assert await embedder.dimensions() == 384
    assert (await embedder.embed([PING])).shape == (1, 384)
    assert await embedder.dimensions() == 384
    await connection.aclose()

    assert (await usage_of(limiter, ""))[0].used == 2 == provider.stats()["embeddings"]


async def test_unavailable_provider_is_paused_after_few_attempts(services, library, provider, redis):
    sections = (f"# Part {n}\n\n" + " ".join(f"word{n}x{w}" for w in range(60)) for n in range(40))
    await library.add("\n\n".join(sections))
    await work(services, "parse", "index")
    provider.script(down=True)
    await work(services, "generate")
    async with services.database.begin() as connection:
        chunks, attempts = (await connection.execute_sql("SELECT count(*), sum(attempts) FROM chunks")).one()
        await connection.execute_sql("UPDATE chunks SET due_at = now()")
    provider.reset()

    await work(services, "generate")
    assert provider.stats()["calls"] == 0
    assert chunks == 40
    assert attempts <= 9

    provider.script(down=False)
    await age_limits(redis, Timing().open)
    assert await services.limiters.llm._client.refresh(TIMEOUT_SECONDS)
    await work(services, "generate")
    async with services.database.begin() as connection:
        generated = (await connection.execute_sql("SELECT count(*) FROM chunks WHERE state = 'generated'")).scalar_one()
    assert generated == 40
    assert provider.stats()["calls"] == 41  # the neutral call and one per chunk
