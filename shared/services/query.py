"""What queries and calibrations search with."""

from __future__ import annotations

from collections.abc import Callable

from shared.providers.batching import BatchingEmbedder
from shared.providers.embedding import Embedder
from shared.providers.limiter.limiter import QUERY
from shared.providers.limiter.models import LimitedChat, LimitedEmbedder
from shared.providers.tokens import token_counter
from shared.query.answer import Answerer, ExtractiveAnswerer, GenerativeAnswerer
from shared.query.calibrate.calibrator import Calibrator
from shared.query.retrieve import Retriever
from shared.query.rewrite import Rewriter
from shared.services.parts import Parts
from shared.services.providers import reranker_of
from shared.settings import EMBEDDED_LLM


def retriever_of(parts: Parts) -> Retriever:
    return Retriever(
        query_embedder(parts),
        parts.index,
        rewriter=_rewriter(parts),
        reranker=reranker_of(parts.settings, parts.stack),
        tokens=token_counter(parts.settings.llm_tokenizer),
    )


def calibrator_of(parts: Parts) -> Calibrator:
    embedder = query_embedder(parts)
    return Calibrator(
        parts.ledger.calibrations, parts.ledger.feedback, Retriever(embedder, parts.index), embedder, parts.index
    )


def answerer_of(parts: Parts) -> Callable[[str], Answerer]:
    """The answerer of a tenant, on whose account it calls the language model."""
    default = "extractive" if parts.chat.name == EMBEDDED_LLM else "generative"
    if (parts.settings.answering or default) == "extractive":
        extractive = ExtractiveAnswerer(query_embedder(parts))
        return lambda _: extractive
    return lambda tenant: GenerativeAnswerer(_chat_of_a_query(parts, tenant))


def query_embedder(parts: Parts) -> Embedder:
    """The embedder of requests that somebody waits for."""
    return BatchingEmbedder(LimitedEmbedder(parts.embedder, parts.embedding_limiter, patience=QUERY))


def _rewriter(parts: Parts) -> Rewriter | None:
    if parts.chat.name == EMBEDDED_LLM:
        return None
    return Rewriter(lambda tenant: _chat_of_a_query(parts, tenant), parts.settings.tuning.rewrite_budget)


def _chat_of_a_query(parts: Parts, tenant: str) -> LimitedChat:
    return LimitedChat(parts.chat, parts.llm_limiter, tenant, QUERY)
