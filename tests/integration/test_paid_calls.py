"""Each call for which a provider may charge is an attempt, and is booked; no other call is."""

import io
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import SecretStr
from rich.console import Console, Group

from api.schemas.status import StatusView, UsageReply
from cli.output import _usage
from shared.domain.retry import Retry
from shared.domain.spending.budgets import BudgetUnit, NewBudget, Period, SetBy
from shared.domain.spending.usage import Usage
from shared.ingest.generate.bills import highest_usage
from shared.ingest.generate.question_list import request as first_request
from shared.ingest.index.stage import index_batch
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.costs import Costs
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.providers.chat import ChatRequest, Completion, Message, OpenAIChat
from shared.providers.embedding import OpenAIEmbedder
from shared.providers.provider import Provider
from shared.providers.replies.estimates import tokens_in
from shared.query.metering import MeteredChat, report_to
from tests.support.api import searchable, work
from tests.support.planted import guards
from tests.support.raw import raw_server, reply

KEEPER = "The lighthouse keeper lives alone on the northern cliff all the year round."
MESSAGE = {"content": '{"questions": ["Who lives on the cliff?"]}', "role": "assistant"}
VECTOR = {"embedding": [0.6, 0.8]}
CHAT = {"choices": [{"message": MESSAGE}], "usage": {"prompt_tokens": 90, "completion_tokens": 10}}
UNUSABLE = {**CHAT, "choices": []}
BLOCKED = {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}


@pytest.fixture
async def model(services, once):
    """Return a function from an address to the chat model there, for a chunk whose text is searchable."""
    await once(searchable, (KEEPER, "a.md"))
    async with AsyncExitStack() as stack:

        async def at(url):
            provider = await stack.enter_async_context(connected(url, "llm"))
            return OpenAIChat(provider, services.generator.model.name)

        yield at


@asynccontextmanager
async def connected(url, component="embedding"):
    provider = Provider(component=component, base_url=url, api_key=SecretStr("a-key"), timeout=timedelta(seconds=0.2))
    try:
        yield provider
    finally:
        await provider.aclose()


async def claim(services):
    """Claim the only chunk, and reserve its call; return None if no budget has room."""
    reserve_of = services.generator._reserve_of
    chunks = (await services.ledger[GenerateWork].claim(1, reserve_of=reserve_of)).chunks
    return chunks[0] if chunks else None


async def settle(services, chunk, model):
    outcome = await replace(services.generator, model=model).process(chunk)
    await services.ledger[GenerateWork].settle([outcome])
    return outcome


async def attempt(services, model):
    """Generate and settle the only chunk that is due."""
    chunk = await claim(services)
    return chunk, await settle(services, chunk, model)


def paid(server):
    """Return the bodies of the calls that a tenant is charged for."""
    return [body for body in server.bodies if "Reply with OK" not in str(body)]


async def make_due(services):
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now()"))


async def usage(client, kind="generate"):
    """Return the number of calls, of estimated calls and of tokens in `/v1/usage`."""
    items = UsageReply.model_validate_json((await client.get("/v1/usage")).content).items
    items = [item for item in items if item.kind == kind]
    tokens = sum(item.prompt_tokens + item.completion_tokens for item in items)
    return sum(item.calls for item in items), sum(item.estimated_calls for item in items), tokens


@guards(
    "shared/providers/errors/failures.py",
    "return interrupted(component)",
    "return unreachable(component)",
    means="a reply that breaks off is repeated for ever, without counting an attempt or the call",
    case="half",
)
@guards(
    "shared/ingest/generate/bills.py",
    "self._bill.add_failed(error.usage, highest_usage(request))",
    "pass",
    means="a reply that the provider charges for, and that cannot be used, is missing in the usage",
    case="half",
)
@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        pytest.param(b"", None, id="closed"),
        pytest.param(reply(CHAT, sent=0.5), None, id="half"),
        pytest.param(reply(CHAT)[:20], None, id="half a head"),
        pytest.param(b"nonsense\r\n\r\n", None, id="no HTTP"),
        pytest.param(None, None, id="silent"),
        pytest.param(reply(b'{"choices": [{"mess'), None, id="no JSON"),
        pytest.param(reply([]), None, id="no object"),
        pytest.param(reply({"choices": []}), None, id="no usage"),
        pytest.param(reply(UNUSABLE), 100, id="no choices"),
    ],
)
async def test_unusable_reply_is_booked_attempt(services, client, model, answer, reported):
    async with raw_server(lambda _: answer) as server:
        chunk, outcome = await attempt(services, await model(server.url))

    options = services.generator.defaults.generation_of(chunk.options)
    highest = highest_usage(first_request(chunk.content, options))
    estimated = highest.prompt_tokens + highest.completion_tokens
    assert len(paid(server)) == 1
    assert isinstance(outcome.decision, Retry)
    assert outcome.decision.burns_attempt
    assert await usage(client) == (1, reported is None, reported or estimated)


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        pytest.param(reply(BLOCKED, 429), False, id="429"),
        pytest.param(reply({"error": {"message": "who?"}}, 401), False, id="401"),
        pytest.param(reply({"error": {"message": "oops"}}, 500), True, id="500"),
    ],
)
async def test_refused_call_is_not_booked(services, client, model, answer, counts):
    async with raw_server(lambda _: answer) as server:
        _, outcome = await attempt(services, await model(server.url))

    assert outcome.decision.burns_attempt is counts
    assert await usage(client) == (0, 0, 0)


async def test_refused_connection_uses_no_attempt(services, client, model):
    async with raw_server(lambda _: b"") as server:
        pass

    _, outcome = await attempt(services, await model(server.url))

    assert not outcome.decision.burns_attempt
    assert await usage(client) == (0, 0, 0)


async def test_broken_replies_end_as_dead_letter(services, client, model):
    most = services.generator.policy.max_attempts

    async with raw_server(lambda _: reply(CHAT, sent=0.5)) as server:
        for _ in range(most):
            await make_due(services)
            _, outcome = await attempt(services, await model(server.url))

    assert outcome.decision.reason == f"gave up after {most} attempts: the llm provider interrupted its reply"
    assert (await usage(client))[:2] == (len(paid(server)), most) == (most, most)


async def test_estimated_costs_are_marked_in_status(services, client, model):
    async with raw_server(lambda _: b"") as server:
        await attempt(services, await model(server.url))
    await services.ledger[Costs].fold()
    await make_due(services)
    await work(services)

    status = StatusView.model_validate_json((await client.get("/v1/status")).content)

    name = services.generator.model.name
    generated = [(used.model, used.is_estimated, used.calls) for used in status.usage if used.kind == "generate"]
    assert sorted(generated) == [(name, False, 1), (name, True, 1)]
    tables = Console(file=io.StringIO(), width=200)
    tables.print(Group(*_usage(status.model_dump(mode="json"))))
    assert f"{name} (estimated)" in tables.file.getvalue()


@guards(
    "shared/ingest/generate/bills.py",
    "self._bill.add_failed(None, highest_usage(request))",
    "pass",
    means="calls that time out are paid beyond the budget",
)
async def test_possibly_paid_calls_exhaust_budget(services, client, model):
    first = services.generator._reserve_of(await claim(services)).usage
    most = 2 * (first.prompt_tokens + first.completion_tokens) + 1
    await services.ledger[Budgets].set(
        NewBudget("default", None, None, Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT, most)
    )
    async with raw_server(lambda _: None) as server:
        for _ in range(4):
            await make_due(services)
            if (chunk := await claim(services)) is not None:
                await settle(services, chunk, await model(server.url))

    (budget,) = await services.ledger[Budgets].for_tenant("default")
    assert len(server.bodies) == 2
    assert (budget.spent, budget.held, budget.is_exhausted) == (most - 1, 0, True)


class Faulty:
    """A model whose first reply is good; our code fails with the second one."""

    def __init__(self, name, error):
        self.name, self.error, self.calls = name, error, 0

    async def complete(self, _):
        self.calls += 1
        if self.calls > 1:
            raise self.error
        return Completion("no list", "stop", Usage(90, 10))


WITHOUT_USAGE = {"choices": [{"message": MESSAGE, "finish_reason": "stop"}]}
REFUSING = {"choices": [{"message": {"content": None, "refusal": "I cannot help with that."}}]}


@guards(
    "shared/providers/replies/chat.py",
    "if self._usage != Usage():",
    "if self._usage is not None:",
    means="calls of a server that reports no tokens are free of charge, and no budget is ever used up",
)
@pytest.mark.parametrize(
    ("answer", "written"),
    [
        pytest.param(WITHOUT_USAGE, MESSAGE["content"], id="no usage"),
        pytest.param(WITHOUT_USAGE | {"usage": {"prompt_tokens": 0, "total_tokens": 0}}, MESSAGE["content"], id="zero"),
        pytest.param(REFUSING, "I cannot help with that.", id="refusal"),
    ],
)
async def test_reply_without_usage_is_booked_by_estimate(services, client, model, answer, written):
    async with raw_server(lambda _: reply(answer)) as server:
        chunk, _ = await attempt(services, await model(server.url))

    sent = first_request(chunk.content, services.generator.defaults.generation_of(chunk.options))
    assert await usage(client) == (1, 1, sent.prompt_tokens + tokens_in([written]))


@pytest.mark.parametrize("streams", [False, True])
async def test_query_without_usage_is_reported_by_estimate(streams):
    total = Counter()
    request = ChatRequest((Message("user", "Who lives on the cliff?"),))
    thought = {"choices": [{"message": {"content": "A keeper.", "reasoning_content": "Hm. " * 30}}]}

    async with raw_server(lambda _: reply(thought)) as server, connected(server.url, "llm") as provider:
        report_to(lambda *spent: total.update({spent[:2]: spent[2].prompt_tokens + spent[2].completion_tokens}))
        chat = MeteredChat(OpenAIChat(provider, "model"))
        if streams:
            pieces = [event async for event in chat.stream(request)]
            assert pieces[0] == "A keeper."
        else:
            await chat.complete(request)
        report_to(None)

    assert total["generate", "model"] == request.prompt_tokens + tokens_in(["A keeper.", "Hm. " * 30])


async def test_embedding_without_usage_is_billed_by_estimate():
    bills = []
    vectors = reply({"data": [{"index": 0, **VECTOR}]})

    async with raw_server(lambda _: vectors) as server, connected(server.url) as provider:
        embedder = OpenAIEmbedder(provider, "model")
        await embedder.embed([KEEPER], lambda billed, *, is_estimated: bills.append((billed, is_estimated)))

    assert bills == [(Usage(tokens_in([KEEPER])), True)]


@guards(
    "shared/ingest/generate/stage.py",
    "except Exception as raised:",
    "except ForeaskError as raised:",
    means="a bug ends attempts without booking their paid calls, until the chunk is set aside",
)
async def test_fault_of_ours_is_one_booked_attempt(services, client, once):
    await once(searchable, (KEEPER, "a.md"))
    model = Faulty(services.generator.model.name, AttributeError("'list' object has no attribute 'replace'"))

    _, outcome = await attempt(services, model)

    assert outcome.decision.burns_attempt
    assert "AttributeError" in outcome.decision.reason
    assert await usage(client) == (1, 0, 100)


@pytest.mark.parametrize(
    ("answer", "booked"),
    [
        pytest.param(b"", True, id="closed"),
        pytest.param(reply({"data": []})[:-3], True, id="half"),
        pytest.param(reply({"data": [], "usage": {"prompt_tokens": 20}}), True, id="no vectors"),
        pytest.param(reply({"data": [{"index": 0, "embedding": True}]}), True, id="unreadable"),
        pytest.param(reply(BLOCKED, 429), False, id="429"),
    ],
)
async def test_embedding_without_vectors_is_booked_attempt(services, client, library, answer, booked):
    await library.add(KEEPER, "a.md")
    await work(services, "parse")
    batch = await services.ledger[IndexWork].claim(1)
    async with raw_server(lambda _: answer) as server, connected(server.url) as provider:
        embedder = OpenAIEmbedder(provider, services.indexer.embedder.name)
        outcomes = await index_batch(replace(services.indexer, embedder=embedder), batch)
    await services.ledger[IndexWork].settle_failed(outcomes)

    assert outcomes[0].decision.burns_attempt is booked
    calls, _, tokens = await usage(client, "embed")
    assert (calls, tokens > 0) == (int(booked), booked)


@pytest.mark.parametrize(
    ("vectors", "requests"),
    [
        pytest.param(lambda texts: texts[:1], [3, 1, 1, 1, 1, 1], id="first only"),
        pytest.param(lambda texts: texts[:2], [3, 1, 1, 1, 2], id="one lost"),
    ],
)
async def test_server_with_fewer_vectors_embeds_single_texts(vectors, requests):
    bills = []

    def answer(body):
        sent = vectors(body["input"])
        return reply({"data": [{"index": i, **VECTOR} for i, _ in enumerate(sent)], "usage": {"prompt_tokens": 10}})

    async with raw_server(answer) as server, connected(server.url) as provider:
        embedder = OpenAIEmbedder(provider, "model")
        of_three = await embedder.embed(["one", "two", "three"], lambda usage, **_: bills.append(usage.prompt_tokens))
        of_two = await embedder.embed(["four", "five"], lambda usage, **_: bills.append(usage.prompt_tokens))

    assert (len(of_three), len(of_two)) == (3, 2)
    assert [len(body["input"]) for body in server.bodies] == requests
    assert bills == [10] * len(requests)
