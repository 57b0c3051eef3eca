"""The client of OpenAI-compatible providers.

It sends its requests without OpenAI's SDK, whose call takes 1.2 ms of CPU: neither the request nor the reply becomes a
model. Streams are read here, too, because the SDK rejects shapes that servers send.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from structlog.contextvars import get_contextvars

from shared.domain.spending.usage import Usage
from shared.process.network.http import Client, Options, Reply
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

    from openai import AsyncOpenAI
    from pydantic import SecretStr

    from shared.domain.errors import ForeaskError
    from shared.process.network.http.sessions import Stream

_OPERATIONS = {
    "/chat/completions": "chat",
    "/embeddings": "embeddings",
    "/rerank": "rerank",
}  # as OpenTelemetry calls them
_CONNECTIONS = 1000  # more wait for each other; the limiter's limits are lower
_IDLE_SECONDS = 5.0
_OPTIONS = Options(CONNECT_SECONDS, _IDLE_SECONDS, _CONNECTIONS, follows_redirects=True)
_REFUSED = 400
_STREAM_TIMEOUTS = 10  # total of a streamed reply, in timeouts

T = TypeVar("T", bound="Reply | Stream")


class Provider:
    """A connection pool to one OpenAI-compatible base URL; close it with `aclose`."""

    def __init__(self, *, component: str, base_url: str, api_key: SecretStr | None, timeout: timedelta) -> None:
        self.component = component
        self._timeout = timeout
        self._key = api_key.get_secret_value() if api_key else NO_KEY
        self._endpoint = Endpoint.of(base_url, self._key)
        headers = {"content-type": "application/json", "accept": "application/json", **self._endpoint.headers()}
        self._client = Client(base_url, headers, _OPTIONS, lambda: self._endpoint.proxy(component))
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
                reply = await self._send(path, body, at_most)
            try:
                values, is_done = values_in(reply.content)
            except UnreadableEvents as error:
                raise page_in_reply(error.content, self.component, self._key, text_of(body)) from error
            self._count(span, model, _usage_in(values))
            for value in values:
                self._require_no_error(reply.headers, value, body)
            return values, is_done

    def _require_no_error(self, headers: Mapping[str, str], value: object, body: Mapping[str, Any]) -> None:
        """Raise the error in a value of an answer with status 200, and log the provider's words.

        Raises:
            ForeaskError: the error.
        """
        if (error := ErrorAnswer.in_reply(headers, value)) is not None:
            raise self._error_of(error, body)

    def _error_of(self, answer: ErrorAnswer, body: Mapping[str, Any]) -> ForeaskError:
        return refusal(answer, self.component, self._key, text_of(body))

    def quirks_of(self, model: str) -> ModelQuirks:
        """Return the observed properties of a model."""
        return self._quirks.setdefault(model, ModelQuirks())

    async def _send(self, path: str, body: Mapping[str, Any], at_most: timedelta | None) -> Reply:
        # In total: a provider that sends a blank line now and then would hold the call for ever.
        allowed = max(self._timeout, at_most or self._timeout)

        async def send(sent: bytes) -> tuple[Reply, bytes]:
            with self._converted(allowed):
                target, seconds = self._endpoint.target(path), allowed.total_seconds()
                reply = await self._client.send("POST", target, sent, headers=_headers(), seconds=seconds)
            return reply, reply.content

        return await self._adapted(body, send)

    async def _adapted(self, body: Mapping[str, Any], send: Callable[[bytes], Awaitable[tuple[T, bytes]]]) -> T:
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
                return reply
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
        except OSError as error:  # a timeout is one
            raise failure(self.component, error, allowed) from error

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
                reply = await pace.wait(self._adapted(sent, self._open_stream))
            usage, events = Usage(), EventReader()
            try:
                async for values in pace.each(_values(reply, events)):
                    usage = _usage_in(values) or usage
                    for value in values:
                        self._require_no_error(reply.headers, value, body)
                        yield value
            except UnreadableEvents as error:
                raise page_in_reply(error.content, self.component, self._key, text_of(body)) from error
            except TimeoutError as error:
                raise failure(self.component, error, self._timeout) from error
            except OSError as error:
                raise interrupted(self.component) from error
            finally:
                reply.close()
                self._count(span, model, usage)
            if events.is_done:
                yield DONE

    async def _open_stream(self, sent: bytes) -> tuple[Stream, bytes]:
        """Send a request; return the response, and its content if it is an error."""
        reply = await self._client.open(self._endpoint.target("/chat/completions"), sent, headers=_headers())
        return reply, await reply.content() if reply.status >= _REFUSED else b""

    def _count(self, span: Span, model: str, usage: Usage | None) -> None:
        if usage is None:
            return
        counted = (("prompt", "input", usage.prompt_tokens), ("completion", "output", usage.completion_tokens))
        for kind, name, tokens in counted:
            if tokens:
                TOKENS.labels(self.component, model, kind).inc(tokens)
                span.note(f"gen_ai.usage.{name}_tokens", tokens)

    async def aclose(self) -> None:
        await self._client.aclose()
        if "_sdk" in self.__dict__:
            await self._sdk.close()


async def _values(reply: Stream, events: EventReader) -> AsyncGenerator[list[Any], None]:
    """Yield the values of each block of a reply that has some."""
    async for block in reply.blocks():
        if values := events.feed(block):
            yield values
        if events.is_done:  # some servers keep the connection open
            return
    if values := events.end():
        yield values


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
