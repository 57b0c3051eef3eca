"""The reply with the rights of a key and facts about the server."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from api.schemas.keys import KeyLimitsView
from shared.domain.access.keys import Scope
from shared.http.schemas.common import ReplyModel, example
from shared.query.answer import Form


class AnswerView(ReplyModel):
    form: Form = Field(description="`extractive`: answers quote sentences of the documents; no model writes them")
    model: str | None = Field(description="Language model that writes the answers; null if no model does")


class EmbeddingView(ReplyModel):
    name: str = Field(description="Name to use in the options of a collection")
    model: str
    price: float | None = Field(description="Price per million tokens; null if it is not set")


class PricesView(ReplyModel):
    """Prices of the language model per million tokens; list prices are in dollars."""

    prompt: float
    completion: float


class LimitsView(ReplyModel):
    """Limits of a request and of the tenant. null means unlimited."""

    upload_bytes: int = Field(description="Maximum size of a document")
    json_bytes: int = Field(
        description="Maximum size of a document in JSON, of the fields of a form, and of a line of a batch"
    )
    batch_documents: int
    metadata_bytes: int = Field(description="Maximum size of a document's metadata as JSON")
    question_chars: int
    top_k: int = Field(description="Maximum number of chunks per query")
    tokens: int = Field(description="Maximum number of tokens in the texts of a reply")
    requests_per_second: float | None
    upload_bytes_per_day: int | None
    documents: int | None
    collections: int | None
    tokens_per_day: int | None = Field(description="Tokens of the language model for ingestion")
    cost_per_day: float | None = Field(description="Cost of ingestion")
    query_tokens_per_day: int | None = Field(description="Tokens of all models for queries")
    query_cost_per_day: float | None = Field(description="Cost of queries")


class PersonView(ReplyModel):
    """A person on whose behalf a request is sent."""

    user: str
    groups: list[str]


class MeView(ReplyModel):
    model_config = example(
        tenant="acme",
        key="website",
        scopes=["ask", "read"],
        filter=None,
        person=None,
        version="0.1.0",
        answer={"form": "generative", "model": "gpt-4.1-mini"},
        chat="gpt-4.1-mini",
        embedding="text-embedding-3-small",
        embeddings=[{"name": "text-embedding-3-small", "model": "text-embedding-3-small", "price": 0.02}],
        prices={"prompt": 0.4, "completion": 1.6},
        limits={
            "upload_bytes": 104857600,
            "json_bytes": 20971520,
            "batch_documents": 10000,
            "metadata_bytes": 32768,
            "question_chars": 10000,
            "top_k": 200,
            "tokens": 100000,
            "requests_per_second": 50.0,
            "upload_bytes_per_day": None,
            "documents": None,
            "collections": None,
            "tokens_per_day": None,
            "cost_per_day": None,
            "query_tokens_per_day": None,
            "query_cost_per_day": None,
        },
        key_limits={"requests_per_second": None, "tokens_per_day": None, "cost_per_day": None, "max_tokens": None},
        query_retention_days=30,
        shared_answer_retention_days=0,
        conversation_retention_days=0,
        estimates=False,
        readable_by_default="everyone",
    )

    tenant: str | None = Field(description="Tenant of the key; null for the operator")
    key: str | None = Field(description="Name of the key; null if the server requires no keys")
    scopes: list[Scope] = Field(description="Scopes of the key")
    filter: dict[str, Any] | None = Field(description="Metadata filter that is added to every query of the key")
    person: PersonView | None = Field(
        description="Person on whose behalf the request is sent, with access only to readable documents; null: the key"
        " itself"
    )
    version: str = Field(description="Version of the server")
    answer: AnswerView
    chat: str | None = Field(description="Language model that generates questions")
    embedding: str | None = Field(description="Name of the default embedding of new collections")
    embeddings: list[EmbeddingView]
    prices: PricesView | None = Field(description="Prices of the language model; null if they are unknown")
    limits: LimitsView
    key_limits: KeyLimitsView = Field(description="Limits of the key, in addition to the tenant's limits")
    query_retention_days: int = Field(description="Days for which queries are retained for feedback; 0 if they are not")
    shared_answer_retention_days: int = Field(description="Days for which the key can share an answer; 0 if it cannot")
    conversation_retention_days: int = Field(
        description="Days after the last change for which the server stores a conversation of the key; 0 if it does not"
    )
    estimates: bool = Field(description="Whether the key may request estimates")
    readable_by_default: Literal["everyone", "nobody"] = Field(
        description="Which persons read documents that name no readers: FOREASK_READABLE_BY_DEFAULT"
    )
