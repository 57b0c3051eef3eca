"""The quality of answers: citations, words of the labelled answers, and refusals."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from foreask_evaluation.labelled import LabelledCorpus
from foreask_evaluation.services import EvaluationServices, retry_transient
from shared.domain.errors import Permanent
from shared.query.answer import Answer, Answerer, Passage, prompts
from shared.query.calibrate.significance import interval
from shared.query.retrieve import RetrievedChunk

_EXTRACTIVE_IN_FLIGHT = 2

Retrieve = Callable[[str], Awaitable[Sequence[RetrievedChunk]]]


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """The grade of one answer; None if the set has no data for it.

    Args:
        answered: whether the answer answers the question; False if it says that the documents do not.
        valid: whether it cites at least one passage, and only passages from the prompt.
        relevant: whether it cites a passage that answers the question.
        recalled: whether it contains one of the labelled answers.
        tokens: tokens that the answer cost.
    """

    answered: bool
    valid: bool | None = None
    relevant: bool | None = None
    recalled: bool | None = None
    tokens: int = 0


async def grade_answers(
    services: EvaluationServices, answerer: Answerer, labelled: LabelledCorpus, retrieve: Retrieve
) -> dict[str, Any]:
    """Answer every question from the chunks that are retrieved for it, and grade the answers.

    Returns:
        `{"form", "questions", "unanswerable", "failed", "tokens"}` and shares with their bounds: `answered`,
        `citations_valid` and `cites_answering_passage` of the given answers, `answer_recall` of questions with labelled
        answers, and `refused` of the unanswerable questions; None if there is nothing to grade.
    """
    questions = {**labelled.queries, **labelled.unanswerable}
    judged = await _grade_all(services, answerer, labelled, retrieve, questions)
    answerable = [judged[query] for query in labelled.queries if query in judged]
    unanswerable = [judged[query] for query in labelled.unanswerable if query in judged]
    return {
        "form": answerer.form,
        "questions": len(labelled.queries),
        "unanswerable": len(labelled.unanswerable),
        "failed": len(questions) - len(judged),
        "tokens": sum(answer.tokens for answer in judged.values()),
        "answered": _share(answer.answered for answer in answerable),
        "citations_valid": _share(answer.valid for answer in answerable),
        "cites_answering_passage": _share(answer.relevant for answer in answerable),
        "answer_recall": _share(answer.recalled for answer in answerable),
        "refused": _share(not answer.answered for answer in unanswerable),
    }


async def _grade_all(
    services: EvaluationServices,
    answerer: Answerer,
    labelled: LabelledCorpus,
    retrieve: Retrieve,
    questions: Mapping[str, str],
) -> dict[str, GradedAnswer]:
    """Return the grades by query, without questions that the provider refuses."""
    generative = answerer.form == "generative"
    gate = asyncio.Semaphore(services.settings.llm_max_in_flight if generative else _EXTRACTIVE_IN_FLIGHT)
    judged: dict[str, GradedAnswer] = {}
    done = 0

    async def grade(query: str, question: str) -> None:
        nonlocal done
        async with gate:
            try:
                chunks = await retrieve(question)
                judged[query] = _grade(labelled, query, chunks, await _answer(services, answerer, question, chunks))
            except Permanent:
                pass  # counted as failed
        done += 1
        services.progress("answering", done, len(questions))

    await asyncio.gather(*(grade(query, question) for query, question in questions.items()))
    return judged


async def _answer(
    services: EvaluationServices, answerer: Answerer, question: str, chunks: Sequence[RetrievedChunk]
) -> Answer:
    """Answer from chunks. A paid answer is cached at once, under the request."""
    passages = [Passage.of(number, chunk) for number, chunk in enumerate(chunks, 1)]

    async def answer() -> Answer:
        return await retry_transient(lambda: answerer.answer(question, passages), services.settings.tuning.max_attempts)

    if answerer.form == "extractive":
        return await answer()
    model = str(services.settings.llm_model)
    key = hashlib.sha256(orjson.dumps(prompts.request(question, passages).body(model))).digest()
    cached = services.cache.load_answer(key)
    if cached is None:
        cached = await answer()
        services.cache.save_answer(key, cached)
    return cached


def _grade(labelled: LabelledCorpus, query: str, chunks: Sequence[RetrievedChunk], answer: Answer) -> GradedAnswer:
    tokens = answer.usage.prompt_tokens + answer.usage.completion_tokens
    recalled = _recalled(labelled.answers.get(query), answer)
    if not answer.found:
        return GradedAnswer(answered=False, recalled=recalled, tokens=tokens)
    scores = labelled.judgements.get(query, {})
    relevant = any(scores.get(chunks[number - 1].external_id, 0) > 0 for number in answer.cited)
    valid = bool(answer.cited) and not answer.removed_citations
    return GradedAnswer(answered=True, valid=valid, relevant=relevant, recalled=recalled, tokens=tokens)


def _recalled(known_answers: Iterable[str] | None, answer: Answer) -> bool | None:
    if known_answers is None:
        return None
    text = _plain(answer.text)
    return answer.found and any(_plain(known) in text for known in known_answers)


def _share(judgements: Iterable[bool | None]) -> dict[str, float] | None:
    values = [float(value) for value in judgements if value is not None]
    return asdict(interval(values)) if values else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
