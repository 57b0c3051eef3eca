"""The wiring: what a process needs, built once from the settings and closed at its end."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from pydantic import SecretStr

from shared.answering import Answerer, ExtractiveAnswerer, GenerativeAnswerer
from shared.asking import floor_for
from shared.doorbell import Doorbell
from shared.embedding import OpenAIEmbedder
from shared.errors import InvalidInput
from shared.index import Index
from shared.ledger import Backlogs, Collections, Documents, Ledger, Work
from shared.ledger.database import Database
from shared.llm import OpenAIChat
from shared.parsing.sandbox import ParsingSandbox
from shared.provider import OPENAI_URL, Provider
from shared.retrieval import Retriever
from shared.retry import RetryPolicy
from shared.settings import Settings
from shared.stages.asking import Questioner
from shared.stages.indexing import Indexer
from shared.stages.parsing import Parser
from shared.uploads import Uploads

EMBEDDED_MODEL = "smollm2-135m"  # may write questions, which are screened, but must not write answers
T = TypeVar("T", str, SecretStr)


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    database: Database
    ledger: Ledger
    uploads: Uploads
    index: Index
    doorbell: Doorbell
    retriever: Retriever
    answerer: Answerer
    parser: Parser
    questioner: Questioner
    indexer: Indexer


@asynccontextmanager
async def build(settings: Settings) -> AsyncIterator[Services]:
    """Connect everything; nothing is contacted before it is used.

    Raises:
        InvalidInput: a setting that is needed is missing.
    """
    async with AsyncExitStack() as stack:
        redis_url = _required(settings.redis_url, "FOREASK_REDIS_URL").get_secret_value()
        database = Database(_required(settings.database_url, "FOREASK_DATABASE_URL").get_secret_value())
        stack.push_async_callback(database.aclose)
        index = Index(_required(settings.qdrant_url, "FOREASK_QDRANT_URL"), settings.qdrant_api_key)
        stack.push_async_callback(index.aclose)
        doorbell = Doorbell(redis_url)
        stack.push_async_callback(doorbell.aclose)
        chat = _chat(settings, stack)
        embedder = _embedder(settings, stack)
        sandbox = ParsingSandbox(
            workers=settings.parse_workers,
            timeout=settings.parse_timeout,
            memory_bytes=settings.parse_memory_bytes,
            max_text_chars=settings.parse_max_text_chars,
        )
        stack.push_async_callback(sandbox.close)
        worker = f"{socket.gethostname()}:{os.getpid()}"
        work = Work(database, worker=worker, lease=settings.lease, weights=settings.tenant_weights)
        uploads = Uploads(settings.data_dir / "uploads")
        policy = RetryPolicy(settings.max_attempts, settings.retry_base, settings.retry_ceiling)
        floor = settings.similarity_floor if settings.similarity_floor is not None else floor_for(embedder.name)
        yield Services(
            settings=settings,
            database=database,
            ledger=Ledger(Collections(database), Documents(database), work, Backlogs(database)),
            uploads=uploads,
            index=index,
            doorbell=doorbell,
            retriever=Retriever(embedder, index),
            answerer=_answerer(settings, chat, embedder),
            parser=Parser(settings, work, sandbox, uploads, doorbell, chat.name, policy),
            questioner=Questioner(settings, work, chat, doorbell, policy),
            indexer=Indexer(settings, work, embedder, index, doorbell, policy, floor, uploads),
        )


def _chat(settings: Settings, stack: AsyncExitStack) -> OpenAIChat:
    provider = Provider(
        component="llm",
        base_url=settings.llm_base_url or OPENAI_URL,
        api_key=settings.llm_api_key,
        timeout=settings.llm_timeout,
    )
    stack.push_async_callback(provider.aclose)
    return OpenAIChat(provider, _required(settings.llm_model, "FOREASK_LLM_MODEL"))


def _embedder(settings: Settings, stack: AsyncExitStack) -> OpenAIEmbedder:
    provider = Provider(
        component="embedding",
        base_url=settings.embedding_base_url or settings.llm_base_url or OPENAI_URL,
        api_key=settings.embedding_api_key or settings.llm_api_key,
        timeout=settings.embedding_timeout,
    )
    stack.push_async_callback(provider.aclose)
    model = _required(settings.embedding_model, "FOREASK_EMBEDDING_MODEL")
    return OpenAIEmbedder(provider, model, settings.embedding_dimensions)


def _answerer(settings: Settings, chat: OpenAIChat, embedder: OpenAIEmbedder) -> Answerer:
    form = settings.answering or ("extractive" if chat.name == EMBEDDED_MODEL else "generative")
    return ExtractiveAnswerer(embedder) if form == "extractive" else GenerativeAnswerer(chat)


def _required(value: T | None, name: str) -> T:
    if value is None:
        raise InvalidInput(f"{name} is not set. `foreask up` starts an embedded engine for it.", field=name)
    return value
