"""Requests and replies of the Responses API, as far as a collection can answer them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from features.openai.schemas.common import OPEN, AskedQuestion, ForeaskOptions, No
from shared.http.schemas.common import QUERY_ID, BodyModel, ReplyModel, example
from shared.http.schemas.queries import FOUND_CITATION_EXAMPLE, Citation

_TEXTS = frozenset({"input_text", "output_text", "text"})
_LOGPROBS = "message.output_text.logprobs"
_NOT_STORED = "Responses are not stored: send the earlier messages in `input`."


class InputPart(BodyModel):
    """A part of a message: `input_text` or `output_text`; other parts are rejected in the last message."""

    model_config = OPEN

    type: str = Field(max_length=100)
    text: str | None = None


def _part(content: object) -> object:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


class InputItem(BodyModel):
    """A message; items of tools and of reasoning are ignored."""

    model_config = OPEN

    type: str = Field("message", max_length=100)
    role: Literal["user", "assistant", "system", "developer"] = Field("user")
    content: Annotated[list[InputPart] | None, BeforeValidator(_part, json_schema_input_type=str | list[InputPart])] = (
        None
    )

    @model_validator(mode="before")
    @classmethod
    def _is_message(cls, item: object) -> object:
        """Reduce other items than messages to their types, because their roles and contents have other forms."""
        if not isinstance(item, dict) or item.get("type", "message") == "message":
            if isinstance(item, dict) and "role" not in item:
                raise ValueError("a message needs a role")
            return item
        if item.get("type") == "item_reference":
            raise ValueError(_NOT_STORED)
        return {"type": item.get("type")}

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.content or [] if part.type in _TEXTS and part.text)

    @property
    def others(self) -> list[str]:
        """The types of parts that are not text."""
        return [part.type for part in self.content or [] if part.type not in _TEXTS]


def _message(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


class ToolBody(BodyModel):
    """A tool of the client, which is never called. Tools that the server would call are rejected."""

    model_config = OPEN

    type: str = Field(max_length=100)

    @field_validator("type")
    @classmethod
    def _is_of_client(cls, kind: str) -> str:
        if kind not in {"function", "custom"}:
            raise ValueError(
                f"The tool '{kind}' is not supported: `model` is the collection that every question is searched in, and"
                " `foreask.filter` limits its documents."
            )
        return kind


class TextFormat(BodyModel):
    model_config = OPEN

    type: Literal["text"]


class TextOptions(BodyModel):
    model_config = OPEN

    format: TextFormat | None = None


class ResponsesBody(BodyModel):
    """A conversation. The last message must be from the user: it is the question."""

    model_config = OPEN | example(model="handbook", input="How much leave do I get?", stream=False)

    model: str = Field(max_length=200, description="Name of the collection to search")
    input: Annotated[
        list[InputItem],
        BeforeValidator(_message, json_schema_input_type=str | list[InputItem]),
        Field(min_length=1, max_length=10_000, description="The question, or the messages of a conversation"),
    ]
    stream: bool | None = None
    metadata: dict[str, str] | None = Field(None, max_length=16, description="Returned unchanged")
    tools: list[ToolBody] | None = Field(None, max_length=1_000, description="Functions are never called")
    tool_choice: Literal["auto", "none"] | None = None
    text: TextOptions | None = None
    include: list[str] | None = Field(None, max_length=100)
    top_logprobs: Literal[0] | None = None
    background: No | None = None
    previous_response_id: Any = Field(None, description="Rejected: responses are not stored")
    conversation: Any = Field(None, description="Rejected: responses are not stored")
    prompt: Any = Field(None, description="Rejected: prompts are not stored")
    foreask: ForeaskOptions = Field({})

    @property
    def messages(self) -> list[InputItem]:
        return [item for item in self.input if item.type == "message"]

    @field_validator("previous_response_id", "conversation")
    @classmethod
    def _names_nothing_stored(cls, value: object) -> object:
        if value is not None:
            raise ValueError(_NOT_STORED)
        return value

    @field_validator("prompt")
    @classmethod
    def _names_no_prompt(cls, value: object) -> object:
        if value is not None:
            raise ValueError("Prompts are not stored: the server writes the prompt of an answer.")
        return value

    @field_validator("include")
    @classmethod
    def _includes_no_logprobs(cls, value: list[str] | None) -> list[str] | None:
        if value and _LOGPROBS in value:
            raise ValueError(f"'{_LOGPROBS}' is not supported.")
        return value


class ResponseUrlCitation(ReplyModel):
    """A source. The nth annotation is cited as [n]."""

    type: Literal["url_citation"] = "url_citation"
    start_index: int = Field(description="Position of the first citation's opening bracket in the text, in characters")
    end_index: int = Field(description="Position after the closing bracket")
    title: str
    url: str = Field(description="`url` from the document's metadata; otherwise the document's page on this server")
    foreask: Citation


class ResponseText(ReplyModel):
    type: Literal["output_text"] = "output_text"
    text: str = ""
    annotations: list[ResponseUrlCitation] = Field([])
    logprobs: list[dict[str, Any]] = Field([], max_length=0)


class ResponseMessage(ReplyModel):
    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"]
    content: list[ResponseText]


class InputTokensDetails(ReplyModel):
    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(ReplyModel):
    reasoning_tokens: int = Field(0, description="Always 0: they are part of `output_tokens`")


class ResponseUsage(ReplyModel):
    """Tokens of all calls: condensing, rewriting and answering."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails = OutputTokensDetails()
    total_tokens: int


class ResponseFailure(ReplyModel):
    code: Literal["server_error", "rate_limit_exceeded"]
    message: str


class IncompleteDetails(ReplyModel):
    reason: Literal["max_output_tokens", "content_filter"] = Field(
        description="`max_output_tokens` also if the provider's stream was interrupted"
    )


class ResponseReply(ReplyModel):
    """An answer that uses only the documents. It is not stored."""

    model_config = example(
        id="resp_3f0f3c5e7d2b4c1f8a695b0e2d9c4f77",
        object="response",
        created_at=1_790_000_000,
        status="completed",
        model="handbook",
        output=[
            {
                "id": "msg_8a695b0e2d9c4f773f0f3c5e7d2b4c1f",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [
                    {
                        "type": "output_text",
                        "text": "You have 30 days of leave a year [1].",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "start_index": 33,
                                "end_index": 36,
                                "title": "Leave",
                                "url": "http://127.0.0.1:8350/documents/0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11",
                                "foreask": FOUND_CITATION_EXAMPLE,
                            }
                        ],
                        "logprobs": [],
                    }
                ],
            }
        ],
        usage={
            "input_tokens": 312,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 14,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 326,
        },
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
    object: Literal["response"] = "response"
    created_at: int = Field(description="Unix time in seconds")
    completed_at: int | None = None
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    error: ResponseFailure | None = None
    incomplete_details: IncompleteDetails | None = None
    model: str
    output: list[ResponseMessage] = Field([])
    usage: ResponseUsage | None = None
    metadata: dict[str, str] = Field({})
    instructions: str | None = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    parallel_tool_calls: Literal[False] = False
    temperature: float | None = None
    top_p: float | None = None
    tool_choice: Literal["none"] = "none"
    tools: list[dict[str, Any]] = Field([], max_length=0)
    text: dict[str, dict[str, str]] = Field({"format": {"type": "text"}})
    store: Literal[False] = False
    background: Literal[False] = False
    foreask: AskedQuestion | None = Field(None, description="null while the answer is being written")
