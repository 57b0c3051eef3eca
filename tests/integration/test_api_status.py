"""GET /v1/status: what waits, what is in work, how fast it goes, and the limits."""

import pytest
from sqlalchemy import text

from api.schemas.status import StatusView
from tests.api import as_tenant, calling, with_keys, work
from tests.conftest import Library


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


async def test_it_needs_a_key(client):
    assert (await client.get("/v1/status")).status_code == 401


async def test_with_nothing_to_do_there_is_no_rate_and_no_end(client):
    view = await status(client)

    assert view.documents == {}
    assert all(stage(view, name) == {"due": 0, "in_flight": 0, "later": 0} for name in ("parse", "generate", "index"))
    assert (view.dead, view.chunks_per_minute, view.eta_seconds) == (0, 0, None)


async def test_work_is_counted_where_it_stands(client, services):
    library = Library(services, "alice")
    for number in range(4):
        await library.add(f"A text about lighthouse number {number} and its keeper.")
    await services.ledger.work.claim_documents(1)
    await Library(services, "bob").add("not hers")

    view = await status(client)
    assert view.documents == {"queued": 3, "parsing": 1}
    assert stage(view, "parse") == {"due": 3, "in_flight": 1, "later": 0}
    assert view.stages["parse"].oldest_seconds >= 0
    assert view.eta_seconds is None  # nothing has ended yet
    assert stage(await status(client, "bob"), "parse") == {"due": 1, "in_flight": 0, "later": 0}


async def test_what_waits_for_its_time_is_told_apart(client, services):
    await Library(services, "alice").add("A text about a lighthouse and its keeper.")
    async with services.database.begin() as connection:
        await connection.execute(text("UPDATE documents SET due_at = now() + interval '1 hour'"))

    view = await status(client)
    assert stage(view, "parse") == {"due": 0, "in_flight": 0, "later": 1}
    assert view.stages["parse"].oldest_seconds is None


async def test_the_rate_and_the_end_follow_from_what_has_ended(client, services):
    library = Library(services, "alice")
    for number in range(6):
        await library.add(f"A text about lighthouse number {number} and its keeper.")
    await work(services)
    for number in range(3):
        await library.add(f"A text about harbour number {number} and its ships.")
    documents = await services.ledger.work.claim_documents(10)
    assert len(documents) == 3
    await services.ledger.work.give_back("documents", [d.lease for d in documents])

    view = await status(client)
    assert view.documents == {"queued": 3, "ready": 6}
    assert 6 <= view.chunks_per_minute <= 6 * 12
    assert view.eta_seconds is None  # what is not parsed yet has no chunks to count


async def test_what_is_dead_is_counted(client, services, provider):
    library = Library(services, "alice")
    provider.script(malformed_containing="lighthouse")
    await library.add("A text about a lighthouse and its keeper.")
    await work(services)

    assert (await status(client)).dead == 1


async def test_limits_are_shown_with_their_use(client, services):
    await Library(services, "alice").add("A text about a lighthouse and its keeper.")
    await work(services)

    limits = {limit.name: limit for limit in (await status(client)).limits}
    assert limits["llm requests"].used >= 1
    assert limits["llm requests"].breaker == "closed"
    assert "embedding requests" in limits


async def test_usage_is_shown_by_collection_with_its_price(services, settings, provider):
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
