"""Limits of a key, and daily budgets of queries: other keys and tenants are not affected."""

import time
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from shared.broker.tenant_use import TenantUse
from shared.domain.access.keys import KeyLimits
from shared.domain.spending.usage import Usage
from shared.http.access.query_budgets import QueryBudgets
from shared.http.problems import TooManyRequests
from shared.query import metering
from shared.settings import TenantLimits
from tests.conftest import Library
from tests.support.api import as_tenant, calling, events_of, with_keys, work
from tests.support.clock import ManualClock
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually

KEY = uuid4()
ALICE, BOB = as_tenant("alice"), as_tenant("bob")
QUESTION = {"question": "How many days of leave are there?"}
CHAT = {
    "model": "default",
    "messages": [
        {"role": "user", "content": "What is leave?"},
        {"role": "assistant", "content": "Free days."},
        {"role": "user", "content": "How many are there?"},
    ],
}
STORE = "/v1/vector_stores/default/search"
ADAPTERS = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"model": "default", "input": CHAT["messages"]},
    STORE: {"query": QUESTION["question"]},
    "/retrieval": {
        "knowledge_id": "default",
        "query": QUESTION["question"],
        "retrieval_setting": {"top_k": 3, "score_threshold": 0.0},
    },
}
TRIED = {"text": "# Leave\n\nThirty days of leave." + "\n\n# Pay\n\nSalaries are monthly." * 99, "chunk_max_chars": 200}
COMPARED = {"questions": ["How much leave?"], "texts": [{"text": "Thirty days of leave."}]}


async def fill(services):
    for tenant in ("alice", "bob"):
        await Library(services, tenant).add("# Leave\n\nEverybody has thirty days of leave a year.")
    await work(services)


@pytest.fixture(autouse=True)
async def filled(once):
    """Give each tenant a document, without keys, feedback or used budgets."""
    await once(fill)


def patient(url):
    """Return counts that wait for a busy broker: a request would continue without it after 0.25 s."""
    return TenantUse(url, timeout=timedelta(seconds=TIMEOUT_SECONDS))


@pytest.fixture
async def services(services, settings):
    async with aclosing(patient(settings.redis_url.get_secret_value())) as use:
        yield replace(services, tenant_use=use)


@pytest.fixture
async def client(services, settings):
    async with calling(with_keys(settings), services) as client:
        yield client


async def key(client, name="website", scopes=("ask",), **limits):
    """Create a key with limits, and return its headers."""
    body = {"name": name, "scopes": scopes, "limits": limits or None}
    reply = await client.post("/v1/keys", json=body, headers=ALICE)
    assert reply.status_code == 201, reply.text
    return {"authorization": f"Bearer {reply.json()['key']}"}


async def retrieve(client, headers, **more):
    return await client.post("/v1/retrieve", json=QUESTION | more, headers=headers)


def accounts_of(client):
    """Return the tokens that this process has counted, by owner; unsent ones too."""
    accounts = client._transport.app.state.api.query_budgets._accounts.values()
    assert all(not account.unsent for account in accounts)
    return {account.kind: account.tokens for account in accounts}


async def settled(client):
    budgets = client._transport.app.state.api.query_budgets
    await eventually(lambda: budgets._sending is None and not any(a.unsent for a in budgets._accounts.values()))


async def test_key_over_rate_limit_blocks_no_other_key(client):
    website, other = await key(client, requests_per_second=0.01), await key(client, "other")

    replies = [await retrieve(client, website) for _ in range(2)]

    assert [reply.status_code for reply in replies] == [200, 429]
    assert replies[1].json()["detail"].startswith("This key may send 0.01 requests per second")
    assert int(replies[1].headers["retry-after"]) > 1
    assert (await retrieve(client, other)).status_code == 200


async def test_used_up_key_budget_rejects_queries_until_midnight(client, services, settings):
    website, other = await key(client, tokens_per_day=5), await key(client, "other", tokens_per_day=1_000_000)
    assert (await retrieve(client, website)).status_code == 200
    await settled(client)

    requests = {"/v1/retrieve": QUESTION, "/v1/query": QUESTION, "/v1/similarity": COMPARED}
    for address, body in requests.items():
        refused = await client.post(address, json=body, headers=website)
        assert refused.status_code == 429, address
        assert refused.json()["detail"] == (
            "The queries of this key may spend 5 tokens per day, which are used up: continue after midnight in UTC."
        )
        assert 0 < int(refused.headers["retry-after"]) <= 24 * 60 * 60
    for address, body in ADAPTERS.items():
        assert (await client.post(address, json=body, headers=website)).status_code == 429, address
    assert (await retrieve(client, other)).status_code == 200
    async with calling(with_keys(settings), services) as process:  # another process of the API
        assert (await retrieve(process, website)).status_code == 429


async def test_budget_counts_every_model_call_of_query(client, provider):
    website = await key(client, tokens_per_day=1_000_000)
    spent = [0]

    async def spend(address, body):
        reply = await client.post(address, json=body, headers=website)
        assert reply.status_code == 200, reply.text
        await settled(client)
        spent.append(accounts_of(client)["key"])
        return spent[-1] - spent[-2]

    embedded = await spend("/v1/retrieve", QUESTION)
    assert embedded == len(QUESTION["question"]) // 3 + 1
    rewritten = await spend("/v1/retrieve", QUESTION | {"rewrite": {"queries": 2}})
    answered = await spend("/v1/query", QUESTION)
    streamed = await spend("/v1/query", QUESTION | {"stream": True})
    condensed = await spend("/v1/chat/completions", CHAT)
    responded = await spend("/v1/responses", ADAPTERS["/v1/responses"])
    # Other questions of the same length: vectors of earlier ones are cached.
    first, second, third = (QUESTION["question"].replace("leave", word) for word in ("money", "bread", "water"))
    merged = await spend(STORE, {"query": [first, second]})
    of_dify = await spend("/retrieval", ADAPTERS["/retrieval"] | {"query": third})
    compared = await spend("/v1/similarity", COMPARED)
    assert min(rewritten, answered, streamed) > embedded
    assert min(condensed, responded) > answered
    assert (merged, of_dify) == (2 * embedded, embedded)
    assert compared > 0


async def test_question_added_by_feedback_counts_as_embedding(services, settings, client):
    limits = {"tokens_per_day": 1_000_000, "cost_per_day": 1_000_000}
    tenant = {"alice": TenantLimits(query_tokens_per_day=1_000_000)}
    priced = {"tenant_limits": tenant, "embedding_price": 1e6, "llm_input_price": 0.0, "llm_output_price": 0.0}
    async with calling(with_keys(settings).model_copy(update=priced), services) as limited:
        website = await key(limited, scopes=("ask", "feedback"), **limits)
        asked = (await retrieve(limited, website)).json()
        feedback = {"query_id": asked["metadata"]["query_id"], "chunk_id": asked["chunks"][0]["chunk_id"]}
        outcomes, spent = [], []
        for helpful in (True, True, False):
            reply = await limited.post("/v1/feedback", json=feedback | {"helpful": helpful}, headers=website)
            assert reply.status_code == 200, reply.text
            outcomes.append(reply.json()["outcome"])
            await settled(limited)
            spent.append(accounts_of(limited))
        costs = [a.cost for a in limited._transport.app.state.api.query_budgets._accounts.values() if a.kind == "key"]

    embedded = len(QUESTION["question"]) // 3 + 1
    assert outcomes == ["accepted", "already_accepted", "retracted"]
    assert spent == [{"key": 2 * embedded, "tenant": 2 * embedded}] * 3
    assert costs == [2 * embedded]


async def test_used_up_budget_rejects_only_positive_feedback(client):
    website = await key(client, scopes=("ask", "feedback"), tokens_per_day=5)
    asked = (await retrieve(client, website)).json()
    await settled(client)
    feedback = {"query_id": asked["metadata"]["query_id"], "chunk_id": asked["chunks"][0]["chunk_id"]}

    replies = [
        await client.post("/v1/feedback", json=feedback | {"helpful": helpful}, headers=website)
        for helpful in (True, False)
    ]

    assert [reply.status_code for reply in replies] == [429, 200]
    assert replies[0].json()["detail"].startswith("The queries of this key may spend 5 tokens per day")
    assert replies[1].json()["outcome"] == "not_accepted"


@guards(
    "shared/http/access/auth.py",
    "async def _trying_caller(request: Request, _: Writer) -> Caller:\n    return await _spending_caller(request)",
    "async def _trying_caller(request: Request, _: Writer) -> Caller:\n    caller: Caller = request.state.caller\n"
    "    return caller",
    means="a key with a used-up budget makes trials",
)
@guards(
    "features/trials/routes.py",
    "return MeteredChat(LimitedChat(parts.chat, parts.llm_limiter, tenant, MAX_WAIT))",
    "return LimitedChat(parts.chat, parts.llm_limiter, tenant, MAX_WAIT)",
    means="the tokens of trials are not charged",
)
async def test_trial_is_charged_like_queries(client, provider):
    writer = await key(client, scopes=("write",), tokens_per_day=1_000_000)
    small = await key(client, "small", scopes=("write",), tokens_per_day=10)
    events = dict([event async for event in events_of(await client.post("/v1/trials", json=TRIED, headers=writer))])
    await settled(client)
    done = events["done"]
    assert (done["chunks"], done["truncated"]) == (20, True)
    assert provider.stats()["calls"] == done["calls"] == 20
    assert accounts_of(client)["key"] > sum(done["usage"].values()) > 0  # and the embeddings

    first = [event async for event in events_of(await client.post("/v1/trials", json=TRIED, headers=small))]
    await settled(client)
    refused = await client.post("/v1/trials", json=TRIED, headers=small)

    errors = [data["error"] for name, data in first if name == "screened"]
    assert len([each for each in errors if "may spend 10 tokens per day" in (each or "")]) >= 16  # four run at once
    assert refused.status_code == 429


@guards(
    "features/trials/routes.py",
    "        await quotas.count_call(caller.tenant, caller.key_id, caller.limits)\n",
    "",
    means="a trial makes any number of calls in one request",
)
async def test_calls_of_trial_count_towards_rate(client, settings):
    slow = await key(client, "slow", scopes=("write",), requests_per_second=0.001)  # one request at once
    paced = await key(client, "paced", scopes=("write",), requests_per_second=10)

    async def errors(headers):
        reply = await client.post("/v1/trials", json=TRIED, headers=headers)
        return [data["error"] async for name, data in events_of(reply) if name == "screened"]

    of_slow = await errors(slow)
    assert len(of_slow) == 20
    assert {each.partition(",")[0] for each in of_slow} == {"This key may send 0.001 requests per second"}
    assert await errors(paced) == [None] * 20


async def test_question_of_editor_counts_as_embedding(services, settings, client):
    limits = {"alice": TenantLimits(query_tokens_per_day=30)}
    async with calling(with_keys(settings).model_copy(update={"tenant_limits": limits}), services) as limited:
        chunk = (await retrieve(client, ALICE)).json()["chunks"][0]["chunk_id"]
        replies = []
        for number in range(5):
            question = {"question": f"How long is the leave of group {number}?", "chunk_id": chunk}
            replies.append(
                await limited.post("/v1/collections/default/accepted-questions", json=question, headers=ALICE)
            )
            await settled(limited)
        replies.append(await limited.post("/v1/collections/default/calibration", json={}, headers=ALICE))

    assert [reply.status_code for reply in replies] == [200, 200, 200, 429, 429, 429]


async def test_answer_counts_billed_tokens(client):
    website = await key(client, tokens_per_day=1_000_000)
    usage = (await client.post("/v1/query", json=QUESTION, headers=website)).json()["metadata"]["usage"]
    await settled(client)

    billed = usage["prompt_tokens"] + usage["completion_tokens"]
    assert billed > 0
    assert accounts_of(client)["key"] == billed + len(QUESTION["question"]) // 3 + 1


async def test_cost_budget_of_tenant_covers_all_its_keys(services, settings, client):
    limits = {"alice": TenantLimits(query_cost_per_day=1.0)}
    expensive = {"tenant_limits": limits, "llm_input_price": 1e6, "llm_output_price": 1e6}
    website = await key(client, tokens_per_day=1_000_000)
    async with calling(with_keys(settings).model_copy(update=expensive), services) as limited:
        assert (await limited.post("/v1/query", json=QUESTION, headers=website)).status_code == 200
        await settled(limited)

        refused = await retrieve(limited, ALICE)
        assert refused.status_code == 429
        assert refused.json()["detail"].startswith("The queries of this tenant may spend 1 (in the currency of")
        assert (await limited.get("/v1/documents", headers=ALICE)).status_code == 200
        assert (await retrieve(limited, BOB)).status_code == 200


async def test_limit_in_money_without_price_is_refused(client):
    body = {"name": "bot", "scopes": ["ask"], "limits": {"cost_per_day": 1.0}}
    refused = await client.post("/v1/keys", json=body, headers=ALICE)

    assert refused.status_code == 422
    assert "set FOREASK_LLM_INPUT_PRICE and FOREASK_LLM_OUTPUT_PRICE" in refused.json()["detail"]
    assert "set FOREASK_EMBEDDING_PRICE" in refused.json()["detail"]


async def test_money_budget_stops_at_call_without_price(services, settings, client):
    limits = {"alice": TenantLimits(query_cost_per_day=1_000.0)}
    priced = {"tenant_limits": limits, "llm_input_price": 1.0, "llm_output_price": 1.0}
    async with calling(with_keys(settings).model_copy(update=priced), services) as limited:
        assert (await retrieve(limited, ALICE)).status_code == 200
        await settled(limited)

        refused = await retrieve(limited, ALICE)
        assert refused.status_code == 409
        assert f"the price of {settings.embedding_model} is unknown" in refused.json()["detail"]
        assert (await retrieve(limited, BOB)).status_code == 200


async def test_unlimited_queries_do_not_call_the_broker(client, settings):
    website = await key(client)
    assert (await retrieve(client, website)).status_code == 200

    async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        assert [name async for name in redis.scan_iter("foreask:use:*:queries:*")] == []
        limited = await key(client, "limited", tokens_per_day=1_000)
        await retrieve(client, limited, question="How many days are free?")
        await settled(client)
        spent = accounts_of(client)
        await retrieve(client, website)
        await settled(client)
        assert accounts_of(client) == spent
        names = [name async for name in redis.scan_iter("foreask:use:*:queries:*")]
        assert len(names) == 1
        assert await redis.pttl(names[0]) > 0


@asynccontextmanager
async def process(settings, url, now=time.monotonic):
    """Budgets as a process of the API has them; a token costs 0.1."""
    use = patient(url)
    yield QueryBudgets(settings, use, lambda _kind, usage, _model: usage.prompt_tokens / 10, now)
    metering.report_to(None)
    await use.aclose()


def spend(tokens):
    """Report tokens as a query does that was just admitted."""
    metering._spend("embed", "model", Usage(tokens))


@pytest.mark.parametrize("limits", [KeyLimits(tokens_per_day=10), KeyLimits(cost_per_day=1.0)])
async def test_queries_are_counted_locally_during_broker_outage(settings, limits):
    async with process(settings, "redis://127.0.0.1:1") as budgets:
        for tokens in (9, 1):
            await budgets.admit("alice", KEY, limits)
            spend(tokens)
            await budgets.aclose()

        (account,) = budgets._accounts.values()
        assert (account.tokens, dict(account.unsent)) == (10, {})
        with pytest.raises(TooManyRequests):
            await budgets.admit("alice", KEY, limits)


@guards(
    "shared/http/access/query_budgets.py",
    "self.tokens + unsent >= tokens",
    "self.tokens >= tokens",
    means="the tokens of running queries do not count",
)
async def test_tokens_count_before_being_sent_to_broker(settings):
    async with process(settings, "redis://127.0.0.1:1") as budgets:
        for tokens in (9, 1):
            await budgets.admit("alice", KEY, KeyLimits(tokens_per_day=10))
            spend(tokens)

        with pytest.raises(TooManyRequests):
            await budgets.admit("alice", KEY, KeyLimits(tokens_per_day=10))
        await budgets.aclose()


async def test_spending_of_other_processes_counts_after_seconds(services, settings):
    limits, clock, url = KeyLimits(tokens_per_day=10), ManualClock(), settings.redis_url.get_secret_value()
    async with process(settings, url, clock) as budgets, process(settings, url, clock) as other:
        await budgets.admit("alice", KEY, limits)
        await other.admit("alice", KEY, limits)
        spend(10)
        await other.aclose()

        clock.now = 4.9
        await budgets.admit("alice", KEY, limits)  # without a call to the broker
        clock.now = 5.0
        with pytest.raises(TooManyRequests):
            await budgets.admit("alice", KEY, limits)


async def test_budget_of_next_day_is_unused(settings):
    limits = KeyLimits(tokens_per_day=10)
    async with process(settings, "redis://127.0.0.1:1") as budgets:
        await budgets.admit("alice", KEY, limits)
        spend(10)
        await budgets.aclose()
        (account,) = budgets._accounts.values()
        account.day -= timedelta(days=1)

        await budgets.admit("alice", KEY, limits)


async def test_key_limits_tokens_of_a_reply(client):
    website = await key(client, max_tokens=500)

    assert (await retrieve(client, website)).status_code == 200
    assert (await retrieve(client, website, max_tokens=500)).status_code == 200
    refused = await retrieve(client, website, max_tokens=501)
    assert (refused.status_code, refused.json()["field"]) == (422, "max_tokens")
    assert refused.json()["detail"] == "max_tokens is at most 500 for this key."


async def test_key_shows_its_limits(client):
    website = await key(client, max_tokens=500, requests_per_second=5)

    shown = {"requests_per_second": 5.0, "tokens_per_day": None, "cost_per_day": None, "max_tokens": 500}
    assert (await client.get("/v1/me", headers=website)).json()["key_limits"] == shown
    (listed,) = (await client.get("/v1/keys", headers=ALICE)).json()["items"]
    assert listed["limits"] == shown


async def test_key_with_limits_cannot_create_keys(client):
    body = {"name": "one", "scopes": ["ask", "manage"], "limits": {"tokens_per_day": 5}}
    reply = await client.post("/v1/keys", json=body, headers=ALICE)

    assert (reply.status_code, reply.json()["field"]) == (422, "limits")
