"""Calls of models over a company's network: proxies, certificates, time limits and Azure's addresses."""

import asyncio
import socket
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

import orjson
import pytest
from aiohttp import web
from pydantic import SecretStr
from structlog.testing import capture_logs

from shared.domain.errors import Misconfigured, TimedOut, Unavailable
from shared.process.network.certificates import trust
from shared.providers.batches import BatchProvider
from shared.providers.provider import Provider
from tests.support.authority import Authority
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS

MINUTE = timedelta(minutes=1)
BODY = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
REMEDY = "set FOREASK_CA_FILE to the file of your company's certificate authority"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "requests_ca_bundle"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    yield monkeypatch
    trust(None)


@asynccontextmanager
async def serving(handler, tls=None):
    """Serve a handler for every request; yields the port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def calling(url, timeout=MINUTE):
    provider = Provider(component="llm", base_url=url, api_key=SecretStr("a-key"), timeout=timeout)
    try:
        yield provider
    finally:
        await provider.aclose()


async def complete(provider):
    return await provider.post("/chat/completions", BODY)


async def stream(provider):
    return [event async for event in provider.stream_chat(BODY)]


class Model:
    """A model that records its requests, and answers as a stream if a request asks for one."""

    def __init__(self):
        self.requests = []

    async def answer(self, request):
        self.requests.append((str(request.url), dict(request.headers)))
        if not (await request.json()).get("stream"):
            return web.json_response({"choices": []})
        event = CHUNK | {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}
        return web.Response(
            text=f"data: {orjson.dumps(event).decode()}\n\ndata: [DONE]\n\n", content_type="text/event-stream"
        )


@guards(
    "shared/process/network/http/sessions.py",
    "headers=self._headers, proxy=self._proxy,",
    "headers=self._headers,",
    means="calls of models ignore the proxy",
)
@guards(
    "shared/process/network/http/client.py",
    " or self._proxy() is not None",
    "",
    means="calls of models without TLS ignore the proxy",
)
@pytest.mark.parametrize("call", [complete, stream])
@pytest.mark.parametrize("value", ["http://127.0.0.1:{}", "127.0.0.1:{}"])
async def test_every_call_uses_proxy_of_environment(environment, call, value):
    proxy = Model()
    async with serving(proxy.answer) as port, calling("http://models.example/v1") as provider:
        environment.setenv("HTTP_PROXY", value.format(port))
        await call(provider)

    assert [url for url, _ in proxy.requests] == ["http://models.example/v1/chat/completions"]


@guards("shared/providers/sdk.py", ", proxy=proxy,", ",", means="calls of the batch API ignore the proxy")
async def test_batch_api_uses_proxy_of_environment(environment):
    seen = []

    async def list_files(request):
        seen.append(str(request.url).partition("?")[0])
        return web.json_response({"data": [], "has_more": False})

    async with serving(list_files) as port:
        environment.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        provider = BatchProvider(
            component="llm", base_url="http://models.example/v1", api_key=SecretStr("a-key"), timeout=MINUTE
        )
        try:
            assert await provider.input_files() == []
        finally:
            await provider.aclose()

    assert seen == ["http://models.example/v1/files"]


@pytest.mark.parametrize("call", [complete, stream])
@pytest.mark.parametrize("exempt", ["models.example", ".example", "models.example:{}", "127.0.0.0/8"])
async def test_every_call_honours_exempt_addresses(environment, call, exempt):
    model = Model()
    environment.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    environment.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    resolve = socket.getaddrinfo
    environment.setattr(socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more))
    async with serving(model.answer) as port:
        environment.setenv("NO_PROXY", exempt.format(port))
        host = "127.0.0.1" if "/" in exempt else "models.example"
        async with calling(f"http://{host}:{port}/v1") as provider:
            await call(provider)

    assert len(model.requests) == 1


@pytest.mark.parametrize("call", [complete, stream])
async def test_model_on_this_machine_needs_no_proxy(environment, call):
    model = Model()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        environment.setenv(name, "http://127.0.0.1:1")
    async with serving(model.answer) as port, calling(f"http://127.0.0.1:{port}/v1") as provider:
        await call(provider)

    assert len(model.requests) == 1


@pytest.mark.parametrize("call", [complete, stream])
@pytest.mark.parametrize(
    ("proxy", "error", "words"),
    [
        ("http://127.0.0.1:1", Unavailable, "the proxy that the environment names .* cannot be reached"),
        ("socks5://127.0.0.1:1", Misconfigured, "ALL_PROXY names a SOCKS proxy, which foreask does not support"),
    ],
)
async def test_proxy_that_fails_is_named(environment, call, proxy, error, words):
    environment.setenv("ALL_PROXY", proxy)
    async with calling("http://models.example/v1") as provider:
        with pytest.raises(error, match=words):
            await call(provider)


@pytest.mark.parametrize("call", [complete, stream])
async def test_private_authority_is_trusted_by_file(tmp_path, call):
    authority, model = Authority(tmp_path), Model()
    trust(authority.file)
    async with serving(model.answer, authority.server()) as port, calling(f"https://127.0.0.1:{port}/v1") as provider:
        await call(provider)

    assert len(model.requests) == 1


@guards(
    "shared/providers/errors/failures.py",
    "if is_untrusted(error):",
    "if False:",
    means="an untrusted certificate uses up the attempts of each chunk",
)
@pytest.mark.parametrize("call", [complete, stream])
@pytest.mark.parametrize(
    ("hosts", "until", "words"),
    [
        ((), None, REMEDY),
        (("elsewhere",), None, "its certificate is for another host"),
        ((), datetime(2020, 1, 1, tzinfo=UTC), "its certificate has expired"),
    ],
)
async def test_certificate_that_fails_names_the_remedy(tmp_path, call, hosts, until, words):
    authority = Authority(tmp_path)
    if words != REMEDY:
        trust(authority.file)
    tls = authority.server(*hosts, until=until)
    async with serving(Model().answer, tls) as port, calling(f"https://127.0.0.1:{port}/v1") as provider:
        with capture_logs() as logs, pytest.raises(Misconfigured, match=words):
            await call(provider)

    assert words in next(log["reason"] for log in logs if log["event"] == "provider.unreachable")


@pytest.mark.parametrize("call", [complete, stream])
async def test_connections_that_fail_have_different_reasons(call):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    async with calling(f"http://127.0.0.1:{port}/v1") as refused, calling(f"http://localhost:{port}/v1") as local:
        for provider in (refused, local):
            with pytest.raises(Unavailable, match="the connection is refused"):
                await call(provider)
    async with calling("http://no-such-host.invalid/v1") as unknown:
        with pytest.raises(Unavailable, match="its host name is not found"):
            await call(unknown)
    async with serving(Model().answer) as plain, calling(f"https://127.0.0.1:{plain}/v1") as encrypted:
        with pytest.raises(Unavailable, match="it does not speak TLS there"):
            await call(encrypted)


async def drip(request):
    """Send a blank line, or a comment of a stream, as long as the client listens; as DeepSeek does while it is busy."""
    is_stream = (await request.json()).get("stream")
    reply = web.StreamResponse(headers={"content-type": "text/event-stream" if is_stream else "application/json"})
    await reply.prepare(request)
    for _ in count():
        await reply.write(b": wait\n\n" if is_stream else b"\n")
        await asyncio.sleep(0.01)


@guards(
    "shared/providers/provider.py",
    "headers=_headers(), seconds=seconds)",
    "headers=_headers())",
    means="a reply that drips blank lines holds its slot for ever",
    case="complete",
)
@guards(
    "shared/providers/provider.py",
    "in pace.each(_values(reply, events)):",
    "in _values(reply, events):",
    means="a stream of comments holds its slot for ever",
    case="stream",
)
@pytest.mark.parametrize("call", [complete, stream])
async def test_reply_that_drips_ends_after_timeout(call):
    async with serving(drip) as port, calling(f"http://127.0.0.1:{port}/v1", timedelta(seconds=0.3)) as provider:
        with pytest.raises(TimedOut, match="no complete answer within"):
            await asyncio.wait_for(call(provider), TIMEOUT_SECONDS)


async def test_call_may_take_longer_than_providers_timeout():
    async def slow(_):
        await asyncio.sleep(0.3)
        return web.json_response({"choices": []})

    async with serving(slow) as port, calling(f"http://127.0.0.1:{port}/v1", timedelta(seconds=0.1)) as provider:
        assert await provider.post("/chat/completions", BODY, at_most=MINUTE) == {"choices": []}


@pytest.mark.parametrize("call", [complete, stream])
async def test_azure_address_keeps_version_and_own_header(call):
    model = Model()
    async with serving(model.answer) as port:
        base = f"http://127.0.0.1:{port}/openai/deployments/mini"
        async with calling(f"{base}/?api-version=2025-01-01") as provider:
            await call(provider)

    ((url, headers),) = model.requests
    assert url == f"{base}/chat/completions?api-version=2025-01-01"
    named = {name.lower(): value for name, value in headers.items()}
    assert named["api-key"] == "a-key"
    assert "authorization" not in named
