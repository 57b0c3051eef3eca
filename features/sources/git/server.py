"""HTTP to the server of a repository, and to no other one."""

from __future__ import annotations

import socket
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.util.connection import create_connection

from features.sources.errors import COMPONENT
from features.sources.hosts import Hosts
from shared.domain.errors import Misconfigured, Unavailable
from shared.domain.retry_after import retry_after
from shared.process.network import ssl_context

_TIMEOUT = urllib3.Timeout(connect=10, read=60)  # seconds; a server reports progress while it prepares a large pack
# A server could order a pause of any length, or read the request again; syncs have their own attempts.
_RETRIES = urllib3.Retry(connect=2, read=0, redirect=5, status=0, other=0, respect_retry_after_header=False)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NO_ACCESS = (401, 403)
_MOST_INFORMATIONAL = 20  # replies with the status 100 before the reply
_MISSING = (404, 410)
_TYPES = "application/x-git-"  # start of the types of replies; a page or a folder of files has others


class _LimitedReply(HTTPResponse):
    """A reply before which the server may inform a limited number of times."""

    _statuses = 0

    def _read_status(self) -> Any:
        self._statuses += 1
        if self._statuses > _MOST_INFORMATIONAL:
            raise Misconfigured("The server sends replies with the status 100 without an end.", component=COMPONENT)
        return super()._read_status()  # type: ignore[misc] # http.client calls it for each of them


class _CheckedAddress(HTTPConnection):
    """A connection to a checked address of its host. The name in requests and certificates remains the host's."""

    response_class = _LimitedReply
    hosts = Hosts()

    def _new_conn(self) -> socket.socket:
        problem: Exception | None = None
        for address in self.hosts.addresses_in_thread(self.host, self.port):
            try:
                return create_connection((address, self.port), self.timeout, socket_options=self.socket_options)
            except TimeoutError as error:
                problem = ConnectTimeoutError(self, f"{address} did not answer in time")
                problem.__cause__ = error
            except OSError as error:
                problem = NewConnectionError(self, f"{address} cannot be reached: {error}")
                problem.__cause__ = error
        assert problem is not None
        raise problem


class _CheckedTlsAddress(_CheckedAddress, HTTPSConnection):
    """An encrypted connection to a checked address."""


class ServerPool(urllib3.PoolManager):
    """Connections to one server.

    Requests to another host are refused, as are those to addresses that the operator does not allow: a redirect would
    carry the credentials there. The host's addresses are checked. No proxy and no setting of Git is read.

    Args:
        url: address of the repository.
        hosts: hosts that may be reached.
    """

    def __init__(self, url: str, hosts: Hosts) -> None:
        super().__init__(
            headers={"User-Agent": "git/foreask"}, timeout=_TIMEOUT, retries=_RETRIES, ssl_context=ssl_context()
        )
        self._url = url.rstrip("/")
        self._server = _server(url)
        self._host = urlsplit(url).hostname
        self._hosts = hosts

    def urlopen(self, method: str, url: str, redirect: bool = True, **options: Any) -> Any:  # type: ignore[override]
        """Send a request, and follow redirects within the server.

        Raises:
            Misconfigured: the host may not be reached, the server redirects to another one or to an address that is not
                allowed, has no such repository, gives no access to it, or is not a Git server.
            Unavailable: the server answers with another status than 200.
        """
        if _server(url) != self._server:
            raise Misconfigured(
                f"The server {self._host} redirects to {urlsplit(url).scheme}://{urlsplit(url).hostname}: use the"
                " address of the repository there.",
                component=COMPONENT,
            )
        if not self._permits(url):
            raise Misconfigured(
                f"The server {self._host} redirects to an address that is not below a root of this tenant, or that the"
                " secret of the source does not name: use the address of the repository there.",
                component=COMPONENT,
            )
        reply = super().urlopen(method, url, redirect=redirect, **options)
        if reply.status != 200:  # noqa: PLR2004
            reply.release_conn()
            raise self._error(reply)
        if not reply.headers.get("content-type", "").startswith(_TYPES):
            reply.release_conn()
            raise Misconfigured(
                f"The server {self._host} does not answer as a Git server: check the address of the repository, which"
                " usually ends in .git.",
                component=COMPONENT,
            )
        return reply

    def _permits(self, url: str) -> bool:
        """Return whether an address is allowed. Servers may add .git to the name for which the operator allowed it."""
        without_ending = url.replace(f"{self._url}.git/", f"{self._url}/", 1)
        return self._hosts.permits(f"git+{url}") or self._hosts.permits(f"git+{without_ending}")

    def _new_pool(self, *arguments: Any, **options: Any) -> HTTPConnectionPool:
        pool = super()._new_pool(*arguments, **options)
        checked = _CheckedTlsAddress if pool.scheme == "https" else _CheckedAddress
        pool.ConnectionCls = type(checked.__name__, (checked,), {"hosts": self._hosts})
        return pool

    def _error(self, reply: urllib3.BaseHTTPResponse) -> Unavailable:
        if reply.status in _NO_ACCESS:
            return Misconfigured(
                f"The server {self._host} gives no access to the repository (status {reply.status}): check the secret"
                " of the source and its rights.",
                component=COMPONENT,
            )
        if reply.status in _MISSING:
            return Misconfigured(
                f"The server {self._host} has no such repository, or the secret gives no access to it: check the"
                " address and the secret of the source.",
                component=COMPONENT,
            )
        return Unavailable(
            f"The server {self._host} answered with the status {reply.status}.",
            component=COMPONENT,
            retry_after=retry_after(reply.headers),
            answered=True,
        )


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
