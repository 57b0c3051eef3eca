"""Jobs over HTTP: loads and reindexes with progress, pause and cancel, and the list of all kinds."""

import asyncio
import json
from uuid import UUID

import asyncpg
import pytest

from features.builds.ledger.gates import GateRequest, Gates
from features.verification.domain import ComparisonProgress, VerificationCounts
from features.verification.ledger import Verifications
from shared.domain.access.keys import Scope
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.jobs import JobKind
from shared.domain.states import DocumentState
from shared.http.schemas.jobs import JobPage, JobView
from shared.http.schemas.problems import ProblemDetails
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.open_jobs import hold_load
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.costs import Costs
from shared.ledger.work.parsing import ParseWork
from tests.conftest import Library
from tests.integration.test_erasure import make_all_due
from tests.integration.test_interleavings import run
from tests.support.api import as_tenant, calling, running, with_keys, work
from tests.support.erasing import clean
from tests.support.planted import guards
from tests.support.refused import refusing
from tests.support.waiting import TIMEOUT_SECONDS, eventually
from workers.scheduler import forget_jobs

BROKEN_PDF = "%PDF-1.7 this is not a PDF"


async def open_load(client, headers=None, **body):
    reply = await client.post("/v1/jobs", json={"kind": "load", **body}, headers=headers)
    assert reply.status_code in (200, 201), reply.text
    return reply.json()["id"]


async def upload(client, name, text=None, *, status=202, **fields):
    """Upload a document with a question, so that none is generated, except with `questions=None`."""
    body = {"filename": name, "text": text or f"The {name} tells of the harbour.", "questions": ["Where?"], **fields}
    reply = await client.post("/v1/documents", json=body)
    assert reply.status_code == status, reply.text
    return reply.json()


async def shown(client, job_id):
    reply = await client.get(f"/v1/jobs/{job_id}")
    assert reply.status_code == 200, reply.text
    return JobView.model_validate_json(reply.content)


async def act(client, job_id, action, status=200):
    reply = await client.post(f"/v1/jobs/{job_id}/{action}")
    assert reply.status_code == status, reply.text
    return reply.json()


async def process(services):
    """Process due documents to their end: their questions are given."""
    await work(services, "parse", "index")


async def two_documents(services):
    library = Library(services)
    for name in ("a.md", "b.md"):
        await library.add(f"The {name} tells of the harbour.", name, questions=["Where?"])
    await process(services)


async def settle(services):
    while await services.ledger[Jobs].settle():
        pass


async def test_closed_load_is_done_when_its_documents_are(client, services, provider):
    job_id = await open_load(client, documents=2)
    for name in ("a.md", "b.md"):
        await upload(client, name, job=job_id)
    await upload(client, "alone.md")
    job = await shown(client, job_id)
    assert (job.state, job.done, job.total, job.documents) == ("running", 0, 2, {DocumentState.QUEUED: 2})

    await act(client, job_id, "close")
    await settle(services)
    assert (await shown(client, job_id)).state == "running"
    await process(services)
    await settle(services)

    job = await shown(client, job_id)
    assert (job.state, job.done, job.total, job.documents) == ("done", 2, 2, {DocumentState.READY: 2})
    assert job.ended_at is not None


async def test_cost_of_job_is_its_calls(client, services, settings, provider):
    job_id = await open_load(client)
    assert (await shown(client, job_id)).cost is None
    await upload(client, "a.md", job=job_id, questions=None)
    await upload(client, "alone.md", "A longer text about something else, which another client uploaded.")
    await work(services)

    costs = await services.ledger[Costs].of_jobs("default", [UUID(job_id)])
    document = next(d for d in (await client.get("/v1/documents")).json()["items"] if d["external_id"] == "a.md")
    (generated,) = [cost for cost in costs if cost.kind == "generate"]
    assert generated.calls == document["usage"]["calls"] == 1
    assert generated.usage.prompt_tokens == document["usage"]["prompt_tokens"]
    assert [cost.kind for cost in costs if cost.kind != "generate"] == ["embed"]
    priced = settings.model_copy(update={"llm_input_price": 1.0, "llm_output_price": 2.0})
    async with calling(priced, services) as other:
        assert (await shown(other, job_id)).cost > 0


async def test_load_with_failed_document_is_done_with_errors(client, services, provider):
    job_id = await open_load(client)
    await upload(client, "a.pdf", BROKEN_PDF, job=job_id)
    await process(services)
    await act(client, job_id, "close")
    await settle(services)

    job = await shown(client, job_id)
    assert (job.state, job.documents) == ("done_with_errors", {DocumentState.FAILED: 1})


async def test_load_of_vanished_client_runs_until_closed(client, services, provider):
    job_id = await open_load(client)
    await upload(client, "a.md", job=job_id)
    await process(services)
    await settle(services)

    job = await shown(client, job_id)
    assert job.state == "running"
    assert job.message.startswith("All 1 uploaded documents are finished. The job ends when its client closes it")


async def test_second_load_of_same_key_is_refused(client, services):
    job_id = await open_load(client, idempotency_key="export")

    reply = await client.post("/v1/jobs", json={"idempotency_key": "export"})

    assert reply.status_code == 409
    assert ProblemDetails.model_validate_json(reply.content).job_id == job_id
    await act(client, job_id, "close")
    await settle(services)
    assert await open_load(client, idempotency_key="export") != job_id


async def test_concurrent_loads_of_same_key_open_one_job(client):
    replies = await asyncio.gather(*(client.post("/v1/jobs", json={"idempotency_key": "export"}) for _ in range(8)))

    assert sorted(reply.status_code for reply in replies) == [201, *[409] * 7]


async def test_reopened_load_accepts_documents_again(client, services):
    job_id = await open_load(client, idempotency_key="export")
    await upload(client, "a.md", job=job_id)
    await act(client, job_id, "close")
    await upload(client, "b.md", job=job_id, status=409)

    assert await open_load(client, idempotency_key="export", reopen=True) == job_id

    await upload(client, "b.md", job=job_id)
    assert (await shown(client, job_id)).documents == {DocumentState.QUEUED: 2}


async def test_close_waits_for_uploads_in_progress(client, services, library):
    job_id = await open_load(client)
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
    async with services.database.begin() as connection:
        await hold_load(connection, await library.collection(), UUID(job_id))
        closing = asyncio.create_task(client.post(f"/v1/jobs/{job_id}/close"))
        await eventually(lambda: run(services, waiting))
    assert (await closing).json()["closed"]


async def test_load_refuses_documents_of_other_collections_and_tenants(settings, services):
    async with calling(with_keys(settings), services) as client:
        job_id = await open_load(client, headers=as_tenant("alice"))
        for tenant, collection, status in (("alice", "other", 409), ("bob", "default", 404)):
            body = {"text": "text", "job": job_id, "collection": collection}
            reply = await client.post("/v1/documents", json=body, headers=as_tenant(tenant))
            assert reply.status_code == status, reply.text


async def test_form_and_batch_uploads_join_a_load(client, services):
    job_id = await open_load(client)
    form = await client.post("/v1/documents", data={"job": job_id}, files={"file": ("a.md", b"A harbour.")})
    assert form.status_code == 202, form.text
    lines = "\n".join(json.dumps({"external_id": f"{n}", "text": f"Text {n}"}) for n in range(3))
    headers = {"content-type": "application/x-ndjson"}
    batch = await client.post("/v1/documents:batch", params={"job": job_id}, content=lines, headers=headers)
    assert batch.status_code == 200, batch.text

    assert (await shown(client, job_id)).documents == {DocumentState.QUEUED: 4}


async def test_paused_load_is_not_claimed_at_any_stage(client, services, provider):
    job_id = await open_load(client)
    await upload(client, "a.md", job=job_id, questions=None)
    rows = "SELECT state, due_at FROM documents UNION ALL SELECT state, due_at FROM chunks"
    for stage in ("parse", "index", "generate", "index"):
        due = await run(services, rows)
        await act(client, job_id, "pause")
        await work(services, stage)
        assert (
            await run(services, "SELECT state, due_at FROM documents UNION ALL SELECT state, due_at FROM chunks") == due
        )
        assert await services.ledger[Backlogs].due() == []
        await act(client, job_id, "resume")
        await work(services, stage)

    assert (await shown(client, job_id)).documents == {DocumentState.READY: 1}


async def test_status_names_pause_of_all_work(client, services, provider):
    job_id = await open_load(client)
    await upload(client, "a.md", job=job_id)
    await act(client, job_id, "pause")
    status = (await client.get("/v1/status")).json()
    assert status["pace"]["cause"] == "paused"
    assert (status["stages"]["parse"]["due"], status["stages"]["parse"]["oldest_seconds"]) == (1, None)

    await upload(client, "alone.md")
    assert (await client.get("/v1/status")).json()["pace"]["cause"] != "paused"


async def test_paused_load_leaves_other_documents_in_work(client, services, provider):
    job_id = await open_load(client)
    await upload(client, "paused.md", job=job_id)
    await act(client, job_id, "pause")
    await upload(client, "alone.md")
    other = await open_load(client)
    await upload(client, "other.md", job=other)

    await process(services)

    assert (await shown(client, job_id)).documents == {DocumentState.QUEUED: 1}
    assert (await shown(client, other)).documents == {DocumentState.READY: 1}
    counts = await services.ledger[Documents].counts("default")
    assert counts == {DocumentState.QUEUED: 1, DocumentState.READY: 2}


async def test_suspect_of_paused_load_is_not_claimed(client, services, provider):
    job_id = await open_load(client)
    await upload(client, "a.md", job=job_id)
    await run(services, "UPDATE documents SET lost_leases = 2")
    await act(client, job_id, "pause")
    assert await services.ledger[ParseWork].claim(1, suspects=True) == []

    await act(client, job_id, "resume")
    assert len(await services.ledger[ParseWork].claim(1, suspects=True)) == 1


async def load_without_questions(client, services, documents=1):
    """Upload documents in a load, whose questions are not generated yet; return the load."""
    job_id = await open_load(client)
    for number in range(documents):
        await upload(client, f"{number}.md", job=job_id, questions=None)
    await work(services, "parse", "index")
    return job_id


async def set_budget(client, limit, **scope):
    reply = await client.put("/v1/budgets", json={"period": "total", "unit": "tokens", "limit": limit, **scope})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_running_job_names_its_exhausted_budget(client, services, provider):
    job_id = await load_without_questions(client, services)
    for scope in ({}, {"collection": "default"}, {"job_id": job_id}):
        budget = await set_budget(client, 5, **scope)
        await work(services, "generate")

        job = await shown(client, job_id)
        assert (job.state, job.pause_reason, str(job.budget_id)) == ("running", "budget", budget["id"]), scope
        assert job.message.startswith("The total budget of 5 tokens")
        listed = JobPage.model_validate_json((await client.get("/v1/jobs")).content).items
        assert [each.pause_reason for each in listed] == ["budget"]

        await set_budget(client, 100_000, **scope)
        job = await shown(client, job_id)
        assert (job.pause_reason, job.budget_id) == (None, None), scope
    await work(services)
    assert (await shown(client, job_id)).documents == {DocumentState.READY: 1}


async def test_budget_of_others_pauses_no_job(client, services, provider):
    job_id = await load_without_questions(client, services)
    other = await open_load(client, collection="other")
    for scope in ({"collection": "other"}, {"job_id": other}):
        await set_budget(client, 5, **scope)
    await run(services, "UPDATE budgets SET spent = most")

    assert [(await shown(client, job)).pause_reason for job in (job_id, other)] == [None, None]


async def test_job_with_all_questions_is_not_paused(client, services, provider):
    job_id = await load_without_questions(client, services)
    await work(services)
    await set_budget(client, 5)
    await run(services, "UPDATE budgets SET spent = most")

    assert (await shown(client, job_id)).pause_reason is None


async def test_running_job_names_failing_provider(client, services, provider):
    job_id = await load_without_questions(client, services, documents=4)
    assert (await shown(client, job_id)).pause_reason is None
    provider.script(down=True)

    async def is_paused():
        await run(services, "UPDATE chunks SET due_at = now() WHERE leased_by IS NULL")
        await work(services, "generate")
        return (await shown(client, job_id)).pause_reason == "provider"

    await eventually(is_paused)

    job = await shown(client, job_id)
    assert (job.state, job.budget_id) == ("running", None)
    assert job.message == (
        'The llm provider answered 503: it failed; it says "the provider is down"; questions are generated when it'
        " answers again."
    )


async def test_cancelled_load_deletes_queued_documents_and_finishes_others(client, services, provider):
    job_id = await open_load(client)
    for name in ("started.md", "b.md", "c.md"):
        await upload(client, name, job=job_id)
    assert len(await services.ledger[ParseWork].claim(1)) == 1
    await act(client, job_id, "cancel", 202)
    await upload(client, "late.md", job=job_id, status=409)
    await settle(services)

    job = await shown(client, job_id)
    assert (job.state, job.documents) == ("cancelling", {DocumentState.PARSING: 1})
    await run(services, "UPDATE documents SET due_at = now() WHERE leased_by IS NOT NULL")
    await process(services)
    await settle(services)

    job = await shown(client, job_id)
    assert (job.state, job.documents) == ("cancelled", {DocumentState.READY: 1})
    (document,) = (await client.get("/v1/documents")).json()["items"]
    assert document["state"] == "ready"


@guards(
    "shared/ledger/jobs/jobs.py",
    "        finally:  # a job that cannot be cancelled keeps no other job open",
    "        except LookupError:",
    means="a job that cannot be cancelled keeps all other jobs open",
)
async def test_uncancellable_job_keeps_no_other_open(client, services, provider):
    bad, good = await open_load(client, idempotency_key="bad"), await open_load(client, idempotency_key="good")
    await upload(client, "a.md", job=bad)
    await act(client, bad, "cancel", 202)
    await act(client, good, "close")
    ((row,),) = await run(services, "SELECT id FROM documents")
    async with refusing(services.database, "documents", "UPDATE OR DELETE", row):
        with pytest.raises(asyncpg.PostgresError):
            await services.ledger[Jobs].settle()
        assert (await shown(client, good)).state == "done"
        assert (await shown(client, bad)).state == "cancelling"

    await services.ledger[Jobs].settle()
    await services.ledger[Jobs].settle()
    assert (await shown(client, bad)).state == "cancelled"


async def test_cancelled_load_keeps_the_version_before_it(client, services, provider):
    await upload(client, "a.md", "The first text about the harbour.")
    await process(services)
    job_id = await open_load(client)
    await upload(client, "a.md", "The second text about the harbour.", job=job_id)
    await act(client, job_id, "cancel", 202)
    await settle(services)

    (document,) = (await client.get("/v1/documents")).json()["items"]
    assert (document["state"], document["version"], document["live_version"]) == ("ready", 1, 1)


async def test_cancelled_reindex_keeps_documents_that_had_failed(client, services, provider):
    await upload(client, "a.pdf", BROKEN_PDF)
    await upload(client, "b.md")
    await process(services)
    job_id = (await client.post("/v1/collections/default/reindex")).json()["job_id"]
    await act(client, job_id, "cancel", 202)
    await settle(services)
    await process(services)
    await settle(services)

    assert (await shown(client, job_id)).state == "cancelled"
    states = {each["external_id"]: each["state"] for each in (await client.get("/v1/documents")).json()["items"]}
    assert states == {"a.pdf": "failed", "b.md": "ready"}


async def test_reindex_is_a_job_with_progress(client, services, once):
    await once(two_documents)
    reply = await client.post("/v1/collections/default/reindex")
    assert (reply.status_code, reply.json()["documents"]) == (202, 2)
    job_id = reply.json()["job_id"]

    second = await client.post("/v1/collections/default/reindex")
    assert (second.status_code, second.json()["job_id"]) == (409, job_id)
    job = await shown(client, job_id)
    assert (job.kind, job.state, job.done, job.total) == ("reindex", "running", 0, 2)
    await process(services)
    await settle(services)

    job = await shown(client, job_id)
    assert (job.state, job.done, job.total) == ("done", 2, 2)
    assert (await client.post("/v1/collections/default/reindex")).status_code == 202


async def test_paused_reindex_starts_no_further_documents(client, services, once, monkeypatch):
    monkeypatch.setattr("shared.ledger.documents.documents._REINDEX_SLICE", 1)
    await once(two_documents)
    job_id = (await client.post("/v1/collections/default/reindex")).json()["job_id"]
    await act(client, job_id, "pause")

    assert not await services.ledger[Documents].continue_reindex()
    await process(services)
    await settle(services)
    job = await shown(client, job_id)
    assert (job.state, job.done, job.total, job.documents) == ("paused", 0, 2, {DocumentState.QUEUED: 1})

    await act(client, job_id, "resume")
    while await services.ledger[Documents].continue_reindex():
        pass
    await process(services)
    await settle(services)
    assert (await shown(client, job_id)).state == "done"


async def test_edit_moves_document_out_of_load(client, services):
    job_id = await open_load(client)
    await upload(client, "a.md", job=job_id)
    await upload(client, "a.md", "Another text about the harbour.")
    assert (await shown(client, job_id)).documents == {}

    await act(client, job_id, "close")
    await settle(services)
    assert (await shown(client, job_id)).state == "done"


async def test_jobs_of_all_kinds_are_listed_in_pages(client, services, once):
    await once(two_documents)
    load = await open_load(client)
    reindex = (await client.post("/v1/collections/default/reindex")).json()["job_id"]
    build = await client.post("/v1/collections/default/builds", json={"questions_per_chunk": 3})
    assert build.status_code == 201, build.text
    ((build_id,),) = await run(services, "SELECT id::text FROM collections WHERE build = 2")
    labelled = {"questions": [{"question": "Where is the harbour?", "external_ids": ["a.md"]}], "strategies": ["text"]}
    evaluation = (await client.post("/v1/collections/default/evaluations", json=labelled)).json()["id"]

    found, cursor = [], None
    for _ in range(10):
        reply = await client.get("/v1/jobs", params={"limit": 1} | ({"cursor": cursor} if cursor else {}))
        page = JobPage.model_validate_json(reply.content)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break

    expected = [(evaluation, "evaluation"), (build_id, "build"), (reindex, "reindex"), (load, "load")]
    assert [(str(job.id), job.kind) for job in found] == expected
    assert found[0].state == "running"  # it is queued
    only = JobPage.model_validate_json((await client.get("/v1/jobs", params={"kind": "load"})).content)
    assert [str(job.id) for job in only.items] == [load]
    await act(client, build_id, "pause", 409)


async def filled_build(services):
    """Fill a build next to the live one with two documents; return it."""
    await two_documents(services)
    builds, model = services.ledger[Builds], services.settings.embedding_model
    options = CollectionOptions(questions_per_chunk=3)
    build = await builds.start("default", "default", options=options, embedding_model=model)
    while await builds.fill():
        pass
    await process(services)
    return await builds.get("default", "default", build.number)


async def test_gate_and_verification_are_jobs_with_progress(client, services, library, once):
    build = await once(filled_build)
    gate = await services.ledger[Gates].start(build, services.settings.embedding_model, GateRequest(None, 0))
    verification = await services.ledger[Verifications].start(await library.collection(), repair=False)
    claim = await services.ledger[JobClaims].claim([JobKind.GATE])
    progress = ComparisonProgress(VerificationCounts(documents=1, points=7))
    await services.ledger[Gates].save_progress(claim, progress)
    await services.ledger[JobClaims].release(claim)

    jobs = [await shown(client, each.id) for each in (gate, verification)]
    assert [(job.kind, job.state, job.collection) for job in jobs] == [
        ("gate", "running", "default"),
        ("verification", "running", "default"),
    ]
    assert [(job.done, job.total, job.points) for job in jobs] == [(1, 2, 7), (0, 2, 0)]
    for job, route in zip(jobs, ("builds/{number}/gate", "verify"), strict=True):
        assert (await act(client, job.id, "pause", 409))["detail"].endswith(f"/v1/collections/{{name}}/{route}.")

    async def are_done():
        return [(await shown(client, job.id)).state for job in jobs] == ["done", "done"]

    async with running(services):
        await eventually(are_done)
    for job in [await shown(client, job.id) for job in jobs]:
        assert (job.done, job.total, job.ended_at is not None) == (2, 2, True)
        assert job.points > 2


async def test_failed_and_cancelled_runs_are_ended_jobs(client, services, library, once):
    build = await once(filled_build)
    gate = await services.ledger[Gates].start(build, services.settings.embedding_model, GateRequest(None, 0))
    await services.ledger[JobClaims].fail(
        await services.ledger[JobClaims].claim([JobKind.GATE]), "Qdrant was unavailable."
    )
    collection = await library.collection()
    verification = await services.ledger[Verifications].start(collection, repair=False)
    await services.ledger[Verifications].cancel(collection)

    failed, cancelled = [await shown(client, each.id) for each in (gate, verification)]
    assert (failed.state, failed.error, failed.done) == ("failed", "Qdrant was unavailable.", 0)
    assert (cancelled.state, cancelled.error) == ("cancelled", None)


async def ended_load(client, services, name):
    """Return a load with one finished document that ended 91 days ago."""
    job_id = await open_load(client)
    await upload(client, name, job=job_id, questions=None)
    await act(client, job_id, "close")
    await work(services)
    await settle(services)
    await run(services, f"UPDATE jobs SET ended_at = ended_at - interval '91 days' WHERE id = '{job_id}'")
    return job_id


async def old_load(services):
    async with calling(services.settings, services) as client:
        return await ended_load(client, services, "a.md")


async def test_old_jobs_are_deleted_and_costs_remain(client, services, once):
    old, recent = await once(old_load), await ended_load(client, services, "b.md")
    await run(services, f"UPDATE jobs SET ended_at = ended_at + interval '2 days' WHERE id = '{recent}'")
    opened = await open_load(client)
    await set_budget(client, 10**6, job_id=old)
    costs = await services.ledger[Costs].sums("default")

    assert not await forget_jobs(services)

    assert [str(each.id) for each in await services.ledger[Jobs].page("default")] == [opened, recent]
    assert await run(services, "SELECT * FROM budgets") == []
    assert await services.ledger[Costs].sums("default") == costs
    await upload(client, "a.md", "Another text about the harbour.", job=opened)
    await process(services)
    listed = (await client.get("/v1/documents")).json()["items"]
    assert [each["state"] for each in listed] == ["ready", "ready"]


async def test_old_job_with_open_document_is_kept(client, services, once):
    old = await once(old_load)
    await open_load(client)
    await run(services, "UPDATE documents SET state = 'queued'")  # as the retry of a dead letter
    await forget_jobs(services)
    assert (await shown(client, old)).state == "done"

    await run(services, "UPDATE documents SET state = 'ready'")
    await forget_jobs(services)
    assert (await client.get(f"/v1/jobs/{old}")).status_code == 404


async def test_newest_job_is_kept_for_its_number(client, services, once):
    old = await once(old_load)
    await forget_jobs(services)
    assert (await shown(client, old)).state == "done"

    await open_load(client)
    assert await run(services, "SELECT number FROM jobs ORDER BY created_at") == [(1,), (2,)]


async def test_erasure_is_listed_and_removes_jobs(client, services, provider):
    job_id = await open_load(client)
    await upload(client, "a.md", job=job_id)
    erasure = (await client.delete("/v1/collections/default")).json()["id"]
    job = await shown(client, erasure)
    assert (job.kind, job.state, job.collection, job.total) == ("erasure", "running", "default", 1)

    async def is_finished():
        await clean(services)
        await make_all_due(services)  # an emptied collection waits a minute for late writers
        return (await shown(client, erasure)).state == "done"

    await eventually(is_finished)
    assert (await client.get(f"/v1/jobs/{job_id}")).status_code == 404
    assert await run(services, "SELECT * FROM jobs") == []


async def test_jobs_of_other_tenants_are_invisible(settings, services):
    async with calling(with_keys(settings), services) as client:
        job_id = await open_load(client, headers=as_tenant("alice"))
        other = as_tenant("bob")
        assert (await client.get("/v1/jobs", headers=other)).json()["items"] == []
        for path in ("", "/events"):
            assert (await client.get(f"/v1/jobs/{job_id}{path}", headers=other)).status_code == 404
        for action in ("close", "pause", "resume", "cancel"):
            assert (await client.post(f"/v1/jobs/{job_id}/{action}", headers=other)).status_code == 404
        assert (await client.get("/v1/jobs", headers=as_tenant("alice"))).json()["items"][0]["state"] == "running"


async def test_events_follow_job_to_its_end(client, services, provider):
    job_id = await open_load(client)
    await upload(client, "a.md", job=job_id)
    await act(client, job_id, "close")
    await process(services)
    await settle(services)

    async with asyncio.timeout(TIMEOUT_SECONDS):
        reply = await client.get(f"/v1/jobs/{job_id}/events")

    name, data = reply.text.strip().split("\n")
    assert name == "event: job"
    assert json.loads(data.removeprefix("data: "))["state"] == "done"


async def test_key_without_manage_changes_loads_but_no_reindexes(settings, services, provider):
    async with calling(with_keys(settings), services) as client:
        owner = as_tenant("alice")
        body = {"name": "uploader", "scopes": [Scope.READ, Scope.WRITE]}
        key = (await client.post("/v1/keys", json=body, headers=owner)).json()["key"]
        uploader, load = {"authorization": f"Bearer {key}"}, await open_load(client, headers=owner)
        reindex = (await client.post("/v1/collections/default/reindex", headers=owner)).json()["job_id"]

        statuses = [
            (await client.post(f"/v1/jobs/{job}/pause", headers=uploader)).status_code for job in (load, reindex)
        ]

        assert statuses == [200, 403]
