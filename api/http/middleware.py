"""The middleware that gives each request an id and a slot, adds headers to replies, and hides details of failures."""

from __future__ import annotations

import asyncio
import re
import time
from asyncio import Future
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from uuid import uuid4

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.domain.errors import Unavailable
from shared.http.concurrency import Slots
from shared.http.problems import NO_ROUTE, log_crash, reply_to, route_of
from shared.ledger.postgres import actors
from shared.process.telemetry import traces
from shared.process.telemetry.metrics import REQUEST_SECONDS, REQUESTS
from shared.process.telemetry.spans import NOTHING, Span

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_AT_ONCE = 4  # a refused request takes one to two milliseconds
_UNCOUNTED = {"/v1/events", "/health/live", "/health/ready"}
_JOB_EVENTS = re.compile(r"/v1/jobs/[^/]+/events")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)


log = structlog.get_logger()


class RequestMiddleware:
    """Plain ASGI, because Starlette's base class for middleware costs a task and a queue per request.

    Args:
        app: the application.
        most: maximum number of concurrent requests; see `Slots`. Event listeners and health checks do not count.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._slots = Slots(most)
        self._starts = FairAdmission()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._starts.acquire(_group_of(scope))  # a request that waits for its turn needs no slot
        await self._with_slot(scope, receive, send)

    async def _with_slot(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _UNCOUNTED or _JOB_EVENTS.fullmatch(scope["path"]):
            await self._serve(self._app, scope, receive, send)
            return
        try:
            slot = self._slots.acquire()
        except Unavailable as full:
            await self._serve(reply_to(full, scope["path"]), scope, receive, send)
            return
        scope.setdefault("state", {})["slot"] = slot  # authentication assigns it to the tenant
        try:
            await self._serve(self._app, scope, receive, send)
        finally:
            slot.release()

    async def _serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        request_id, started_at = _request_id(scope), time.perf_counter()
        started, status = False, 0

        async def send_on(message: Message) -> None:
            nonlocal started, status
            if message["type"] == "http.response.start":
                started, status = True, int(message["status"])  # some libraries send an enumeration
                own = {"x-request-id": request_id, **scope.get("state", {}).get("headers", {})}  # authentication's
                message["headers"] = _with_headers(message.get("headers", ()), own)
            await send(message)

        with (
            structlog.contextvars.bound_contextvars(
                request_id=request_id, tenant=None, key=None
            ),  # authentication sets both
            actors.of_request(),
            _span(scope, request_id) as span,
        ):
            try:
                await app(scope, receive, send_on)
            except Exception as error:  # noqa: BLE001  no exception may leave the application
                log_crash(error, scope)
                if started:
                    raise ConnectionAbortedError("the reply was cut off") from None  # the server closes the connection
                await reply_to(error, scope["path"])(scope, receive, send_on)
            finally:
                _record(scope, status, time.perf_counter() - started_at, span)


class FairAdmission:
    """Starts at most four requests in each iteration of the event loop, round-robin by key.

    A refused request is often answered without waiting. A client that sends hundreds would otherwise hold the loop for
    as long as all of them take, between any two steps of another tenant's request. The key is not checked yet: a client
    with many keys has many turns, and delays others at most as it would without turns.
    """

    def __init__(self) -> None:
        self._started = 0
        self._waiting: OrderedDict[bytes, deque[Future[None]]] = OrderedDict()

    async def acquire(self, key: bytes) -> None:
        """Wait until a request of the key may start."""
        if self._started < _AT_ONCE and not self._waiting:
            if not self._started:
                asyncio.get_running_loop().call_soon(self._next)
            self._started += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        await turn

    def _next(self) -> None:
        self._started = 0
        while self._waiting and self._started < _AT_ONCE:
            key, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[key] = turns  # after the other keys
            if not turn.done():  # a cancelled request is skipped
                turn.set_result(None)
                self._started += 1
        if self._started:
            asyncio.get_running_loop().call_soon(self._next)


def _with_headers(headers: Iterable[tuple[bytes, bytes]], own: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply with these, which replace others, and with `_HEADERS`, which do not."""
    added = {name.encode(): value.encode() for name, value in own.items()}
    kept = [header for header in headers if header[0] not in added]
    names = {name for name, _ in kept}
    return [*kept, *added.items(), *(header for header in _HEADERS if header[0] not in names)]


def _span(scope: Scope, request_id: str) -> Span:
    if scope["path"].startswith("/health/"):
        return NOTHING
    method = scope["method"] if scope["method"] in _METHODS else "_OTHER"  # as OpenTelemetry calls it
    attributes = {
        "http.request.method": method,
        "url.scheme": scope.get("scheme", "http"),
        "foreask.request_id": request_id,
    }
    return traces.request(method, scope["headers"], attributes)


def _record(scope: Scope, status: int, seconds: float, span: Span) -> None:
    """Log and count a request, and name its span, by the template of its route: an address may contain private text."""
    template = route_of(scope)
    method = scope["method"] if scope["method"] in _METHODS else "other"
    # A wrong method is never served, and clients could create a series for each route and method.
    label = NO_ROUTE if status == HTTPStatus.METHOD_NOT_ALLOWED else template
    REQUESTS.labels(method, label, str(status)).inc()
    REQUEST_SECONDS.labels(method, label).observe(seconds)
    _name(span, method, template, status)
    if not template.startswith("/health/"):
        log.info("request.served", method=method, route=template, status=status, ms=round(seconds * 1000, 1))


def _name(span: Span, method: str, template: str, status: int) -> None:
    if template != NO_ROUTE:
        span.rename(f"{method} {template}")
        span.note("http.route", template)
    span.note("http.response.status_code", status)
    if status >= 500:  # noqa: PLR2004
        span.fail(str(status))


def _request_id(scope: Scope) -> str:
    header = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return header.decode() if _REQUEST_ID.fullmatch(header) else uuid4().hex


def _group_of(scope: Scope) -> bytes:
    """Return the key of a request; probes have a group of their own, because they have no key."""
    if scope["path"].startswith("/health/"):
        return b"health"
    return next((value for name, value in scope["headers"] if name in (b"authorization", b"x-api-key")), b"")
