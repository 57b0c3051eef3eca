"""Requests and replies of chat completions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from features.openai.schemas.common import OPEN, AskedQuestion, ForeaskOptions, No
from shared.http.schemas.common import QUERY_ID, BodyModel, ReplyModel, example
from shared.http.schemas.queries import FOUND_CITATION_EXAMPLE, Citation

FinishReason = Literal["stop", "length", "content_filter"]


class ChatPart(BodyModel):
    """A part of a message."""

    model_config = OPEN

    type: str = Field(max_length=100)
    text: str | None = None


class ChatMessage(BodyModel):
    """A message of a conversation."""

    model_config = OPEN

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ChatPart] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text" and part.text)
        return self.content or ""

    @property
    def others(self) -> list[str]:
        """The types of parts that are not text."""
        return [part.type for part in self.content if part.type != "text"] if isinstance(self.content, list) else []


class StreamOptions(BodyModel):
    model_config = OPEN

    include_usage: bool | None = Field(None, description="Send the token counts at the end of the stream")


class ResponseFormat(BodyModel):
    model_config = OPEN

    type: Literal["text"]


class ChatBody(BodyModel):
    """A conversation. The last message must be from the user: it is the question."""

    model_config = OPEN | example(
        model="handbook", messages=[{"role": "user", "content": "How much leave do I get?"}], stream=False
    )

    model: str = Field(max_length=200, description="Name of the collection to search")
    messages: list[ChatMessage] = Field(min_length=1, max_length=10_000)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, ge=1, le=1)
    tool_choice: Literal["auto", "none"] | None = None
    response_format: ResponseFormat | None = None
    logprobs: No | None = None
    foreask: ForeaskOptions = Field({})


class UrlCitation(ReplyModel):
    start_index: int = Field(
        description="Position of the first citation's opening bracket in the content, in characters"
    )
    end_index: int = Field(description="Position after the closing bracket")
    title: str
    url: str = Field(description="`url` from the document's metadata; otherwise the document's page on this server")


class Annotation(ReplyModel):
    """A source. The nth annotation is cited as [n]."""

    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation
    foreask: Citation


class ChatReplyMessage(ReplyModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: str | None = None
    annotations: list[Annotation]


class ChatChoice(ReplyModel):
    index: Literal[0] = 0
    message: ChatReplyMessage
    logprobs: dict[str, Any] | None = None
    finish_reason: FinishReason = Field("stop", description="`length` also if the provider's stream was interrupted")


class ChatUsage(ReplyModel):
    """Tokens of all calls: condensing, rewriting and answering."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


_ANNOTATION_EXAMPLE = {
    "type": "url_citation",
    "url_citation": {
        "start_index": 33,
        "end_index": 36,
        "title": "Leave",
        "url": "http://127.0.0.1:8350/documents/0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11",
    },
    "foreask": FOUND_CITATION_EXAMPLE,
}


class ChatReply(ReplyModel):
    """An answer that uses only the documents."""

    model_config = example(
        id="chatcmpl-3f0f3c5e7d2b4c1f8a695b0e2d9c4f77",
        object="chat.completion",
        created=1_790_000_000,
        model="handbook",
        choices=[
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "You have 30 days of leave a year [1].",
                    "refusal": None,
                    "annotations": [_ANNOTATION_EXAMPLE],
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        usage={"prompt_tokens": 312, "completion_tokens": 14, "total_tokens": 326},
        foreask={
            "question": "How much leave do I get?",
            "found": True,
            "form": "generative",
            "certain": True,
            "incomplete_reason": None,
            "query_id": QUERY_ID,
        },
    )

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int = Field(description="Unix time in seconds")
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    foreask: AskedQuestion
