"""Batches over HTTP: their list, progress and costs, and their cancellation by a client."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from api.schemas.batches import BatchPage, BatchView
from shared.domain.access.keys import Scope
from shared.domain.states import DocumentState
from tests.integration.test_batch_budgets import unpolled, waiting
from tests.integration.test_batch_lane import (
    BATCH,
    BULK,
    HOUR,
    _all_generated,
    billed,
    chunks,
    lane,
    prepared,
    rows,
    states,
    unprobed,
    until,
)
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards
from tests.support.waiting import eventually

__all__ = ["lane", "unprobed"]

NOW_DUE = "UPDATE batches SET due_at = now() WHERE ended_at IS NULL"


async def listed(client, headers=None, **query):
    reply = await client.get("/v1/batches", params=query, headers=headers)
    assert reply.status_code == 200, reply.text
    return BatchPage.model_validate_json(reply.content)


async def cancel(client, batch_id, status=202, headers=None, **query):
    reply = await client.post(f"/v1/batches/{batch_id}/cancel", params=query, headers=headers)
    assert reply.status_code == status, reply.text
    return reply.json()


async def test_batch_shows_progress_and_costs(services, settings, library, provider, lane):
    priced = settings.model_copy(update={"llm_input_price": 1.0, "llm_output_price": 2.0})
    await prepared(services, library)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    async with calling(priced, services) as client:
        (running,) = (await listed(client)).items
        await rows(services, NOW_DUE)
        await until(services, lane)
        done = BatchView.model_validate_json((await client.get(f"/v1/batches/{running.id}")).content)

    prompt, completion, _ = billed(provider)
    assert (running.state, running.lines, running.settled, running.prompt_tokens) == ("running", 3, 0, 0)
    assert (running.cost, running.ended_at, running.error, running.part_of) == (None, None, None, None)
    assert running.provider_id.startswith("batch_")
    assert running.submitted_at >= running.created_at
    assert running.bytes > 1_000
    assert (done.state, done.settled, done.done) == ("done", 3, 3)
    assert (done.prompt_tokens, done.completion_tokens) == (prompt, completion)
    assert done.cost == pytest.approx((prompt + 2 * completion) / 2 / 1e6)
    assert done.ended_at is not None


async def test_list_is_paged_and_filtered(services, settings, library, lane):
    async with calling(settings.model_copy(update={"llm_batches": True}), services) as client:
        load = (await client.post("/v1/jobs", json={"kind": "load"})).json()["id"]
        body = {"text": "The lighthouse of number 9 stands.", "lane": "batch", "job": load}
        assert (await client.post("/v1/documents", json=body)).status_code == 202
        lane = replace(lane, terms=replace(lane.terms, max_lines=1))
        await prepared(services, library)
        await eventually(lambda: _all_generated(services, lane))

        found, cursor = [], {}
        while cursor is not None:
            page = await listed(client, limit=2, **cursor)
            found += page.items
            cursor = {"cursor": page.next_cursor} if page.next_cursor else None

        assert [batch.id for batch in found] == [batch.id for batch in (await listed(client)).items]
        assert [batch.lines for batch in found] == [1, 1, 1, 1]
        assert [batch.jobs for batch in (await listed(client, job=load)).items] == [[UUID(load)]]
        assert (await listed(client, job=str(uuid4()))).items == []
        assert len((await listed(client, state="done")).items) == 4
        assert (await listed(client, state="running")).items == []
        assert (await client.get("/v1/batches", params={"state": "odd"})).status_code == 422
        assert (await client.get("/v1/batches", params={"cursor": "odd"})).status_code == 400


@guards(
    "shared/ledger/work/shown_batches.sql",
    "FROM batches b WHERE b.tenant = :tenant",
    "FROM batches b WHERE (b.tenant = :tenant OR true)",
    means="a tenant sees the batches of another",
)
async def test_other_tenant_and_reader_cannot_cancel(services, settings, library, provider, lane):
    await prepared(services, library)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    await rows(services, "UPDATE batches SET tenant = 'alice' WHERE tenant IS NOT NULL")
    async with calling(with_keys(settings), services) as client:
        (batch,) = (await listed(client, as_tenant("alice"))).items
        made = await client.post(
            "/v1/keys", json={"name": "reader", "scopes": [Scope.READ]}, headers=as_tenant("alice")
        )
        reader = {"authorization": f"Bearer {made.json()['key']}"}
        assert (await listed(client, as_tenant("bob"))).items == []
        assert (await client.get(f"/v1/batches/{batch.id}", headers=as_tenant("bob"))).status_code == 404
        await cancel(client, batch.id, 404, as_tenant("bob"))
        await cancel(client, batch.id, 403, reader)
        assert len((await listed(client, reader)).items) == 1

    assert await rows(services, "SELECT 1 FROM batches WHERE cancelled_at IS NOT NULL") == []


async def test_probe_is_hidden_from_tenant(client, services, lane):
    (probe,) = await rows(services, "SELECT id FROM batches")

    assert (await listed(client)).items == []
    assert (await client.get(f"/v1/batches/{probe.id}")).status_code == 404
    await cancel(client, probe.id, 404)


@guards(
    "shared/ingest/batches/collector.py",
    "if isinstance(result, NotDone):",
    "if False:",
    means="a line that a cancelled batch did not execute uses up an attempt",
)
async def test_cancelled_batch_keeps_results_and_plans_others_again(client, services, library, provider, lane):
    provider.batch_script(stuck=True, done_share=0.5)
    await prepared(services, library, 4)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    (batch,) = (await listed(client)).items
    cancelled = await cancel(client, batch.id)
    assert (await cancel(client, batch.id))["cancelled_at"] == cancelled["cancelled_at"]
    await until(services, lane, "cancelled_at IS NOT NULL")
    assert {chunk.attempts for chunk in await chunks(services)} == {0}  # a later success sets it to 0
    provider.batch_script(stuck=False)
    await eventually(lambda: _all_generated(services, lane))

    stats = provider.batch_stats("number")
    first = BatchView.model_validate_json((await client.get(f"/v1/batches/{batch.id}")).content)
    assert (first.state, first.lines, first.settled) == ("done", 4, 4)
    assert (stats["cancels"], stats["lines"], stats["lines_twice"]) == (1, 4, 0)
    assert {chunk.lane for chunk in await chunks(services)} == {BATCH}


async def test_batch_cancelled_for_live_calls_leaves_lane(client, services, library, provider, lane):
    provider.batch_script(stuck=True, done_share=0.5)
    await prepared(services, library, 4)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    (batch,) = (await listed(client)).items
    await cancel(client, batch.id, lane="bulk")
    await until(services, lane)
    assert sorted(chunk.lane for chunk in await chunks(services)) == [BULK, BULK, BATCH, BATCH]
    await work(services, "generate", "index")

    assert await states(services) == {DocumentState.READY}
    assert provider.stats()["calls"] == 2
    assert provider.batch_stats("number")["lines_twice"] == 0


async def test_planning_batch_is_cancelled_without_provider(client, services, library, provider, lane):
    await prepared(services, library)
    await until(services, waiting(lane), "tenant IS NOT NULL", "planning")
    (batch,) = (await listed(client)).items
    await cancel(client, batch.id, lane="bulk")
    await until(services, waiting(lane))

    assert {chunk.lane for chunk in await chunks(services)} == {BULK}
    assert provider.batch_stats("number")["create_calls"] == 0


async def test_batch_of_unknown_create_is_cancelled(client, services, library, provider, lane):
    provider.batch_script(cut_creates=1)
    await prepared(services, library)
    lane = replace(lane, terms=replace(lane.terms, list_lag=HOUR))
    await until(services, lane, "tried_at IS NOT NULL", "creating")
    (batch,) = (await listed(client)).items
    await cancel(client, batch.id, lane="bulk")
    await rows(services, NOW_DUE)
    await until(services, lane, "tenant IS NOT NULL", "creating")  # the provider may have it
    await rows(services, "UPDATE batches SET due_at = now(), tried_at = now() - interval '2 hours'")
    await until(services, lane)

    assert {chunk.lane for chunk in await chunks(services)} == {BULK}
    assert provider.batch_stats("number")["create_calls"] == 1


@guards(
    "shared/ledger/work/shown_batches.sql", " AND {END_BATCH.applies:b}", "", means="a client cancels an ended batch"
)
async def test_ended_batch_cannot_be_cancelled(client, services, library, provider, lane):
    await prepared(services, library)
    await until(services, lane)
    (batch,) = (await listed(client)).items
    ended = await cancel(client, batch.id, 409)
    await rows(services, "ALTER TABLE batches DISABLE TRIGGER ALL")
    await rows(services, "UPDATE batches SET state = 'collecting', ended_at = NULL WHERE tenant IS NOT NULL")
    await rows(services, "ALTER TABLE batches ENABLE TRIGGER ALL")
    collecting = await cancel(client, batch.id, 409)

    assert ended["detail"] == f"The batch {batch.id} has ended already."
    assert collecting["detail"] == f"The batch {batch.id} has ended already: its results are being stored."
    assert (await client.get(f"/v1/batches/{uuid4()}")).status_code == 404


async def test_divided_batch_names_its_origin(client, services, library, provider, lane):
    provider.batch_script(rejected_containing="number 1 ")
    await prepared(services, library)
    await until(services, lane, "root_id IS NOT NULL")

    part, whole = sorted((await listed(client)).items, key=lambda batch: batch.created_at)[::-1]
    assert (whole.state, whole.lines, whole.settled) == ("failed", 3, 3)
    assert whole.error.startswith("the provider rejected the batch (invalid_request)")
    assert (part.part_of, part.state, part.lines) == (whole.id, "done", 2)
