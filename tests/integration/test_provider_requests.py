"""Requests to providers: keys, proxies, certificates, and the errors of failed requests."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from datetime import timedelta

import orjson
import pytest
from aiohttp import web
from pydantic import SecretStr

from shared.domain.errors import TimedOut, Unavailable
from shared.providers.provider import Provider, _trusted
from tests.support.planted import guards

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


@guards("shared/providers/provider.py", ", proxy=_proxy_of(self._url)", "", means="calls of models ignore the proxy")
@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
async def test_requests_use_proxy_of_environment(monkeypatch, variable):
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with answering(echo) as proxy, answering(echo) as server:
        monkeypatch.setenv(variable, f"http://{proxy}")
        async with connected("http://models.example/v1") as provider:
            seen = await provider.post("/embeddings", {})
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with connected(f"http://{server}/v1") as provider:
            past = await provider.post("/embeddings", {})

    assert seen["url"] == "http://models.example/v1/embeddings"
    assert past["url"] == f"http://{server}/v1/embeddings"


async def test_certificates_of_environment_are_trusted(monkeypatch, tmp_path):
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))

    with pytest.raises(ssl.SSLError):  # the file without a certificate is read
        _trusted("https://models.example/v1")
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)

    assert _trusted("https://models.example/v1").get_ca_certs()


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


async def test_reply_that_breaks_off_is_unavailable():
    async def broken(request):
        reply = web.StreamResponse(headers={"content-length": "100"})
        await reply.prepare(request)
        await reply.write(orjson.dumps({"choices": []}))
        request.transport.close()
        return reply

    async with answering(broken) as address, connected(f"http://{address}/v1") as provider:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await provider.post("/embeddings", {})
