"""Chat models: requests, completions, and the adapter to OpenAI-compatible endpoints."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from shared.domain.spending.tiers import Tier
from shared.providers.prompt_cache import cache_fields
from shared.providers.replies.chat import Completion, ReplyReader
from shared.providers.replies.estimates import tokens_in
from shared.providers.replies.event_stream import DONE
from shared.providers.replies.reading import reading

if TYPE_CHECKING:
    from shared.providers.adapt import ModelQuirks
    from shared.providers.provider import Provider  # callers that only name a model do not load the client

__all__ = ["ChatModel", "ChatRequest", "Completion", "Message", "OpenAIChat", "Picture"]

_TOKENS_A_MESSAGE = 4  # overhead of the chat format
_TOKENS_A_PICTURE = 1_000  # of 1,024 pixels, for most models
_FLEX_TIMEOUT = timedelta(minutes=15)  # recommended by OpenAI


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

    @property
    def prompt_tokens(self) -> int:
        """Estimated tokens of the prompt."""
        overhead = len(self.messages) * _TOKENS_A_MESSAGE + (_TOKENS_A_PICTURE if self.picture else 0)
        return overhead + tokens_in(message.content for message in self.messages)

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

    def stream(self, request: ChatRequest) -> AsyncIterator[str | Completion]:
        """Yield the reply's text in pieces, then the completion.

        The pieces contain no thinking. If a model starts to think without a mark although it never did so before, its
        thinking is in the pieces, and only the completion's text is right.

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

    @property
    def quirks(self) -> ModelQuirks:
        """The optional fields that the model has refused, and how it thinks."""
        return self._provider.quirks_of(self._model)

    async def complete(self, request: ChatRequest) -> Completion:
        body = self._body(request)
        reader = ReplyReader(has_schema=request.schema is not None, prompt_tokens=request.prompt_tokens)
        events, is_done = await self._provider.post_events("/chat/completions", body, self._timeout)
        with reading("llm", lambda: reader.usage):
            completion = reader.complete(events, is_done=is_done)
            self._learn(request, reader, completion)
        return completion

    async def stream(self, request: ChatRequest) -> AsyncIterator[str | Completion]:
        may_start_inside = self._provider.quirks_of(self._model).may_start_inside
        body, is_done = self._body(request), False
        has_schema, prompt_tokens = request.schema is not None, request.prompt_tokens
        reader = ReplyReader(has_schema=has_schema, may_start_inside=may_start_inside, prompt_tokens=prompt_tokens)
        async with aclosing(self._provider.stream_chat(body)) as events:
            async for event in events:
                if event is DONE:
                    is_done = True
                    continue
                with reading("llm"):
                    piece = reader.feed(event)
                if piece:
                    yield piece
        with reading("llm"):
            rest, completion = reader.end(is_done=is_done)
            self._learn(request, reader, completion)
        if rest:
            yield rest
        yield completion

    def _learn(self, request: ChatRequest, reader: ReplyReader, completion: Completion) -> None:
        """Learn how this model thinks from a complete text, and whether it obeys the limit of tokens."""
        quirks = self._provider.quirks_of(self._model)
        if request.max_tokens is not None:
            tokens = reader.usage.completion_tokens
            quirks.note_length(self._model, request.max_tokens, tokens, fingerprint=reader.fingerprint)
        if request.schema is None and completion.finish_reason == "stop" and completion.text:
            quirks.note_start(is_inside=reader.thinking.started_inside)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = request.sent_body(self._model) | self._sent
        return body | cache_fields(request, body) if self._explicit_cache else body
