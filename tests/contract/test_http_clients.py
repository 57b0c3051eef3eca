"""The clients of HTTP: our own for plain connections, and aiohttp's for all others, have one behaviour."""

import asyncio
import gzip
import socket
from contextlib import asynccontextmanager

import pytest
import uvloop

from shared.process.network import problem_of
from shared.process.network.http.client import Client
from shared.process.network.http.errors import ConnectFailed, ConnectionLost, UnreadableReply
from shared.process.network.http.options import Options
from shared.process.network.http.plain import PlainClient
from shared.process.network.http.sessions import Sessions
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually

LARGEST = 100_000
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood"


def options(**changed):
    return Options(**{"connect_seconds": 60.0, "idle_seconds": 60.0, "connections": 10} | changed)


class Server:
    """A server that answers each request with the next of its replies, and the last one for ever."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.requests = []
        self.accepted = self.ended = self.waiting = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def serve(self, reader, writer):
        self.accepted += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0
                )
                self.requests.append(head + await reader.readexactly(int(length)))
                self.waiting += 1
                await self.may_answer.wait()
                self.waiting -= 1
                reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                if reply is None:
                    await reader.read()
                    return
                writer.write(reply.removesuffix(b"END"))
                await writer.drain()
                if reply.endswith(b"END"):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.ended += 1
            writer.close()


@asynccontextmanager
async def serving(*replies):
    server = Server(*replies)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listener:
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        yield server


def plain(url, chosen):
    client = PlainClient(url, {"x-of-all": "1"}, chosen)
    return client, client.send


def over_aiohttp(url, chosen):
    client = Sessions({"x-of-all": "1"}, chosen, None, is_encrypted=False)
    return client, lambda method, target, *rest: client.send(method, url + target, *rest)


@pytest.fixture(params=[plain, over_aiohttp])
def connect(request):
    """Return a function that opens a client of each kind."""

    @asynccontextmanager
    async def connected(url, **changed):
        client, send = request.param(url, options(**changed))

        async def post(body=b"?", headers=None, seconds=TIMEOUT_SECONDS):
            return await send("POST", "/a/b?c=d", body, headers or {}, seconds)

        try:
            yield post
        finally:
            await client.aclose()

    return connected


def chunked(content, size=1000):
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body + b"0\r\nx-trailer: 1\r\n\r\n"


COMPRESSED = gzip.compress(b"good")


@pytest.mark.parametrize(
    ("reply", "content"),
    [
        (OK, b"good"),
        (chunked(b"ab" * 5000), b"ab" * 5000),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the endEND", b"until the end"),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK, b"good"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.0 503 Busy\r\ncontent-length: 2\r\n\r\nnoEND", b"no"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(COMPRESSED) + COMPRESSED,
            b"good",
        ),
    ],
    ids=["length", "chunked", "until the end", "after hints", "empty", "error", "compressed"],
)
async def test_reply_of_each_form_is_read(connect, reply, content):
    async with serving(reply) as server, connect(server.url) as post:
        replies = [await post(), await post()]

    assert [each.content for each in replies] == [content] * 2
    assert {each.status for each in replies} == {int(reply.rpartition(b"HTTP/1.")[2][2:5])}


async def test_request_arrives_as_it_was_sent(connect):
    body = bytes(range(256)) * 3_000
    async with serving(OK) as server, connect(server.url) as post:
        await post(body, {"x-of-one": "ä"})

    head, _, sent = server.requests[0].partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    named = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    assert line == "POST /a/b?c=d HTTP/1.1"
    assert (named["x-of-all"], named["x-of-one"], named["host"]) == ("1", "ä", server.url.removeprefix("http://"))
    assert sent == body


async def test_first_field_of_a_name_counts(connect):
    reply = b"HTTP/1.1 200 OK\r\nRetry-After: 7\r\nretry-after: 8\r\ncontent-length: 0\r\n\r\n"
    async with serving(reply) as server, connect(server.url) as post:
        assert (await post()).headers["retry-after"] == "7"


@pytest.mark.parametrize("value", ["a\r\nx-key: b", "a\nb", "a\rb"])
async def test_line_end_in_field_is_refused(connect, value):
    async with serving(OK) as server, connect(server.url) as post:
        with pytest.raises(ValueError, match=r"."):
            await post(headers={"x-request-id": value})
        await post()

    assert len(server.requests) == 1


async def test_connection_is_reused_unless_closed(connect):
    closing = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\ngoodEND"
    async with serving(OK, OK, closing, OK) as server, connect(server.url) as post:
        for _ in range(4):
            await post()

    assert server.accepted == 2


@guards(
    "shared/process/network/http/plain.py",
    "async with asyncio.timeout(seconds), self._permits:",
    "async with asyncio.timeout(seconds):",
    means="a client opens more connections than it may",
    case="plain",
)
async def test_requests_wait_for_connections(connect):
    async with serving(OK) as server, connect(server.url, connections=2) as post:
        server.may_answer.clear()
        requests = [asyncio.create_task(post()) for _ in range(6)]
        await eventually(lambda: server.waiting == 2)
        server.may_answer.set()
        await asyncio.gather(*requests)

    assert server.accepted == 2


@guards(
    "shared/process/network/http/connection.py",
    "if self._received > self._largest_bytes + _FRAMING_BYTES:",
    "if False:",
    means="a reply fills the memory",
    case="plain-until the end",
)
@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b"a" * 5_000_000,
        chunked(b"a" * 9_000_000, 100_000)[:-20],
        b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 9_000_000,
    ],
    ids=["length", "chunked", "until the end"],
)
async def test_large_reply_is_refused_at_once(connect, reply):
    async with serving(reply) as server, connect(server.url, largest_reply_bytes=LARGEST) as post:
        with pytest.raises(UnreadableReply, match="too large"):
            await post()
        await eventually(lambda: server.ended == 1)


@guards(
    "shared/process/network/http/replies.py",
    "unpacking.decompress(content, largest_bytes)",
    "unpacking.decompress(content)",
    means="a small compressed reply fills the memory",
)
async def test_compressed_reply_counts_unpacked():
    bomb = gzip.compress(bytes(LARGEST + 1))
    reply = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb) + bomb
    async with serving(reply) as server:
        client, send = plain(server.url, options(largest_reply_bytes=LARGEST))
        with pytest.raises(UnreadableReply, match="too large"):
            await send("GET", "/", None, {}, TIMEOUT_SECONDS)
        await client.aclose()


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\ngood",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 1_000_000,
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ],
    ids=["other protocol", "two lengths", "long head", "upgrade"],
)
async def test_reply_that_is_not_http_is_unreadable(reply):
    async with serving(reply) as server:
        client, send = plain(server.url, options())
        with pytest.raises(UnreadableReply):
            await send("GET", "/", None, {}, TIMEOUT_SECONDS)
        await eventually(lambda: server.ended == 1)
        await client.aclose()


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://127.0.0.1:{}", "the connection is refused"),
        ("http://localhost:{}", "the connection is refused"),
        ("http://no-such-host.invalid:{}", "its host name is not found"),
    ],
)
async def test_failed_connection_has_a_reason(connect, address, problem):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = address.format(closed.getsockname()[1])
    async with connect(url) as post:
        with pytest.raises(ConnectFailed) as caught:
            await post()

    assert problem in problem_of(caught.value)


async def test_name_with_several_addresses_is_reached(connect):
    async with serving(OK) as server, connect(server.url.replace("127.0.0.1", "localhost")) as post:
        assert (await post()).content == b"good"


async def test_silent_server_ends_after_time(connect):
    async with serving(None) as server, connect(server.url) as post:
        with pytest.raises(TimeoutError):
            await post(seconds=0.2)
        await eventually(lambda: server.ended == 1)


@guards(
    "shared/process/network/http/plain.py",
    "        except BaseException:  # cancelled, too",
    "        except OSError:  # cancelled, too",
    means="a cancelled request leaves its connection open",
    case="plain",
)
async def test_cancelled_request_closes_its_connection(connect):
    async with serving(None, OK) as server, connect(server.url) as post:
        request = asyncio.create_task(post())
        await eventually(lambda: server.requests)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await eventually(lambda: server.ended == 1)
        assert (await post()).content == b"good"

    assert server.accepted == 2


@guards(
    "shared/process/network/http/connection.py",
    "        if self._is_complete:  # more than the reply\n            self.abort()",
    "        pass",
    means="a second reply to one request is the reply to the next one",
    case="plain",
)
async def test_second_reply_answers_no_request(connect):
    async with serving(OK + OK[:-2], OK) as server, connect(server.url) as post:
        assert [(await post()).content for _ in range(3)] == [b"good"] * 3


async def test_broken_reply_is_a_lost_connection(connect):
    async with serving(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ngoodEND") as server, connect(server.url) as post:
        with pytest.raises(ConnectionLost):
            await post()

    assert len(server.requests) == 1


@guards(
    "shared/process/network/http/plain.py",
    "            self._idle.pop(0).abort()",
    "            self._idle.pop(0)",
    means="idle connections stay open",
    case="plain",
)
async def test_idle_connection_is_closed(connect):
    async with serving(OK) as server, connect(server.url, idle_seconds=0.2) as post:
        await asyncio.gather(post(), post())
        await eventually(lambda: server.ended == 2)


async def test_closing_ends_running_requests(connect):
    async with serving(OK) as server:
        async with connect(server.url) as post:
            server.may_answer.clear()
            request = asyncio.create_task(post())
            await eventually(lambda: server.waiting == 1)
        with pytest.raises(ConnectionLost):
            await request
        server.may_answer.set()

    assert server.accepted == 1


async def lost_after(*, receives):
    """Lose a reused connection, before or after the server has the request; return how many requests it has then."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = PlainClient(f"http://127.0.0.1:{listener.getsockname()[1]}", {}, options())
        first = asyncio.create_task(client.send("POST", "/", b"1", {}, TIMEOUT_SECONDS))
        opened, _ = await asyncio.to_thread(listener.accept)
        await asyncio.to_thread(opened.recv, 1000)
        opened.sendall(OK)
        await first
        if not receives:
            opened.close()  # the client does not know it when it sends the next request
        second = asyncio.create_task(client.send("POST", "/", b"2", {}, TIMEOUT_SECONDS))
        if receives:
            await asyncio.to_thread(opened.recv, 1000)
            opened.close()
            with pytest.raises(ConnectionLost):
                await second
        else:
            opened, _ = await asyncio.to_thread(listener.accept)
            await asyncio.to_thread(opened.recv, 1000)
            opened.sendall(OK)
            assert (await second).content == b"good"
            opened.close()
        await client.aclose()


@guards(
    "shared/process/network/http/connection.py",
    "known and self._acknowledged == _acknowledged(self._socket)",
    "known",
    means="a request is sent twice although the server has it",
    case="True-run0",
)
@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("receives", [False, True])
async def test_lost_request_is_repeated_if_unreceived(loop, receives):
    await asyncio.to_thread(lambda: loop(lost_after(receives=receives)))


async def test_redirect_is_followed_over_aiohttp():
    async with serving(OK) as target:
        moved = f"HTTP/1.1 307 Moved\r\nlocation: {target.url}/new\r\ncontent-length: 0\r\n\r\n".encode()
        async with serving(moved) as server:
            for follows, status in ((True, 200), (False, 307)):
                client = Client(server.url, {}, options(follows_redirects=follows), lambda: None)
                reply = await client.send("POST", "/old", b"body", seconds=TIMEOUT_SECONDS)
                assert reply.status == status
                await client.aclose()

    assert [request.endswith(b"body") for request in target.requests] == [True]


@pytest.mark.parametrize("url", ["http://user:word@127.0.0.1:{}", "http://127.0.0.1:{}"])
async def test_password_of_address_is_sent(url):
    async with serving(OK) as server:
        client = Client(url.format(server.url.rpartition(":")[2]), {}, options(), lambda: None)
        await client.send("GET", "/", seconds=TIMEOUT_SECONDS)
        await client.aclose()

    assert (b"Basic dXNlcjp3b3Jk" in server.requests[0]) == ("@" in url)
