"""The client of OpenAI-compatible providers.

It sends its requests over aiohttp: a call through OpenAI's SDK takes 1.2 ms of CPU, and 0.35 ms so, because neither the
request nor the reply becomes a model. Streams are read here, too, because the SDK rejects shapes that servers send.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
import orjson
from structlog.contextvars import get_contextvars

from shared.domain.spending.usage import Usage
from shared.process import network
from shared.process.network.timeouts import CONNECT_SECONDS, StreamPace
from shared.process.telemetry import traces
from shared.process.telemetry.metrics import CALL_SECONDS, TOKENS, timed
from shared.process.telemetry.spans import Span
from shared.providers.adapt import ModelQuirks
from shared.providers.endpoint import Endpoint
from shared.providers.errors.answers import NO_KEY, ErrorAnswer, body_of, interrupted, page_in_reply, refusal, text_of
from shared.providers.errors.failures import failure
from shared.providers.replies.chat import unreadable, usage_of
from shared.providers.replies.event_stream import DONE, EventReader, UnreadableEvents, values_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from types import SimpleNamespace

    from openai import AsyncOpenAI
    from pydantic import SecretStr

    from shared.domain.errors import ForeaskError

_OPERATIONS = {
    "/chat/completions": "chat",
    "/embeddings": "embeddings",
    "/rerank": "rerank",
}  # as OpenTelemetry calls them
_CONNECTIONS = 1000  # more wait for each other; the limiter's limits are lower
_IDLE_SECONDS = 5.0
_LOST_SECONDS = 0.5  # time within which a lost connection was lost before the request
_REFUSED = 400
_LARGEST_REPLY_BYTES = 256 << 20  # 2,048 vectors as numbers in JSON take 120 MB
_STREAM_TIMEOUTS = 10  # total of a streamed reply, in timeouts

T = TypeVar("T")


class Provider:
    """A connection pool to one OpenAI-compatible base URL; close it with `aclose`."""

    def __init__(self, *, component: str, base_url: str, api_key: SecretStr | None, timeout: timedelta) -> None:
        self.component = component
        self._timeout = timeout
        self._key = api_key.get_secret_value() if api_key else NO_KEY
        self._endpoint = Endpoint.of(base_url, self._key)
        self._opened: aiohttp.ClientSession | None = None
        self._unpooled: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._quirks: dict[str, ModelQuirks] = {}

    @cached_property
    def _sdk(self) -> AsyncOpenAI:
        from shared.providers.sdk import sdk  # noqa: PLC0415 - takes long to import, and only batches use it

        return sdk(self._endpoint, self._timeout, self._endpoint.proxy(self.component))

    async def post(self, path: str, body: Mapping[str, Any], at_most: timedelta | None = None) -> dict[str, Any]:
        """Send one JSON request and return the reply's JSON object.

        Args:
            path: path of the endpoint.
            body: the request.
            at_most: timeout of this call, if it may take longer than the provider's other calls.

        Raises:
            RateLimited, NoCapacity, Unavailable, Refused: as `post_any`; UnusableReply also if the reply is not an
                object.
        """
        reply = await self.post_any(path, body, at_most)
        if isinstance(reply, list) and len(reply) == 1:
            (reply,) = reply
        if not isinstance(reply, dict):
            raise unreadable(self.component, "sent no JSON object")
        return reply

    async def post_any(self, path: str, body: Mapping[str, Any], at_most: timedelta | None = None) -> Any:
        """Send one JSON request and return the reply's JSON value.

        Args:
            path: path of the endpoint.
            body: the request.
            at_most: timeout of this call, if it may take longer than the provider's other calls.

        Raises:
            RateLimited: 429.
            NoCapacity: the requested service tier has no capacity left.
            Unavailable: no connection, or 5xx; its subclasses TimedOut, UnusableReply, Misconfigured and
                UnsupportedTier.
            Refused: any other 4xx.
        """
        values, _ = await self.post_events(path, body, at_most)
        return values[0] if values else None

    async def post_events(
        self, path: str, body: Mapping[str, Any], at_most: timedelta | None = None
    ) -> tuple[list[Any], bool]:
        """Send one JSON request and return the reply's JSON value, or the values of events if the server sends events.

        Returns:
            The values, and whether the reply has ended as it should.

        Raises:
            RateLimited, NoCapacity, Unavailable, Refused: as `post_any`.
        """
        model = str(body.get("model", ""))
        with _span(_OPERATIONS.get(path, path), model) as span:
            with timed(CALL_SECONDS, self.component, model):
                reply, content = await self._send(path, body, at_most)
            try:
                values, is_done = values_in(content)
            except UnreadableEvents as error:
                raise page_in_reply(error.content, self.component, self._key, text_of(body)) from error
            self._count(span, model, _usage_in(values))
            for value in values:
                self._require_no_error(reply, value, body)
            return values, is_done

    def _require_no_error(self, reply: aiohttp.ClientResponse, value: object, body: Mapping[str, Any]) -> None:
        """Raise the error in a value of an answer with status 200, and log the provider's words.

        Raises:
            ForeaskError: the error.
        """
        if (error := ErrorAnswer.in_reply(reply.headers, value)) is not None:
            raise self._error_of(error, body)

    def _error_of(self, answer: ErrorAnswer, body: Mapping[str, Any]) -> ForeaskError:
        return refusal(answer, self.component, self._key, text_of(body))

    def quirks_of(self, model: str) -> ModelQuirks:
        """Return the observed properties of a model."""
        return self._quirks.setdefault(model, ModelQuirks())

    async def _send(self, path: str, body: Mapping[str, Any], at_most: timedelta | None) -> Answered:
        allowed = max(self._timeout, at_most or self._timeout)
        # In total: a provider that sends a blank line now and then would hold the call for ever.
        limits = _limits(allowed, total=allowed.total_seconds())

        async def send(sent: bytes) -> Answered:
            with self._converted(allowed):
                return await self._exchange(_post, path, sent, limits)

        return await self._adapted(body, send)

    async def _adapted(self, body: Mapping[str, Any], send: Callable[[bytes], Awaitable[Answered]]) -> Answered:
        """Send a request, and again without the optional fields that the model refuses.

        Args:
            body: the request.
            send: sends a request; returns the response, and its content if it is an error.

        Raises:
            ForeaskError: the answer is an error.
        """
        model = str(body.get("model", ""))
        quirks, steps = self.quirks_of(model), dict[str, None]()
        while True:
            adapted = quirks.adapted(body, steps)
            reply, content = await send(orjson.dumps(adapted))
            if reply.status < _REFUSED:
                quirks.learn(steps, model=model)
                return reply, content
            answer = body_of(content)
            step = quirks.next_step(reply.status, answer, adapted)
            if step is None or step in steps:
                raise self._error_of(ErrorAnswer.of(reply.status, reply.headers, answer), body)
            steps[step] = None

    @contextmanager
    def _converted(self, allowed: timedelta) -> Iterator[None]:
        """Convert the errors of connections."""
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError
            raise failure(self.component, error, allowed) from error

    async def _exchange(self, send: Send[T], path: str, body: bytes, limits: aiohttp.ClientTimeout) -> T:
        """Send a request, and again over a new connection if a reused connection was lost at once.

        A network that has forgotten an idle connection resets it when the request arrives, before the provider has the
        request. A provider that receives it answers later.
        """
        started, pooled = time.monotonic(), _Connection()
        try:
            return await send(self._session(), self._endpoint.url(path), body, limits, pooled)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if self._is_closed or not pooled.is_reused or time.monotonic() - started > _LOST_SECONDS:
                raise
        return await send(self._fresh_session(), self._endpoint.url(path), body, limits, pooled)

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = self._new_session(keepalive_timeout=_IDLE_SECONDS)
        return self._opened

    def _fresh_session(self) -> aiohttp.ClientSession:
        """Return a session that opens a connection for each request."""
        if self._unpooled is None:
            self._unpooled = self._new_session(force_close=True)
        return self._unpooled

    def _new_session(self, **pool: Any) -> aiohttp.ClientSession:
        headers = {"content-type": "application/json", "accept": "application/json", **self._endpoint.headers()}
        trusted = network.ssl_context() if self._endpoint.is_encrypted else True
        proxy = self._endpoint.proxy(self.component)
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=trusted, **pool)
        # Not `trust_env`: it reads the environment and a file of passwords in two threads, for each request.
        reused = aiohttp.TraceConfig()
        reused.on_connection_reuseconn.append(_note_reuse)
        return aiohttp.ClientSession(connector=connector, headers=headers, proxy=proxy, trace_configs=[reused])

    async def stream_chat(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Send a chat completion and yield the JSON values of its stream, then `DONE` if it ends as it should.

        Raises:
            RateLimited, Unavailable, Refused: as `post_any`.
        """
        model = str(body["model"])
        sent = {**body, "stream": True, "stream_options": {"include_usage": True}}
        with _span("chat", model) as span, timed(CALL_SECONDS, self.component, model):
            pace = StreamPace(self._timeout, _STREAM_TIMEOUTS * self._timeout)
            with self._converted(self._timeout):
                reply, _ = await pace.wait(self._adapted(sent, self._open_stream))
            usage, events = Usage(), EventReader()
            try:
                async for values in pace.each(_values(reply, events)):
                    usage = _usage_in(values) or usage
                    for value in values:
                        self._require_no_error(reply, value, body)
                        yield value
            except UnreadableEvents as error:
                raise page_in_reply(error.content, self.component, self._key, text_of(body)) from error
            except TimeoutError as error:
                raise failure(self.component, error, self._timeout) from error
            except (aiohttp.ClientError, OSError) as error:
                raise interrupted(self.component) from error
            finally:
                reply.close()
                self._count(span, model, usage)
            if events.is_done:
                yield DONE

    async def _open_stream(self, sent: bytes) -> Answered:
        """Send a request; return the response, and its content if it is an error."""
        reply = await self._exchange(_open, "/chat/completions", sent, _limits(self._timeout))
        return reply, await _content(reply) if reply.status >= _REFUSED else b""

    def _count(self, span: Span, model: str, usage: Usage | None) -> None:
        if usage is None:
            return
        counted = (("prompt", "input", usage.prompt_tokens), ("completion", "output", usage.completion_tokens))
        for kind, name, tokens in counted:
            if tokens:
                TOKENS.labels(self.component, model, kind).inc(tokens)
                span.note(f"gen_ai.usage.{name}_tokens", tokens)

    async def aclose(self) -> None:
        self._is_closed = True  # a request that loses its connection now is not sent again
        for session in (self._opened, self._unpooled):
            if session is not None:
                await session.close()
        if "_sdk" in self.__dict__:
            await self._sdk.close()


Answered = tuple[aiohttp.ClientResponse, bytes]
"""A response and its content."""


@dataclass
class _Connection:
    """The connection of a request."""

    is_reused: bool = False


Send = Callable[[aiohttp.ClientSession, str, bytes, aiohttp.ClientTimeout, _Connection], Awaitable[T]]
"""Sends one request over a session."""


async def _note_reuse(_session: object, context: SimpleNamespace, _parameters: object) -> None:
    context.trace_request_ctx.is_reused = True


async def _post(
    session: aiohttp.ClientSession, url: str, body: bytes, limits: aiohttp.ClientTimeout, connection: _Connection
) -> Answered:
    async with await _open(session, url, body, limits, connection) as reply:
        return reply, await _content(reply)


async def _open(
    session: aiohttp.ClientSession, url: str, body: bytes, limits: aiohttp.ClientTimeout, connection: _Connection
) -> aiohttp.ClientResponse:
    return await session.post(url, data=body, headers=_headers(), timeout=limits, trace_request_ctx=connection)


def _limits(allowed: timedelta, total: float | None = None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=min(allowed.total_seconds(), CONNECT_SECONDS))


async def _content(reply: aiohttp.ClientResponse) -> bytes:
    return b"".join([block async for block in _blocks(reply)])


async def _values(reply: aiohttp.ClientResponse, events: EventReader) -> AsyncGenerator[list[Any], None]:
    """Yield the values of each block of a reply that has some."""
    async for block in _blocks(reply):
        if values := events.feed(block):
            yield values
        if events.is_done:  # some servers keep the connection open
            return
    if values := events.end():
        yield values


async def _blocks(reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    size = 0
    async for block in reply.content.iter_any():
        size += len(block)
        if size > _LARGEST_REPLY_BYTES:
            raise aiohttp.ClientPayloadError("the reply is too large")
        yield block


def _usage_in(values: Sequence[Any]) -> Usage | None:
    """Return the last usage among the values of a reply."""
    usages = [usage_of(value.get("usage")) for value in values if isinstance(value, dict) and value.get("usage")]
    return usages[-1] if usages else None


def _headers() -> dict[str, str]:
    """Return the id of the request that caused a call, in OpenAI's form; None for ingest.

    It does not identify the tenant: calls of all tenants have the same form.
    """
    request_id = get_contextvars().get("request_id")
    return {"X-Client-Request-Id": request_id} if request_id else {}


def _span(operation: str, model: str) -> Span:
    attributes = {"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.request.model": model}
    return traces.span(f"{operation} {model}".rstrip(), "client", attributes)
