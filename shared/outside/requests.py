"""Requests to the checked address of a host, whose name may resolve differently a moment later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult

import httpcore
import httpx

from shared.process import network

_MOST_INFORMATIONAL = 20  # replies with a status below 200
_INFORMATIONAL = re.compile(rb"HTTP/1\.[01] 1(?!01)")
_HEAD_END = b"\r\n\r\n"


def new_client(timeout_seconds: float) -> httpx.AsyncClient:
    """Return a client without redirects, proxies and lasting connections: a proxy would resolve the name itself.

    Each connection leads to an address that was just checked. A connection that stays open could be used for another
    host with the same address, whose certificate was not verified.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    transport = httpx.AsyncHTTPTransport(verify=network.ssl_context(), trust_env=False, limits=limits)
    pool = transport._pool  # noqa: SLF001 - httpx has no option for it
    assert isinstance(pool, httpcore.AsyncConnectionPool)
    pool._network_backend = _LimitedBackend(pool._network_backend)  # noqa: SLF001
    return httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=timeout_seconds)


def pinned(
    client: httpx.AsyncClient,
    method: str,
    parts: SplitResult,
    address: str,
    *,
    headers: Mapping[str, str],
    content: bytes | None = None,
) -> httpx.Request:
    """Return a request to a host at this address.

    Args:
        client: client that sends it.
        method: such as GET.
        parts: parts of the URL, with the name of the host.
        address: address of the host, from `resolve`.
        headers: headers, without `host`.
        content: body.
    """
    return client.build_request(
        method,
        httpx.URL(parts.geturl()).copy_with(host=address),
        content=content,
        headers={"host": parts.netloc, **headers},
        extensions={"sni_hostname": parts.hostname or ""},  # the certificate is the name's, not the address's
    )


class _LimitedBackend(httpcore.AsyncNetworkBackend):
    """Connections that limit the replies before the reply: httpcore reads them without an end."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(self, *arguments: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _LimitedStream(await self._backend.connect_tcp(*arguments, **options))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class _LimitedStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head = bytearray()
        self._informational = 0
        self._has_reply = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's interface
        data = await self._stream.read(max_bytes, timeout)
        if not self._has_reply:
            self._count(data)
        return data

    def _count(self, data: bytes) -> None:
        """Count the replies that only inform, until another one starts.

        Raises:
            RemoteProtocolError: there are too many.
        """
        self._head += data
        while (end := self._head.find(_HEAD_END)) >= 0:
            if not _INFORMATIONAL.match(self._head):
                break
            self._informational += 1
            if self._informational > _MOST_INFORMATIONAL:
                raise httpcore.RemoteProtocolError("the server informs without an end")
            del self._head[: end + len(_HEAD_END)]
        self._has_reply = end >= 0
        if self._has_reply:
            self._head.clear()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's interface
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *arguments: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        return _LimitedStream(await self._stream.start_tls(*arguments, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
