"""Requests and replies of Dify's external knowledge API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from shared.http.schemas.common import QUESTION_CHARS, BodyModel, CollectionName, ReplyModel, example

_OPEN = ConfigDict(extra="ignore")

Operator = Literal[
    "contains",
    "not contains",
    "start with",
    "end with",
    "is",
    "is not",
    "in",
    "not in",
    "empty",
    "not empty",
    "=",
    "≠",
    ">",
    "<",
    "≥",
    "≤",
    "before",
    "after",
]
Value = str | int | float


class RetrievalSetting(BodyModel):
    model_config = _OPEN

    top_k: int = Field(ge=1, description="Maximum number of records; at most FOREASK_TUNING__TOP_K_MAX")
    score_threshold: float | None = Field(
        None, ge=0, le=1, description="Exclude records with a lower score; 0 excludes none"
    )


def _list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class DifyCondition(BodyModel):
    """A condition on fields of the metadata; with several names, one of the fields must meet it."""

    model_config = _OPEN

    name: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1_000)]],
        BeforeValidator(_list, json_schema_input_type=str | list[str]),
        Field(min_length=1, max_length=16),
    ]
    comparison_operator: Operator
    value: Value | Annotated[list[Value], Field(min_length=1, max_length=1_000)] | None = None


class MetadataCondition(BodyModel):
    model_config = _OPEN

    logical_operator: Literal["and", "or"] | None = Field(None, description="`and` by default")
    conditions: list[DifyCondition] | None = Field(None, max_length=64)


class RetrievalBody(BodyModel):
    """A question to a collection."""

    model_config = _OPEN | example(
        knowledge_id="handbook",
        query="How much leave do I get?",
        retrieval_setting={"top_k": 3, "score_threshold": 0.5},
        metadata_condition={
            "logical_operator": "and",
            "conditions": [{"name": ["department"], "comparison_operator": "is", "value": "hr"}],
        },
    )

    knowledge_id: CollectionName
    query: str = Field(min_length=1, max_length=QUESTION_CHARS, pattern=r"\S")
    retrieval_setting: RetrievalSetting
    metadata_condition: MetadataCondition | None = None


class KnowledgeRecord(ReplyModel):
    """A chunk."""

    content: str
    score: float
    title: str = Field(description="Title of the document, or its external id")
    metadata: dict[str, Any] = Field(
        description="Metadata of the document, with `document_id`, `external_id`, `chunk_id`, `page` and `url`"
    )


class RetrievalRecords(ReplyModel):
    """The chunks that answer a question, best first."""

    model_config = example(
        records=[
            {
                "content": "All staff get 30 days of leave a year.",
                "score": 0.87,
                "title": "Leave",
                "metadata": {
                    "department": "hr",
                    "document_id": "0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11",
                    "external_id": "leave.md",
                    "chunk_id": "5d4c9f0a-6f0e-5d7a-9a53-000000000000",
                    "page": None,
                    "url": "http://127.0.0.1:8350/documents/0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11",
                },
            }
        ],
    )

    records: list[KnowledgeRecord]


class RetrievalError(ReplyModel):
    """An error in Dify's format."""

    model_config = example(error_code=2001, error_msg="There is no collection 'handbok'.")

    error_code: int = Field(
        description="1001: the header Authorization is missing or has another form. 1002: the key is refused."
        " 2001: there is no such collection. Otherwise the status"
    )
    error_msg: str = Field(description="Explanation, with the next step")
