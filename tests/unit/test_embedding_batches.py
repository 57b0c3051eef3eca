import asyncio
from contextlib import suppress

import numpy as np
import pytest

from shared.domain.errors import Refused, Unavailable
from shared.domain.spending.usage import Usage
from shared.providers import batching
from shared.providers.batching import BatchingEmbedder
from shared.providers.embedding import free
from tests.support.waiting import eventually


class WaitingEmbedder:
    """An embedder whose requests wait for the test's answer; the vector of a text is its length."""

    name = "model"

    def __init__(self):
        self.requests = []
        self._answers = []

    async def dimensions(self):
        return 1

    async def embed(self, texts, billed=free):
        self.requests.append(list(texts))
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        await answer
        billed(Usage(len(texts)))
        return np.array([[float(len(text))] for text in texts], dtype=np.float32)

    def answer(self, number, error=None):
        if error is None:
            self._answers[number].set_result(None)
        else:
            self._answers[number].set_exception(error)

    def is_cancelled(self, number):
        return self._answers[number].cancelled()

    def end(self):
        for answer in self._answers:
            answer.cancel()


@pytest.fixture
async def model():
    model = WaitingEmbedder()
    yield model
    model.end()
    await settled()


@pytest.fixture
def embedder(model, monkeypatch):
    monkeypatch.setattr(batching, "_WAIT_SECONDS", 60)
    return BatchingEmbedder(model)


async def start_embedding(embedder, *callers):
    """Start an embedding task for each caller in order, and wait until the loop is idle."""
    tasks = []
    for texts in callers:
        tasks.append(asyncio.create_task(embedder.embed(texts)))
        await settled()
    return tasks


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


async def lengths(task):
    return (await task)[:, 0].tolist()


async def test_first_caller_does_not_wait(model, embedder):
    first, second = await start_embedding(embedder, ["one"], ["three"])

    assert model.requests == [["one"], ["three"]]
    model.answer(1)
    model.answer(0)
    assert [await lengths(first), await lengths(second)] == [[3], [5]]


async def test_waiting_questions_share_one_request(model, embedder):
    first, second, third, fourth = await start_embedding(embedder, ["1"], ["22"], ["333", "4444"], ["55555"])
    assert model.requests == [["1"], ["22"]]

    model.answer(0)
    await settled()
    assert model.requests[2:] == [["333", "4444", "55555"]]
    model.answer(2)
    model.answer(1)

    assert [await lengths(task) for task in (first, second, third, fourth)] == [[1], [2], [3, 4], [5]]


async def test_simultaneous_callers_share_a_request(model, embedder):
    tasks = [asyncio.create_task(embedder.embed([text])) for text in ("1", "22")]
    await settled()

    assert model.requests == [["1", "22"]]
    model.answer(0)
    assert [await lengths(task) for task in tasks] == [[1], [2]]


async def test_callers_wait_briefly_for_a_batch(model, embedder, monkeypatch):
    monkeypatch.setattr(batching, "_WAIT_SECONDS", 0.01)
    tasks = await start_embedding(embedder, ["1"], ["22"], ["333"])
    assert len(model.requests) == 2

    await eventually(lambda: model.requests[2:] == [["333"]])
    for number, task in enumerate(tasks):
        model.answer(number)
        await task


async def test_error_reaches_every_caller(model, embedder):
    tasks = await start_embedding(embedder, ["1"], ["22"], ["333"], ["4444"])
    model.answer(0)
    await settled()

    model.answer(2, Unavailable("unavailable", component="embedding"))
    await settled()

    assert len(model.requests) == 3
    for task in tasks[2:]:
        with pytest.raises(Unavailable, match="unavailable"):
            await task
    model.answer(1)
    await asyncio.gather(*tasks[:2])


async def test_rejected_text_fails_only_its_caller(model, embedder):
    _, _, third, fourth = await start_embedding(embedder, ["1"], ["22"], ["bad"], ["4444"])
    model.answer(0)
    await settled()
    model.answer(2, Refused("one of them"))
    await settled()
    assert model.requests[3:] == [["bad"], ["4444"]]

    model.answer(3, Refused("this one"))
    model.answer(4)

    with pytest.raises(Refused, match="this one"):
        await third
    assert await lengths(fourth) == [4]


async def test_rejected_single_caller_request_is_not_resent(model, embedder):
    (task,) = await start_embedding(embedder, ["bad"])
    model.answer(0, Refused("this one"))
    await settled()

    assert len(model.requests) == 1
    with pytest.raises(Refused):
        await task


async def cancel(task):
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_cancelled_caller_does_not_affect_others(model, embedder):
    _, _, third, fourth, fifth = await start_embedding(embedder, ["1"], ["22"], ["333"], ["4444"], ["55555"])
    await cancel(third)
    model.answer(0)
    await settled()
    await cancel(fourth)

    model.answer(2)

    assert await lengths(fifth) == [5]


async def test_request_without_waiting_callers_is_cancelled(model, embedder):
    first, second = await start_embedding(embedder, ["1"], ["22"])
    await cancel(first)
    await settled()

    assert model.is_cancelled(0)
    assert not model.is_cancelled(1)
    model.answer(1)
    assert await lengths(second) == [2]


async def test_cancelled_request_accepts_no_callers(model, embedder):
    _, _, third = await start_embedding(embedder, ["1"], ["22"], ["333"])
    await cancel(third)
    (fourth,) = await start_embedding(embedder, ["4444"])
    model.answer(0)
    await settled()

    assert model.requests[2:] == [["4444"]]
    model.answer(2)
    assert await lengths(fourth) == [4]


async def test_batch_stays_within_limits_of_one_request(model, embedder, monkeypatch):
    monkeypatch.setattr(batching, "_MAX_INPUTS", 3)
    monkeypatch.setattr(batching, "_MAX_TOKENS", 100)
    await start_embedding(embedder, ["1"], ["1"], ["1", "1"], ["1", "1"], ["x" * 297], ["x" * 30])
    model.answer(0)
    await settled()

    assert [len(request) for request in model.requests[2:]] == [2, 2, 1, 1]


async def test_billed_caller_has_own_request(model, embedder):
    bills = []
    await start_embedding(embedder, ["1"], ["22"])
    tasks = [asyncio.create_task(embedder.embed(["333"], bills.append)), asyncio.create_task(embedder.embed(["4444"]))]
    await settled()

    assert model.requests[2:] == [["333"]]
    model.answer(2)
    model.answer(0)
    await settled()
    model.answer(3)
    assert [await lengths(task) for task in tasks] == [[3], [4]]
    assert bills == [Usage(1)]
