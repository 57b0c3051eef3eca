"""Chat models: requests, completions, and the adapter to OpenAI-compatible endpoints."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from shared.domain.errors import Refused, Unavailable
from shared.domain.tiers import Tier, tier_of_reply
from shared.domain.usage import Usage
from shared.providers.prompt_cache import cache_fields

if TYPE_CHECKING:
    from shared.providers.provider import Provider  # callers that only name a model do not load the client


_FLEX_TIMEOUT = timedelta(minutes=15)  # recommended by OpenAI
_MOST_TOKENS = 10_000_000  # of a call; a larger number is a provider's error, and the ledger cannot store it


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a model reads.

    Args:
        sha256: hash of its file in hexadecimal digits, under which paid replies are found.
        jpeg: the file; None if the request is only compared, not sent.
    """

    sha256: str
    jpeg: bytes | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call. With a `schema` (JSON Schema, object root) the request demands strict JSON of that shape.

    Args:
        messages: the messages.
        schema: shape of the reply.
        max_tokens: maximum tokens of the reply.
        temperature: randomness of the reply.
        fixed_chars: number of characters at the start of the last message that all requests of its template share.
        picture: a picture that follows the text of the last message.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    fixed_chars: int = 0
    picture: Picture | None = None

    def body(self, model: str) -> dict[str, Any]:
        """Return the JSON of the chat completions API; the provider bills for the texts in it.

        Paid replies are found under it, so it contains nothing that only affects the price or the transport. A picture
        is named by its hash; `sent_body` contains its file.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": m.role, "content": m.content} for m in self.messages],
        }
        if self.schema is not None:
            schema = {"name": "reply", "strict": True, "schema": self.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if self.max_tokens is not None:
            body["max_completion_tokens"] = self.max_tokens
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.picture is not None:
            _attach(body, f"sha256:{self.picture.sha256}")
        return body

    def sent_body(self, model: str) -> dict[str, Any]:
        """Return the JSON that is sent: `body`, with the file of the picture."""
        body = self.body(model)
        if self.picture is not None:
            assert self.picture.jpeg is not None, "a request is sent with its picture"
            address = f"data:image/jpeg;base64,{b64encode(self.picture.jpeg).decode()}"
            body["messages"][-1]["content"][-1]["image_url"]["url"] = address
        return body


def _attach(body: dict[str, Any], address: str) -> None:
    """Add a picture to the last message of a request."""
    message = body["messages"][-1]
    picture = {"type": "image_url", "image_url": {"url": address}}
    message["content"] = [{"type": "text", "text": message["content"]}, picture]


@dataclass(frozen=True, slots=True)
class Completion:
    """`finish_reason` is `stop`, or `length` if the reply was truncated at the token limit; `tier` is the reply's."""

    text: str
    finish_reason: str
    usage: Usage
    tier: Tier = Tier.STANDARD


class ChatModel(Protocol):
    """A model that completes chats."""

    @property
    def name(self) -> str: ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Make one call.

        Raises:
            Transient: worth another attempt later.
            Refused: the provider will not answer this request.
        """
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[str | Usage]:
        """Yield the reply's text in pieces, and its usage at the end if the provider reports it.

        Raises:
            Transient, Refused: as `complete`.
        """
        ...


class OpenAIChat:
    """A `ChatModel` over `/chat/completions`.

    The tier and the options of the prompt cache are sent with a request, but are not part of `ChatRequest`: paid
    replies are found under the request, whatever they cost.

    Args:
        provider: the connections.
        model: name of the model.
        tier: requested service tier, `STANDARD` or `FLEX`; the reply may be of another one.
        explicit_cache: whether the provider's prompt cache is used as `prompt_cache` describes.
    """

    def __init__(
        self, provider: Provider, model: str, tier: Tier = Tier.STANDARD, *, explicit_cache: bool = False
    ) -> None:
        self._provider = provider
        self._model = model
        self._explicit_cache = explicit_cache
        self._sent = {} if tier is Tier.STANDARD else {"service_tier": tier.value}
        self._timeout = None if tier is Tier.STANDARD else _FLEX_TIMEOUT

    def in_tier(self, tier: Tier) -> OpenAIChat:
        """Return the same model over the same connections in another service tier."""
        return OpenAIChat(self._provider, self._model, tier, explicit_cache=self._explicit_cache)

    @property
    def name(self) -> str:
        return self._model

    async def complete(self, request: ChatRequest) -> Completion:
        reply = await self._provider.post("/chat/completions", self._body(request), self._timeout)
        return completion_in(reply)

    async def stream(self, request: ChatRequest) -> AsyncIterator[str | Usage]:
        async with aclosing(self._provider.stream_chat(self._body(request))) as events:
            async for event in events:
                if event.usage is not None:
                    yield usage_of(event.usage.model_dump())
                if event.choices and event.choices[0].delta.content:
                    yield event.choices[0].delta.content

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = request.sent_body(self._model) | self._sent
        return body | cache_fields(request, body) if self._explicit_cache else body


def completion_in(reply: Mapping[str, Any]) -> Completion:
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        finish_reason = choice.get("finish_reason") or "stop"
    except (KeyError, IndexError, TypeError) as error:
        raise Unavailable("the llm provider sent a reply without choices", component="llm", answered=True) from error
    usage, tier = usage_of(reply.get("usage")), tier_of_reply(reply.get("service_tier"))
    if message.get("refusal"):
        raise Refused("the model refuses to write about this text", usage=usage, tier=tier)
    if finish_reason == "content_filter":
        raise Refused("the provider's content filter stopped the reply", usage=usage, tier=tier)
    return Completion(text=message.get("content") or "", finish_reason=finish_reason, usage=usage, tier=tier)


def usage_of(billed: object) -> Usage:
    """Return the tokens in the field `usage` of a reply; a provider may omit any of them, or send another type."""
    if not isinstance(billed, dict):
        return Usage()
    prompt = _tokens(billed, "prompt_tokens")
    details = billed.get("prompt_tokens_details")
    if not isinstance(details, dict):
        return Usage(prompt, _tokens(billed, "completion_tokens"))
    cached = min(prompt, _tokens(details, "cached_tokens"))
    written = min(prompt - cached, _tokens(details, "cache_write_tokens"))
    return Usage(prompt, _tokens(billed, "completion_tokens"), cached, written)


def _tokens(billed: Mapping[str, Any], name: str) -> int:
    value = billed.get(name)
    return min(value, _MOST_TOKENS) if type(value) is int and value > 0 else 0
