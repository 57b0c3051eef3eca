"""The reply with the rights of a key and facts about the server."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from api.schemas.common import ReplyModel, example
from shared.domain.keys import Scope
from shared.query.answer import Form


class AnswerView(ReplyModel):
    form: Form = Field(description="extractive: sentences of documents are quoted, and no model writes")
    model: str | None = Field(description="the language model that writes answers; null: none does")


class EmbeddingView(ReplyModel):
    name: str = Field(description="by which collections choose it")
    model: str
    price: float | None = Field(description="of a million tokens; null: not set")


class PricesView(ReplyModel):
    """Prices of the language model per million tokens; in dollars if they are list prices."""

    prompt: float
    completion: float


class LimitsView(ReplyModel):
    """Limits of a request and of the tenant; null is no limit."""

    upload_bytes: int = Field(description="of a document")
    json_bytes: int = Field(description="of a document in JSON, of the fields of a form, of a line of a batch")
    batch_documents: int
    metadata_bytes: int = Field(description="of a document, as JSON")
    question_chars: int
    top_k: int = Field(description="chunks of a query")
    tokens: int = Field(description="of the texts of a query")
    requests_per_second: float | None
    upload_bytes_per_day: int | None
    documents: int | None
    collections: int | None
    tokens_per_day: int | None = Field(description="of the language model, for the ingest")
    cost_per_day: float | None = Field(description="of the ingest")


class MeView(ReplyModel):
    model_config = example(
        tenant="acme",
        key="website",
        may=["ask", "read"],
        filter=None,
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
        },
        queries_kept_days=30,
        estimates=False,
    )

    tenant: str | None = Field(description="for whom the key speaks; null: the operator")
    key: str | None = Field(description="its name; null: the server asks for no keys")
    may: list[Scope] = Field(description="the scopes of the key")
    filter: dict[str, Any] | None = Field(description="the condition on metadata that each query of the key carries")
    version: str = Field(description="of the server")
    answer: AnswerView
    chat: str | None = Field(description="the language model that writes questions")
    embedding: str | None = Field(description="of new collections, by its name")
    embeddings: list[EmbeddingView]
    prices: PricesView | None = Field(description="of the language model; null: none are known")
    limits: LimitsView
    queries_kept_days: int = Field(description="how long questions are kept for feedback; 0: not at all")
    estimates: bool = Field(description="whether the key may ask what documents will cost")
