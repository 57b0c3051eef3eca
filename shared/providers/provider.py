"""The client of OpenAI-compatible providers.

It sends its requests over aiohttp: a call through OpenAI's SDK takes 1.2 ms of CPU, and 0.35 ms so, because neither the
request nor the reply becomes a model. Streams are read by the SDK.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
from structlog.contextvars import get_contextvars

from shared.domain.errors import ForeaskError, Unavailable
from shared.process import network, traces
from shared.process.metrics import CALL_SECONDS, TOKENS, timed
from shared.process.network.timeouts import CONNECT_SECONDS, StreamPace
from shared.process.spans import Span
from shared.providers.answers import NO_KEY, ErrorAnswer, body_of, page_in_reply, refusal, text_of
from shared.providers.endpoint import Endpoint
from shared.providers.failures import failure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from types import SimpleNamespace

    from openai import AsyncOpenAI
    from pydantic import SecretStr

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

    @cached_property
    def _sdk(self) -> AsyncOpenAI:
        from shared.providers.sdk import sdk  # noqa: PLC0415 - takes long to import, and most processes never use it

        return sdk(self._endpoint, self._timeout, self._endpoint.proxy(self.component))

    async def post(self, path: str, body: Mapping[str, Any], at_most: timedelta | None = None) -> dict[str, Any]:
        """Send one JSON request and return the reply's JSON object.

        Args:
            path: path of the endpoint.
            body: the request.
            at_most: timeout of this call, if it may take longer than the provider's other calls.

        Raises:
            RateLimited, NoCapacity, Unavailable, Refused: as `post_any`; Unavailable also if the reply is not an
                object.
        """
        reply = await self.post_any(path, body, at_most)
        if not isinstance(reply, dict):
            raise Unavailable(
                f"the {self.component} provider sent no JSON object", component=self.component, answered=True
            )
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
            Unavailable: a broken connection or 5xx; its subclasses TimedOut, Misconfigured and UnsupportedTier.
            Refused: any other 4xx.
        """
        model = str(body.get("model", ""))
        with _span(_OPERATIONS.get(path, path), model) as span:
            with timed(CALL_SECONDS, self.component, model):
                reply = await self._replied(path, body, at_most)
            if isinstance(reply, dict) and isinstance(usage := reply.get("usage"), dict):
                self._count(span, model, usage.get("prompt_tokens"), usage.get("completion_tokens"))
            return reply

    async def _replied(self, path: str, body: Mapping[str, Any], at_most: timedelta | None) -> Any:
        """Return the JSON value of a reply; raise its error if it is one, also with the status 200."""
        answer, content = await self._send(path, orjson.dumps(body), at_most)
        if answer.status >= _REFUSED:
            raise self._refusal(ErrorAnswer.of(answer.status, answer.headers, body_of(content)), body)
        try:
            reply = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise page_in_reply(content, self.component, self._key, text_of(body)) from error
        if (refused := ErrorAnswer.in_reply(answer.headers, reply)) is not None:
            raise self._refusal(refused, body)
        return reply

    def _refusal(self, answer: ErrorAnswer, body: Mapping[str, Any]) -> ForeaskError:
        return refusal(answer, self.component, self._key, text_of(body))

    async def _send(self, path: str, body: bytes, at_most: timedelta | None) -> tuple[aiohttp.ClientResponse, bytes]:
        allowed = max(self._timeout, at_most or self._timeout)
        seconds = allowed.total_seconds()
        # In total: a provider that sends a blank line now and then would hold the call for ever.
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, CONNECT_SECONDS))
        try:
            return await self._exchange(path, body, timeout)
        except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError
            raise failure(self.component, error, allowed) from error

    async def _exchange(
        self, path: str, body: bytes, limits: aiohttp.ClientTimeout
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Send a request, and again over a new connection if a reused connection was lost at once.

        A network that has forgotten an idle connection resets it when the request arrives, before the provider has the
        request. A provider that receives it answers later.
        """
        started, pooled = time.monotonic(), _Connection()
        try:
            return await _post(self._session(), self._endpoint.url(path), body, limits, pooled)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if self._is_closed or not pooled.is_reused or time.monotonic() - started > _LOST_SECONDS:
                raise
        return await _post(self._fresh_session(), self._endpoint.url(path), body, limits, pooled)

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
        """Send a chat completion and yield the SDK's chunks of its reply; the last one has the usage.

        Raises:
            RateLimited, Unavailable, Refused: as `post_any`.
        """
        from shared.providers.sdk import sdk_errors  # noqa: PLC0415 - as in `_sdk`

        model = str(body["model"])
        with (
            _span("chat", model) as span,
            timed(CALL_SECONDS, self.component, model),
            sdk_errors(self.component, self._key, text_of(body), timeout=self._timeout),
        ):
            usage = {"include_usage": True}
            pace = StreamPace(self._timeout, _STREAM_TIMEOUTS * self._timeout)
            events = await pace.wait(
                self._sdk.chat.completions.create(**body, stream=True, stream_options=usage, extra_headers=_headers())  # type: ignore[call-overload]
            )
            async for event in pace.each(events):
                if event.usage is not None:
                    self._count(span, model, event.usage.prompt_tokens, event.usage.completion_tokens)
                yield event

    def _count(self, span: Span, model: str, prompt: object, completion: object) -> None:
        for kind, name, tokens in (("prompt", "input", prompt), ("completion", "output", completion)):
            if isinstance(tokens, int) and tokens > 0:  # a provider may send anything
                TOKENS.labels(self.component, model, kind).inc(tokens)
                span.note(f"gen_ai.usage.{name}_tokens", tokens)

    async def aclose(self) -> None:
        self._is_closed = True  # a request that loses its connection now is not sent again
        for session in (self._opened, self._unpooled):
            if session is not None:
                await session.close()
        if "_sdk" in self.__dict__:
            await self._sdk.close()


@dataclass
class _Connection:
    """The connection of a request."""

    is_reused: bool = False


async def _note_reuse(_session: object, context: SimpleNamespace, _parameters: object) -> None:
    context.trace_request_ctx.is_reused = True


async def _post(
    session: aiohttp.ClientSession, url: str, body: bytes, limits: aiohttp.ClientTimeout, connection: _Connection
) -> tuple[aiohttp.ClientResponse, bytes]:
    request = session.post(url, data=body, headers=_headers(), timeout=limits, trace_request_ctx=connection)
    async with request as reply:
        pieces, size = [], 0
        async for piece in reply.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > _LARGEST_REPLY_BYTES:
                raise aiohttp.ClientPayloadError("the reply is too large")
        return reply, b"".join(pieces)


def _headers() -> dict[str, str]:
    """Return the id of the request that caused a call, in OpenAI's form; None for ingest.

    It does not identify the tenant: calls of all tenants have the same form.
    """
    request_id = get_contextvars().get("request_id")
    return {"X-Client-Request-Id": request_id} if request_id else {}


def _span(operation: str, model: str) -> Span:
    attributes = {"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.request.model": model}
    return traces.span(f"{operation} {model}".rstrip(), "client", attributes)
