"""What the answers are worth, not the ranking: citations, the known answer's words, and refusals."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from evaluation.labelled import LabelledSet
from evaluation.tools import Tools, patiently
from shared.domain.errors import Permanent
from shared.query.answer import Answer, Answerer, Passage, prompts
from shared.query.calibrate.significance import interval
from shared.query.retrieve import RetrievedChunk

Retrieve = Callable[[str], Awaitable[Sequence[RetrievedChunk]]]


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer, judged; None where the set cannot tell.

    Args:
        answered: it did not say that the documents do not answer.
        valid: it cites, and cites nothing that it was not given.
        relevant: it cites a passage that answers.
        recalled: it contains one of the known answers.
    """

    answered: bool
    valid: bool | None = None
    relevant: bool | None = None
    recalled: bool | None = None


async def answers_of(tools: Tools, answerer: Answerer, labelled: LabelledSet, retrieve: Retrieve) -> dict[str, Any]:
    """Answer every question from what is retrieved for it.

    Returns:
        `{"form", "questions", "unanswerable", "failed", "tokens"}` and shares with their bounds: `answered`,
        `citations_valid` and `cites_answering_passage` of what was answered, `answer_recall` of questions whose answer
        is known, and `refused` of the unanswerable ones; None where there are none to judge.
    """
    asked = {**labelled.queries, **labelled.unanswerable}
    gate = asyncio.Semaphore(tools.settings.llm_max_in_flight if answerer.form == "generative" else 2)
    done = 0

    async def answered(query: str, question: str) -> tuple[str, Sequence[RetrievedChunk], Answer | None]:
        nonlocal done
        async with gate:
            try:
                chunks = await retrieve(question)
                answer = await _answer(tools, answerer, question, chunks)
            except Permanent:
                chunks, answer = [], None
        done += 1
        tools.progress("answering", done, len(asked))
        return query, chunks, answer

    replies = await asyncio.gather(*(answered(*item) for item in asked.items()))
    judged = {query: _judge(labelled, query, chunks, answer) for query, chunks, answer in replies if answer}
    own = [judged[query] for query in labelled.queries if query in judged]
    usage = [answer.usage for _, _, answer in replies if answer]
    return {
        "form": answerer.form,
        "questions": len(labelled.queries),
        "unanswerable": len(labelled.unanswerable),
        "failed": len(asked) - len(judged),
        "tokens": sum(one.prompt_tokens + one.completion_tokens for one in usage),
        "answered": _share(one.answered for one in own),
        "citations_valid": _share(one.valid for one in own),
        "cites_answering_passage": _share(one.relevant for one in own),
        "answer_recall": _share(one.recalled for one in own),
        "refused": _share(not judged[query].answered for query in labelled.unanswerable if query in judged),
    }


async def _answer(tools: Tools, answerer: Answerer, question: str, chunks: Sequence[RetrievedChunk]) -> Answer:
    """Answer from chunks; an answer that was paid for is kept at once, until what would be sent is another."""
    passages = [Passage(n, c.text, c.content.title, c.content.heading_path, c.score) for n, c in enumerate(chunks, 1)]

    async def answer() -> Answer:
        return await patiently(lambda: answerer.answer(question, passages), tools.settings.tuning.max_attempts)

    if answerer.form == "extractive":
        return await answer()
    model = str(tools.settings.llm_model)
    key = hashlib.sha256(orjson.dumps(prompts.request(question, passages).body(model))).digest()
    kept = tools.kept.answer(key)
    if kept is None:
        kept = await answer()
        tools.kept.keep_answer(key, kept)
    return kept


def _judge(labelled: LabelledSet, query: str, chunks: Sequence[RetrievedChunk], answer: Answer) -> JudgedAnswer:
    known = labelled.answers.get(query)
    text = _plain(answer.text)
    recalled = None if known is None else answer.found and any(_plain(one) in text for one in known)
    if not answer.found:
        return JudgedAnswer(answered=False, recalled=recalled)
    scores = labelled.judgements.get(query, {})
    relevant = any(scores.get(chunks[number - 1].external_id, 0) > 0 for number in answer.cited)
    valid = bool(answer.cited) and not answer.removed_citations
    return JudgedAnswer(answered=True, valid=valid, relevant=relevant, recalled=recalled)


def _share(judged: Iterable[bool | None]) -> dict[str, float] | None:
    values = [float(one) for one in judged if one is not None]
    return asdict(interval(values)) if values else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
