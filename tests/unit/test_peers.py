"""The kernel names the user that has opened a loopback connection; nothing else about a connection is trusted."""

import asyncio
import ctypes
import os
import socket
import struct
import sys
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from http.client import HTTPConnection

import pytest
import uvicorn
import uvloop

from api.http.protocol import BoundedProtocol
from shared.process import peers
from shared.process.peers import End, Peer, user_by_question, user_by_table, user_of
from tests.support.planted import guards

MEANS = [user_by_question, user_by_table]
FORMS = {
    "IPv4": ("127.0.0.1", socket.AF_INET, "127.0.0.1"),
    "IPv4 within IPv6": ("127.0.0.1", socket.AF_INET6, "::ffff:127.0.0.1"),
    "IPv6": ("::1", socket.AF_INET6, "::1"),
}
OWN, OTHER = os.geteuid(), 65534
ROW = "   7: {here} {there} {state} 00000000:00000000 00:00000000 00000000 {user:5} 0 {inode} 1 0000000000000000 20\n"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@contextmanager
def connected(form="IPv4", user=OWN):
    """Yield the client's and the server's end of a connection that a user has opened."""
    listening, family, address = FORMS[form]
    with ExitStack() as stack:
        server_family = socket.AF_INET6 if ":" in listening else socket.AF_INET
        server = stack.enter_context(socket.create_server((listening, 0), family=server_family))
        client = stack.enter_context(socket_of(user, family))
        client.connect((address, server.getsockname()[1]))
        accepted = stack.enter_context(server.accept()[0])
        yield client, accepted


def socket_of(user, family):
    """Return a socket that this thread has created as a user; only root can be another user."""
    system = ctypes.CDLL(None)
    system.setfsuid(user)
    try:
        return socket.socket(family)
    finally:
        system.setfsuid(OWN)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("means", MEANS)
def test_own_connection_is_own_users(means, form):
    with connected(form) as (_, accepted):
        assert user_of(accepted, means) == OWN
        assert Peer(accepted).is_own_user


@guards("shared/process/peers.py", "== os.geteuid()\n\n\nclass", ">= 0\n\n\nclass", means="every local user is served")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("means", MEANS)
def test_other_users_connection_is_not_own(means, form, tmp_path):
    if OWN == 0:
        with connected(form, OTHER) as (_, accepted):
            assert user_of(accepted, means) == OTHER
            assert not Peer(accepted).is_own_user
    with connected(form) as (client, accepted):
        tables = tables_of(client, OTHER, tmp_path)  # as if another user had opened it
        assert user_of(accepted, partial(user_by_table, tables=tables)) == OTHER


def tables_of(client, user, folder, state="01", inode=4711):
    """Write the kernel's tables, with a row for a client's socket."""
    ends = {}
    for key, name in (("here", client.getsockname()), ("there", client.getpeername())):
        packed = socket.inet_pton(client.family, name[0])
        words = struct.unpack(f"={len(packed) // 4}I", packed)
        ends[key] = "".join(f"{word:08X}" for word in words) + f":{name[1]:04X}"
    tables = {}
    for size, family in ((4, socket.AF_INET), (16, socket.AF_INET6)):
        tables[size] = folder / str(size)
        row = ROW.format(**ends, state=state, user=user, inode=inode) if family == client.family else ""
        tables[size].write_text(HEAD + row)
    return tables


@guards(
    "shared/process/peers.py",
    "return user if inode else None",
    "return user",
    means="a request of another user who closes the connection at once is served as one of root",
    case="user_by_question",
)
@pytest.mark.parametrize("means", MEANS)
def test_closed_connection_has_no_user(means):
    with connected() as (client, accepted):
        client.close()  # the kernel now reports the user 0, and no inode

        assert user_of(accepted, means) is None


def test_closed_connection_in_table_has_no_user(tmp_path):
    with connected() as (client, accepted):
        for state, inode in (("04", 0), ("06", 0), ("02", 4711), ("0A", 4711)):
            tables = tables_of(client, OWN, tmp_path, state, inode)
            assert user_of(accepted, partial(user_by_table, tables=tables)) is None, state


@pytest.mark.parametrize("means", MEANS)
def test_half_closed_connection_keeps_its_user(means):
    with connected() as (client, accepted):
        client.shutdown(socket.SHUT_WR)  # as a client that sends nothing more, and waits for the reply

        assert user_of(accepted, means) == OWN


@pytest.mark.parametrize("means", MEANS)
def test_listener_on_same_port_is_not_peer(means):
    with connected() as (client, accepted):
        end, other = End.of(client.getsockname()), End.of(client.getpeername())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            assert means(End.of(listener.getsockname()), other) is None
        assert means(end, End(other.address, other.port ^ 1)) is None
        assert user_of(accepted, means) == OWN


@pytest.mark.parametrize("means", MEANS)
def test_reset_connection_has_no_user(means):
    with connected() as (client, accepted):
        same = lambda *_: OWN  # noqa: E731 - a later socket with the same ends
        assert user_of(accepted, same) == OWN

        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

        assert user_of(accepted, same) is None
        assert user_of(accepted, means) is None


def test_peer_asks_kernel_once_for_each_connection():
    with connected() as (client, accepted):
        peer = Peer(accepted)
        assert peer.is_own_user
        client.close()

        assert peer.is_own_user  # requests that arrived before the end are its own


def test_linux_reports_users_of_connections():
    assert peers.are_known() is (sys.platform == "linux")


async def application(scope, receive, send):
    """Stream whether the peer is the own user, and the number of its connection."""
    peer = scope["state"]["peer"]
    number = seen.index(peer) if peer in seen else len(seen)
    seen[number:] = seen[number:] or [peer]
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for part in (f"{peer.is_own_user} ", f"{number};"):
        await send({"type": "http.response.body", "body": part.encode(), "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


seen = []


def replies_to(port, user):
    """Send three requests over one connection that a user has opened."""
    with socket_of(user, socket.AF_INET) as connection:
        connection.connect(("127.0.0.1", port))
        client = HTTPConnection("127.0.0.1", port)
        client.sock = connection
        replies = []
        for _ in range(3):
            client.request("GET", "/")
            replies.append(client.getresponse().read().decode())
        return replies


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_requests_of_one_connection_share_its_peer(loop):
    async def check():
        config = uvicorn.Config(application, port=0, http=BoundedProtocol, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        server.capture_signals = nullcontext
        running = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        seen.clear()
        assert await asyncio.to_thread(replies_to, port, OWN) == ["True 0;"] * 3
        another = await asyncio.to_thread(replies_to, port, OTHER)
        assert another == [f"{OWN != 0} 1;"] * 3  # only root can be another user
        assert await asyncio.to_thread(replies_to, port, OWN) == ["True 2;"] * 3
        server.should_exit = True
        await running

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(check())
