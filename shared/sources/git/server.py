"""HTTP to the server of a repository, and to no other one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import urllib3

from shared.domain.errors import Misconfigured, Unavailable
from shared.process.network import ssl_context
from shared.sources.files import COMPONENT

_TIMEOUT = urllib3.Timeout(connect=10, read=60)  # seconds; a server reports progress while it prepares a large pack
# A server could order a pause of any length, or read the request again; syncs have their own attempts.
_RETRIES = urllib3.Retry(connect=2, read=0, redirect=5, status=0, other=0, respect_retry_after_header=False)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NO_ACCESS = (401, 403)
_MISSING = (404, 410)


class ServerPool(urllib3.PoolManager):
    """Connections to one server.

    Requests to another host are refused: a redirect could otherwise lead to a server that the operator did not allow,
    and would carry the credentials there. No proxy and no setting of Git is read.

    Args:
        url: address of the repository.
    """

    def __init__(self, url: str) -> None:
        super().__init__(
            headers={"User-Agent": "git/foreask"}, timeout=_TIMEOUT, retries=_RETRIES, ssl_context=ssl_context()
        )
        self._server = _server(url)
        self._host = urlsplit(url).hostname

    def urlopen(self, method: str, url: str, redirect: bool = True, **options: Any) -> Any:  # type: ignore[override]
        """Send a request, and follow redirects within the server.

        Raises:
            Misconfigured: the server redirects to another one, has no such repository, or gives no access to it.
            Unavailable: the server answers with another status than 200.
        """
        if _server(url) != self._server:
            raise Misconfigured(
                f"The server {self._host} redirects to {urlsplit(url).scheme}://{urlsplit(url).hostname}: use the"
                " address of the repository there.",
                component=COMPONENT,
            )
        reply = super().urlopen(method, url, redirect=redirect, **options)
        if reply.status != 200:  # noqa: PLR2004
            reply.release_conn()
            raise self._error(reply)
        return reply

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
        seconds = reply.headers.get("Retry-After", "")
        return Unavailable(
            f"The server {self._host} answered with the status {reply.status}.",
            component=COMPONENT,
            retry_after=timedelta(seconds=min(int(seconds), 86_400)) if seconds.isdecimal() else None,
            answered=True,
        )


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
