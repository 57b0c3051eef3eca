"""Limits of headers and connections, tested with a server on loopback, and their times without one."""

import asyncio
import json
import resource
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from uvicorn.server import ServerState

from api.http import protocol
from api.http.protocol import HEADER_SECONDS, MAX_HEADER_BYTES, MAX_HEADERS, BoundedProtocol
from tests.support.clock import in_virtual_time
from tests.support.planted import guards

START = b"GET / HTTP/1.1\r\nhost: x\r\n"
OK = b"HTTP/1.1 200 OK"
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large"
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"


served = []


async def app(scope, receive, send):
    """Reply with the length of the body."""
    served.append(scope["path"])
    if scope["path"] == "/early":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
        await send({"type": "http.response.body", "body": b"started", "more_body": True})
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * HEADER_SECONDS)
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    if scope["path"] == "/early":
        return
    headers = [(b"content-length", b"%d" % len(str(size)))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": str(size).encode()})


@asynccontextmanager
async def serving():
    """Start a server, and yield a function that opens a connection to it."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=BoundedProtocol, lifespan="off", log_config=None))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield lambda: asyncio.open_connection("127.0.0.1", port)
    finally:
        server.should_exit = server.force_exit = True
        await running


@pytest.fixture(scope="module")
async def connect():
    """Return a function that opens a connection to a server that no test changes."""
    async with serving() as connect:
        yield connect


async def replies_to(connect, *pieces, then_close=True):
    """Send the pieces over one connection, and return everything that the server sends until it closes."""
    async with asyncio.timeout(60):
        reader, writer = await connect()
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if then_close:
                writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            return await reader.read()
        finally:
            writer.close()


@guards(
    "api/http/protocol.py",
    "if self._unfinished_bytes > MAX_HEADER_BYTES:",
    "if False:",
    means="a header that arrives in pieces may have any length",
    case="long in pieces",
)
@pytest.mark.parametrize(
    "pieces",
    [
        [START + b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n"],
        [START + b"a: " + b"b" * MAX_HEADER_BYTES + b"\r\n\r\n"],
        [START + b"a: ", *[b"b" * 10_000] * 100],
        [b"GET /" + b"a" * MAX_HEADER_BYTES + b" HTTP/1.1\r\nhost: x\r\n\r\n"],
        [CHUNKED, b"0\r\n", b"a: ", *[b"b" * 10_000] * 100],
        [CHUNKED, b"0\r\n", b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n"],
        [CHUNKED, b"3;", *[b"b" * 10_000] * 100],
    ],
    ids=["many", "long", "long in pieces", "long URL", "long trailer", "many trailers", "long chunk extension"],
)
async def test_large_headers_are_refused(connect, pieces):
    try:
        reply = await replies_to(connect, *pieces, then_close=False)
    except ConnectionError:  # the server closed while the client was sending
        return

    assert reply.startswith(TOO_LARGE) or not reply  # nothing, if the application had the request already


async def test_refusal_names_the_limits(connect):
    reply = await replies_to(connect, START + b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n", then_close=False)

    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(TOO_LARGE)
    assert b"content-type: application/problem+json" in head
    assert json.loads(body)["detail"] == (
        "The URL and the headers may have at most 65,536 bytes, in at most 100 headers."
    )


async def test_large_headers_never_reach_the_application(connect):
    served.clear()

    with suppress(ConnectionError):
        await replies_to(connect, START + b"a: b\r\n" * 1_000_000 + b"\r\n", then_close=False)

    assert not served


async def test_headers_within_the_limits_are_served(connect):
    longest = b"a: " + b"b" * (MAX_HEADER_BYTES - 1_000) + b"\r\n"

    reply = await replies_to(connect, START + longest + b"\r\n", START + b"a: b\r\n" * (MAX_HEADERS - 1) + b"\r\n")

    assert reply.count(OK) == 3


async def test_requests_of_a_connection_are_counted_separately(connect):
    reply = await replies_to(connect, *[START + b"a: " + b"b" * 30_000 + b"\r\n\r\n"] * 10)

    assert reply.count(OK) == 11


async def test_large_body_is_not_counted_as_headers(connect):
    request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n"

    reply = await replies_to(connect, request, *[b"b" * 100_000] * 10)

    assert b"1000000" in reply


class Connection(asyncio.Transport):
    """A connection without a socket, to a server in virtual time."""

    def __init__(self):
        super().__init__()
        self._loop = asyncio.get_running_loop()
        config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_keep_alive=75)  # as in `api.server`
        self._protocol = BoundedProtocol(config, ServerState(), {}, self._loop)
        self._protocol.connection_made(self)
        self.sent = b""
        self.closed_at = None

    def receive(self, data):
        self._protocol.data_received(data)

    def write(self, data):
        self.sent += data

    def is_closing(self):
        return self.closed_at is not None

    def close(self):
        if self.closed_at is None:
            self.closed_at = self._loop.time()
            self._loop.call_soon(self._protocol.connection_lost, None)


@pytest.mark.parametrize("piece", [b"", START])
@in_virtual_time
async def test_slow_headers_end_the_connection(piece):
    connection = Connection()
    await asyncio.sleep(1)
    connection.receive(piece)
    await asyncio.sleep(HEADER_SECONDS)

    assert connection.closed_at == HEADER_SECONDS
    assert connection.sent.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("after", "rest"),
    [(1, START), (0, START), (1, b"\r\n")],
    ids=["slow headers", "slow headers before the reply", "an empty line"],
)
@in_virtual_time
async def test_slow_second_request_ends_the_connection(after, rest):
    connection = Connection()
    connection.receive(START + b"\r\n")
    if after:
        await asyncio.sleep(after)
    connection.receive(rest)
    await asyncio.sleep(HEADER_SECONDS)

    assert connection.closed_at == after + HEADER_SECONDS
    assert connection.sent.startswith(OK)
    assert b"HTTP/1.1 408" in connection.sent


@in_virtual_time
async def test_slow_response_is_not_a_slow_header():
    connection = Connection()
    connection.receive(b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    await asyncio.sleep(3 * HEADER_SECONDS)

    assert connection.sent.startswith(OK)
    assert connection.closed_at == 2 * HEADER_SECONDS


@guards(
    "api/http/protocol.py",
    "        if self._is_idle:",
    "        if True:",
    means="the refusal of a request is written into a response",
)
async def test_refusal_is_not_written_into_a_response(connect):
    async with asyncio.timeout(60):
        reader, writer = await connect()
        writer.write(CHUNKED.replace(b"POST / ", b"POST /early "))
        started = await reader.readuntil(b"started")
        with suppress(ConnectionError):
            writer.write(b"0\r\n" + b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n")
            assert started + await reader.read() == started
        writer.close()


def test_connection_limit_reserves_files_for_engines_and_uploads():
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    assert protocol.max_connections() == max(1, files - 200)


async def test_connections_beyond_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr(protocol, "max_connections", lambda: 2)
    async with serving() as connect, asyncio.timeout(60):
        held = [await connect() for _ in range(2)]
        reader, refused = await connect()

        assert (await reader.read()).startswith(b"HTTP/1.1 503")

        for _, writer in (*held, ("", refused)):
            writer.close()
