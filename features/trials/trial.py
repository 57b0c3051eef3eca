"""A trial: a text is divided, its questions are generated and filtered; nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from shared.domain.corpus.chunks import ChunkContent, ChunkContext
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.errors import ForeaskError, Permanent
from shared.domain.spending.usage import Usage
from shared.ingest.generate.generator import generate_questions
from shared.ingest.generate.quality import FilteredQuestion, filter_by_similarity, filter_by_text
from shared.ingest.generate.types import BadQuestions
from shared.ingest.options import IngestDefaults
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.document import ExtractedText
from shared.ingest.parse.text import clean
from shared.ingest.parse.titles import title_of
from shared.providers.chat import ChatModel, ChatRequest, Completion
from shared.providers.embedding import Embedders, embed_each
from shared.providers.limiter.limiter import MaxWait
from shared.providers.limiter.script import CallKind

MOST_CHARS = 20_000
MOST_CHUNKS = 20
_AT_ONCE = 4
# Interactive, so prioritised over the ingest; many calls, so the limiter is never bypassed.
MAX_WAIT = MaxWait(timedelta(minutes=1), kind=CallKind.QUERY)


@dataclass(frozen=True, slots=True)
class TriedText:
    """The input of a trial.

    Args:
        text: text as submitted; the part after `MOST_CHARS` characters is ignored.
        title: title of the document; None: its first heading.
        options: options of chunking and generation.
        embedding: name of the embedding that compares questions with their chunks.
    """

    text: str
    title: str | None
    options: CollectionOptions
    embedding: str


@dataclass(frozen=True, slots=True)
class TriedChunk:
    """A chunk of the text, one of `total` chunks, which contain the first `characters` characters of the text."""

    chunk: int
    total: int
    characters: int
    content: ChunkContent


@dataclass(frozen=True, slots=True)
class WrittenQuestion:
    """A question as the model wrote it for a chunk."""

    chunk: int
    text: str


@dataclass(frozen=True, slots=True)
class ScreenedChunk:
    """The filtered questions of a chunk with their costs; sent once per chunk.

    Args:
        error: reason for missing questions or similarities; None without an error.
        context: the chunk's context; None if none was requested or written.
    """

    chunk: int
    questions: Sequence[FilteredQuestion]
    usage: Usage = Usage()
    calls: int = 0
    error: str | None = None
    context: ChunkContext | None = None


TrialEvent = TriedChunk | WrittenQuestion | ScreenedChunk
Admit = Callable[[], Awaitable[None]]
"""Counts a call of the model before it starts; raises an error to refuse it."""


class Trial:
    """Processes a text like the ingest, up to the filter.

    Args:
        defaults: default options of collections.
        floors: lowest similarity that passes the filter, by embedding; None: all pass.
        chat_for: returns the model that generates the questions, charged to a tenant.
        embedders: embedders for interactive requests.
    """

    def __init__(
        self,
        defaults: IngestDefaults,
        floors: Mapping[str, float | None],
        chat_for: Callable[[str], ChatModel],
        embedders: Embedders,
    ) -> None:
        self._defaults = defaults
        self._floors = floors
        self._chat_for = chat_for
        self._embedders = embedders

    async def run(self, tenant: str, tried: TriedText, admit: Admit) -> AsyncGenerator[TrialEvent, None]:
        """Yield the chunks in order, then the questions of each and their results as they arrive.

        Closing this cancels running calls. If a chunk's questions cannot be generated, the others continue.

        Args:
            tenant: tenant charged for the calls.
            tried: the text and its options.
            admit: called before each call of the language model.
        """
        contents, characters = await asyncio.to_thread(_divided, self._defaults, tried)
        for chunk, content in enumerate(contents):
            yield TriedChunk(chunk, len(contents), characters, content)
        events = asyncio.Queue[WrittenQuestion | ScreenedChunk | asyncio.Task[None]]()
        model = _AdmittedChat(self._chat_for(tenant), admit)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def write(chunk: int, content: ChunkContent) -> None:
            async with gate:
                await self._write(model, chunk, content, tried, events.put_nowait)

        tasks = [asyncio.create_task(write(chunk, content)) for chunk, content in enumerate(contents)]
        for task in tasks:
            task.add_done_callback(events.put_nowait)
        try:
            ended = 0
            while ended < len(tasks):
                event = await events.get()
                if isinstance(event, asyncio.Task):
                    ended += 1
                    event.result()
                else:
                    yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(
        self,
        model: ChatModel,
        chunk: int,
        content: ChunkContent,
        tried: TriedText,
        report: Callable[[WrittenQuestion | ScreenedChunk], None],
    ) -> None:
        try:
            generated = await generate_questions(model, content, self._defaults.generation_of(tried.options))
        except BadQuestions as error:
            report(ScreenedChunk(chunk, [], error.usage, error.calls, error.message))
            return
        except ForeaskError as error:
            report(ScreenedChunk(chunk, [], error=error.message))
            return
        filtered = filter_by_text(generated.questions, content)
        for question in filtered:
            report(WrittenQuestion(chunk, question.text))
        screened = ScreenedChunk(chunk, filtered, generated.usage, generated.calls, context=generated.context)
        try:
            report(replace(screened, questions=await self._filter_similar(content, filtered, tried.embedding)))
        except ForeaskError as error:
            report(replace(screened, error=error.message))

    async def _filter_similar(
        self, content: ChunkContent, filtered: Sequence[FilteredQuestion], embedding: str
    ) -> list[FilteredQuestion]:
        """Filter questions by their similarity to the chunk, including questions already dropped by their words.

        Raises:
            ForeaskError: the provider rejects the text or a question, or is unavailable.
        """
        embedder = self._embedders.named(embedding)
        texts = [embedder.prefixes.passage(content.text), *embedder.prefixes.queries(q.text for q in filtered)]
        vectors = await embed_each(embedder, texts)
        for vector in vectors:
            if isinstance(vector, Permanent):
                raise vector
        rows = np.stack([vector for vector in vectors if not isinstance(vector, Permanent)])
        return filter_by_similarity(filtered, rows[1:], rows[0], self._floors[embedding])


@dataclass(frozen=True, slots=True)
class _AdmittedChat:
    """A `ChatModel` whose calls are admitted one by one."""

    chat: ChatModel
    admit: Admit

    @property
    def name(self) -> str:
        return self.chat.name

    async def complete(self, request: ChatRequest) -> Completion:
        await self.admit()
        return await self.chat.complete(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[str | Completion]:
        await self.admit()
        async for piece in self.chat.stream(request):
            yield piece


def _divided(defaults: IngestDefaults, tried: TriedText) -> tuple[Sequence[ChunkContent], int]:
    """Return the first chunks of the text, and the number of characters that contain them."""
    text = clean(tried.text[:MOST_CHARS])
    title = tried.title or title_of(text, None)
    contents = divide(ExtractedText(text, title, "text/markdown"), defaults.chunking_of(tried.options))
    if len(contents) <= MOST_CHUNKS:
        return contents, min(len(tried.text), MOST_CHARS)
    return contents[:MOST_CHUNKS], max(content.span[1] for content in contents[:MOST_CHUNKS])
