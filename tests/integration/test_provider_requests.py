"""Requests to providers: keys, proxies, certificates, and the errors of failed requests."""

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import orjson
import pytest
from aiohttp import web
from pydantic import SecretStr

from shared.domain.errors import TimedOut, Unavailable, UnusableReply
from shared.providers.provider import Provider

SECOND = timedelta(seconds=1)


@asynccontextmanager
async def answering(handler):
    """Serve a handler for every request; yields the address."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(url, key="a-key", timeout=60 * SECOND):
    provider = Provider(component="llm", base_url=url, api_key=SecretStr(key) if key else None, timeout=timeout)
    try:
        yield provider
    finally:
        await provider.aclose()


async def echo(request):
    seen = {"url": str(request.url), "authorization": request.headers["authorization"], "body": await request.json()}
    return web.json_response(seen)


@pytest.mark.parametrize(
    ("user", "key", "sent"),
    [("", "a-key", "Bearer a-key"), ("", None, "Bearer none"), ("name:word@", "a-key", "Basic bmFtZTp3b3Jk")],
)
async def test_request_has_key_or_password_of_url(user, key, sent):
    async with answering(echo) as address, connected(f"http://{user}{address}/v1/", key) as provider:
        seen = await provider.post("/embeddings", {"model": "m", "input": ["ä"]})

    assert seen == {
        "url": f"http://{address}/v1/embeddings",
        "authorization": sent,
        "body": {"model": "m", "input": ["ä"]},
    }


async def test_closed_port_is_unavailable():
    async with answering(echo) as address:
        pass
    async with connected(f"http://{address}/v1") as provider:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await provider.post("/embeddings", {})


async def test_silent_provider_times_out():
    silence = asyncio.Event()

    async def silent(_):
        await silence.wait()

    async with answering(silent) as address, connected(f"http://{address}/v1", timeout=0.2 * SECOND) as provider:
        try:
            with pytest.raises(TimedOut):
                await provider.post("/embeddings", {})
        finally:
            silence.set()


async def test_reply_that_breaks_off_is_unusable():
    async def broken(request):
        reply = web.StreamResponse(headers={"content-length": "100"})
        await reply.prepare(request)
        await reply.write(orjson.dumps({"choices": []}))
        request.transport.close()
        return reply

    async with answering(broken) as address, connected(f"http://{address}/v1") as provider:
        with pytest.raises(UnusableReply, match="interrupted its reply"):
            await provider.post("/embeddings", {})
