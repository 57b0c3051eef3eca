"""A chunk's questions are stored once, with their completion; its results record which questions passed."""

import pytest

from shared.domain.stages.indexing import IndexOutcome
from shared.ledger.documents.documents import Documents
from shared.ledger.work.indexing import IndexWork
from tests.integration.test_interleavings import run
from tests.support.api import work


def results_of(*questions):
    return [
        {"text": text, "passed": reason is None, "reason": reason, "similarity": 0.5 if reason is None else None}
        for text, reason in questions
    ]


async def indexed(services, make_results):
    (chunk,) = await services.ledger[IndexWork].claim(10)
    questions = make_results(chunk.questions)
    passed = sum(question["passed"] for question in questions)
    await services.ledger[IndexWork].settle([IndexOutcome(chunk, questions, passed)])
    (detail,) = await services.ledger[Documents].chunks("default", chunk.document_id)
    own = ("text", "passed", "reason", "similarity")
    return chunk.questions, tuple({name: getattr(question, name) for name in own} for question in detail.questions)


async def test_completed_questions_are_not_stored_twice(services, library, provider):
    await library.add("A text about the harbour and its ships.")
    await work(services, "parse", "index", "generate")

    # The indexer lists passed questions first.
    questions, shown = await indexed(services, lambda q: results_of(*((t, None) for t in q[1:]), (q[0], "too short")))

    assert await run(services, "SELECT questions FROM chunk_questions") == [(None,)]
    assert shown == tuple(results_of((questions[0], "too short"), *((text, None) for text in questions[1:])))


@pytest.mark.parametrize("change", [lambda q: q[:-1], lambda q: [*q[:-1], q[-1].upper()], lambda q: [q[0], *q]])
async def test_changed_question_texts_are_stored(services, library, provider, change):
    await library.add("A text about the harbour and its ships.")
    await work(services, "parse", "index", "generate")

    questions, shown = await indexed(services, lambda q: results_of(*((text, None) for text in change(q))))

    assert [question["text"] for question in shown] == list(change(list(questions)))


async def test_given_questions_are_stored_with_chunk(services, library, provider):
    await library.add("A text about the harbour and its ships.", questions=["When does the harbour open?"])
    await work(services)

    ((questions, content_key),) = await run(services, "SELECT questions, content_key FROM chunk_questions")
    assert (questions, content_key) == (["When does the harbour open?"], None)
