"""A chunk's questions are written once, with their completion; its verdicts say which of them passed."""

import pytest

from shared.domain.outcomes import IndexOutcome
from tests.integration.test_interleavings import run
from tests.support.api import work


def judged(*questions):
    return [
        {"text": text, "passed": reason is None, "reason": reason, "similarity": 0.5 if reason is None else None}
        for text, reason in questions
    ]


async def indexed(services, verdicts):
    (chunk,) = await services.ledger.work.claim_to_index(10)
    questions = verdicts(chunk.questions)
    passed = sum(question["passed"] for question in questions)
    await services.ledger.work.settle_indexed([IndexOutcome(chunk, questions, passed)])
    (detail,) = await services.ledger.documents.chunks("default", chunk.document_id)
    own = ("text", "passed", "reason", "similarity")
    return chunk.questions, tuple({name: getattr(question, name) for name in own} for question in detail.questions)


async def test_completed_questions_are_not_stored_twice(services, library, provider):
    await library.add("A text about the harbour and its ships.")
    await work(services, "parse", "index", "generate")

    # The indexer names the questions that passed first.
    questions, told = await indexed(services, lambda q: judged(*((t, None) for t in q[1:]), (q[0], "too short")))

    assert await run(services, "SELECT questions FROM chunk_questions") == [(None,)]
    assert told == tuple(judged((questions[0], "too short"), *((text, None) for text in questions[1:])))


@pytest.mark.parametrize("change", [lambda q: q[:-1], lambda q: [*q[:-1], q[-1].upper()], lambda q: [q[0], *q]])
async def test_other_texts_are_written(services, library, provider, change):
    await library.add("A text about the harbour and its ships.")
    await work(services, "parse", "index", "generate")

    questions, told = await indexed(services, lambda q: judged(*((text, None) for text in change(q))))

    assert [question["text"] for question in told] == list(change(list(questions)))


async def test_questions_that_came_with_their_document_are_written(services, library, provider):
    await library.add("A text about the harbour and its ships.", questions=["When does the harbour open?"])
    await work(services)

    ((questions, content_key),) = await run(services, "SELECT questions, content_key FROM chunk_questions")
    assert (questions, content_key) == (["When does the harbour open?"], None)
