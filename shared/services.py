"""The wiring: what a process needs, built once from the settings and closed at its end."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from pydantic import SecretStr
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from shared.broker.wakeups import Wakeups
from shared.domain.errors import InvalidInput
from shared.domain.rates import Rates
from shared.domain.retry import RetryPolicy
from shared.ingest.generate import floor_for
from shared.ingest.generate.stage import Generator
from shared.ingest.index.finish import Finisher
from shared.ingest.index.stage import Indexer
from shared.ingest.parse.sandbox import ParsingSandbox
from shared.ingest.parse.stage import Parser
from shared.ledger import (
    Audit,
    Backlogs,
    Calibrations,
    Collections,
    DeadLetters,
    Documents,
    Feedback,
    Ledger,
    QueryLog,
    Work,
)
from shared.ledger.database import Database
from shared.maintenance.cleanup import Cleaner
from shared.providers.chat import OpenAIChat
from shared.providers.embedding import Embedder, OpenAIEmbedder
from shared.providers.limiter import (
    NEUTRAL,
    PING,
    QUERY,
    LimitedChat,
    LimitedEmbedder,
    Limiter,
    LimitUse,
    ProviderLimits,
    provider_id,
)
from shared.providers.provider import OPENAI_URL, Provider
from shared.providers.reranking import Reranker
from shared.providers.tokens import token_counter
from shared.query.answer import Answerer, ExtractiveAnswerer, GenerativeAnswerer
from shared.query.calibrate.calibrator import Calibrator
from shared.query.retrieve import Retriever
from shared.query.rewrite import Rewriter
from shared.settings import Settings
from shared.storage.uploads import Uploads
from shared.vectors.index import Index

# May write questions, which are filtered, but must not write answers, nor rewrite what users ask: of "Does orjson
# support PyPy?" it makes "You can use it to test the moon on your computer.", in 4 to 40 seconds.
EMBEDDED_MODEL = "smollm2-135m"
_PROBE_TIMEOUT = timedelta(seconds=30)  # a server that must load its model first takes a while
T = TypeVar("T", str, SecretStr)


@dataclass(frozen=True, slots=True)
class Limiters:
    """The limits of each provider, shared with the whole pool."""

    llm: Limiter
    embedding: Limiter

    def stop(self) -> None:
        """Begin no call from now on."""
        self.llm.stop()
        self.embedding.stop()

    async def usage(self, tenant: str) -> list[LimitUse]:
        """How much of every limit is used, as the tenant may see it.

        Raises:
            Unavailable: the broker is away.
        """
        return await self.llm.usage(tenant) + await self.embedding.usage(tenant)


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    database: Database
    ledger: Ledger
    uploads: Uploads
    index: Index
    wakeups: Wakeups
    limiters: Limiters
    retriever: Retriever
    calibrator: Calibrator
    answerer_for: Callable[[str], Answerer]  # by tenant, on whose account it calls
    parser: Parser
    questioner: Generator
    indexer: Indexer
    cleaner: Cleaner


@asynccontextmanager
async def build(settings: Settings) -> AsyncIterator[Services]:
    """Connect everything; nothing is contacted before it is used.

    Raises:
        InvalidInput: a setting that is needed is missing.
    """
    async with AsyncExitStack() as stack:
        redis_url = require(settings.redis_url, "FOREASK_REDIS_URL").get_secret_value()
        database = Database(require(settings.database_url, "FOREASK_DATABASE_URL").get_secret_value())
        stack.push_async_callback(database.aclose)
        index = Index(require(settings.qdrant_url, "FOREASK_QDRANT_URL"), settings.qdrant_api_key)
        stack.push_async_callback(index.aclose)
        wakeups = Wakeups(redis_url)
        stack.push_async_callback(wakeups.aclose)
        chat = chat_of(settings, stack)
        embedder = embedder_of(settings, stack)
        limiters = _limiters(settings, redis_url, chat, embedder, stack)
        asked_embedder = LimitedEmbedder(embedder, limiters.embedding, patience=QUERY)
        sandbox = _sandbox(settings)
        stack.push_async_callback(sandbox.close)
        ledger = _ledger(database, _work(settings, database, chat))
        finisher = Finisher(ledger.work, index)
        uploads = Uploads(settings.data_dir / "uploads")
        policy = RetryPolicy(settings.max_attempts, settings.retry_base, settings.retry_ceiling)
        floor = settings.similarity_floor if settings.similarity_floor is not None else floor_for(embedder.name)
        retriever = Retriever(
            asked_embedder,
            index,
            _rewriter(settings, chat, limiters.llm),
            reranker_of(settings, stack),
            token_counter(settings.llm_tokenizer),
        )
        yield Services(
            settings=settings,
            database=database,
            ledger=ledger,
            uploads=uploads,
            index=index,
            wakeups=wakeups,
            retriever=retriever,
            calibrator=Calibrator(ledger.calibrations, ledger.feedback, retriever, asked_embedder, index),
            limiters=limiters,
            answerer_for=_answerers(settings, chat, limiters.llm, asked_embedder),
            parser=Parser(settings, ledger.work, sandbox, uploads, wakeups, chat.name, policy),
            questioner=Generator(settings, ledger.work, chat, limiters.llm, wakeups, policy),
            indexer=Indexer(
                settings,
                ledger.work,
                LimitedEmbedder(embedder, limiters.embedding),
                limiters.embedding,
                index,
                wakeups,
                policy,
                floor,
                finisher,
            ),
            cleaner=Cleaner(ledger.work, index, uploads, ledger.feedback, finisher),
        )


def _ledger(database: Database, work: Work) -> Ledger:
    return Ledger(
        Collections(database),
        Documents(database),
        work,
        Backlogs(database),
        DeadLetters(database),
        Audit(database),
        QueryLog(database),
        Feedback(database),
        Calibrations(database),
    )


def _sandbox(settings: Settings) -> ParsingSandbox:
    return ParsingSandbox(
        workers=settings.parse_workers,
        timeout=settings.parse_timeout,
        memory_bytes=settings.parse_memory_bytes,
        max_text_chars=settings.parse_max_text_chars,
    )


def _work(settings: Settings, database: Database, chat: OpenAIChat) -> Work:
    limits = _llm_limits(settings, chat.name)
    return Work(
        database,
        worker=f"{socket.gethostname()}:{os.getpid()}",
        lease=settings.lease,
        weights=settings.tenant_weights,
        limits=limits.tenants,
        other_limits=limits.tenant_rates,
    )


def chat_of(settings: Settings, stack: AsyncExitStack) -> OpenAIChat:
    provider = Provider(
        component="llm",
        base_url=_llm_url(settings),
        api_key=settings.llm_api_key,
        timeout=settings.llm_timeout,
    )
    stack.push_async_callback(provider.aclose)
    return OpenAIChat(provider, require(settings.llm_model, "FOREASK_LLM_MODEL"))


def embedder_of(settings: Settings, stack: AsyncExitStack) -> OpenAIEmbedder:
    provider = Provider(
        component="embedding",
        base_url=_embedding_url(settings),
        api_key=settings.embedding_api_key or settings.llm_api_key,
        timeout=settings.embedding_timeout,
    )
    stack.push_async_callback(provider.aclose)
    model = require(settings.embedding_model, "FOREASK_EMBEDDING_MODEL")
    return OpenAIEmbedder(provider, model, settings.embedding_dimensions)


def _limiters(
    settings: Settings, redis_url: str, chat: OpenAIChat, embedder: OpenAIEmbedder, stack: AsyncExitStack
) -> Limiters:
    # The pump tries again by itself, and a caller that waits must hear of a broker that is away.
    redis = Redis.from_url(redis_url, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))
    stack.push_async_callback(redis.aclose)
    limiters = Limiters(
        llm=Limiter(redis, _llm_limits(settings, chat.name), partial(chat.complete, NEUTRAL)),
        embedding=Limiter(redis, _embedding_limits(settings, embedder.name), partial(embedder.embed, [PING])),
    )
    stack.push_async_callback(limiters.embedding.aclose)
    stack.push_async_callback(limiters.llm.aclose)
    return limiters


def _llm_limits(settings: Settings, model: str) -> ProviderLimits:
    return ProviderLimits(
        component="llm",
        provider=provider_id("llm", _llm_url(settings), model),
        rates=Rates(settings.llm_requests_per_minute, settings.llm_tokens_per_minute),
        tenant_rates=Rates(settings.tenant_requests_per_minute, settings.tenant_tokens_per_minute),
        tenants={limit.tenant: Rates(limit.requests, limit.tokens) for limit in settings.tenant_limits},
        in_flight=settings.llm_max_in_flight,
        probe_timeout=min(settings.llm_timeout, _PROBE_TIMEOUT),
    )


def _embedding_limits(settings: Settings, model: str) -> ProviderLimits:
    return ProviderLimits(
        component="embedding",
        provider=provider_id("embedding", _embedding_url(settings), model),
        rates=Rates(settings.embedding_requests_per_minute, settings.embedding_tokens_per_minute),
        in_flight=settings.embedding_max_in_flight,
        probe_timeout=min(settings.embedding_timeout, _PROBE_TIMEOUT),
    )


def _llm_url(settings: Settings) -> str:
    return settings.llm_base_url or OPENAI_URL


def _embedding_url(settings: Settings) -> str:
    return settings.embedding_base_url or _llm_url(settings)


def _answerers(settings: Settings, chat: OpenAIChat, limiter: Limiter, embedder: Embedder) -> Callable[[str], Answerer]:
    form = settings.answering or ("extractive" if chat.name == EMBEDDED_MODEL else "generative")
    if form == "extractive":
        extractive = ExtractiveAnswerer(embedder)
        return lambda _: extractive
    return lambda tenant: GenerativeAnswerer(LimitedChat(chat, limiter, tenant, QUERY))


def _rewriter(settings: Settings, chat: OpenAIChat, limiter: Limiter) -> Rewriter | None:
    if chat.name == EMBEDDED_MODEL:
        return None
    return Rewriter(lambda tenant: LimitedChat(chat, limiter, tenant, QUERY), settings.rewrite_budget)


def reranker_of(settings: Settings, stack: AsyncExitStack) -> Reranker | None:
    if settings.rerank_base_url is None:
        return None
    provider = Provider(
        component="rerank",
        base_url=settings.rerank_base_url,
        api_key=settings.rerank_api_key,
        timeout=2 * settings.rerank_budget,  # who waits gives up before
    )
    stack.push_async_callback(provider.aclose)
    return Reranker(
        provider, settings.rerank_model, budget=settings.rerank_budget, candidates=settings.rerank_candidates
    )


def require(value: T | None, name: str) -> T:
    if value is None:
        raise InvalidInput(f"{name} is not set. `foreask up` starts an embedded engine for it.", field=name)
    return value
