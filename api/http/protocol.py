"""Bounds that apply before the application sees a request: size and time of its headers, and number of connections."""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shared.process.peers import Peer

MAX_HEADER_BYTES = 64 * 1024  # with the URL; as h11, the other parser of uvicorn, limits them
MAX_HEADERS = 100  # as Apache limits them
HEADER_SECONDS = 10.0  # from the connection, or from a request's first byte, to the end of its headers
_OTHER_FILES = 200  # open files of a process that are not connections of clients


class BoundedProtocol(HttpToolsProtocol):
    """Refuses requests with large, numerous or slow headers, because httptools has no limits.

    Without limits, one request with a million headers stops all others for seconds, and the parser joins the pieces of
    a long header again with each piece. Therefore bytes are counted before they are parsed. Trailers count as headers.
    """

    _is_refused = False
    _unfinished_bytes = 0  # since a request's start, or since the last piece of its body
    _header_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Each request receives a copy of this state. The peer is one for all requests of the connection.
        self.app_state = {**self.app_state, "peer": Peer(transport.get_extra_info("socket"))}
        if len(self.connections) > max_connections():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "This process has too many open connections: try again later.")
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return  # the connection is closing
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._unfinished_bytes > MAX_HEADER_BYTES:
            self._refuse_large()
        elif self._unfinished_bytes and self._is_idle:  # empty lines, which start no request
            self._start_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        self._start_timer()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if len(self.headers) >= MAX_HEADERS or self._header_bytes > MAX_HEADER_BYTES:
            raise _TooLargeError  # ends the parsing of this piece; the parser reports an invalid request
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._finish()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._finish()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._finish()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self.headers is not None and (len(self.headers) >= MAX_HEADERS or self._header_bytes > MAX_HEADER_BYTES):
            self._refuse_large()
        else:
            super().send_400_response(msg)
        self._is_refused = True

    def _finish(self) -> None:
        self._unfinished_bytes = 0
        self._stop_timer()

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._refuse_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse_slow(self) -> None:
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"The headers did not arrive within {HEADER_SECONDS:g} s.")

    def _refuse_large(self) -> None:
        self._refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"The URL and the headers may have at most {MAX_HEADER_BYTES:,} bytes, in at most {MAX_HEADERS} headers.",
        )

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Send problem details, unless a reply is being sent, and close the connection."""
        if self._is_refused:
            return
        self._is_refused = True
        self._stop_timer()
        if self._is_idle:
            body = orjson.dumps({"type": "about:blank", "title": status.phrase, "status": status, "detail": detail})
            self.transport.write(
                STATUS_LINE[status] + b"content-type: application/problem+json\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n" % len(body) + body
            )
        self.transport.close()


class _TooLargeError(Exception):
    pass


def max_connections() -> int:
    """Return the number of connections that leaves open files for engines and uploads."""
    return max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES)
