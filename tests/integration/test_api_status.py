"""GET /v1/status: waiting and running work, its rate, and the limits."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from api.progress.bottleneck import bottleneck, pace_view
from api.schemas.status import StatusView
from embedded.ports import free_port
from shared.domain.spending.budgets import BILLIONTHS, Budget, BudgetUnit, Period, SetBy
from shared.domain.spending.limit_use import LimitUse
from shared.domain.time_left import TimeLeft
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlog, Waiting
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.parsing import ParseWork
from tests.conftest import Library
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS


@pytest.fixture
async def client(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        yield client


async def status(client, tenant="alice"):
    reply = await client.get("/v1/status", headers=as_tenant(tenant))
    assert reply.status_code == 200, reply.text
    return StatusView.model_validate_json(reply.content)


def stage(view, name):
    return view.stages[name].model_dump(exclude={"oldest_seconds"})


async def test_status_requires_key(client):
    assert (await client.get("/v1/status")).status_code == 401


async def test_idle_status_has_no_rate_and_no_eta(client):
    view = await status(client)

    assert view.documents == {}
    assert all(stage(view, name) == {"due": 0, "in_flight": 0, "delayed": 0} for name in ("parse", "generate", "index"))
    assert (view.dead, view.chunks_per_minute, view.eta_seconds) == (0, 0, None)


async def test_work_is_counted_by_stage(client, services):
    library = Library(services, "alice")
    for number in range(4):
        await library.add(f"A text about lighthouse number {number} and its keeper.")
    await services.ledger[ParseWork].claim(1)
    await Library(services, "bob").add("not hers")

    view = await status(client)
    assert view.documents == {"queued": 3, "parsing": 1}
    assert stage(view, "parse") == {"due": 3, "in_flight": 1, "delayed": 0}
    assert view.stages["parse"].oldest_seconds >= 0
    assert view.eta_seconds is None  # no work has finished yet
    assert stage(await status(client, "bob"), "parse") == {"due": 1, "in_flight": 0, "delayed": 0}


async def test_deferred_work_is_counted_separately(client, services):
    await Library(services, "alice").add("A text about a lighthouse and its keeper.")
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE documents SET due_at = now() + interval '1 hour'"))

    view = await status(client)
    assert stage(view, "parse") == {"due": 0, "in_flight": 0, "delayed": 1}
    assert view.stages["parse"].oldest_seconds is None


async def test_rate_counts_finished_chunks_without_eta_before_parsing(client, services):
    library = Library(services, "alice")
    for number in range(6):
        await library.add(f"A text about lighthouse number {number} and its keeper.")
    await work(services)
    for number in range(3):
        await library.add(f"A text about harbour number {number} and its ships.")
    documents = await services.ledger[ParseWork].claim(10)
    assert len(documents) == 3
    await services.ledger[ParseWork].release([d.lease for d in documents])

    view = await status(client)
    assert view.documents == {"queued": 3, "ready": 6}
    assert view.chunks_per_minute == 6
    assert view.eta_seconds is None  # a first group of chunks proves no pace


async def test_status_counts_dead_chunks(client, services, provider):
    library = Library(services, "alice")
    provider.script(malformed_containing="lighthouse")
    await library.add("A text about a lighthouse and its keeper.")
    await work(services)

    assert (await status(client)).dead == 1


async def test_status_shows_limits_with_current_use(client, services):
    await Library(services, "alice").add("A text about a lighthouse and its keeper.")
    await work(services)

    limits = {limit.name: limit for limit in (await status(client)).limits}
    assert limits["llm requests"].used >= 1
    assert limits["llm requests"].breaker == "closed"
    assert "embedding requests" in limits


async def test_status_shows_usage_and_cost_by_collection(services, settings, provider):
    prices = {"llm_input_price": 2.0, "llm_output_price": 8.0, "embedding_price": 0.5}
    await Library(services, "alice").add("A text about a lighthouse and its keeper.")
    await work(services)

    async with calling(with_keys(settings.model_copy(update=prices)), services) as client:
        generated, embedded = (await status(client)).usage
        assert (await status(client, "bob")).usage == []

    assert (generated.collection, generated.kind, generated.calls) == ("default", "generate", 1)
    assert generated.cost == (2 * generated.prompt_tokens + 8 * generated.completion_tokens) / 1_000_000 > 0
    assert (embedded.collection, embedded.kind) == ("default", "embed")
    assert embedded.cost == embedded.prompt_tokens / 2_000_000 > 0


async def test_status_explains_bottleneck_in_one_sentence(client, services, settings):
    assert (await status(client)).pace.cause == "idle"
    await Library(services, "alice").add("A text about a lighthouse and its keeper.")

    waiting = (await status(client)).pace
    assert (waiting.cause, waiting.workers) == ("no_worker", {"parse": 0, "read": 0, "generate": 0, "index": 0})
    assert waiting.message == "No parse worker is alive, and 1 documents wait for one."

    async with services.ledger[Heartbeats].beating("parse", lambda: 0):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not (await status(client)).pace.workers["parse"]:
                await asyncio.sleep(0.02)
        assert (await status(client)).pace.cause == "stalled"

    broker = type(settings.redis_url)(f"redis://127.0.0.1:{free_port()}/0")
    async with calling(with_keys(settings.model_copy(update={"redis_url": broker}))) as without_broker:
        without = await status(without_broker)
    assert (without.limits, without.pace.down) == (None, ["broker"])
    assert without.pace.message.startswith("The broker accepts no messages: the connection is refused")


SAID = 'The llm provider answered 402: its quota is used up; it says "No credit"'


OPEN = {"generate": Waiting(4, 0, 0, timedelta())}
LEFT = TimeLeft(whole=timedelta(seconds=20), per_second=0.2)


def test_most_important_bottleneck_is_shown():
    backlog = Backlog(OPEN, 0, 12, LEFT, {})
    up = dict.fromkeys(("ledger", "broker", "qdrant", "uploads"), True)
    kinds = (Period.MONTH, BudgetUnit.MONEY, SetBy.OPERATOR)
    budget = Budget(
        uuid4(),
        "default",
        "handbook",
        None,
        *kinds,
        2 * BILLIONTHS,
        BILLIONTHS,
        0,
        1,
        datetime(2026, 12, 1, tzinfo=UTC),
    )
    used_up, minute = [budget, replace(budget, spent=2 * BILLIONTHS)], timedelta(minutes=1)
    full = LimitUse("llm requests", 100, 91, 0, None, "closed", timedelta(), "llm", "requests", None)
    held = [replace(full, cooldown=minute), replace(full, breaker="open", used=0)]

    def found(uses=(), workers=1, budgets=(), parts=up, work=backlog):
        return pace_view(bottleneck(work, parts, uses, {"generate": workers}, budgets), [], {})

    assert found(held, 0, used_up, up | {"qdrant": False, "uploads": False}).message == (
        "Qdrant and the store of uploads do not answer."
    )
    assert found(held, 0, used_up).cause == "breaker"
    assert found(held[:1], 0, used_up).message == "Calls of the llm provider pause for 60 s."
    assert found([full], 0, used_up).message == "Llm requests: 91 of 100 per minute are used."
    assert found([replace(full, used=90)], 0, used_up).message == (
        "The monthly budget of 2 for the collection 'handbook' is used up: no questions are generated until 2026-12-01"
        " in UTC, or until it is raised. Until then, documents are found by their texts."
    )
    assert found(budgets=used_up[:1]).cause == "working"
    assert found(budgets=used_up, work=replace(backlog, stages={"parse": Waiting(1, 0, 0, None)})).cause != "budget"
    flying = replace(full, limit=None, in_flight=8, in_flight_limit=8)
    assert found([flying]).message == "Llm requests: 8 of at most 8 calls are running."
    dry = replace(full, used=0, flex_pause=minute)
    assert found([dry]).message == (
        "The llm provider has no capacity left in the service tier flex; the next call is made in 60 s."
    )
    assert found([dry, full]).cause == "limit"
    assert found(workers=0).cause == "no_worker"
    assert found(work=replace(backlog, unserved={"e5": 3})).message == (
        "No worker serves the embedding 'e5', and 3 chunks wait for one."
    )
    assert found().message == "12 chunks finish per minute, about 20 s left."
    long = replace(backlog, left=replace(LEFT, whole=timedelta(seconds=2_550)))
    assert found(work=long).message.endswith("about 43 min left.")
    unknown = replace(backlog, left=replace(LEFT, whole=None))
    assert found(work=unknown).message == "12 chunks finish per minute, the time left is not known yet."
    batches = found(work=replace(backlog, recent=0, left=TimeLeft(is_in_batches=True)))
    assert batches.message == "The open chunks wait for batches of the provider, which take up to 24 hours."
    slow = replace(full, cooldown=timedelta(hours=2, minutes=5))
    assert found([slow]).message == "Calls of the llm provider pause for 2 h 5 min."


@pytest.mark.parametrize(
    ("change", "cause", "sentence"),
    [
        ({"breaker": "open"}, "breaker", f"{SAID}; calls wait until it answers again."),
        ({"breaker": "half-open"}, "breaker", f"{SAID}; calls wait until it answers again."),
        ({"cooldown": timedelta(minutes=5)}, "cooldown", f"{SAID}; the next call is made in 5 min."),
        ({"failing": timedelta(seconds=9)}, "breaker", f"{SAID}; no call has succeeded since."),
    ],
    ids=["open", "half-open", "paused", "failing"],
)
def test_trouble_of_provider_has_its_words(change, cause, sentence):
    backlog = Backlog(OPEN, 0, 0, TimeLeft(), {})
    reason = SAID[:1].lower() + SAID[1:]
    use = LimitUse("llm requests", None, 0, 8, 8, "closed", timedelta(), "llm", "requests", None, reason=reason)

    found = pace_view(bottleneck(backlog, {}, [replace(use, **change)], {"generate": 1}, []), [], {})

    assert (found.cause, found.message) == (cause, sentence)
    assert (found.values.component, found.values.reason) == ("llm", reason)


def test_standstill_is_never_called_free():
    backlog = Backlog({"generate": Waiting(4, 2, 3, timedelta())}, 0, 0, TimeLeft(), {})

    found = pace_view(bottleneck(backlog, {}, [], {"generate": 1}, []), [], {})

    assert (found.cause, found.values.due, found.values.in_progress, found.values.delayed) == ("stalled", 4, 2, 3)
    assert found.message == (
        "No chunk has finished in the last minute; open work: 2 in progress, 4 due, 3 waiting for another attempt,"
        " whose documents have the reasons."
    )


@guards(
    "api/progress/bottleneck.py",
    "return self.is_long or self.cause in _STOPS",
    "return False",
    means="a time is shown although the provider is down",
)
def test_stopped_work_has_no_time():
    broken = LimitUse("llm requests", None, 0, 0, 8, "open", timedelta(), "llm", "requests", None)
    held = replace(broken, breaker="closed", cooldown=timedelta(seconds=20))
    long = replace(held, cooldown=timedelta(minutes=2))

    def stops(*uses, workers=1, work=OPEN):
        found = bottleneck(Backlog(work, 0, 12, LEFT, {}), {}, uses, {"generate": workers}, [])
        return found.stops_all, found.stops_some

    assert stops() == stops(held) == (False, False)
    assert stops(broken) == stops(long) == stops(workers=0) == (True, True)
    assert stops(work={"generate": Waiting(4, 0, 0, None)}) == (False, True)  # of a paused job


def test_unavailable_part_has_its_reason():
    reasons = {"qdrant": 'Qdrant answered 401: "wrong key"'}

    found = pace_view(
        bottleneck(Backlog({}, 0, 0, TimeLeft(), {}), {"qdrant": False}, [], {}, [], reasons=reasons), [], {}
    )

    assert found.message == 'Qdrant answered 401: "wrong key".'


async def test_history_shows_finished_work_per_minute(client, services):
    await Library(services, "alice").add("A text about the harbour.")
    await work(services)

    reply = await client.get("/v1/status/history?minutes=3", headers=as_tenant("alice"))

    assert reply.status_code == 200, reply.text
    items = reply.json()["items"]
    assert len(items) == 3
    assert sum(each["chunks"] for each in items) == sum(each["documents"] for each in items) == 1
    other = await client.get("/v1/status/history", headers=as_tenant("bob"))
    assert [each["chunks"] for each in other.json()["items"]] == [0] * 60
    assert (await client.get("/v1/status/history?minutes=1441", headers=as_tenant("alice"))).status_code == 422
