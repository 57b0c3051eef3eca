"""Budgets: claims reserve the highest cost of their calls, and settlements replace it by the bills."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from foreask_client import AsyncClient

from features.erasure.ledger.erasures import Erasures
from shared.domain.errors import BudgetExhausted, Conflict, NotFound, TimedOut
from shared.domain.spending.budgets import BILLIONTHS, NO_TERMS, BudgetTerms, BudgetUnit, NewBudget, Period, SetBy
from shared.domain.stages.attempts import FailedAttempt
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.documents.documents import Documents
from shared.ledger.model.lanes import lane_of
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.costs import Costs
from shared.ledger.work.demand import Demand
from shared.ledger.work.generation import GenerateWork
from shared.process.telemetry import metrics
from shared.settings import ApiKey
from tests.support.api import KEYS, as_tenant, calling, searchable, serving, with_keys, work
from tests.support.erasing import clean
from tests.support.pages import commands_of, foreask_with_background
from tests.support.planted import guards
from tests.support.waiting import eventually
from workers.scheduler import survey

PLACES = ("mill", "port", "shop", "park", "cave", "farm")  # of one length: their chunks reserve the same amount
TEXTS = [f"The {place} opens at nine on every day of the year." for place in PLACES]
OPERATOR = "operator-0123456789abcdef0123"

# Make the deletion of a build and of its points due at once.
MAKE_DUE = (
    "UPDATE abandoned_calls SET due_at = now()",
    "UPDATE collections SET live_until = live_until - interval '1 hour', emptied_at = emptied_at - interval '1 hour'",
    "UPDATE sweeps SET due_at = now()",
    "UPDATE erasures SET fenced_at = fenced_at - interval '1 minute'",
)
AMOUNTS = """
    SELECT spent, held, (SELECT coalesce(sum(held), 0) FROM budget_holds h WHERE h.budget_id = b.id) FROM budgets b
"""
BILLED = "SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) FROM spent WHERE kind = 'generate'"


async def sql(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return result.all()


async def set_budget(
    services, most, unit=BudgetUnit.TOKENS, *, collection=None, period=Period.TOTAL, set_by=SetBy.TENANT
):
    new = NewBudget("default", collection, None, period, unit, set_by, most)
    return await services.ledger[Budgets].set(new)


async def amounts(services):
    """Return the spent and the reserved amount of the only budget, after a check that its reservations add up."""
    ((spent, held, of_holds),) = await sql(services, AMOUNTS)
    assert held == of_holds
    return spent, held


async def billed(services):
    (row,) = await sql(services, BILLED)
    return row[0]


def documents(count):
    """Return the texts and external ids of documents with one chunk each."""
    return [(words, f"{number}.md") for number, words in enumerate(TEXTS[:count])]


async def claim(services, limit=10):
    return await services.generator.claim(limit, {}) or []


def with_terms(services, terms=NO_TERMS, worker="w"):
    """Return a generator of another worker with these prices and limits."""
    work_ = GenerateWork(services.database, worker=worker, lease=timedelta(seconds=30), terms=terms)
    return replace(services.generator, work=work_)


async def are_waiting(services, sessions):
    """Return whether this number of sessions wait for locks."""
    (row,) = await sql(services, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return row[0] == sessions


async def highest(services, library):
    """Return the amount that a chunk reserves."""
    budget = await set_budget(services, 10**9)
    (chunk,) = await claim(services, 1)
    _, held = await amounts(services)
    await services.ledger[GenerateWork].release([chunk.lease])
    await services.ledger[Budgets].delete("default", budget.id, SetBy.TENANT)
    return held


async def test_settlement_replaces_reservation_by_bill(services, once):
    await once(searchable, *documents(3))
    await set_budget(services, 100_000)
    chunks = await claim(services)
    reserved = await amounts(services)
    outcomes = [await services.generator.process(chunk) for chunk in chunks]
    await services.ledger[GenerateWork].settle(outcomes)
    settled = await amounts(services)
    await services.ledger[GenerateWork].settle(outcomes)

    assert reserved[0] == 0
    assert reserved[1] > 3 * 1_800
    assert settled == await amounts(services) == (await billed(services), 0)
    assert settled[0] > 0


@guards(
    "shared/ledger/budgets/holds.sql",
    "WHERE amount_until > room",
    "WHERE false",
    means="a claim does not check whether its calls fit in a budget",
)
async def test_claim_takes_chunks_that_fit_and_releases_others(services, library, once):
    await once(searchable, *documents(6))
    one = await highest(services, library)
    await set_budget(services, 3 * one + one // 2)
    claimed = await claim(services)
    again = await claim(services)
    (waiting,) = await sql(
        services, "SELECT count(*) FROM chunks WHERE leased_by IS NULL AND attempts = 0 AND due_at <= now()"
    )

    assert (len(claimed), again, waiting[0]) == (3, [], 3)
    assert (await amounts(services))[1] <= 3 * one + one // 2


@guards(
    "shared/ledger/budgets/holds.sql",
    "ORDER BY b.id FOR NO KEY UPDATE",
    "ORDER BY b.id",
    means="two claims read a budget at the same time",
)
async def test_racing_claims_share_last_amount(services, library, once):
    """Both claims wait for the budget's row, so that each has read the amounts before the other changes them."""
    await once(searchable, *documents(6))
    one = await highest(services, library)
    await set_budget(services, one + one // 2)
    workers = [with_terms(services, worker=f"w{number}") for number in range(2)]
    async with services.database.begin() as connection:
        await connection.execute(Statement("SELECT 1 FROM budgets FOR UPDATE"))
        claims = [asyncio.create_task(worker.claim(1, {})) for worker in workers]
        await eventually(lambda: are_waiting(services, 2))
    claimed = await asyncio.gather(*claims)

    assert sorted(len(each or []) for each in claimed) == [0, 1]
    assert (await amounts(services))[1] <= one + one // 2


async def test_exhausted_budget_defers_questions_until_raised(*, services, settings, library, provider, wakes, once):
    await once(searchable, *documents(3))
    one = await highest(services, library)
    async with calling(settings, services) as client:
        body = {"period": "total", "unit": "tokens", "limit": one - 1}
        budget = (await client.put("/v1/budgets", json=body)).json()
        await work(services)
        status = (await client.get("/v1/status")).json()
        found = (await client.post("/v1/retrieve", json={"question": "When does the mill open?"})).json()
        wakes.clear()
        raised = (await client.put("/v1/budgets", json=body | {"limit": 100_000})).json()
        woken = list(wakes)
        await work(services)
        listed = (await client.get("/v1/budgets")).json()["items"]
        after = (await client.get("/v1/status")).json()

    assert provider.stats()["calls"] == 3
    assert status["documents"] == {"searchable": 3}
    assert status["pace"]["cause"] == "budget"
    assert status["pace"]["message"].startswith(f"The total budget of {one - 1:,} tokens is used up")
    assert (status["budgets"][0]["exhausted"], after["budgets"][0]["exhausted"]) == (True, False)
    assert "mill" in found["chunks"][0]["text"]
    assert "generate" in woken
    assert raised["id"] == budget["id"]
    assert (listed[0]["spent"], listed[0]["reserved"]) == (await billed(services), 0)
    assert after["documents"] == {"ready": 3}


async def test_exhausted_collection_leaves_others_working(services, library, once):
    await once(searchable, *documents(3))
    await set_budget(services, 1, collection="default")
    other = replace(await library.new(TEXTS[4], "o.md"), collection=await library.collection("other"))
    document = (await services.ledger[Documents].submit(other)).document
    await work(services, "parse", "index")

    assert await services.generator.claim(10, {}) is None  # chunks were refused: others may fit
    assert [chunk.document_id for chunk in await claim(services)] == [document.id]


async def test_exhausted_budget_writes_no_chunks(services, once):
    await once(searchable, *documents(3))
    await set_budget(services, 5)
    versions = "SELECT array_agg(xmin::text ORDER BY id) FROM chunks"
    await claim(services)
    before = await sql(services, versions)
    for _ in range(3):
        assert await claim(services) == []
    assert await sql(services, versions) == before
    assert await services.ledger[Demand].rows("generate", 100) == {}

    await services.ledger[Budgets].follow_settings()  # lets workers try once: the chunks are claimed and released
    await claim(services)
    assert await sql(services, versions) != before


async def test_released_claim_costs_nothing_unless_it_called(services, once):
    await once(searchable, *documents(2))
    await set_budget(services, 100_000)
    idle, calling_ = await claim(services)
    _, held = await amounts(services)
    release = services.generator.release
    await release([idle.lease])
    after_idle = await amounts(services)
    await release([calling_.lease], [calling_.lease])

    assert after_idle == (0, held // 2)
    assert await amounts(services) == (held // 2, 0)


@pytest.mark.parametrize("script", [{"share_500": 1.0}, {"status": 429}])
async def test_refused_call_costs_nothing(services, provider, script, once):
    await once(searchable, *documents(1))
    await set_budget(services, 100_000)
    (chunk,) = await claim(services)
    provider.script(**script)
    outcome = await services.generator.process(chunk)
    await services.ledger[GenerateWork].settle([outcome])

    assert isinstance(outcome, FailedAttempt)
    assert await amounts(services) == (0, 0)


async def test_call_without_reply_costs_its_reservation(services, provider, monkeypatch, once):
    async def late(*_):
        raise TimedOut("the llm provider did not answer in time", component="llm", answered=True)

    await once(searchable, *documents(1))
    await set_budget(services, 100_000)
    (chunk,) = await claim(services)
    _, held = await amounts(services)
    monkeypatch.setattr("shared.providers.chat.OpenAIChat.complete", late)
    await services.ledger[GenerateWork].settle([await services.generator.process(chunk)])

    assert await amounts(services) == (held, 0)


@guards(
    "shared/ledger/budgets/budgets.sql",
    "spent = {budget_spent:b} + s.held",
    "spent = {budget_spent:b}",
    means="the reservation of a killed worker is freed although its call may be billed",
)
async def test_expired_lease_costs_its_reservation_until_its_bill(services, provider, once):
    await once(searchable, *documents(1))
    await set_budget(services, 100_000)
    (slow,) = await claim(services)
    _, held = await amounts(services)
    outcome = await services.generator.process(slow)
    assert not await services.ledger[Budgets].book_lost()
    running = await amounts(services)
    await sql(services, "UPDATE chunks SET due_at = now()")
    await services.ledger[Budgets].book_lost()
    lost = await amounts(services)
    (again,) = await claim(services)
    await services.ledger[GenerateWork].settle([outcome])
    corrected = await amounts(services)
    await services.ledger[GenerateWork].settle([await services.generator.process(again)])

    assert running == (0, held)
    assert lost == (held, 0)
    assert corrected == (outcome.usage.prompt_tokens + outcome.usage.completion_tokens, held)
    assert await amounts(services) == (await billed(services), 0)
    assert provider.stats()["calls"] == 2


async def test_repair_reserves_its_call_or_waits(services, library, provider, once):
    await once(searchable, *documents(1))
    one = await highest(services, library)
    budget = await set_budget(services, one + 50)
    provider.script(malformed_containing="mill")
    (chunk,) = await claim(services)
    outcome = await services.generator.process(chunk)
    await services.ledger[GenerateWork].settle([outcome])
    first = await amounts(services)
    calls = provider.stats()["calls"]
    assert await claim(services) == []

    provider.script(malformed_containing="")
    await set_budget(services, 100_000)
    await sql(services, "UPDATE chunks SET due_at = now()")
    (chunk,) = await claim(services)
    repaired = await services.generator.process(chunk)
    await services.ledger[GenerateWork].settle([repaired])

    assert isinstance(outcome, FailedAttempt)
    assert outcome.decision.reason == BudgetExhausted().message
    assert not outcome.decision.burns_attempt
    assert outcome.decision.after <= timedelta(seconds=5)
    assert (calls, provider.stats()["calls"]) == (1, 2)
    assert first == (outcome.usage.prompt_tokens + outcome.usage.completion_tokens, 0)
    assert await amounts(services) == (await billed(services), 0)
    assert budget.most == one + 50


async def test_chunks_of_deleted_documents_release_their_reservations(services, library, provider):
    await set_budget(services, 100_000)
    document = await library.add(TEXTS[0], "a.md")
    await work(services, "parse", "index")
    (chunk,) = await claim(services)
    await services.ledger[Documents].delete("default", document.id)
    while await services.cleaner.purge_versions():
        pass
    await services.ledger[Budgets].book_lost()
    in_flight = await amounts(services)
    await services.ledger[GenerateWork].settle([await services.generator.process(chunk)])

    assert in_flight[0] == 0 < in_flight[1]
    assert await amounts(services) == (await billed(services), 0)


async def test_budget_starts_again_with_its_period(services, library, once):
    await once(searchable, *documents(2))
    one = await highest(services, library)
    await set_budget(services, one + 10, period=Period.DAY)
    (chunk,) = await claim(services, 1)
    await services.ledger[GenerateWork].settle([await services.generator.process(chunk)])
    assert await claim(services) == []
    (today,) = await services.ledger[Budgets].for_tenant("default")
    await sql(services, "UPDATE budgets SET period_start = period_start - 1")
    (tomorrow,) = await services.ledger[Budgets].for_tenant("default")
    (chunk,) = await claim(services)
    await services.ledger[GenerateWork].settle([await services.generator.process(chunk)])
    (after,) = await services.ledger[Budgets].for_tenant("default")

    assert today.is_exhausted
    assert today.ends_at.hour == 0
    assert (tomorrow.spent, tomorrow.is_exhausted) == (0, False)
    assert after.spent + today.spent == await billed(services)


async def test_new_budget_counts_costs_of_its_period(services, once):
    await once(searchable, *documents(2))
    await work(services)
    spent = await billed(services)
    with pytest.raises(Conflict, match=f"has spent {spent:,} tokens"):
        await set_budget(services, spent - 1, period=Period.DAY)
    budgets = [await set_budget(services, spent, period=period) for period in Period]

    assert [budget.spent for budget in budgets] == [spent, spent, 0]
    with pytest.raises(NotFound):
        await services.ledger[Budgets].delete("bob", budgets[0].id, SetBy.TENANT)


async def test_money_budget_counts_calls_and_embeddings(services, settings, provider):
    terms = BudgetTerms(lambda _: {}, lambda kind, usage, *_: (usage.prompt_tokens + usage.completion_tokens) * 1_000)
    budgets, generator = Budgets(services.database, terms), with_terms(services, terms)
    await budgets.set(NewBudget("default", None, None, Period.TOTAL, BudgetUnit.MONEY, SetBy.OPERATOR, BILLIONTHS))
    await searchable(services, *documents(2))
    costs = type(services.ledger[Costs])(services.database, terms)
    while await costs.fold():
        pass
    embedded, _ = await amounts(services)
    for chunk in await generator.claim(10, {}):
        await generator.work.settle([await generator.process(chunk)])
    (tokens,) = await sql(services, "SELECT sum(prompt_tokens) FROM spent WHERE kind = 'embed'")

    assert embedded == tokens[0] * 1_000 > 0
    assert await amounts(services) == (embedded + await billed(services) * 1_000, 0)


async def test_money_budget_without_price_claims_nothing(services, once):
    await once(searchable, *documents(1))
    await set_budget(services, BILLIONTHS, BudgetUnit.MONEY)
    assert not await with_terms(services).claim(10, {})

    (budget,) = await services.ledger[Budgets].for_tenant("default")
    assert "price of the language model is unknown" in budget.notice


async def test_settings_limit_is_kept_in_the_ledger(services, library, once):
    limits = {BudgetUnit.TOKENS: 10**6}
    terms = BudgetTerms(lambda tenant: limits if tenant == "default" else {}, lambda *_: None)
    budgets, generator = Budgets(services.database, terms), with_terms(services, terms)
    await once(searchable, *documents(3))
    await work(services, "generate")
    spent = await billed(services)
    await library.add("Another text about the lighthouse and its keeper.", "x.md")
    await work(services, "parse", "index")
    (chunk,) = await generator.claim(10, {})
    (created,) = await budgets.for_tenant("default")
    await generator.work.settle([await generator.process(chunk)])

    limits[BudgetUnit.TOKENS] = 10
    await budgets.follow_settings()
    (lowered,) = await budgets.for_tenant("default")
    limits.clear()
    await budgets.follow_settings()

    assert (created.set_by, created.most, created.spent) == (SetBy.SETTINGS, 10**6, spent)
    assert created.held > 0
    assert (lowered.most, lowered.spent, lowered.is_exhausted) == (10, await billed(services), True)
    assert await budgets.for_tenant("default") == []


async def test_tenant_cannot_change_budget_of_operator(services, settings, provider):
    operator = {"authorization": f"Bearer {OPERATOR}"}
    keys = with_keys(settings).model_copy(update={"operator_keys": (ApiKey.parse_operator(OPERATOR),)})
    async with calling(keys, services) as client:
        body, path = {"period": "month", "unit": "tokens", "limit": 1_000}, "/v1/operator/tenants/alice/budgets"
        made = (await client.put(path, json=body, headers=operator)).json()
        own = (await client.put("/v1/budgets", json=body | {"limit": 5_000}, headers=as_tenant("alice"))).json()
        refused = await client.delete(f"/v1/budgets/{made['id']}", headers=as_tenant("alice"))
        forbidden = await client.get(path, headers=as_tenant("alice"))
        listed = (await client.get("/v1/budgets", headers=as_tenant("alice"))).json()["items"]
        others = (await client.get("/v1/budgets", headers=as_tenant("bob"))).json()["items"]
        deleted = await client.delete(f"/v1/budgets/{own['id']}", headers=as_tenant("alice"))
        deleted_too = await client.delete(f"{path}/{made['id']}", headers=operator)

    assert {(each["set_by"], each["limit"]) for each in listed} == {("operator", 1_000), ("tenant", 5_000)}
    assert (refused.status_code, forbidden.status_code, deleted.status_code) == (404, 403, 204)
    assert (others, deleted_too.status_code) == ([], 204)


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"unit": "tokens", "limit": 0.5}, 422, "whole number"),
        ({"limit": 0}, 422, "limit"),
        ({"limit": 10_000_000.0}, 422, "at most"),
        ({"period": "week"}, 422, "period"),
        ({"collection": "a", "job_id": "8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11"}, 422, "not both"),
        ({"unit": "tokens", "job_id": "8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11"}, 404, "no job"),
        ({}, 422, "FOREASK_LLM_INPUT_PRICE"),
    ],
)
async def test_impossible_budget_is_rejected(services, settings, fields, status, says):
    async with calling(settings, services) as client:
        reply = await client.put("/v1/budgets", json={"period": "day", "unit": "money", "limit": 5.0} | fields)
    assert (reply.status_code, says in reply.text) == (status, True), reply.text


async def test_limit_below_reserved_amount_is_rejected(services, settings, once):
    await once(searchable, *documents(1))
    await set_budget(services, 100_000)
    await claim(services)
    _, held = await amounts(services)
    async with calling(settings, services) as client:
        body = {"period": "total", "unit": "tokens"}
        refused = await client.put("/v1/budgets", json=body | {"limit": held - 1})
        accepted = await client.put("/v1/budgets", json=body | {"limit": held})

    assert (refused.status_code, accepted.status_code) == (409, 200)
    assert f"reserved {held:,} tokens" in refused.json()["detail"]


async def test_erased_collection_and_tenant_have_no_budgets(services, library, once):
    await once(searchable, *documents(1))
    await set_budget(services, 10**6, collection="default")
    await set_budget(services, 10**6)
    (chunk,) = await claim(services)
    outcome = await services.generator.process(chunk)

    async def erase(collection):
        erasure = await services.ledger[Erasures].start("default", collection)
        while (await services.ledger[Erasures].get(erasure.id)).finished_at is None:
            for statement in MAKE_DUE:
                await sql(services, statement)
            await clean(services)

    await erase("default")
    left = [budget.collection for budget in await services.ledger[Budgets].for_tenant("default")]
    await services.ledger[GenerateWork].settle([outcome])
    spent, held = await amounts(services)
    await library.add(TEXTS[0], "again.md")
    await erase(None)

    assert left == [None]
    assert (spent, held) == (outcome.usage.prompt_tokens + outcome.usage.completion_tokens, 0)
    assert await sql(services, "SELECT 1 FROM budgets UNION ALL SELECT 1 FROM budget_holds") == []


async def test_budget_of_job_limits_only_its_documents(services, once):
    job_id, values = uuid4(), "gen_random_uuid(), 'load', 'running'"
    await once(searchable, *documents(2))
    await sql(
        services,
        "INSERT INTO jobs (id, tenant, number, collection, collection_id, kind, state)"
        f" VALUES (:id, 'default', 1, 'default', {values})",
        id=job_id,
    )
    (of_job,) = await sql(
        services,
        "UPDATE documents SET job_id = :id, lane = :lane WHERE external_id = '0.md' RETURNING id",
        id=job_id,
        lane=lane_of(1, job_number=1),
    )
    await sql(services, "UPDATE chunks SET lane = :lane WHERE document_id = :id", id=of_job.id, lane=lane_of(1, 1))
    budget = NewBudget("default", None, job_id, Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT, 10)
    await services.ledger[Budgets].set(budget)
    (other,) = await claim(services)
    limited, due = await amounts(services), await services.ledger[Backlogs].due()
    await services.ledger[Budgets].set(replace(budget, most=10_000))
    due_again = await services.ledger[Backlogs].due()
    (chunk,) = await claim(services)

    assert other.document_id != chunk.document_id == of_job.id
    assert limited == (0, 0)
    assert ("generate" in due, "generate" in due_again) == (False, True)
    assert (await amounts(services))[1] > 0


async def test_commands_and_client_set_list_and_delete_budgets(services, settings, wakes, capsys, monkeypatch):
    priced = with_keys(settings).model_copy(
        update={"llm_input_price": 1.0, "llm_output_price": 2.0, "embedding_price": 0}
    )
    monkeypatch.setenv("FOREASK_API_KEY", KEYS["alice"])

    async def nothing():
        """Do nothing while a command runs."""

    foreask = foreask_with_background(nothing, capsys, monkeypatch)
    async with serving(priced, services) as http:
        monkeypatch.setenv("FOREASK_URL", str(http.base_url))
        *setting, listing, deleting = commands_of("keep-limits.md", "How do I limit the cost of the ingest?")
        outputs = [await foreask(command.partition("#")[0]) for command in setting]
        listed = await foreask(listing)
        async with AsyncClient(str(http.base_url), KEYS["alice"]) as client:
            budgets = await client.budgets()
            deleted = await foreask(f"{deleting.rpartition(' ')[0]} {budgets[0].id}")
            raised = await client.set_budget(400, period="total", collection="papers")
            left = await client.budgets()

    assert [code for code, _ in (*outputs, listed, deleted)] == [0] * 5
    assert "collection papers  0 spent and 0 reserved of 300 money in total  (set by tenant)" in outputs[0][1]
    assert "all  0 spent and 0 reserved of 2,000,000 tokens a day" in listed[1]
    assert {(each.period, each.limit) for each in budgets} == {("total", 300), ("month", 50), ("day", 2_000_000)}
    assert (raised.limit, len(left)) == (400, 2)


async def test_exhausted_budgets_are_exported(services, provider):
    await set_budget(services, 100, period=Period.DAY)
    await set_budget(services, 100, period=Period.MONTH)
    await sql(services, "UPDATE budgets SET spent = most WHERE period = 'day'")
    await survey(services)
    values = {
        (period, state): metrics.REGISTRY.get_sample_value("foreask_budgets", {"period": period, "state": state})
        for period in ("day", "month")
        for state in ("open", "exhausted")
    }
    assert values == {("day", "open"): 0, ("day", "exhausted"): 1, ("month", "open"): 1, ("month", "exhausted"): 0}
