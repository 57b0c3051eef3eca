"""Requests over aiohttp: with TLS, over a proxy, with redirects, and with streamed replies."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

import aiohttp

from shared.process.network.certificates import ssl_context
from shared.process.network.http.errors import ConnectFailed, ConnectionLost, ConnectTimedOut, UnreadableReply
from shared.process.network.http.options import Options
from shared.process.network.http.replies import TOO_LARGE, Reply

T = TypeVar("T")

_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError)
_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL)
_LOST_SECONDS = 0.5  # time within which a lost connection was lost before the request


@dataclass
class _Connection:
    """The connection of a request, and whether the reply has started."""

    is_reused: bool = False
    is_answered: bool = False


_Exchange = Callable[[aiohttp.ClientSession, Mapping[str, Any], _Connection], Awaitable[T]]
"""Sends a request over a session with more options."""


class Stream:
    """A reply whose body is read in blocks; the reader closes it."""

    def __init__(self, reply: aiohttp.ClientResponse, largest_bytes: int) -> None:
        self.status = reply.status
        self.headers: Mapping[str, str] = reply.headers
        self._reply = reply
        self._largest_bytes = largest_bytes

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body.

        Raises:
            ConnectionLost, UnreadableReply: as `PlainClient.send`.
        """
        size = 0
        with _converted():
            async for block in self._reply.content.iter_any():
                size += len(block)
                if size > self._largest_bytes:
                    raise UnreadableReply(TOO_LARGE)
                yield block

    async def content(self) -> bytes:
        """Return the body; raises as `blocks`."""
        return b"".join([block async for block in self.blocks()])

    def close(self) -> None:
        self._reply.close()


class Sessions:
    """Sends requests to one server over aiohttp. It raises the same errors as `PlainClient`.

    Args:
        headers: header fields of all requests.
        options: limits and times.
        proxy: URL of the proxy; None without one.
        is_encrypted: whether the server's certificate is verified.
    """

    def __init__(self, headers: Mapping[str, str], options: Options, proxy: str | None, *, is_encrypted: bool) -> None:
        self._headers = headers
        self._options = options
        self._proxy = proxy
        self._is_encrypted = is_encrypted
        self._opened: aiohttp.ClientSession | None = None
        self._unpooled: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], seconds: float | None
    ) -> Reply:
        """Send a request to a whole URL and return its reply; all else is as for `PlainClient.send`."""

        async def exchange(session: aiohttp.ClientSession, more: Mapping[str, Any], connection: _Connection) -> Reply:
            async with session.request(method, url, data=body, headers=headers, timeout=limits, **more) as reply:
                connection.is_answered = True
                return Reply(
                    reply.status, reply.headers, await Stream(reply, self._options.largest_reply_bytes).content()
                )

        limits = aiohttp.ClientTimeout(seconds, sock_connect=self._options.connect_seconds)
        return await self._repeated(exchange)

    async def open(self, url: str, body: bytes, headers: Mapping[str, str]) -> Stream:
        """Send a POST and return its reply before its body arrives; raises as `send`."""

        async def start(session: aiohttp.ClientSession, more: Mapping[str, Any], _: _Connection) -> Stream:
            reply = await session.post(url, data=body, headers=headers, timeout=limits, **more)
            return Stream(reply, self._options.largest_reply_bytes)

        limits = aiohttp.ClientTimeout(None, sock_connect=self._options.connect_seconds)
        return await self._repeated(start)

    async def aclose(self) -> None:
        self._is_closed = True  # a request that loses its connection now is not sent again
        for session in (self._opened, self._unpooled):
            if session is not None:
                await session.close()

    async def _repeated(self, exchange: _Exchange[T]) -> T:
        """Send a request, and again over a new connection if a reused connection was lost at once.

        A network that has forgotten an idle connection resets it when the request arrives, before the server has the
        request. A server that receives it answers later.
        """
        started, connection = time.monotonic(), _Connection()
        more = {"allow_redirects": self._options.follows_redirects, "trace_request_ctx": connection}
        try:
            with _converted():
                return await exchange(self._session(), more, connection)
        except ConnectionLost:
            is_fast = time.monotonic() - started <= _LOST_SECONDS
            is_unsent = connection.is_reused and is_fast and not connection.is_answered
            if self._is_closed or not (is_unsent or self._options.may_repeat):
                raise
        with _converted():
            return await exchange(self._fresh_session(), more, connection)

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = self._new_session(keepalive_timeout=self._options.idle_seconds)
        return self._opened

    def _fresh_session(self) -> aiohttp.ClientSession:
        """Return a session that opens a connection for each request."""
        if self._unpooled is None:
            self._unpooled = self._new_session(force_close=True)
        return self._unpooled

    def _new_session(self, **pool: Any) -> aiohttp.ClientSession:
        trusted = ssl_context() if self._is_encrypted else True
        connector = aiohttp.TCPConnector(limit=self._options.connections, ssl=trusted, **pool)
        # Not `trust_env`: it reads the environment and a file of passwords in two threads, for each request.
        reused = aiohttp.TraceConfig()
        reused.on_connection_reuseconn.append(_note_reuse)
        return aiohttp.ClientSession(
            connector=connector, headers=self._headers, proxy=self._proxy, trace_configs=[reused]
        )


async def _note_reuse(_session: object, context: SimpleNamespace, _parameters: object) -> None:
    context.trace_request_ctx.is_reused = True


@contextmanager
def _converted() -> Iterator[None]:
    """Convert the errors of aiohttp; timeouts are errors of Python."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise ConnectTimedOut("no connection was made in time") from error
    except TimeoutError:
        raise
    except _UNSENT as error:
        raise ConnectFailed("the connection failed") from error
    except _LOST as error:
        raise ConnectionLost("the connection was lost") from error
    except aiohttp.ClientError as error:
        raise UnreadableReply("the reply is not HTTP") from error
