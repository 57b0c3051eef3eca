"""Engines and stores with TLS of a private authority, and with proxies."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress

import obstore
import pytest
from aiohttp import web
from obstore.exceptions import BaseError

from shared.buckets.connection import RETRIES, open_bucket, reason_of
from shared.domain.errors import Unavailable
from shared.ledger.postgres.addresses import connect_arguments
from shared.ledger.postgres.database import Database
from shared.process.network.certificates import trust
from shared.vectors.transport.addresses import Addresses
from shared.vectors.transport.errors import Refusal, index_errors
from shared.vectors.transport.requests import Requests
from tests.support.authority import Authority
from tests.support.planted import guards

REMEDY = "set FOREASK_CA_FILE to the file of your company's certificate authority"


@pytest.fixture
def authority(tmp_path):
    yield Authority(tmp_path)
    trust(None)


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "pgsslrootcert"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


@asynccontextmanager
async def serving(tls=None):
    """Answer every request with 404, and yield the port and the requested addresses."""
    asked = []

    async def answer(request):
        asked.append(str(request.url))
        return web.json_response({"status": {"error": "Not found"}}, status=404)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1], asked
    finally:
        await runner.cleanup()


async def answer_of_qdrant(url):
    """Return the status of the answer, or the reason of the failure."""
    requests = Requests(Addresses([url]), None, 5.0)
    try:
        with index_errors():
            try:
                await requests.send("GET", "/collections")
            except Refusal as refused:
                return refused.status
    except Unavailable as error:
        return error.message
    finally:
        await requests.aclose()


@guards(
    "shared/process/network/http/sessions.py",
    "ssl_context() if self",
    "True if self",
    means="Qdrant with a company's certificate cannot be used",
)
async def test_qdrant_with_private_authority_is_trusted(authority):
    async with serving(authority.server()) as (port, asked):
        untrusted = await answer_of_qdrant(f"https://127.0.0.1:{port}")
        assert not asked
        trust(authority.file)
        trusted = await answer_of_qdrant(f"https://127.0.0.1:{port}")

    assert untrusted == f"Qdrant cannot be reached: its certificate is not trusted: {REMEDY}"
    assert trusted == 404
    assert asked


async def test_qdrant_is_reached_by_proxy_only_with_tls(environment):
    async with serving() as (proxy, _), serving() as (port, asked):
        environment.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy}")
        plain = await answer_of_qdrant(f"http://127.0.0.1:{port}")
        public = await answer_of_qdrant("https://qdrant.example")

    assert asked
    assert plain == 404
    assert "the proxy that the environment names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) answers 404" in public


async def read(port, scheme="https", host="127.0.0.1"):
    bucket = open_bucket(
        "s3://documents", {"aws_endpoint_url": f"{scheme}://{host}:{port}", "aws_skip_signature": "true"}
    )
    with pytest.raises((BaseError, FileNotFoundError)) as caught:
        await obstore.get_async(bucket, "a.md")
    return reason_of(caught.value)


async def test_object_store_with_private_authority_is_trusted(authority, monkeypatch):
    monkeypatch.setitem(RETRIES, "max_retries", 0)
    async with serving(authority.server()) as (port, asked):
        untrusted = await read(port)
        assert not asked
        trust(authority.file)
        trusted = await read(port)

    assert untrusted == f"the store's certificate is not trusted: {REMEDY}"
    assert trusted == "there is no such bucket"
    assert asked


async def test_failed_object_store_has_different_reasons(authority, monkeypatch):
    monkeypatch.setitem(RETRIES, "max_retries", 0)
    trust(authority.file)
    async with serving(authority.server("elsewhere")) as (port, _):
        assert "another host" in await read(port)
    async with serving() as (port, _):
        assert "the store does not speak TLS there" in await read(port)
    assert "is refused" in await read(1, "http")
    assert "host name is not found" in await read(80, "http", "no-such-host.invalid")


async def test_object_store_on_this_machine_needs_no_proxy(environment):
    environment.setitem(RETRIES, "max_retries", 0)
    async with serving() as (port, asked), serving() as (proxy, by_proxy):
        environment.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy}")
        await read(port, "http")
        await read(port, "http", "objects.example")

    assert len(asked) == 1
    assert by_proxy == [f"http://objects.example:{port}/documents/a.md"]


def test_endpoint_without_scheme_is_named():
    with pytest.raises(ValueError, match="aws_endpoint_url must start with https:// or http://"):
        open_bucket("s3://documents", {"aws_endpoint_url": "minio:9000"})


@pytest.mark.parametrize(
    ("parameters", "verified", "named"),
    [
        ("", False, False),
        ("sslmode=require", False, False),
        ("sslmode=require&channel_binding=prefer", False, False),
        ("sslmode=require&channel_binding=require", True, True),
        ("channel_binding=require", True, True),
        ("sslmode=verify-ca", True, False),
        ("sslmode=verify-full", True, True),
        ("sslmode=verify-full&sslrootcert=system", True, True),
    ],
)
def test_ledger_verifies_certificate_as_url_says(parameters, verified, named):
    arguments = connect_arguments(f"postgresql://me:secret@db/one?{parameters}")

    assert ("ssl" in arguments) is verified
    assert not verified or arguments["ssl"].check_hostname is named
    assert not verified or arguments["ssl"].verify_mode == ssl.CERT_REQUIRED
    assert "channel_binding" not in arguments["dsn"]


@pytest.mark.parametrize("known", [True, False])
async def test_ledger_with_private_authority_is_trusted(authority, known):
    async def answer(reader, writer):
        await reader.readexactly(8)  # the request for TLS
        writer.write(b"S")
        with suppress(OSError):
            await writer.start_tls(authority.server())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    trust(authority.file if known else None)
    database = Database(f"postgresql://me:secret@localhost:{port}/one?sslmode=verify-full")
    with pytest.raises(Unavailable) as caught:
        await database.ping()
    await database.aclose()
    server.close()

    assert (REMEDY in caught.value.message) is not known
