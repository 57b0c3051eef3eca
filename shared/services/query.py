"""The dependencies of queries, calibrations and evaluations."""

from __future__ import annotations

from collections.abc import Callable

from shared.domain.corpus.collections import Collection
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.documents.documents import Documents
from shared.providers.batching import BatchingEmbedder
from shared.providers.chat import ChatModel
from shared.providers.embedding import Embedders
from shared.providers.limiter.limited_chat import LimitedChat
from shared.providers.limiter.limited_embedder import LimitedEmbedder
from shared.providers.limiter.limiter import QUERY
from shared.providers.tokens import token_counter
from shared.query.answer import Answerer, ExtractiveAnswerer, GenerativeAnswerer, unrelated_cosine
from shared.query.calibrate.calibrator import Calibrator
from shared.query.metering import MeteredChat, MeteredEmbedder
from shared.query.retrieve import Retriever
from shared.query.rewrite import Rewriter
from shared.services.parts import Parts
from shared.services.reranking import reranker_of
from shared.settings import EMBEDDED_LLM

_REMEMBERED = 1_000  # questions: 1.5 MB with 384 dimensions, 12 MB with 3,072


def retriever_of(parts: Parts) -> Retriever:
    return Retriever(
        query_embedders(parts),
        parts.index,
        parts.ledger[Documents].shown_versions,
        find_unreadable=parts.ledger[Documents].changed_unreadable,
        rewriter=_rewriter(parts),
        reranker=reranker_of(parts.settings, parts.stack),
        tokens=token_counter(parts.settings.llm_tokenizer),
        remembered=_REMEMBERED,
    )


def evaluated_retriever_of(parts: Parts) -> Retriever:
    """Return the retriever of evaluations, which count no tokens of texts.

    Strategies with rewriting are searched without it, and say so, if the process has no language model.
    """
    rewriter = None if parts.settings.llm_model is None else _rewriter(parts)
    return Retriever(
        query_embedders(parts),
        parts.index,
        parts.ledger[Documents].shown_versions,
        rewriter=rewriter,
        reranker=reranker_of(parts.settings, parts.stack),
    )


def calibrator_of(parts: Parts) -> Calibrator:
    embedders = query_embedders(parts)
    retriever = Retriever(embedders, parts.index, parts.ledger[Documents].shown_versions)
    return Calibrator(parts.ledger[Calibrations], retriever, embedders, parts.index)


def answerer_of(parts: Parts) -> Callable[[str, Collection | None, bool], Answerer]:
    """Return the answerer for a tenant, which is charged for the calls, and a collection, whose embedding finds quotes.

    The third argument is whether links written by the model are kept.
    """
    extractive, embedders = is_extractive(parts), query_embedders(parts)

    def answerer(tenant: str, collection: Collection | None, links: bool) -> Answerer:
        name = collection.embedding_model if collection else next(iter(parts.embeddings))
        unrelated = unrelated_cosine(parts.embeddings[name].model, collection.baseline if collection else None)
        if extractive:
            return ExtractiveAnswerer(embedders.named(name), unrelated=unrelated)
        return GenerativeAnswerer(_chat_of_a_query(parts, tenant), links=links, unrelated=unrelated)

    return answerer


def condenser_of(parts: Parts) -> Callable[[str], ChatModel] | None:
    """Return the model that condenses a tenant's conversations; None if no model writes answers."""
    return None if is_extractive(parts) else lambda tenant: _chat_of_a_query(parts, tenant)


def is_extractive(parts: Parts) -> bool:
    """Return whether answers are quotations, which no model writes."""
    default = "extractive" if parts.chat.name == EMBEDDED_LLM else "generative"
    return (parts.settings.answering or default) == "extractive"


def query_embedders(parts: Parts) -> Embedders:
    """Return the embedders of interactive requests."""
    limiters = parts.embedding_limiters
    return Embedders(
        MeteredEmbedder(BatchingEmbedder(LimitedEmbedder(embedder, limiters[name], max_wait=QUERY)))
        for name, embedder in parts.embedders.items()
    )


def _rewriter(parts: Parts) -> Rewriter | None:
    if parts.chat.name == EMBEDDED_LLM:
        return None
    return Rewriter(lambda tenant: _chat_of_a_query(parts, tenant), parts.settings.tuning.rewrite_budget)


def _chat_of_a_query(parts: Parts, tenant: str) -> ChatModel:
    return MeteredChat(LimitedChat(parts.chat, parts.llm_limiter, tenant, QUERY))
