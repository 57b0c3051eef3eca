"""A client of one server, which chooses a transport for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from shared.process.network.http.options import Options
from shared.process.network.http.plain import PlainClient
from shared.process.network.http.replies import Reply

if TYPE_CHECKING:
    from shared.process.network.http.sessions import Sessions, Stream

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_HEADERS: Mapping[str, str] = {}


class Client:
    """Connections to one server; close them with `aclose`.

    Args:
        url: address of the server.
        headers: header fields of all requests.
        options: limits and times.
        proxy: returns the URL of the proxy; None without one. It is called before the first request, and its errors
            reach the caller.
    """

    def __init__(self, url: str, headers: Mapping[str, str], options: Options, proxy: Callable[[], str | None]) -> None:
        self._url = url
        self._headers = headers
        self._options = options
        self._proxy = proxy
        self._is_redirected = False  # whether the server has redirected a request, which aiohttp then repeats

    async def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        seconds: float | None = None,
    ) -> Reply:
        """Send a request and return its reply.

        Args:
            method: HTTP method.
            target: path and query.
            body: body.
            headers: header fields of this request.
            seconds: time for everything.

        Raises:
            ConnectFailed, ConnectTimedOut, ConnectionLost, UnreadableReply, TimeoutError: as `PlainClient.send`.
        """
        if self._plain is not None and not self._is_redirected:
            reply = await self._plain.send(method, target, body, headers, seconds)
            is_redirect = reply.status in _REDIRECTS and "location" in reply.headers
            self._is_redirected = is_redirect and self._options.follows_redirects
            if not self._is_redirected:
                return reply
        return await self._sessions.send(method, self._origin + target, body, headers, seconds)

    async def open(self, target: str, body: bytes, *, headers: Mapping[str, str] = _NO_HEADERS) -> Stream:
        """Send a POST and return its reply, whose body is read as it arrives; raises as `send`, without a time."""
        return await self._sessions.open(self._origin + target, body, headers)

    async def aclose(self) -> None:
        """Close all connections; a request that is running fails and is not sent again."""
        if (plain := self.__dict__.get("_plain")) is not None:
            await plain.aclose()
        if "_sessions" in self.__dict__:
            await self._sessions.aclose()

    @cached_property
    def _plain(self) -> PlainClient | None:
        if self._parts.scheme != "http" or not _is_simple(self._parts) or self._proxy() is not None:
            return None
        return PlainClient(self._url, self._headers, self._options)

    @cached_property
    def _sessions(self) -> Sessions:
        from shared.process.network.http.sessions import Sessions  # noqa: PLC0415 - aiohttp takes 0.2 s and 20 MB

        is_encrypted = self._parts.scheme == "https"
        return Sessions(self._headers, self._options, self._proxy(), is_encrypted=is_encrypted)

    @cached_property
    def _parts(self) -> SplitResult:
        return urlsplit(self._url)

    @cached_property
    def _origin(self) -> str:
        return f"{self._parts.scheme}://{self._parts.netloc}"


def _is_simple(parts: SplitResult) -> bool:
    """Return whether the address is valid, needs no encoding and has no password."""
    try:
        is_valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_valid and parts.netloc.isascii() and set(parts.netloc).isdisjoint("@%") and parts.netloc[-1] != ":"
