"""Dead letters over HTTP: listed with reasons, retried without repeated costs, or discarded."""

from uuid import UUID

import pytest

from api.schemas.dead_letters import DeadLetterHistory, DeadLetterPage
from shared.http.schemas.problems import ProblemDetails
from shared.ledger.documents.dead_letters import Choice, DeadLetters
from shared.ledger.documents.listing import NEWEST, DocumentFilter, parameters_of
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.indexing import IndexWork
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards

KEEPER = "The lighthouse keeper lives alone on the northern cliff all year."
SECTIONS = "\n\n".join(f"# {name}\n\n" + f"{name} is about the {name} of the bay. " * 40 for name in ("tide", "mole"))
BROKEN_PDF = "%PDF-1.7 this is not a PDF"


async def submit(client, text, name, collection="default", headers=None):
    body = {"text": text, "filename": name, "collection": collection}
    reply = await client.post("/v1/documents", json=body, headers=headers)
    assert reply.status_code == 202, reply.text
    return reply.json()["id"]


async def document(client, document_id):
    return (await client.get(f"/v1/documents/{document_id}")).json()


async def letters(client, **choice):
    reply = await client.get("/v1/dead-letters", params=choice)
    assert reply.status_code == 200, reply.text
    return DeadLetterPage.model_validate_json(reply.content).items


async def resolve(client, action, **choice):
    reply = await client.post(f"/v1/dead-letters/{action}", json=choice)
    assert reply.status_code == {"retry": 202, "discard": 200}[action], reply.text
    return reply.json()


async def index_until_dead(services):
    """Index into a Qdrant collection with another vector size, so that every attempt fails."""
    smaller = f"smaller-{services.indexer.space}"
    await services.index.ensure_collection(smaller, 3)
    async with services.database.begin() as connection:
        index_name = (await connection.execute_sql("SELECT index_name FROM collections")).scalar_one()
        await connection.execute_sql(f"UPDATE collections SET index_name = '{smaller}'")
    await work(services)
    async with services.database.begin() as connection:
        await connection.execute_sql(f"UPDATE collections SET index_name = '{index_name}'")


async def paid_but_dead(services):
    """Return the id of a document whose questions are paid and whose chunks are all dead."""
    async with calling(services.settings, services) as client:
        document_id = await submit(client, SECTIONS, "paid.md")
        await work(services, "parse", "index", "generate")
        await index_until_dead(services)
        shown = await document(client, document_id)
    assert (shown["state"], shown["chunks"]["dead"]) == ("degraded", shown["chunks"]["total"])
    return document_id


@pytest.fixture
async def paid(once):
    return await once(paid_but_dead)


async def failed_and_degraded(services):
    """Return the ids of a failed document and of a document with a dead chunk."""
    async with calling(services.settings, services) as client:
        failed = await submit(client, BROKEN_PDF, "a.pdf", "papers")
        degraded = await submit(client, KEEPER, "b.md", "novels")
    await work(services)
    return failed, degraded


@pytest.fixture
async def both_dead(provider, once):
    """Return the ids of a failed document and of a document with a dead chunk; the provider continues to fail."""
    provider.script(malformed_containing="lighthouse")
    ids = await once(failed_and_degraded)
    provider.script(malformed_containing="lighthouse")
    return ids


async def test_dead_documents_and_chunks_are_listed_and_filtered(client, both_dead):
    failed, degraded = both_dead

    both = await letters(client)

    assert {(letter.kind, str(letter.document_id)) for letter in both} == {("document", failed), ("chunk", degraded)}
    assert [letter.at for letter in both] == sorted((letter.at for letter in both), reverse=True)
    (chunk,) = [letter for letter in both if letter.kind == "chunk"]
    assert (chunk.external_id, chunk.collection, chunk.ordinal) == ("b.md", "novels", 0)
    assert chunk.reason
    assert await letters(client, collection="novels") == [chunk]
    assert await letters(client, document_id=degraded) == [chunk]
    assert await letters(client, reason=chunk.reason) == [chunk]
    assert await letters(client, collection="papers", reason=chunk.reason) == []


async def test_dead_letter_pages_have_no_gap(client, services, provider):
    provider.script(malformed_containing="tide")
    for number in range(3):
        await submit(client, f"The tide number {number} of the harbour and its many boats.", f"{number}.md")
        await submit(client, BROKEN_PDF + str(number), f"{number}.pdf")
    await work(services)
    every = await letters(client)
    assert len(every) == 6

    seen, cursor = [], None
    while True:
        page = (
            await client.get("/v1/dead-letters", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))
        ).json()
        seen += [letter["id"] for letter in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert seen == [str(letter.id) for letter in every]
    assert (await client.get("/v1/dead-letters", params={"cursor": "bm9uc2Vuc2U"})).status_code == 400


async def test_dead_letters_are_counted_by_reason(client, services, provider):
    provider.script(malformed_containing="tide")
    for number in range(3):
        await submit(client, f"The tide number {number} of the harbour and its many boats.", f"{number}.md")
    await submit(client, BROKEN_PDF, "a.pdf", "papers")
    await work(services)

    first, second = (await client.get("/v1/dead-letters/reasons")).json()["items"]

    assert (first["documents"], first["chunks"]) == (0, 3)
    assert (second["documents"], second["chunks"]) == (1, 0)
    narrowed = (await client.get("/v1/dead-letters/reasons", params={"collection": "papers"})).json()["items"]
    assert narrowed == [second]


async def test_dead_letter_lists_attempts(client, both_dead):
    for letter in await letters(client):
        reply = await client.get(f"/v1/dead-letters/{letter.id}")
        shown = DeadLetterHistory.model_validate_json(reply.content)
        assert shown.history[-1].error == shown.reason == letter.reason
        assert shown.attempts == shown.history[-1].attempt == len(shown.history)


async def test_retry_of_paid_chunks_calls_no_model(client, services, provider, wakes, paid):
    wakes.clear()

    resolved = await resolve(client, "retry")
    assert resolved == {"documents": 0, "pages": 0, "chunks": 2, "in_progress": 0}
    assert set(wakes) == {"generate", "index"}
    await work(services)

    shown = await document(client, paid)
    assert (shown["state"], shown["chunks"]["indexed"]) == ("ready", 2)
    assert shown["questions"] > 0
    assert provider.stats()["calls"] == 0
    assert await letters(client) == []


async def test_retry_with_given_questions_calls_no_model(client, services, provider):
    body = {"text": KEEPER, "filename": "a.md", "questions": ["Who lives alone?"]}
    document_id = (await client.post("/v1/documents", json=body)).json()["id"]
    await work(services, "parse")
    await index_until_dead(services)

    assert (await resolve(client, "retry", document_id=document_id))["chunks"] == 1
    await work(services)

    shown = await document(client, document_id)
    assert (shown["state"], shown["questions"]) == ("ready", 1)
    assert provider.stats()["calls"] == 0


async def test_retry_is_limited_by_its_filter(client, wakes, both_dead):
    failed, degraded = both_dead
    (chunk,) = await letters(client, collection="novels")
    wakes.clear()

    assert await resolve(client, "retry", collection="papers") == {
        "documents": 1,
        "pages": 0,
        "chunks": 0,
        "in_progress": 0,
    }
    assert wakes == ["parse"]
    assert ((await document(client, failed))["state"], (await document(client, degraded))["state"]) == (
        "queued",
        "degraded",
    )
    assert (await resolve(client, "retry", reason="another reason"))["chunks"] == 0
    assert (await resolve(client, "retry", letter_id=str(chunk.id)))["chunks"] == 1
    assert (await document(client, degraded))["state"] == "searchable"


async def test_retry_by_letter_id_retries_one_chunk(client, services, paid):
    first, *others = await letters(client)

    assert (await resolve(client, "retry", letter_id=str(first.id)))["chunks"] == 1
    await work(services)

    assert await letters(client) == others
    assert (await document(client, paid))["state"] == "degraded"


async def test_chunk_stays_searchable_during_retry(client, services, provider):
    await submit(client, "A first text that is replaced by another one.", "a.md")
    await work(services)
    provider.script(malformed_containing="lighthouse")
    await submit(client, KEEPER, "a.md")
    await work(services)
    provider.restore()
    await resolve(client, "retry")
    await work(services, "parse", "index", "generate")
    (chunk,) = await services.ledger[IndexWork].claim(10)

    assert not chunk.hidden


async def test_retry_of_everything_runs_in_batches(client, services, provider, monkeypatch):
    monkeypatch.setattr("shared.ledger.documents.dead_letters._BATCH_SIZE", 2)
    provider.script(malformed_containing="tide")
    for number in range(5):
        await submit(client, f"The tide number {number} of the harbour and its many boats.", f"{number}.md")
        await submit(client, BROKEN_PDF + str(number), f"{number}.pdf")
    await work(services)

    assert await resolve(client, "retry", all=True) == {"documents": 5, "pages": 0, "chunks": 5, "in_progress": 0}


async def test_chunks_of_running_document_are_not_retried(client, paid):
    first, *others = await letters(client)
    await resolve(client, "retry", letter_id=str(first.id))

    for action in ("retry", "discard"):
        assert await resolve(client, action, document_id=paid) == {
            "documents": 0,
            "pages": 0,
            "chunks": 0,
            "in_progress": len(others),
        }


async def test_discarding_last_dead_chunk_makes_document_ready(client, paid):
    first, *others = await letters(client)

    assert (await resolve(client, "discard", letter_id=str(first.id)))["chunks"] == 1
    assert (await document(client, paid))["state"] == "degraded"
    assert (await resolve(client, "discard", document_id=paid))["chunks"] == len(others)

    shown = await document(client, paid)
    assert shown["state"] == "ready"
    assert (shown["chunks"]["dead"], shown["chunks"]["discarded"]) == (0, 1 + len(others))
    assert {c["state"] for c in (await client.get(f"/v1/documents/{paid}/chunks")).json()["items"]} == {"discarded"}
    assert await letters(client) == []


async def test_document_with_discarded_chunk_finishes_as_ready(client, services, paid):
    first, *_ = await letters(client)
    await resolve(client, "discard", letter_id=str(first.id))
    await resolve(client, "retry", document_id=paid)
    await work(services)

    shown = await document(client, paid)
    assert (shown["state"], shown["chunks"]["discarded"]) == ("ready", 1)


async def test_discarded_chunk_is_found_by_its_text(client, both_dead):
    _, degraded = both_dead
    await resolve(client, "discard", document_id=degraded)

    found = (await client.post("/v1/retrieve", json={"question": "keeper", "collection": "novels"})).json()
    assert [chunk["text"] for chunk in found["chunks"]] == [KEEPER]


async def test_discarded_unsearchable_document_is_deleted(client, services, both_dead):
    failed, _ = both_dead

    assert (await resolve(client, "discard", letter_id=failed))["documents"] == 1
    assert (await client.get(f"/v1/documents/{failed}")).status_code == 404
    await services.cleaner.clean()
    async with services.database.begin() as connection:
        assert (await connection.execute_sql("SELECT count(*) FROM documents")).scalar_one() == 1


async def test_discarded_document_reverts_to_live_version(client, services, provider):
    document_id = await submit(client, KEEPER, "a.md")
    await work(services)
    assert await submit(client, BROKEN_PDF, "a.md") == document_id
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE documents SET lost_leases = 3 WHERE state = 'queued'")
    await work(services)
    assert (await document(client, document_id))["state"] == "failed"

    await resolve(client, "discard", document_id=document_id)

    shown = await document(client, document_id)
    assert (shown["state"], shown["version"], shown["live_version"]) == ("ready", 1, 1)
    assert (shown["error"], shown["chunks"]["indexed"]) == (None, 1)
    found = (await client.post("/v1/retrieve", json={"question": "keeper"})).json()
    assert [chunk["text"] for chunk in found["chunks"]] == [KEEPER]
    again = await client.post("/v1/documents", json={"text": BROKEN_PDF, "filename": "a.md"})
    assert (again.status_code, again.json()["version"]) == (202, 3)  # a late writer may still use version 2


async def test_discard_of_everything_requires_explicit_all(client, both_dead):
    _, degraded = both_dead

    refused = await client.post("/v1/dead-letters/discard", json={})

    assert refused.status_code == 422
    assert '{"all": true}' in ProblemDetails.model_validate_json(refused.content).detail
    both = await client.post("/v1/dead-letters/discard", json={"all": True, "collection": "papers"})
    assert both.status_code == 422
    assert len(await letters(client)) == 2
    assert await resolve(client, "discard", all=True) == {"documents": 1, "pages": 0, "chunks": 1, "in_progress": 0}
    assert (await document(client, degraded))["state"] == "ready"


async def test_new_version_removes_dead_letters_of_old_version(client, services, provider):
    provider.script(malformed_containing="lighthouse")
    document_id = await submit(client, KEEPER, "a.md")
    await work(services)
    (letter,) = await letters(client)
    await submit(client, "Something else entirely stands in the file now.", "a.md")

    assert await letters(client) == []
    assert (await client.get(f"/v1/dead-letters/{letter.id}")).status_code == 404
    assert (await resolve(client, "retry", document_id=document_id))["chunks"] == 0


async def test_tenants_cannot_see_or_resolve_each_others_letters(services, settings, provider):
    provider.script(malformed_containing="lighthouse")
    mine, theirs = as_tenant("alice"), as_tenant("bob")
    async with calling(with_keys(settings), services) as client:
        failed = await submit(client, BROKEN_PDF, "a.pdf", headers=mine)
        degraded = await submit(client, KEEPER, "b.md", headers=mine)
        await work(services)
        own = (await client.get("/v1/dead-letters", headers=mine)).json()["items"]
        assert len(own) == 2

        assert (await client.get("/v1/dead-letters", headers=theirs)).json()["items"] == []
        assert (await client.get("/v1/dead-letters/reasons", headers=theirs)).json()["items"] == []
        for letter in own:
            assert (await client.get(f"/v1/dead-letters/{letter['id']}", headers=theirs)).status_code == 404
        for action in ("retry", "discard"):
            for choice in ({"document_id": degraded}, {"document_id": failed}, {"letter_id": own[0]["id"]}):
                assert (await client.post(f"/v1/dead-letters/{action}", json=choice, headers=theirs)).status_code == 404
            reply = await client.post(f"/v1/dead-letters/{action}", json={"all": True}, headers=theirs)
            assert reply.json() == {"documents": 0, "pages": 0, "chunks": 0, "in_progress": 0}
        assert (await client.get("/v1/dead-letters", headers=mine)).json()["items"] == own


async def test_letters_with_equal_times_are_paged_by_id(services, library, provider):
    for number in range(3):
        await library.add(BROKEN_PDF + str(number), f"{number}.pdf")
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE documents SET state = 'parsing'")
        await connection.execute_sql("UPDATE documents SET state = 'failed', error = 'x', updated_at = now()")
    dead = services.ledger[DeadLetters]
    every = await dead.page("default")
    assert len({letter.at for letter in every}) == 1

    after = await dead.page("default", Choice(), after=(every[0].at, every[0].id))

    assert after == every[1:]


@guards(
    "shared/ledger/documents/listing.py",
    "AND c.state = {ChunkState.DEAD} AND c.error = :reason)",
    "AND c.state = {ChunkState.DEAD} AND c.error <> :reason)",
    means="a reason of failures leads to other documents",
)
async def test_documents_are_listed_by_reason_of_failure(client, services, provider):
    provider.script(malformed_containing="tide")
    await submit(client, BROKEN_PDF, "broken.pdf")
    await submit(client, SECTIONS, "partly.md")
    await submit(client, KEEPER, "whole.md")
    await work(services)
    reasons = [each["reason"] for each in (await client.get("/v1/dead-letters/reasons")).json()["items"]]

    found = [await names(client, reason=reason) for reason in reasons]

    assert sorted(found) == [["broken.pdf"], ["partly.md"]]
    assert await names(client, reason=reasons[0], state="ready") == []
    assert await names(client, reason="Another reason.") == []


async def test_documents_are_listed_by_job(client, services, provider):
    job = (await client.post("/v1/jobs", json={})).json()["id"]
    for name in ("broken.pdf", "whole.md"):
        text = BROKEN_PDF if name == "broken.pdf" else KEEPER
        (await client.post("/v1/documents", json={"text": text, "filename": name, "job": job})).raise_for_status()
    await submit(client, BROKEN_PDF + " either", "alone.pdf")
    await work(services)

    assert await names(client, job=job, sort="name") == ["broken.pdf", "whole.md"]
    assert await names(client, job=job, state="failed,degraded") == ["broken.pdf"]
    assert await names(client, job=job, sort="updated", q="whole") == ["whole.md"]


async def test_documents_of_job_are_found_by_index(client, services, provider):
    job = UUID((await client.post("/v1/jobs", json={})).json()["id"])
    await submit(client, KEEPER, "whole.md")
    insert = """
        INSERT INTO documents (id, public_id, tenant, collection_id, external_id, state, job_id)
        SELECT gen_random_uuid(), gen_random_uuid(), 'default', l.id, 'n' || n, 'queued',
               CASE WHEN n <= 5 THEN CAST(:job AS uuid) END
        FROM collections l, generate_series(1, 5000) n"""
    wanted = parameters_of("default", DocumentFilter(collection="default", job=job), most=100)
    async with services.database.begin() as connection:
        await connection.execute(Statement(insert), {"job": job})
        await connection.execute_sql("ANALYZE documents")
        plan = (await connection.execute(Statement(f"EXPLAIN {NEWEST}"), wanted)).scalars()

    assert "ix_documents_job" in "\n".join(plan)


async def names(client, **choice):
    reply = await client.get("/v1/documents", params=choice)
    assert reply.status_code == 200, reply.text
    return [each["external_id"] for each in reply.json()["items"]]
