"""The client of OpenAI-compatible providers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import openai
import orjson
from structlog.contextvars import get_contextvars

from shared.domain.errors import Unavailable
from shared.process import traces
from shared.process.metrics import CALL_SECONDS, TOKENS, timed
from shared.process.spans import Span
from shared.providers.answers import NO_KEY, provider_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from pydantic import SecretStr

_OPERATIONS = {
    "/chat/completions": "chat",
    "/embeddings": "embeddings",
    "/rerank": "rerank",
}  # as OpenTelemetry calls them


class Provider:
    """A connection pool to one OpenAI-compatible base URL; close it with `aclose`."""

    def __init__(self, *, component: str, base_url: str, api_key: SecretStr | None, timeout: timedelta) -> None:
        self.component = component
        self._timeout = timeout
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=api_key.get_secret_value() if api_key else NO_KEY,
            timeout=timeout.total_seconds(),
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(),
        )

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

        It bypasses the SDK's typed resources: their models cost more CPU than the HTTP call (1.3 ms against 0.75 ms),
        and the reply is validated anyway.

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
        options: Any = {"headers": _headers()}
        if at_most is not None and at_most > self._timeout:
            options["timeout"] = at_most.total_seconds()
        with _span(_OPERATIONS.get(path, path), model) as span:
            with timed(CALL_SECONDS, self.component, model), provider_errors(self.component, self._client.api_key):
                response = await self._client.post(path, cast_to=_RESPONSE, body=body, options=options)
            try:
                reply = orjson.loads(response.content)
            except orjson.JSONDecodeError as error:
                raise Unavailable(
                    f"the {self.component} provider sent no JSON", component=self.component, answered=True
                ) from error
            if isinstance(reply, dict) and isinstance(usage := reply.get("usage"), dict):
                self._count(span, model, usage.get("prompt_tokens"), usage.get("completion_tokens"))
            return reply

    async def stream_chat(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Send a chat completion and yield the SDK's chunks of its reply; the last one has the usage.

        Raises:
            RateLimited, Unavailable, Refused: as `post_any`.
        """
        model = str(body["model"])
        with (
            _span("chat", model) as span,
            timed(CALL_SECONDS, self.component, model),
            provider_errors(self.component, self._client.api_key),
        ):
            usage = {"include_usage": True}
            events = await self._client.chat.completions.create(
                **body, stream=True, stream_options=usage, extra_headers=_headers()
            )  # type: ignore[call-overload]
            async for event in events:
                if event.usage is not None:
                    self._count(span, model, event.usage.prompt_tokens, event.usage.completion_tokens)
                yield event

    def _count(self, span: Span, model: str, prompt: object, completion: object) -> None:
        for kind, name, tokens in (("prompt", "input", prompt), ("completion", "output", completion)):
            if isinstance(tokens, int) and tokens > 0:  # a provider may send anything
                TOKENS.labels(self.component, model, kind).inc(tokens)
                span.note(f"gen_ai.usage.{name}_tokens", tokens)

    async def aclose(self) -> None:
        await self._client.close()


def _headers() -> dict[str, str]:
    """Return the id of the request that caused a call, in OpenAI's form; None for ingest.

    It does not identify the tenant: calls of all tenants have the same form.
    """
    request_id = get_contextvars().get("request_id")
    return {"X-Client-Request-Id": request_id} if request_id else {}


def _span(operation: str, model: str) -> Span:
    attributes = {"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.request.model": model}
    return traces.span(f"{operation} {model}".rstrip(), "client", attributes)


def _response_type() -> type[Any]:
    import httpx2  # noqa: PLC0415  the SDK's own HTTP library: it hands out raw responses as this type

    return httpx2.Response


_RESPONSE = _response_type()
