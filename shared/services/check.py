"""The first-run check: every engine and every model is used once, over the connections and with the options of work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import structlog
from pydantic import SecretStr

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.durations import duration
from shared.domain.errors import ForeaskError, Transient, Unavailable
from shared.ingest.generate.generator import requests
from shared.ledger.postgres.revision import require_schema
from shared.process.network import hosts_of
from shared.providers.limiter.limited_chat import NEUTRAL, NEUTRAL_PICTURE, neutral_request
from shared.providers.limiter.limited_embedder import PING
from shared.query.answer import prompts
from shared.query.answer.answer import Passage
from shared.services.parts import Parts
from shared.services.query import is_extractive
from shared.services.reranking import reranker_of
from shared.settings import EMBEDDED_LLM

_WITHIN = timedelta(seconds=10)
_REPEATS, _PAUSE_SECONDS = 3, 0.5  # of a check of an engine
_TEXT = "The harbour opens at six."
_USUAL_TEXT = " ".join([_TEXT] * 100)  # a chunk: the calls are as long as the neutral calls of the ingest
_QUESTION = "When does the harbour open?"
_UNSET = "not set, so `foreask up` starts an embedded one"
_SLOW = "is embedded, and not asked: a call of it may take minutes"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Args:
        part: the engine or the use of a model, in words.
        address: its host and model, without secrets; or the reason why there is nothing to check.
        problem: the problem and its remedy; None if the check passed.
    """

    part: str
    address: str
    problem: str | None = None

    @property
    def sentence(self) -> str:
        """The result in one line."""
        state = "ok    " if self.problem is None else "failed"
        return f"{state}  {self.part:<12} {self.address}" + (f": {self.problem}" if self.problem else "")


@dataclass(frozen=True, slots=True)
class _Check:
    """A check.

    Args:
        part: as in `Finding`.
        address: as in `Finding`.
        settings: settings that a person changes if it fails.
        run: uses the part, and raises an error if that fails.
    """

    part: str
    address: str
    settings: str
    run: Callable[[], Awaitable[object]]


async def findings(parts: Parts, within: timedelta = _WITHIN) -> AsyncIterator[Finding]:
    """Run all checks concurrently, and yield each result when it is known.

    Args:
        parts: the engines and models.
        within: timeout of each check.
    """
    running = [asyncio.ensure_future(_result(check, within)) for check in _checks(parts)]
    try:
        for finished in asyncio.as_completed(running):
            yield await finished
    finally:
        for task in running:
            task.cancel()


async def log_findings(check: Callable[[], AsyncIterator[Finding]]) -> None:
    """Log the results of a check as `check.passed` and `check.failed`."""
    async with aclosing(check()) as found:  # type: ignore[type-var]
        async for finding in found:
            if finding.problem is None:
                log.info("check.passed", part=finding.part, address=finding.address)
            else:
                log.warning("check.failed", part=finding.part, address=finding.address, problem=finding.problem)


async def _result(check: _Check | Finding, within: timedelta) -> Finding:
    if isinstance(check, Finding):
        return check
    try:
        async with asyncio.timeout(within.total_seconds()):
            note = await check.run()
    except TimeoutError:
        problem = f"it has not answered within {duration(within.total_seconds())}"
    except ForeaskError as error:
        problem = error.message.rstrip(".")
    except Exception as error:
        log.debug("check.raised", part=check.part, exc_info=True)
        problem = f"{type(error).__name__}: {error}"
    else:
        return Finding(check.part, f"{check.address}, {note}" if note else check.address)
    return Finding(check.part, check.address, f"{problem}. Settings: {check.settings}.")


def _checks(parts: Parts) -> Iterator[_Check | Finding]:
    settings = parts.settings
    yield _engine("PostgreSQL", settings.database_url, "FOREASK_DATABASE_URL", partial(_ledger, parts))
    yield _engine("Redis", settings.redis_url, "FOREASK_REDIS_URL", partial(_broker, parts))
    yield _engine(
        "Qdrant", settings.qdrant_url, "FOREASK_QDRANT_URL and FOREASK_QDRANT_API_KEY", partial(_index, parts)
    )
    if settings.database_url is not None:  # the ledger knows whose uploads the store contains
        where = _host(settings.store_url) or str(settings.data_dir)
        variables = "FOREASK_STORE_URL and FOREASK_STORE_OPTIONS" if settings.store_url else "FOREASK_DATA_DIR"
        yield _Check("Uploads", where, variables, partial(_store, parts))
    yield from _models(parts)


def _engine(
    part: str, url: SecretStr | str | None, variables: str, run: Callable[[], Awaitable[None]]
) -> _Check | Finding:
    if url is None:
        return Finding(part, _UNSET)
    return _Check(part, _host(url), variables, partial(_soon, run))


async def _soon(check: Callable[[], Awaitable[None]]) -> None:
    """Repeat a check that fails for some seconds: engines may be starting, too, and keep all processors busy."""
    for _ in range(_REPEATS):
        try:
            return await check()
        except Unavailable:
            await asyncio.sleep(_PAUSE_SECONDS)
    return await check()


def _models(parts: Parts) -> Iterator[_Check | Finding]:
    settings = parts.settings
    if settings.llm_model is None and settings.llm_base_url is None:
        yield Finding("Questions", f"FOREASK_LLM_MODEL is {_UNSET}")
    elif settings.llm_model == EMBEDDED_LLM:
        yield Finding("Questions", f"{EMBEDDED_LLM} {_SLOW}")
    else:
        address, of_llm = f"{_host(settings.llm_url)} {settings.llm_model}", _variables("LLM")
        yield _Check("Questions", address, of_llm, partial(_questions, parts))
        if not is_extractive(parts):
            yield _Check("Answers", address, of_llm, partial(_answer, parts))
        if settings.captions == "on":
            yield _Check("Pictures", address, f"{of_llm}; or FOREASK_CAPTIONS=off", partial(_picture, parts))
    if settings.embedding_model is None and settings.embedding_base_url is None:
        yield Finding("Embeddings", f"FOREASK_EMBEDDING_MODEL is {_UNSET}")
    for name, embedding in settings.served_embeddings().items():
        address = f"{_host(embedding.base_url or '')} {embedding.model}"
        yield _Check("Embeddings", address, _variables("EMBEDDING"), partial(_embedding, parts, name))
    if settings.rerank_base_url is not None:
        address = f"{_host(settings.rerank_base_url)} {settings.rerank_model or ''}".strip()
        yield _Check("Reranker", address, _variables("RERANK"), partial(_reranking, parts))


def _variables(kind: str) -> str:
    return f"FOREASK_{kind}_BASE_URL, FOREASK_{kind}_MODEL and FOREASK_{kind}_API_KEY"


async def _ledger(parts: Parts) -> None:
    await require_schema(parts.database)


async def _broker(parts: Parts) -> None:
    await parts.wakeups.ready()


async def _index(parts: Parts) -> None:
    await parts.index.check()


async def _store(parts: Parts) -> None:
    """Store and remove an upload; a slow folder may take as long as the check."""
    upload = await parts.uploads.store_bytes(_TEXT.encode(), max_bytes=len(_TEXT))
    await parts.uploads.remove([upload.name])


async def _questions(parts: Parts) -> None:
    request, *_ = requests(ChunkContent.whole(_USUAL_TEXT), parts.ingest_defaults.generation)
    await parts.chat.complete(neutral_request(request))


async def _answer(parts: Parts) -> None:
    request = neutral_request(prompts.request(_QUESTION, [Passage(1, _USUAL_TEXT)]))
    async with aclosing(parts.chat.stream(request)) as events:  # type: ignore[type-var]
        async for _ in events:
            pass


async def _picture(parts: Parts) -> None:
    await parts.chat.complete(replace(NEUTRAL, picture=NEUTRAL_PICTURE))


async def _embedding(parts: Parts, name: str) -> str:
    """Embed a text, and compare its vector with the stored ones, if Qdrant answers."""
    dimensions = (await parts.embedders[name].embed([PING])).shape[1]
    if parts.settings.qdrant_url is not None and await _answers(parts.index.ready()):
        await parts.index.require_dimensions(parts.index_names.for_embedding(name), dimensions)
    return f"{dimensions} dimensions"


async def _answers(check: Awaitable[None]) -> bool:
    """Return whether an engine answers, which has a check of its own."""
    try:
        await check
    except Transient:
        return False
    return True


async def _reranking(parts: Parts) -> None:
    reranker = reranker_of(parts.settings, parts.stack)
    assert reranker is not None
    await reranker.score(_QUESTION, [_TEXT])


def _host(url: SecretStr | str | None) -> str:
    """Return the hosts of a URL, without its user and password."""
    try:
        return hosts_of(url.get_secret_value() if isinstance(url, SecretStr) else url or "")
    except ValueError:
        return "an invalid URL"
