"""Erasure: a tenant, a collection or a document is deleted with all derived data."""

import asyncio
import dataclasses
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from foreask_client import AsyncClient

from features.all import FEATURES
from features.builds.ledger.gates import GateRequest, Gates
from features.erasure.check import ErasureCheck, ErasureScope
from features.erasure.ledger.erasures import TABLES_OF_TENANT, Erasures
from features.erasure.ledger.leftover_rows import LeftoverRows
from features.evaluation.ledger.evaluations import EvaluationRequest, Evaluations
from features.evaluation.ledger.labelled_sets import LabelledSets
from features.feedback.ledger.feedback import Feedback
from features.sources.domain import NewSource
from features.sources.ledger.sources import Sources
from features.sources.ledger.syncs import Syncs
from features.verification.domain import ComparisonProgress, DifferingPoint, Position
from features.verification.ledger import VerificationRequest, Verifications, findings_of
from features.webhooks.ledger import Webhooks
from shared.broker.tenant_keys import TenantKeys
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.index_location import index_location_of
from shared.domain.errors import Conflict, LeaseLost, NotFound, Unavailable
from shared.domain.jobs import JobKind, PauseReason
from shared.domain.retry import Retry
from shared.domain.spending.budgets import Reserve
from shared.domain.spending.usage import Usage
from shared.domain.stages.attempts import FailedAttempt, PaidReply
from shared.ingest.index.stage import IndexStage
from shared.ledger.builds.builds import Builds
from shared.ledger.documents import build_sync
from shared.ledger.documents.completions import Completions
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.listing import DocumentFilter
from shared.ledger.feedback.query_log import QueryLog, QueryLogEntry
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.work import paid_contents
from shared.ledger.work.batches import Batches
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.leftovers import Leftovers
from shared.services.features import erased_tables
from shared.services.llm import batch_api_of
from shared.settings import ApiKey
from shared.vectors.index import Index
from tests.conftest import Library
from tests.support.api import as_tenant, calling, ready, serving, with_keys, work
from tests.support.counters import DIFFERENCES
from tests.support.emptying import PREFIX
from tests.support.erasing import clean, erase, erasure_steps
from tests.support.pages import commands_of, foreask_with_background
from tests.support.planted import guards
from tests.support.qdrant import headers_of, qdrant_client
from tests.support.tables import columns
from tests.support.waiting import eventually

PAGE = "erase.md"
OPERATORS_KEY = "operator-0123456789abcdef0123456789"
WEEK = timedelta(days=7)
# Deleted in slices before an erasure deletes the rest.
DELETED_BEFORE = ("collections", "documents", "pages", "chunks", "sweeps")
WRITERS_HAVE_ENDED = "UPDATE erasures SET fenced_at = fenced_at - interval '1 minute';"
# Makes all waiting work due, as if all leases had expired.
MAKE_ALL_DUE = f"""
    DO $$ BEGIN
        UPDATE sweeps SET due_at = now();
        UPDATE outdated_objects SET due_at = now();
        UPDATE abandoned_calls SET due_at = now();
        {WRITERS_HAVE_ENDED}
        UPDATE collections SET emptied_at = now() - interval '1 hour' WHERE emptied_at IS NOT NULL;
    END $$
"""

# Shares an answer that quotes documents.
SHARE = """
    INSERT INTO shared_answers (id, tenant, collection, question, answer, form, numbers, chunk_ids, document_ids,
                                expires_at)
    VALUES (gen_random_uuid(), :tenant, :collection, 'When?', 'At six.', 'generative', '{}', '{}', :documents,
            now() + interval '1 day')
"""

# Stores a conversation that cites documents.
CONVERSE = """
    INSERT INTO conversations (tenant, owner, id, name, turns, collections, document_ids, changed_at)
    VALUES (:tenant, 'local', CAST(gen_random_uuid() AS text), 'When?', '[]', ARRAY[:collection], :documents, now())
"""

# Resolves a gap by a document.
RESOLVE = """
    INSERT INTO gaps (id, tenant, collection, assigned_to, resolved_by, resolved_at)
    VALUES (gen_random_uuid(), :tenant, :collection, 'Ann', :document, now())
"""

# Disables a question of a document.
DISABLE = """
    INSERT INTO disabled_questions (document_id, text_hash, question, tenant, collection, upload, span_start, span_end)
    VALUES (:document, '', 'when', :tenant, :collection, 'a', 0, 1)
"""


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return [tuple(row) for row in result]


async def make_all_due(services):
    await run(services, MAKE_ALL_DUE)


async def finished(services, erasure):
    """Clean up until an erasure has finished, and return it."""
    steps = {**services.cleaner.steps, **erasure_steps(services)}
    for _ in range(60):
        for name in ("drop", "purge", "delete", "outdate", "sweep", "erase"):  # each ends waits of later ones
            await steps[name]()
            if name in ("delete", "sweep"):
                await make_all_due(services)
        erasure = await services.ledger[Erasures].get(erasure.id)
        if erasure.finished_at is not None:
            return erasure
    raise AssertionError("the erasure does not finish")


@pytest.fixture
async def keys(services):
    keys = TenantKeys(services.settings.redis_url.get_secret_value())
    yield keys
    await keys.aclose()


@pytest.fixture(autouse=True)
async def empty_qdrant(services):
    """Delete collections that tests created without the product, because the check reads every collection."""
    for name in await services.index.names():
        if not name.startswith(PREFIX):
            await qdrant_client(services).delete_collection(name)


@pytest.fixture
async def check(services, settings, keys, provider):
    stack = AsyncExitStack()
    batch_api = batch_api_of(settings, stack)
    erasure_check = ErasureCheck(
        erasures=services.ledger[Erasures],
        rows=LeftoverRows(services.database, erased_tables(FEATURES)),
        documents=services.ledger[Documents],
        index=services.index,
        tenant_keys=keys,
        uploads=services.uploads,
        batches=services.ledger[Batches],
        provider=lambda: batch_api,
    )

    async def found(**scope):
        findings = await erasure_check.run(ErasureScope(**scope))
        assert [finding for finding in findings if finding.unchecked is not None] == []
        return {f"{finding.engine} {finding.part}": finding.count for finding in findings if finding.count}

    async with stack:
        yield found


async def log_query(services, tenant, collection, chunk_ids=()):
    entry = QueryLogEntry(uuid4(), tenant, collection.id, "When does it open?", [str(each) for each in chunk_ids])
    await services.ledger[QueryLog].append([entry])


async def filled(services):
    """Give each tenant documents, an edit, a logged query, an estimate, an evaluation, a source, a webhook, a shared
    answer, a conversation and a gap.
    """
    libraries = {tenant: Library(services, tenant) for tenant in ("alice", "bob")}
    for library in libraries.values():
        for number in range(3):
            await library.add(f"The harbour number {number} opens at six.", f"{number}.md")
    await work(services)
    for library in libraries.values():
        await library.add("The harbour is closed.", "0.md")
    await work(services)
    for tenant, library in libraries.items():
        await services.ledger[Webhooks].make(tenant, "https://example.org", "whsec_", [])
        await log_query(services, tenant, await library.collection())
        collection = await library.collection()
        await run(
            services,
            "INSERT INTO estimates (collection_id, estimate, spent) VALUES (:id, '{}', '{}')",
            id=collection.id,
        )
        question = {"question": "When does the harbour open?", "external_ids": ["0.md"]}
        await services.ledger[LabelledSets].save_set(tenant, "default", "harbours", [question])
        await services.ledger[Evaluations].start(
            collection, "harbours", EvaluationRequest([question], ["text"], "text")
        )
        await services.ledger[Verifications].start(collection, repair=False)
        build = (await services.ledger[Builds].list(tenant, "default"))[0]
        await services.ledger[Gates].start(build, build.embedding_model, GateRequest(None, 0))
        source = await services.ledger[Sources].add(collection, NewSource("docs", "folder", "/docs"))
        await services.ledger[Syncs].start(tenant, "docs")
        await run(services, "INSERT INTO source_items (source_id, key, version) VALUES (:id, 'a', '1')", id=source.id)
        (document, *_) = await services.ledger[Documents].page(tenant)
        for statement in (SHARE, CONVERSE):
            await run(services, statement, tenant=tenant, collection="default", documents=[document.id])
        for statement in (RESOLVE, DISABLE):
            await run(services, statement, tenant=tenant, collection="default", document=document.id)
    await clean(services)


async def state_of(services, tenant):
    """Return the numbers of a tenant's rows and points."""
    collection = await services.ledger[Collections].find(tenant, "default")
    counts = await asyncio.gather(
        *(
            run(services, f"SELECT count(*) FROM {table} WHERE tenant = :tenant", tenant=tenant)
            for table in (
                "documents",
                "chunks",
                "completions",
                "queries",
                "gaps",
                "disabled_questions",
                "shared_answers",
                "conversations",
            )
        )
    )
    return counts, await services.index.count_points(collection.location)


# --- a tenant ---


async def test_tenant_erasure_deletes_all_and_only_its_data(services, check, keys, once):
    await once(filled)
    for key in ("foreask:limits:{llm}:tenant:alice", "foreask:use:alice:requests"):
        await keys._redis.set(key, "1")
    assert len(await keys.find("alice")) == 2
    await keys._redis.set("foreask:limits:{llm}:tenant:bob", "1")
    before = await state_of(services, "bob")
    found = await check(tenant="alice")
    assert {name.split()[0] for name in found} == {"postgresql", "qdrant", "valkey"}
    assert {"postgresql completions", "postgresql queries", "postgresql estimates"} <= found.keys()

    erasure = await finished(services, await services.ledger[Erasures].start("alice"))

    assert await check(tenant="alice") == {}
    assert erasure.deleted["documents"] == 3
    assert erasure.deleted["completions"] >= 3
    assert await state_of(services, "bob") == before
    assert await keys.find("bob")
    assert await run(services, DIFFERENCES) == []
    await Library(services, "alice").add("A new text.", "a.md")


async def test_erasure_interrupted_at_any_step_resumes(services, check, once, monkeypatch):
    for ledger in (
        "shared.ledger.builds.builds",
        "features.erasure.ledger.erasures",
        "shared.ledger.documents.completions",
    ):
        monkeypatch.setattr(f"{ledger}._SLICE", 3)
    await once(filled)
    before = await state_of(services, "bob")
    erasure = await services.ledger[Erasures].start("alice")
    cleanup = services.cleaner.steps
    steps = [*(cleanup[name] for name in ("purge", "drop", "outdate", "sweep")), erasure_steps(services)["erase"]]

    # Each step is interrupted, a little later in each iteration, and then run completely.
    for iteration in range(60):
        for step in steps:
            task = asyncio.create_task(step())
            await asyncio.wait({task}, timeout=0.001 * (iteration % 3))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await step()
        await make_all_due(services)
        if (await services.ledger[Erasures].get(erasure.id)).finished_at:
            break

    assert await check(tenant="alice") == {}
    assert await state_of(services, "bob") == before


async def test_uploads_during_tenant_erasure_are_rejected(services, provider, library):
    await library.add("A text.", "a.md")
    new = await library.new("Late.", "b.md")
    erasure = await services.ledger[Erasures].start("default")

    with pytest.raises(Conflict, match="is being deleted"):
        await services.ledger[Documents].submit(new)
    with pytest.raises(Conflict, match=f"GET /v1/erasures/{erasure.id}"):
        await library.add("Late.", "b.md")
    assert (await services.ledger[Erasures].start("default")).id == erasure.id
    await finished(services, erasure)

    assert (await library.add("Late.", "b.md")).external_id == "b.md"


async def test_collection_created_during_erasure_is_erased_or_rejected(services, provider, check):
    for _ in range(3):
        library = Library(services, "alice")
        made, erasure = await asyncio.gather(
            library.collection(), services.ledger[Erasures].start("alice"), return_exceptions=True
        )
        live = await services.ledger[Collections].find("alice", "default")
        assert live is None
        assert isinstance(made, Conflict) or made.id in erasure.collection_ids
        await finished(services, erasure)


async def test_erasure_covers_every_table_with_tenant_column(services):
    async with services.database.begin() as connection:
        with_tenant = {name for name, names in (await columns(connection)).items() if "tenant" in names}

    of_features = {table.name for table in erased_tables(FEATURES) if table.of_tenant is not None}
    of_features -= {"source_items"}  # whose rows name no tenant
    assert with_tenant == {
        *TABLES_OF_TENANT,
        *of_features,
        *DELETED_BEFORE,
        "erasures",
    }  # the record of erasures is retained


async def test_operator_erases_tenant_over_http_and_sees_leftovers(services, settings, provider):
    operator, key = {"authorization": f"Bearer {OPERATORS_KEY}"}, ApiKey.parse_operator(OPERATORS_KEY)
    keyed = with_keys(settings).model_copy(update={"operator_keys": (key,)})
    body, address = {"text": "A secret text.", "external_id": "secret.md"}, "/v1/operator/tenants/alice"
    async with calling(keyed, services) as client:
        for tenant in ("alice", "bob"):
            assert (await client.post("/v1/documents", json=body, headers=as_tenant(tenant))).status_code == 202
        await work(services)
        before = await client.get(f"{address}/remaining-data", headers=operator)
        assert before.json()["found"] > 0
        assert {"postgresql", "qdrant", "valkey", "uploads", "provider"} == {
            each["engine"] for each in before.json()["locations"]
        }

        reply = await client.delete(address, params={"confirm": "alice"}, headers=operator)
        assert (reply.status_code, reply.json()["state"]) == (202, "running"), reply.text
        again = await client.delete(address, params={"confirm": "alice"}, headers=operator)
        assert again.json()["id"] == reply.json()["id"]
        assert (await client.post("/v1/documents", json=body, headers=as_tenant("alice"))).status_code == 409
        await finished(services, await services.ledger[Erasures].get(reply.json()["id"]))

        seen = await client.get(reply.headers["location"], headers=operator)
        assert (seen.json()["state"], seen.json()["documents_left"], seen.json()["collection"]) == ("finished", 0, None)
        after = await client.get(f"{address}/remaining-data", headers=operator)
        assert (after.json()["tenant"], after.json()["found"]) == ("alice", 0), after.text
        assert (await client.get("/v1/collections/default", headers=as_tenant("bob"))).status_code == 200
        assert all("secret" not in each.text for each in (before, reply, seen, after))


async def test_tenant_erasure_needs_name_as_confirmation(services, settings, provider):
    operator, key = {"authorization": f"Bearer {OPERATORS_KEY}"}, ApiKey.parse_operator(OPERATORS_KEY)
    keyed = with_keys(settings).model_copy(update={"operator_keys": (key,)})
    async with serving(keyed, services) as client:
        for params in ({}, {"confirm": ""}, {"confirm": "bob"}, {"confirm": "true"}):
            reply = await client.delete("/v1/operator/tenants/alice", params=params, headers=operator)
            assert (reply.status_code, reply.json()["field"]) == (422, "confirm")
            assert "?confirm=alice" in reply.json()["detail"]
        assert await run(services, "SELECT count(*) FROM erasures") == [(0,)]
        delete = (await client.get("/openapi.json")).json()["paths"]["/v1/operator/tenants/{tenant}"]["delete"]
        async with AsyncClient(str(client.base_url), OPERATORS_KEY) as foreask:
            erasure = await foreask.erase_tenant("alice")

    assert [(each["name"], each["schema"].get("examples")) for each in delete["parameters"]] == [
        ("tenant", ["name-of-a-tenant"]),
        ("confirm", None),
    ]
    assert await run(services, "SELECT id::text, tenant FROM erasures") == [(erasure.id, "alice")]


# --- a collection ---


async def test_collection_erasure_deletes_data_of_every_build(services, provider, library, check):
    await library.add("A text.", "a.md")
    await work(services)
    collection = await library.collection()
    other = await services.ledger[Collections].ensure(
        "default", "other", embedding_model=services.settings.embedding_model
    )
    new = dataclasses.replace(await library.new("Another text.", "b.md"), collection=other)
    await services.ledger[Documents].submit(new)
    await services.ledger[Builds].start(
        "default", "default", options=collection.options, embedding_model=collection.embedding_model
    )
    while await services.ledger[Builds].fill():
        pass
    await work(services)
    await log_query(services, "default", collection)
    await log_query(services, "default", other)
    for name in ("default", "other"):
        await services.ledger[LabelledSets].save_set("default", name, "set", [])
        await run(services, SHARE, tenant="default", collection=name, documents=[])
        await run(services, RESOLVE, tenant="default", collection=name, document=uuid4())
        collection = await services.ledger[Collections].get("default", name)
        await services.ledger[Evaluations].start(collection, "set", EvaluationRequest([], ["text"], "text"))
        await services.ledger[Verifications].start(collection, repair=False)
        build = (await services.ledger[Builds].list("default", name))[0]
        await services.ledger[Gates].start(build, build.embedding_model, GateRequest(None, 0))
    assert await check(tenant="default", collection="default")

    erasure = await services.ledger[Erasures].start("default", "default")
    with pytest.raises(NotFound):
        await services.ledger[Builds].list("default", "default")
    with pytest.raises(NotFound):
        await services.ledger[Builds].get("default", "default", 1)
    assert await services.ledger[Documents].page("default", DocumentFilter(collection="default")) == []
    erasure = await finished(services, erasure)

    assert await check(tenant="default", collection="default") == {}
    assert len(erasure.collection_ids) == 2
    assert await run(services, "SELECT collection_id FROM queries") == [(other.id,)]
    for table in ("labelled_sets", "jobs", "job_claims", "shared_answers", "gaps"):
        assert await run(services, f"SELECT DISTINCT collection FROM {table}") == [("other",)]
    assert await run(services, "SELECT count(*) FROM completions") == [(1,)]
    assert await services.index.count_points(other.location)
    assert await run(services, DIFFERENCES) == []


async def test_tenant_erases_own_collection_over_http(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        for tenant in ("alice", "bob"):
            body = {"text": "A text.", "external_id": "a.md"}
            assert (await client.post("/v1/documents", json=body, headers=as_tenant(tenant))).status_code == 202
        reply = await client.delete("/v1/collections/default", headers=as_tenant("alice"))
        assert reply.status_code == 202, reply.text
        assert reply.json()["state"] == "running"
        assert (await client.delete("/v1/collections/none", headers=as_tenant("alice"))).status_code == 404
        refused = await client.post("/v1/documents", json=body, headers=as_tenant("alice"))
        assert (refused.status_code, "is being deleted" in refused.json()["detail"]) == (409, True)
        address = reply.headers["location"]
        assert (await client.get(address, headers=as_tenant("bob"))).status_code == 404

        await finished(services, await services.ledger[Erasures].get(reply.json()["id"]))

        seen = (await client.get(address, headers=as_tenant("alice"))).json()
        assert (seen["state"], seen["documents_left"], seen["collection"]) == ("finished", 0, "default")
        assert (await client.get("/v1/collections/default", headers=as_tenant("bob"))).status_code == 200
        assert (await client.post("/v1/documents", json=body, headers=as_tenant("alice"))).status_code == 202


async def test_feedback_on_erased_collection_is_not_found(services, library, once):
    await once(ready, ("A text.", "a.md"))
    ((chunk,),) = await run(services, "SELECT id FROM chunks")
    await log_query(services, "default", await library.collection(), [chunk])
    ((query,),) = await run(services, "SELECT id FROM queries")
    await services.ledger[Erasures].start("default", "default")

    with pytest.raises(NotFound, match="does not exist any more"):
        await services.ledger[Feedback].accept("default", query, chunk, most=5)


# --- a document ---


@guards(
    "features/conversations/ledger.sql",
    "(document_ids && CAST(:public_ids AS uuid[]) OR",
    "(false OR",
    means="an erasure keeps conversations that cite the document",
)
@guards(
    "features/shared_answers/ledger.sql",
    "(document_ids && CAST(:public_ids AS uuid[]) OR",
    "(false OR",
    means="an erasure keeps answers that quote the document",
)
@guards(
    "features/gaps/ledger.py",
    "of_part=SQL.erase_resolutions, ",
    "",
    means="an erasure keeps the resolution by the document",
)
@guards(
    "features/erasure/ledger/searches.sql",
    "CASE WHEN q.chunk_ids[1] NOT IN (SELECT id FROM erased) THEN q.best_score END",
    "q.best_score",
    means="an erasure keeps the score of the document's chunk",
)
async def test_document_erasure_deletes_questions_and_query_references(services, library, check, once):
    document, other = await once(ready, ("A text.", "a.md"), ("Another text.", "b.md"))
    collection = await library.collection()
    ids = [row[0] for row in await run(services, "SELECT id FROM chunks ORDER BY document_id = :id", id=document.id)]
    for found in (ids, ids[::-1]):
        await log_query(services, "default", collection, found)
    await run(services, "UPDATE queries SET best_score = 0.5")
    for quoted in ([document.id], [document.id, other.id], [other.id]):
        for statement in (SHARE, CONVERSE):
            await run(services, statement, tenant="default", collection="default", documents=quoted)
    for resolving in (document.id, other.id):
        await run(services, RESOLVE, tenant="default", collection="default", document=resolving)

    await finished(services, await services.ledger[Erasures].start_document(document.id))

    assert await check(document_id=document.id) == {}
    queries = await run(services, "SELECT chunk_ids, best_score FROM queries ORDER BY best_score NULLS LAST")
    assert queries == [(ids[:1], 0.5), (ids[:1], None)]
    for table in ("shared_answers", "conversations"):
        assert await run(services, f"SELECT document_ids FROM {table}") == [([other.id],)]
    resolved = await run(services, "SELECT resolved_by, resolved_at IS NULL FROM gaps ORDER BY resolved_at NULLS LAST")
    assert resolved == [(other.id, False), (None, True)]
    assert await run(services, "SELECT count(*) FROM completions") == [(1,)]
    assert (await services.ledger[Documents].get("default", other.id)).state == "ready"
    with pytest.raises(NotFound):
        await services.ledger[Erasures].start_document(document.id)


async def test_document_erasure_removes_its_findings(services, library, check, once):
    documents = await once(ready, ("A text.", "a.md"), ("Another text.", "b.md"))
    ledger = services.ledger
    await ledger[Verifications].start(await library.collection(), repair=True)
    claim = await ledger[JobClaims].claim([JobKind.VERIFICATION])
    findings = [DifferingPoint("missing", "not stored", str(uuid4()), document.id, None) for document in documents]
    unknown = DifferingPoint("orphaned", "its document is not in the ledger", str(uuid4()), None, None)
    rest = VerificationRequest(Position(), intended=findings)
    await ledger[Verifications].save(claim, rest, ComparisonProgress(), findings=[*findings, unknown])
    assert "postgresql jobs" in await check(document_id=documents[0].id)

    await finished(services, await ledger[Erasures].start_document(documents[0].id))

    assert await check(document_id=documents[0].id) == {}
    saved = await ledger[Verifications].newest(await library.collection())
    assert findings_of(saved) == [findings[1], unknown]
    assert (await ledger[Verifications].claimed(claim)).request.intended == findings[1:]


async def test_query_logged_while_erasure_waits_names_no_chunk(services, library, once):
    (document,) = await once(ready, ("A text.", "a.md"))
    ((chunk,),) = await run(services, "SELECT id FROM chunks")

    async with services.database.transaction() as editing:
        await editing.execute(Statement("SELECT 1 FROM documents FOR UPDATE"))
        erasing = asyncio.create_task(services.ledger[Erasures].start_document(document.id))
        await eventually(partial(is_waiting, services))
        await log_query(services, "default", await library.collection(), [chunk])
        await editing.rollback()
    erasure = await erasing
    await log_query(services, "default", await library.collection(), [chunk])  # it was retrieved before the erasure

    await finished(services, erasure)

    assert await run(services, "SELECT chunk_ids FROM queries") == [([],), ([],)]


@guards(
    "features/erasure/ledger/searches.py",
    "    return Slice(0 if change is SQL.remove_chunks else changed.rowcount, until)",
    "    return Slice(0 if change is SQL.remove_chunks else changed.rowcount)",
    means="an erasure reads only the first logged queries",
    case="document",
)
@guards(
    "features/erasure/ledger/searches.sql",
    "AND q.created_at <= CAST(",
    "AND q.created_at < CAST(",
    means="an erasure passes over the last logged queries of a slice",
    case="document",
)
@guards(
    "features/erasure/ledger/searches.py",
    '"builds": erasure["collection_ids"]',
    '"builds": erasure["build_ids"]',
    means="the logged queries of an erased collection remain",
    case="collection",
)
@pytest.mark.parametrize("scope", ["document", "collection", "tenant"])
async def test_query_log_is_searched_in_slices(*, services, library, check, once, monkeypatch, scope):
    """Several queries were logged at the same time, and others of another tenant in between."""
    monkeypatch.setattr("features.erasure.ledger.searches._SLICE_QUERIES", 2)
    (document,) = await once(ready, ("A text.", "a.md"))
    ((chunk,),) = await run(services, "SELECT id FROM chunks")
    collection, other = await library.collection(), await Library(services, "other").collection()
    for owner in (collection, other) * 4:
        await log_query(services, owner.tenant, owner, [uuid4(), chunk])
    some = "SELECT id FROM queries WHERE tenant = 'default' LIMIT 3"
    await run(services, f"UPDATE queries SET created_at = now() - interval '1 minute' WHERE id IN ({some})")
    erasures = services.ledger[Erasures]
    name = "default" if scope == "collection" else None
    started = erasures.start_document(document.id) if scope == "document" else erasures.start("default", name)
    await finished(services, await started)

    lengths = await run(services, "SELECT tenant, cardinality(chunk_ids) FROM queries ORDER BY tenant")
    assert lengths == ([("default", 1)] * 4 if scope == "document" else []) + [("other", 2)] * 4
    assert await run(services, "SELECT chunk_ids, build_ids, search FROM erasures") == [([], [], None)]
    assert await check(document_id=document.id) == {}


@pytest.mark.parametrize("scope", ["collection", "tenant"])
async def test_query_logged_after_erasure_is_not_stored(services, provider, check, scope):
    library = Library(services, "alice")
    collection = await library.collection()
    erasures = services.ledger[Erasures]
    await finished(services, await erasures.start("alice", "default" if scope == "collection" else None))

    await log_query(services, "alice", collection)

    assert await run(services, "SELECT 1 FROM queries") == []


async def packed(services, tenant="default", count=4, **values):
    """Submit documents whose bytes are parts of one object, and return them with their uploads."""
    library = Library(services, tenant)
    texts = [f"Text number {number}." for number in range(count)]
    uploads = await services.uploads.store_pack([each.encode() for each in texts])
    documents = [
        dataclasses.replace(
            await library.new("", f"{number}.md"), upload=upload.name, size_bytes=upload.size_bytes,
            content_hash=upload.sha256, **values,
        )
        for number, upload in enumerate(uploads)
    ]  # fmt: skip
    return [each.document for each in await services.ledger[Documents].submit_many(documents)], uploads


async def packed_and_ready(services):
    documents, uploads = await packed(services)
    await work(services)
    return documents, uploads


def objects_of(services):
    folder = services.settings.data_dir / "uploads"
    return {path.name: path.read_bytes() for path in folder.glob("??/*")}


@pytest.mark.parametrize("cut", ["not cut", "before the rename", "before the removal"])
async def test_pack_is_rewritten_without_erased_document(*, services, library, check, once, monkeypatch, cut):
    documents, uploads = await once(packed_and_ready)
    for name in set(objects_of(services)) - {uploads[0].stored_in}:
        await services.uploads.remove([name])
    outdated, store = type(services.cleaner.outdated), type(services.uploads)
    erasure = await services.ledger[Erasures].start_document(documents[1].id)
    if cut != "not cut":
        with monkeypatch.context() as patched:
            target = (outdated, "rename") if cut == "before the rename" else (store, "remove")
            await services.cleaner.purge_versions()
            await make_all_due(services)
            if cut == "before the removal":
                await services.cleaner.remove_outdated()
                await make_all_due(services)

            async def killed(*_):
                raise asyncio.CancelledError

            patched.setattr(*target, killed)
            with pytest.raises(asyncio.CancelledError):
                await services.cleaner.remove_outdated()
        assert "Text number 1." in "".join(content.decode() for content in objects_of(services).values())

    await finished(services, erasure)

    found = await check(document_id=documents[1].id)
    unnamed = {"uploads objects that no version names": 1} if cut == "before the rename" else {}
    assert found == unnamed  # the new pack of the remaining documents is unnamed and is deleted as an orphan
    assert "Text number 1." not in "".join(content.decode() for content in objects_of(services).values())
    await services.ledger[Documents].reindex(await library.collection())
    await work(services)
    assert await services.ledger[Documents].counts("default") == {"ready": 3}


@guards(
    "shared/ingest/moved_uploads.py",
    "if isinstance(error, Unreadable) and await has_moved():",
    "if False:",
    means="a document whose pack is rewritten between its claim and its parse fails for good",
)
async def test_claimed_document_of_rewritten_pack_is_parsed(services, provider):
    """A worker has claimed the documents of a pack, and stalls until the pack was rewritten and deleted."""
    documents, _ = await packed(services)
    stage = services.parser
    claimed = await stage.claim(10, {})
    erasure = await services.ledger[Erasures].start_document(documents[1].id)
    await finished(services, erasure)

    await stage.settle([await stage.process(item, held) for item in claimed])
    await work(services)

    assert await run(services, "SELECT state, attempts FROM documents") == [("ready", 0)] * 3


@guards(
    "shared/ledger/documents/unreferenced_objects.py",
    "            changed = (await connection.execute(SQL.rename, parameters)).all()",
    "            changed = []",
    means="an erasure waits as long as a load is paused",
)
async def test_paused_load_does_not_delay_erasure(services, library, provider, check):
    load = (await services.ledger[Jobs].open_load(await library.collection(), key=None, expected=None)).job
    documents, uploads = await packed(services, job_id=load.id)
    await services.ledger[Jobs].pause("default", load.id, PauseReason.USER)
    await work(services)
    await services.uploads.remove([name for name in objects_of(services) if name != uploads[0].stored_in])

    await finished(services, await services.ledger[Erasures].start_document(documents[1].id))

    assert await check(document_id=documents[1].id) == {}
    assert "Text number 1." not in "".join(content.decode() for content in objects_of(services).values())
    await services.ledger[Jobs].resume("default", load.id)
    await work(services)
    assert await services.ledger[Documents].counts("default") == {"ready": 3}


async def build_of(services):
    return await services.ledger[Builds].start(
        "default", "default", options=CollectionOptions(), embedding_model=services.settings.embedding_model
    )


async def is_waiting(services):
    """Return whether a transaction waits for a lock."""
    return await run(services, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")


async def test_copies_started_during_rewriting_have_bytes(services, check, once):
    documents, uploads = await once(packed_and_ready)
    build = await build_of(services)
    sources = [id_ for (id_,) in await run(services, "SELECT id FROM documents ORDER BY id")]
    await services.ledger[Documents].delete("default", documents[1].id)
    await services.cleaner.purge_versions()
    await make_all_due(services)

    async with services.database.begin() as filling:
        await build_sync.hold(filling, "default", "default")
        await filling.execute(Statement("SELECT id FROM documents ORDER BY id FOR SHARE"))
        await build_sync.follow(filling, build.id, sources)
        rewriting = asyncio.create_task(services.cleaner.remove_outdated())
        await eventually(partial(is_waiting, services))
    await rewriting
    for _ in range(3):
        await make_all_due(services)
        await services.cleaner.remove_outdated()
    while await services.ledger[Builds].fill():
        pass
    await work(services)

    assert uploads[0].stored_in not in objects_of(services)
    assert (await services.ledger[Builds].progress(build)).documents == {"ready": 3}


@guards(
    "shared/ledger/documents/unreferenced_objects.py",
    "            if list(named) == list(parts):",
    "            if True:",
    means="the bytes of a document that is erased during the check of its pack remain",
)
async def test_erasure_during_pack_check_deletes_all_bytes(services, check, once, monkeypatch):
    documents, uploads = await once(packed_and_ready)
    build = await build_of(services)
    while await services.ledger[Builds].fill():
        pass
    await work(services)
    await services.ledger[Builds].drop("default", "default", build.number)
    while await services.cleaner.drop_builds() or await services.ledger[Leftovers].purge_versions():
        pass
    await make_all_due(services)
    assert await services.cleaner.outdated.due(10) == [uploads[0].stored_in]  # of copies: no byte is unused
    erasure = await services.ledger[Erasures].start_document(documents[1].id)
    store = type(services.uploads)
    checked = store.foreign_bytes

    async def checked_before_purge(self, parts):
        foreign = await checked(self, parts)
        await services.cleaner.purge_versions()
        return foreign

    with monkeypatch.context() as patched:
        patched.setattr(store, "foreign_bytes", checked_before_purge)
        await services.cleaner.remove_outdated()
    await finished(services, erasure)

    assert "Text number 1." not in "".join(content.decode() for content in objects_of(services).values())


async def test_unreadable_pack_does_not_delay_other_packs(services):
    (erased, *_), bad = await packed(services)
    await services.ledger[Documents].delete("default", erased.id)
    (other, *_), good = await packed(services, "bob")
    await services.ledger[Documents].delete("bob", other.id)
    await work(services, "parse")  # afterwards no worker reads the packs
    await services.cleaner.purge_versions()
    await make_all_due(services)
    await run(services, "UPDATE outdated_objects SET due_at = due_at - interval '1 hour' WHERE tenant = 'default'")
    services.uploads._blocks.forget([bad[0].stored_in])  # a worker has read it
    path = services.uploads.path(bad[0].stored_in)
    path.unlink()
    path.mkdir()  # its read fails, as on a damaged disk

    await services.cleaner.remove_outdated()

    named = await run(services, "SELECT DISTINCT split_part(upload, '#', 1) FROM document_versions")
    assert (bad[0].stored_in,) in named
    assert (good[0].stored_in,) not in named
    assert await services.cleaner.outdated.due(10) == []


async def test_object_with_bad_name_does_not_delay_others(services, provider, library):
    await library.add("A text.", "a.md")
    await run(services, "UPDATE document_versions SET upload = 'bad#x,y'")
    await run(services, "INSERT INTO outdated_objects VALUES ('bad', 'default', now() - interval '1 hour')")
    await run(services, "INSERT INTO outdated_objects VALUES ('unreferenced', 'default', now())")

    await services.cleaner.remove_outdated()

    assert await run(services, "SELECT name, due_at > now() FROM outdated_objects") == [("bad", True)]


async def test_undecodable_build_does_not_delay_other_erasures(services, check, once):
    await once(filled)
    await run(services, "UPDATE collections SET options = '[]' WHERE tenant = 'alice'")
    await services.ledger[Erasures].start("alice")

    await finished(services, await services.ledger[Erasures].start("bob"))

    assert await check(tenant="bob") == {}


# --- workers that settle late ---


def held():
    """Do nothing, like the check of a valid lease."""


@guards(
    "features/erasure/ledger/erasures.sql",
    "nextval('fencing')",
    "NULL",
    means="a late reply restores data of an erased tenant",
    case="generate-after the end",
)
@pytest.mark.parametrize("moment", ["at the start", "between slices", "after the end"])
@pytest.mark.parametrize("stage", ["generate", "index"])
async def test_settlement_during_tenant_erasure_stores_nothing(services, provider, check, stage, moment):
    library = Library(services, "alice")
    for number in range(3):
        await library.add(f"The harbour number {number} opens at six.", f"{number}.md")
    await work(services, "parse", *(["index"] if stage == "generate" else []))
    late = services.generator if stage == "generate" else IndexStage([services.indexer])
    items = await late.claim(10, {})
    answers = [await late.process(item, held) for item in items] if stage == "generate" else []  # not settled yet

    erasure = await services.ledger[Erasures].start("alice")
    if moment == "between slices":
        for step in ("drop", "purge"):
            await services.cleaner.steps[step]()
    elif moment == "after the end":
        await finished(services, erasure)
    await late.settle(answers or [await late.process(item, held) for item in items])

    await finished(services, erasure)
    for _ in range(2):  # a late writer's points are swept at once and again later
        await clean(services)
        await make_all_due(services)
    assert await check(tenant="alice") == {}
    assert await run(services, DIFFERENCES) == []


@guards(
    "shared/ledger/work/indexing.py",
    "            await sweep_late(connection, self.lease, stale)\n",
    "",
    means="the points of a late attempt that failed remain",
    case="tenant",
)
@pytest.mark.parametrize("scope", ["document", "tenant"])
async def test_failed_late_write_after_erasure_leaves_no_points(services, provider, check, monkeypatch, scope):
    """A stalled worker writes some points when the erasure has finished, and finds that its lease has expired."""
    library, late = Library(services, "alice"), IndexStage([services.indexer])
    document = await library.add("The harbour opens at six.", "a.md")
    await work(services, "parse")
    (batch,) = await late.claim(10, {})
    erasures = services.ledger[Erasures]
    started = erasures.start("alice") if scope == "tenant" else erasures.start_document(document.id)
    await finished(services, await started)
    upsert, leases = Index.upsert, [True]

    async def written_in_part(self, *written):
        await upsert(self, *written)
        leases.clear()
        raise Unavailable("no answer to the second request", component="qdrant")

    def require_lease():
        if not leases:
            raise LeaseLost

    with monkeypatch.context() as patched:
        patched.setattr(Index, "upsert", written_in_part)
        await late.settle([await late.process(batch, require_lease)])

    of_scope = {"tenant": "alice"} if scope == "tenant" else {"document_id": document.id}
    assert any(name.startswith("qdrant") for name in await check(**of_scope))
    await clean(services)
    assert await check(**of_scope) == {}


async def recheck(services):
    """Delete the points of finished erasures again, as if their next check were due."""
    await run(services, "UPDATE erasures SET recheck_at = now() WHERE recheck_at IS NOT NULL")
    await erasure_steps(services)["recheck_erasures"]()


@guards(
    "features/erasure/ledger/erasures.sql",
    "WHERE recheck_at <= now()",
    "WHERE recheck_at IS NULL",
    means="the points of a writer that died after an erasure remain",
    case="tenant",
)
@pytest.mark.parametrize("scope", ["document", "collection", "tenant"])
async def test_points_of_writer_killed_after_erasure_are_deleted(services, provider, check, scope):
    """A worker's machine is suspended until the erasure has finished; the worker then writes, and is killed."""
    library, late = Library(services, "alice"), IndexStage([services.indexer])
    document = await library.add("The harbour opens at six.", "a.md")
    await Library(services, "bob").add("The harbour opens at six.", "a.md")
    await work(services, "parse")
    batches = await late.claim(10, {})
    erasures = services.ledger[Erasures]
    started = {
        "document": lambda: erasures.start_document(document.id),
        "collection": lambda: erasures.start("alice", "default"),
        "tenant": lambda: erasures.start("alice"),
    }
    erasure = await finished(services, await started[scope]())
    for batch in batches:
        await late.process(batch, held)
    (of_bob,) = await run(services, "SELECT id FROM collections WHERE tenant = 'bob'")
    location = index_location_of(services.ledger[Collections].index_name("scripted-embedding"), "bob", *of_bob)
    before = await services.index.count_points(location)
    assert before

    await recheck(services)

    of_tenant = {"tenant": "alice"} | ({"collection": "default"} if scope == "collection" else {})
    assert await check(**({"document_id": document.id} if scope == "document" else of_tenant)) == {}
    assert await services.index.count_points(location) == before
    due = "SELECT recheck_at - now() BETWEEN interval '9 minutes' AND interval '10 minutes' FROM erasures"
    assert await run(services, due) == [(True,)]
    await run(services, "UPDATE erasures SET finished_at = now() - interval '3 days'")
    await recheck(services)
    assert await run(services, "SELECT recheck_at > now() + interval '2 days' FROM erasures") == [(True,)]
    await run(services, "UPDATE erasures SET finished_at = now() - interval '8 days'")
    await recheck(services)
    assert await run(services, "SELECT id, recheck_at FROM erasures") == [(erasure.id, None)]


async def test_recheck_is_repeated_until_qdrant_confirms(services, once, monkeypatch):
    (document,) = await once(ready, ("A text.", "a.md"))
    await finished(services, await services.ledger[Erasures].start_document(document.id))

    async def unavailable(*_):
        raise Unavailable("no answer", component="qdrant")

    with monkeypatch.context() as patched:
        patched.setattr(Index, "delete_all_of", unavailable)
        await run(services, "UPDATE erasures SET finished_at = now() - interval '8 days'")
        await recheck(services)

    assert await run(services, "SELECT recheck_at <= now() + interval '10 minutes' FROM erasures") == [(True,)]


@guards(
    "features/erasure/ledger/erasures.sql",
    "e.fenced_at <= now() - CAST(:writers_end_after AS interval)",
    "CAST(:writers_end_after AS interval) IS NOT NULL",
    means="an erasure finishes before a settlement that writes paid results",
)
async def test_unfinished_late_settlement_delays_erasure(services, provider, library, check):
    document = await library.add("The harbour opens at six.", "a.md")
    await work(services, "parse", "index")
    late = services.generator
    (item,) = await late.claim(10, {})
    outcome = await late.process(item, held)
    erasure = await services.ledger[Erasures].start_document(document.id)
    blocked_by = (
        "INSERT INTO spent (token, tenant, collection_id, kind, model, prompt_tokens, completion_tokens, calls)"
        " VALUES (:token, 'other', :id, 'generate', 'm', 1, 1, 1)"
    )

    async with services.database.transaction() as blocking:
        await blocking.execute(Statement(blocked_by), {"token": item.lease.token, "id": uuid4()})
        settling = asyncio.create_task(late.settle([outcome]))
        await eventually(partial(is_waiting, services))
        for _ in range(15):  # within the time that a transaction may take
            await run(services, MAKE_ALL_DUE.replace(WRITERS_HAVE_ENDED, ""))
            await clean(services)
        assert await run(services, "SELECT fence IS NOT NULL, finished_at FROM erasures") == [(True, None)]
        await blocking.rollback()
    await settling

    await finished(services, erasure)
    assert await check(document_id=document.id) == {}
    assert await run(services, "SELECT count(*) FROM completions") == [(0,)]


@guards(
    "features/erasure/ledger/erasures.sql",
    " AND a.lease_token < e.fence",
    "",
    means="an erasure waits as long as a tenant's documents are edited during calls",
)
@guards(
    "features/erasure/ledger/erasures.sql",
    " AND coalesce(o.token, 0) < e.fence",
    "",
    means="an erasure waits as long as a tenant's uploads are replaced",
)
async def test_erasure_ends_while_tenant_is_never_idle(services, provider, library, check):
    """Whenever the erasure could proceed, a call for a deleted document runs, and an object is to be deleted."""
    document = await library.add("The secret of the harbour is forty-two herrings.", "secret.md")
    await work(services)

    async def delete_during_call(number):
        deleted = await library.add(f"The busy text {number}.", f"{number}.md")
        await work(services, "parse", "index")
        assert (await services.ledger[GenerateWork].claim(10)).chunks
        await services.ledger[Documents].delete("default", deleted.id)
        await services.ledger[Leftovers].purge_versions()

    erasure = await services.ledger[Erasures].start_document(document.id)
    for number in range(5):
        await make_all_due(services)
        for name in ("purge", "delete", "sweep", "outdate"):
            await services.cleaner.steps[name]()
        await delete_during_call(number)
        while await erase(services):
            pass
        assert await run(services, "SELECT 1 FROM abandoned_calls") != []
        assert await run(services, "SELECT 1 FROM outdated_objects") != []

    assert (await services.ledger[Erasures].get(erasure.id)).finished_at is not None
    assert await run(services, "SELECT 1 FROM completions") == []
    await services.cleaner.remove_outdated()
    assert await check(document_id=document.id) == {}


@guards(
    "features/erasure/ledger/searches.py",
    "    if len(locked) < len(unused):",
    "    if False:",
    means="paid questions remain that another transaction held during the search",
)
async def test_locked_completion_is_searched_again(services, library, check, once):
    """A parse worker is about to insert a chunk that needs the completion, but its transaction fails."""
    (document,) = await once(ready, ("A text.", "a.md"))
    ((key,),) = await run(services, "SELECT content_key FROM completions")
    erasure = await services.ledger[Erasures].start_document(document.id)

    async with services.database.begin() as inserting:
        await paid_contents.hold(inserting, [key])
        with pytest.raises(AssertionError, match="does not finish"):
            await finished(services, erasure)
    await finished(services, erasure)

    assert await run(services, "SELECT count(*) FROM completions") == [(0,)]
    assert await check(document_id=document.id) == {}


async def test_late_replies_for_erased_document_are_not_stored(services, provider, library, check):
    document = await library.add("A text.", "a.md")
    await library.add("Another text.", "b.md")
    await work(services, "parse", "index")
    chunks = (await services.ledger[GenerateWork].claim(10)).chunks
    generating = services.generator
    answers = [await generating.process(chunk, held) for chunk in chunks]
    (late,) = [chunk for chunk in chunks if chunk.document_id == document.id]
    reply = PaidReply("request", "A question?", "stop", Usage(1, 1))
    await finished(services, await services.ledger[Erasures].start_document(document.id))

    await generating.settle(answers)
    with pytest.raises(LeaseLost):
        await services.ledger[GenerateWork].keep_replies(late, [reply], Usage(1, 1), 1, Reserve("scripted", Usage()))
    again = Retry(timedelta(), "cut short")
    failed = FailedAttempt(late.lease, again, content_key=late.content_key, tenant=late.tenant, replies=[reply])
    await services.ledger[GenerateWork].settle([failed])

    assert await check(document_id=document.id) == {}
    assert await run(services, "SELECT count(*) FROM completions") == [(1,)]
    await library.add("A text.", "a.md")
    await work(services)
    assert await run(services, "SELECT count(*) FROM completions") == [(2,)]


# --- paid questions ---


async def test_paid_questions_of_deleted_document_expire(services, provider, library, once):
    (document,) = await once(ready, ("A text.", "a.md"))
    await services.ledger[Documents].delete("default", document.id)
    await clean(services)
    completions = services.ledger[Completions]

    assert not await completions.forget(WEEK)
    assert await run(services, "SELECT count(*) FROM completions WHERE unused_since IS NOT NULL") == [(1,)]
    provider.reset()
    await library.add("A text.", "a.md")
    await work(services)
    assert provider.stats()["calls"] == 0
    assert not await completions.forget(timedelta())
    assert await run(services, "SELECT count(*) FROM completions WHERE unused_since IS NULL") == [(1,)]

    await run(services, "DELETE FROM chunk_contents")
    await completions.forget(WEEK)
    await completions.forget(WEEK)
    assert await run(services, "SELECT count(*) FROM completions") == [(1,)]
    await run(services, "UPDATE completions SET unused_since = now() - interval '8 days'")
    await completions.forget(WEEK)
    assert await run(services, "SELECT count(*) FROM completions") == [(0,)]


async def test_unused_completions_are_deleted_in_slices(services, provider, library, monkeypatch):
    monkeypatch.setattr("shared.ledger.documents.completions._SLICE", 2)
    for number in range(5):
        await library.add(f"Text number {number}.")
    await work(services)
    await run(services, "DELETE FROM chunk_contents")
    completions = services.ledger[Completions]

    assert [await completions.forget(WEEK) for _ in range(3)] == [True, True, False]
    assert await run(services, "SELECT count(*) FROM completions WHERE unused_since IS NULL") == [(0,)]
    await run(services, "UPDATE completions SET unused_since = now() - interval '8 days'")
    while await completions.forget(WEEK):
        pass
    assert await run(services, "SELECT count(*) FROM completions") == [(0,)]


async def test_completion_used_by_new_chunk_is_kept(services, once):
    (document,) = await once(ready, ("A text.", "a.md"))
    ((key,),) = await run(services, "SELECT content_key FROM completions")
    await services.ledger[Documents].delete("default", document.id)
    await clean(services)
    await run(services, "UPDATE completions SET unused_since = now() - interval '8 days'")

    async with services.database.begin() as connection:  # a parse worker is about to insert a chunk with the key
        await paid_contents.hold(connection, [key])
        await services.ledger[Completions].forget(WEEK)

    assert await run(services, "SELECT count(*) FROM completions") == [(1,)]


async def test_claim_updates_content_key_of_chunk_and_content(services, provider, library):
    await library.add("A text.", "a.md")
    await work(services, "parse", "index")
    await services.ledger[GenerateWork].claim(10, key_of=lambda _: b"another")

    assert await run(services, "SELECT c.content_key, t.content_key FROM chunks c JOIN chunk_contents t ON true") == [
        (b"another", b"another")
    ]


async def test_erasure_logs_contain_no_document_text(services, provider, library, capsys):
    document = await library.add("The secret is lighthouse.", "a.md")
    await work(services)
    await finished(services, await services.ledger[Erasures].start("default"))

    logged = capsys.readouterr()
    assert "lighthouse" not in logged.out + logged.err
    assert str(document.id)


# --- the page ---


@pytest.fixture
def foreask(services, settings, capsys, monkeypatch, tmp_path):
    """Return a function that runs commands like a reader of the page, without concurrent cleaning."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_DATABASE_URL", settings.database_url.get_secret_value())
    monkeypatch.setenv("FOREASK_REDIS_URL", settings.redis_url.get_secret_value())
    monkeypatch.setenv("FOREASK_QDRANT_URL", settings.qdrant_url)
    monkeypatch.setenv("FOREASK_QDRANT_API_KEY", headers_of(settings).get("api-key", ""))
    monkeypatch.setenv("FOREASK_DATA_DIR", str(settings.data_dir))

    async def nothing():
        return

    return foreask_with_background(nothing, capsys, monkeypatch)


@pytest.mark.usefixtures("provider")
async def test_documented_commands_erase_and_report_leftovers(services, foreask):
    (document,) = await ready(services, ("A text.", "a.md"), tenant="acme")
    of_tenant, of_collection, of_document = commands_of(PAGE, "How do I erase?")
    checks = commands_of(PAGE, "How do I verify that nothing is left?")
    of_document, checks[2] = (f"{each.rsplit(' ', 1)[0]} {document.id}" for each in (of_document, checks[2]))

    code, output = await foreask(f"{of_document} --yes")
    assert (code, "1 documents are being deleted" in output) == (0, True), output
    code, output = await foreask(checks[2])
    assert (code, "postgresql  document_versions" in output) == (1, True), output
    await clean(services)

    assert (await foreask(checks[0]))[0] == 1
    code, output = await foreask(of_collection.replace("handbook", "none") + " --yes")
    assert (code, "no collection 'none'" in output) == (4, True), output
    assert (await foreask(f"{of_tenant} --yes"))[0] == 0
    await finished(services, (await services.ledger[Erasures].in_scope(tenant="acme"))[0])

    for check in checks:
        code, output = await foreask(check)
        assert (code, "\n0 found" in output) == (0, True), output
