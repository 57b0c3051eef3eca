"""The questions of a set: those that it brings, or those that a model writes, filtered as at ingest."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.labelled import LabelledPassage, LabelledSet
from evaluation.layouts import TENANT
from evaluation.tools import Tools, patiently
from evaluation.vectors import embed_all
from shared.domain.errors import Permanent
from shared.domain.records import CollectionOptions
from shared.domain.usage import Usage
from shared.ingest.generate import (
    BadQuestions,
    ChunkInput,
    FilteredQuestion,
    GeneratedQuestions,
    content_key,
    filter_by_similarity,
    filter_by_text,
    floor_for,
    generate_questions,
)
from shared.ingest.generate.options import generation_options
from shared.providers.chat import ChatModel


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """Questions by the passage's id, who wrote them, and what they cost, in this run or an earlier one."""

    of: Mapping[str, tuple[str, ...]]
    source: str | None = None
    calls: int = 0
    tokens: int = 0
    failed: int = 0  # passages for which the model wrote none that could be read

    @property
    def count(self) -> int:
        return sum(map(len, self.of.values()))

    @property
    def passages(self) -> int:
        """How many passages have one."""
        return sum(1 for own in self.of.values() if own)


async def questions_of(tools: Tools, labelled: LabelledSet) -> QuestionSource:
    """Return the set's own questions; where it has no file of them, have them written if there is a model."""
    if labelled.questions is not None:
        return QuestionSource(labelled.questions, "generated.jsonl")
    if tools.chat is None:
        return QuestionSource({})
    answers = await _asked(tools, tools.chat, labelled.passages)
    filtered = {
        passage.id: [question for question in filter_by_text(answer.questions, _subject(passage)) if question.passed]
        for passage, answer in answers
    }
    kept = await _near(tools, labelled.passages, filtered)
    usage = [answer.usage for _, answer in answers]
    return QuestionSource(
        kept,
        tools.chat.name,
        calls=sum(answer.calls for _, answer in answers),
        tokens=sum(one.prompt_tokens + one.completion_tokens for one in usage),
        failed=sum(not answer.questions for _, answer in answers),
    )


async def _asked(
    tools: Tools, chat: ChatModel, passages: Sequence[LabelledPassage]
) -> list[tuple[LabelledPassage, GeneratedQuestions]]:
    """Have the questions of every passage written that has none kept; what is paid for is kept at once."""
    options = generation_options(tools.settings, CollectionOptions(), chat.name)
    gate = asyncio.Semaphore(tools.settings.llm_max_in_flight)
    done = 0

    async def asked(passage: LabelledPassage) -> tuple[LabelledPassage, GeneratedQuestions]:
        nonlocal done
        subject = _subject(passage)
        key = content_key(TENANT, chat.name, subject, options)
        answer = tools.kept.asked(key)
        if answer is None:
            async with gate:
                answer = await _answer(tools, chat, subject)
            tools.kept.keep_asked(key, answer)
        done += 1
        tools.progress("generating", done, len(passages))
        return passage, answer

    return list(await asyncio.gather(*map(asked, passages)))


async def _answer(tools: Tools, chat: ChatModel, subject: ChunkInput) -> GeneratedQuestions:
    options = generation_options(tools.settings, CollectionOptions(), chat.name)
    try:
        return await patiently(lambda: generate_questions(chat, subject, options), tools.settings.tuning.max_attempts)
    except BadQuestions as error:
        return GeneratedQuestions((), error.usage, error.calls)
    except Permanent:
        return GeneratedQuestions((), Usage(), calls=1)


async def _near(
    tools: Tools, passages: Sequence[LabelledPassage], filtered: Mapping[str, Sequence[FilteredQuestion]]
) -> dict[str, tuple[str, ...]]:
    """Drop what is far from its own passage or means the same as an earlier question."""
    texts = [passage.text for passage in passages] + [q.text for own in filtered.values() for q in own]
    await embed_all(tools, "embedding", texts)
    floor = tools.settings.tuning.similarity_floor
    floor = floor if floor is not None else floor_for(tools.embedder.name)
    kept: dict[str, tuple[str, ...]] = {}
    for passage in passages:
        vectors = tools.kept.vectors(tools.vectors_of, [passage.text, *(q.text for q in filtered[passage.id])])
        own = [question for question in filtered[passage.id] if question.text in vectors]
        if own and passage.text in vectors:
            own = filter_by_similarity(own, np.stack([vectors[q.text] for q in own]), vectors[passage.text], floor)
        kept[passage.id] = tuple(question.text for question in own if question.passed)
    return kept


def _subject(passage: LabelledPassage) -> ChunkInput:
    return ChunkInput(passage.text, passage.title)
