"""Metering: a query's tokens are reported as they are used, even if its client disconnects."""

import asyncio
from collections import Counter

import pytest

from shared.domain.errors import Unavailable
from shared.domain.spending.usage import Usage
from shared.providers.chat import ChatRequest, Completion, Message
from shared.query.metering import MeteredChat, report_to
from tests.support.planted import guards

REQUEST = ChatRequest((Message("user", "How many days of leave are there?"),), max_tokens=100)
ESTIMATE = REQUEST.prompt_tokens
BILLED = Usage(20, 5)


class Chat:
    """A model that writes two pieces, then its usage; or fails."""

    name = "model"

    def __init__(self, error=None):
        self.error = error

    async def complete(self, request):
        if self.error:
            raise self.error
        return Completion("Thirty.", "stop", BILLED)

    async def stream(self, request):
        yield "Thir"
        yield "ty."
        yield Completion("Thirty.", "stop", BILLED)


@pytest.fixture
def spent():
    """Return the reported tokens by kind and model."""
    total = Counter()

    def report(kind, model, usage):
        total[kind, model] += usage.prompt_tokens + usage.completion_tokens

    report_to(report)
    yield total
    report_to(None)


def run(coroutine):
    asyncio.run(coroutine)


def test_complete_call_reports_billed_tokens(spent):
    run(MeteredChat(Chat()).complete(REQUEST))
    assert spent == {("generate", "model"): 25}


def test_failed_call_reports_its_prompt(spent):
    with pytest.raises(Unavailable):
        run(MeteredChat(Chat(Unavailable("down", component="llm"))).complete(REQUEST))
    assert spent == {("generate", "model"): ESTIMATE}


def test_complete_stream_reports_billed_tokens(spent):
    async def read():
        assert [event async for event in MeteredChat(Chat()).stream(REQUEST)] == [
            "Thir",
            "ty.",
            Completion("Thirty.", "stop", BILLED),
        ]

    run(read())
    assert spent == {("generate", "model"): 25}


def test_open_stream_reports_prompt_after_first_piece(spent):
    async def read_one():
        stream = MeteredChat(Chat()).stream(REQUEST)
        await anext(stream)
        assert spent == {("generate", "model"): ESTIMATE}
        await stream.aclose()

    run(read_one())


@guards(
    "shared/query/metering.py",
    "pieces += 1",
    "pieces += 0",
    means="a disconnected client does not pay for the received part of an answer",
)
def test_closed_stream_reports_prompt_and_received_pieces(spent):
    async def read_one():
        stream = MeteredChat(Chat()).stream(REQUEST)
        await anext(stream)
        await stream.aclose()

    run(read_one())
    assert spent == {("generate", "model"): ESTIMATE + 1}
