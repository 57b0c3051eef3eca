"""Parts of requests and replies that several routes of OpenAI's clients share."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from shared.http.schemas.common import ReplyModel
from shared.query.answer import Form, IncompleteReason

OPEN = ConfigDict(extra="ignore")
"""The configuration of requests: unknown fields are ignored, because clients send fields of other providers."""


ForeaskOptions = Annotated[
    dict[str, Any],
    Field(
        description="Fields of POST /v1/query, such as `top_k` or `filter`. `sources: true` adds a list of sources",
    ),
]


def _no(value: bool) -> bool:
    if value:
        raise ValueError("must be false")
    return value


# Literal[False] would accept the number 0, which equals False.
No = Annotated[bool, AfterValidator(_no), WithJsonSchema({"type": "boolean", "const": False})]


class AskedQuestion(ReplyModel):
    """The question that was searched."""

    question: str = Field(description="The last message, rewritten so that it is understood without the conversation")
    found: bool = Field(description="`false` if the documents do not answer the question; the answer then says so")
    form: Form
    certain: bool = Field(description="As in POST /v1/query")
    incomplete_reason: IncompleteReason | None = Field(
        description="Why the answer is incomplete, as in POST /v1/query; null if it is complete"
    )
    query_id: UUID | None = Field(description="Id for POST /v1/feedback; null if the query was not recorded")
    notice: str | None = Field(None, description="As in `metadata` of POST /v1/query")
