"""Providers that refuse optional fields, or reply in other shapes: over HTTP, for calls, streams and embeddings."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import orjson
import pytest
from aiohttp import web

from shared.domain.errors import Misconfigured, RateLimited, Refused, TimedOut, Unavailable
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.providers.chat import ChatRequest, Message, OpenAIChat
from shared.providers.embedding import Input, OpenAIEmbedder
from shared.providers.provider import Provider
from shared.query.condense import Turn, condense
from tests.support.planted import guards

TEXT = "It ends after a minute [1]."
USAGE = {"prompt_tokens": 9, "completion_tokens": 7}
QUESTION = ChatRequest((Message("user", "When?"),), max_tokens=50)
WITH_SCHEMA = ChatRequest((Message("user", "When?"),), schema={"type": "object"}, max_tokens=50, temperature=0.2)
SECOND = timedelta(seconds=1)


def reply(text=TEXT, finish="stop"):
    message = {"role": "assistant", "content": text}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE}


def events(*pieces, finish="stop", done=True):
    lines = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    if finish:
        lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": USAGE})
    data = [f"data: {orjson.dumps(line).decode()}\n\n" for line in lines]
    return "".join([*data, "data: [DONE]\n\n"] if done else data)


class Server:
    """A provider that refuses fields, and otherwise sends one body."""

    def __init__(self, body, refuses=(), type_="application/json"):
        self.body, self.refuses, self.type = body, set(refuses), type_
        self.requests = []

    async def handle(self, request):
        sent = await request.json()
        self.requests.append(sent)
        kind = sent.get("response_format", {}).get("type")
        for field in sorted(self.refuses):
            if field in sent or field == kind:
                error = {"message": f"{field} is not supported: response_format" if field == kind else f"no {field}"}
                return web.json_response({"error": error}, status=400)
        if callable(self.body):
            return await self.body(request, sent)
        return web.Response(text=self.body, content_type=self.type)


@asynccontextmanager
async def connected(server, component="llm", timeout=30 * SECOND):
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    provider = Provider(component=component, base_url=url, api_key=None, timeout=timeout)
    try:
        yield provider
    finally:
        await provider.aclose()
        await runner.cleanup()


async def pieces_of(chat, request=QUESTION):
    *pieces, completion = [event async for event in chat.stream(request)]
    return pieces, completion


@guards(
    "shared/providers/provider.py",
    "quirks.learn(steps, model=model)",
    "pass",
    means="each call of a model is refused first",
)
@pytest.mark.parametrize(
    ("refused", "lost"),
    [
        (["json_schema"], []),
        (["json_schema", "json_object"], ["response_format"]),
        (["temperature"], ["temperature"]),
        (["max_completion_tokens"], ["max_completion_tokens"]),
        (
            ["json_schema", "json_object", "max_completion_tokens", "temperature"],
            ["max_completion_tokens", "response_format", "temperature"],
        ),
    ],
)
async def test_refused_field_is_left_out_and_remembered(refused, lost):
    server = Server(orjson.dumps(reply()).decode(), refused)
    async with connected(server) as provider:
        chat = OpenAIChat(provider, "m")
        first = await chat.complete(WITH_SCHEMA)
        calls = len(server.requests)
        second = await chat.complete(WITH_SCHEMA)

    full, used = server.requests[0], server.requests[-1]
    assert (first.text, second.text) == (TEXT, TEXT)
    assert (calls, len(server.requests)) == (len(refused) + 1, len(refused) + 2)
    assert sorted(full.keys() - used.keys()) == lost
    assert used.get("max_completion_tokens", used.get("max_tokens")) == 50


@pytest.mark.parametrize(
    ("written", "question"),
    [
        ('{"question": "When is the salary paid?"}', "When is the salary paid?"),
        ("When is the salary paid?", "When is the salary paid?"),
        ('Draft: {"question": "Is it?"}</think>When is the salary paid?', "When is the salary paid?"),
        ("The salary is paid on Friday.", "And when?"),
        ("When is it paid?\nOr do you mean something else?", "And when?"),
    ],
)
async def test_follow_up_without_schema_is_condensed(written, question):
    server = Server(orjson.dumps(reply(written)).decode(), ["json_schema", "json_object"])
    turns = [Turn("user", "Is there a salary?"), Turn("assistant", "Yes [1]."), Turn("user", "And when?")]
    async with connected(server) as provider:
        assert (await condense(OpenAIChat(provider, "m"), turns)).text == question


async def test_refusal_for_another_reason_is_not_remembered():
    async def refuse_all(_request, _sent):
        return web.json_response({"error": {"message": "no temperature here"}}, status=400)

    server = Server(refuse_all)
    async with connected(server) as provider:
        with pytest.raises(Refused):
            await OpenAIChat(provider, "m").complete(WITH_SCHEMA)
        server.body = orjson.dumps(reply()).decode()
        await OpenAIChat(provider, "m").complete(WITH_SCHEMA)

    assert ["temperature" in sent for sent in server.requests] == [True, False, True]


async def test_tier_is_not_dropped_with_refused_fields():
    server = Server(orjson.dumps(reply()).decode(), ["service_tier"])
    async with connected(server) as provider:
        with pytest.raises(Unavailable):
            await OpenAIChat(provider, "m").in_tier(Tier.FLEX).complete(QUESTION)
    assert len(server.requests) == 1


async def test_stream_without_stream_options_is_answered():
    server = Server(events("It ends ", "after a minute [1]."), ["stream_options"], "text/event-stream")
    async with connected(server) as provider:
        for calls in (2, 3):
            _, completion = await pieces_of(OpenAIChat(provider, "m"))
            assert (completion.text, completion.finish_reason, len(server.requests)) == (TEXT, "stop", calls)
    assert "stream_options" not in server.requests[-1]


@pytest.mark.parametrize(
    ("body", "finish"),
    [
        (events("It ends ", "after a minute [1]."), "stop"),
        (events("It ends ", "after a minute [1].").replace("\n", "\r\n"), "stop"),
        (events("It ends ", "after a minute [1].", finish=None), "stop"),
        (events("It ends ", "after a minute [1].", finish=None, done=False), "interrupted"),
        (events("It ends ", "after a minute [1].", finish="length"), "length"),
        (events("It ends ", "after a minute [1].", finish="content_filter"), "content_filter"),
        (orjson.dumps(reply()).decode(), "stop"),
        (orjson.dumps(reply(finish="length")).decode(), "length"),
    ],
)
async def test_stream_of_any_shape_is_read(body, finish):
    async with connected(Server(body)) as provider:
        pieces, completion = await pieces_of(OpenAIChat(provider, "m"))
    assert ("".join(pieces), completion.text, completion.finish_reason) == (TEXT, TEXT, finish)


@pytest.mark.parametrize(
    ("body", "finish"),
    [
        (events("It ends ", "after a minute [1]."), "stop"),
        (events("It ends ", "after a minute [1].", finish="length"), "length"),
    ],
)
async def test_events_are_read_as_reply(body, finish):
    async with connected(Server(body)) as provider:
        completion = await OpenAIChat(provider, "m").complete(QUESTION)
    assert (completion.text, completion.finish_reason, completion.usage) == (TEXT, finish, Usage(9, 7))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"error": {"message": "free-models-per-day", "code": 429}}', RateLimited),
        ('{"error": "Unexpected endpoint or method. (POST /chat/completions)"}', Unavailable),
        ("<!DOCTYPE html><title>Sign in</title>", Unavailable),
        ("", Unavailable),
        ('data: {"error": {"message": "slow", "code": 429}}\n\n', RateLimited),
        ("data: [DONE]\n\n", Unavailable),
        (events("Half ", finish=None, done=False), Unavailable),
    ],
)
async def test_error_with_status_200_is_an_error(body, kind):
    async with connected(Server(body)) as provider:
        chat = OpenAIChat(provider, "m")
        with pytest.raises(kind):
            await chat.complete(QUESTION)
        if "Half" not in body:
            with pytest.raises(kind):
                await pieces_of(chat)


async def test_first_stream_of_model_is_held_back():
    async with connected(Server(events("It ends ", "after a minute [1]."))) as provider:
        chat = OpenAIChat(provider, "m")
        assert (await pieces_of(chat))[0] == [TEXT]
        assert (await pieces_of(chat))[0] == ["It ends ", "after a minute [1]."]


async def test_thinking_without_a_mark_is_never_streamed():
    async with connected(Server(events("Hm [9]. ", "</think>", "\n\nIt ends ", "after a minute [1]."))) as provider:
        for _ in range(2):
            pieces, completion = await pieces_of(OpenAIChat(provider, "m"))
            assert ("".join(pieces), completion.text, completion.has_thought) == (TEXT, TEXT, True)


async def test_stream_of_comments_times_out():
    stopped = asyncio.Event()

    async def drip(request, _sent):
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        while not stopped.is_set():
            await response.write(b": still working\n\n")
            await asyncio.sleep(0.02)
        return response

    async with connected(Server(drip), timeout=0.3 * SECOND) as provider:
        try:
            with pytest.raises(TimedOut):
                await pieces_of(OpenAIChat(provider, "m"))
        finally:
            stopped.set()


@guards(
    "shared/providers/provider.py",
    "if events.is_done:  # some servers keep the connection open",
    "if False:",
    means="an answer hangs because its provider keeps the connection open",
)
async def test_stream_ends_with_done_although_connection_stays_open():
    seen, stopped = asyncio.Event(), asyncio.Event()

    async def keep_open(request, _sent):
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(events(TEXT, finish=None, done=False).encode())
        await seen.wait()
        await response.write(b"data: [DONE]\n\n")
        await stopped.wait()
        return response

    async with connected(Server(keep_open), timeout=5 * SECOND) as provider:
        provider.quirks_of("m").note_start(is_inside=False)
        try:
            received = []
            async for event in OpenAIChat(provider, "m").stream(QUESTION):
                received.append(event)
                seen.set()
        finally:
            stopped.set()
    assert (received[-1].text, received[-1].finish_reason) == (TEXT, "stop")


async def test_overlong_reply_changes_field_of_limit():
    long = reply() | {"usage": {"prompt_tokens": 9, "completion_tokens": 900}}
    server = Server(orjson.dumps(long).decode())
    async with connected(server) as provider:
        for _ in range(2):
            await OpenAIChat(provider, "m").complete(QUESTION)
    limits = [[sent.get(name) for name in ("max_completion_tokens", "max_tokens")] for sent in server.requests]
    assert limits == [[50, None], [None, 50]]


async def embed(server, dimensions=None, texts=2):
    async with connected(server, "embedding") as provider:
        embedder = OpenAIEmbedder(provider, "e", dimensions)
        vectors = [await embedder.embed([Input(f"text {n}") for n in range(texts)]) for _ in range(2)]
    assert (vectors[0] == vectors[1]).all()
    return vectors[0].shape


VECTORS = orjson.dumps({"data": [{"index": n, "embedding": [1.0, float(n)]} for n in range(2)]}).decode()


async def test_refused_encoding_is_left_out_and_remembered():
    server = Server(VECTORS, ["encoding_format"])
    assert await embed(server) == (2, 2)
    assert ["encoding_format" in sent for sent in server.requests] == [True, False, False]


@guards(
    "shared/providers/embedding.py",
    "if self._shortened not in {None, vectors.shape[1]}:",
    "if False:",
    means="vectors of another size than the configured one are stored",
)
async def test_refused_dimensions_must_be_the_models_own():
    assert await embed(Server(VECTORS, ["dimensions"]), dimensions=2) == (2, 2)
    for refuses in (["dimensions"], []):
        with pytest.raises(Misconfigured, match="FOREASK_EMBEDDING_DIMENSIONS to 2"):
            await embed(Server(VECTORS, refuses), dimensions=256)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"error": "Unexpected endpoint or method. (POST /embeddings)"}', Unavailable),
        ('{"error": {"message": "slow", "code": 429}}', RateLimited),
        ('{"detail": "no such route"}', Unavailable),
        ("<!DOCTYPE html>", Unavailable),
        ("7", Unavailable),
        ('{"data": true}', Unavailable),
    ],
)
async def test_embedding_reply_without_vectors_is_an_error(body, kind):
    with pytest.raises(kind):
        await embed(Server(body))


async def test_bare_list_of_vectors_is_read():
    assert await embed(Server("[[1.0, 0.0], [0.0, 1.0]]")) == (2, 2)
