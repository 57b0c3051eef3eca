"""The ledger: claims are exclusive, stale settlements change nothing, and each content is paid for once."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import Conflict, NotFound, Permanent
from shared.domain.retry import Dead, Retry
from shared.domain.spending.usage import Usage
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.generation import GenerateOutcome
from shared.domain.stages.indexing import IndexOutcome
from shared.domain.stages.parsing import NewChunk, ParseOutcome
from shared.domain.stages.work import LeaseExtension
from shared.domain.states import ChunkState, DocumentState
from shared.ingest.generate.generator import content_key
from shared.ingest.generate.types import GenerationOptions
from shared.ledger.documents import submission
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.listing import ListPosition
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import TransactionConflict
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.finishing import Finishing
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.leftovers import Leftovers
from shared.ledger.work.parsing import ParseWork
from tests.support.elapsed import age_rows
from tests.support.emptying import empty
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, until_blocked

SHORT = timedelta(seconds=10)  # a lease; the usual one is longer

NOW = timedelta()


def new_chunk(words, ordinal=0, ready_questions=None):
    key = content_key("default", "scripted", ChunkContent.whole(words), GenerationOptions())
    content = ChunkContent.whole(words, heading_path=("Heading",))
    return NewChunk(uuid4(), ordinal, content, key, ready_questions)


async def parsed(services, library, *texts, external_id=None, ready_questions=None, **options):
    """Add a document whose chunks wait for their texts to be indexed; nothing is parsed."""
    document = await library.add("unused " + " ".join(texts), external_id, **options)
    (claimed,) = await services.ledger[ParseWork].claim(10)
    chunks = [new_chunk(words, number, ready_questions) for number, words in enumerate(texts)]
    assert await services.ledger[ParseWork].settle([ParseOutcome(claimed, "Title", "text/markdown", chunks)])
    return document


async def store_two_of_three_chunks(services, work, ready_questions=None):
    """Claim a document, and store its chunks in slices until the last one fails; return both."""
    (claimed,) = await work.claim(1)
    chunks = [new_chunk(f"chunk {number}", number, ready_questions) for number in range(3)]
    with pytest.raises(Permanent):
        await services.ledger[ParseWork].settle([ParseOutcome(claimed, "\ud800", "text/plain", chunks)])
    return claimed, chunks


async def index_texts(services):
    """Settle the texts of all chunks without questions as indexed."""
    texts = [chunk for chunk in await services.ledger[IndexWork].claim(100) if chunk.text_only]
    await services.ledger[IndexWork].settle([IndexOutcome(chunk, [], 0) for chunk in texts])


async def claim_to_generate(services, limit=10):
    """Claim chunks to generate, after their texts are indexed."""
    await index_texts(services)
    return (await services.ledger[GenerateWork].claim(limit)).chunks


def paid(chunk, *questions):
    return GenerateOutcome(chunk, "scripted", questions or ("What is it?",), Usage(10, 5), 1)


async def end_leases(services):
    async with services.database.begin() as connection:
        for table in ("documents", "chunks"):
            await connection.execute(
                Statement(f"UPDATE {table} SET due_at = now() - interval '1 s' WHERE leased_by IS NOT NULL")
            )


async def test_resubmitted_content_changes_nothing(services, library):
    first = await library.add("same", "a.md")
    again = await library.add("same", "a.md")

    assert (again.id, again.version) == (first.id, 1)


async def test_different_content_starts_next_version(services, library):
    first = await library.add("one", "a.md")
    second = await library.add("two", "a.md")

    assert (second.id, second.version, second.state) == (first.id, 2, DocumentState.QUEUED)


async def test_concurrent_submissions_create_one_document(services, library):
    await library.collection()
    documents = await asyncio.gather(*(library.add("same", "a.md") for _ in range(10)))

    assert len({d.id for d in documents}) == 1
    assert documents[0].version == 1


async def test_concurrent_workers_never_claim_the_same_row(services, library):
    for number in range(20):
        await library.add(f"text {number}")

    claims = await asyncio.gather(*(services.ledger[ParseWork].claim(5) for _ in range(8)))

    ids = [document.lease.id for claim in claims for document in claim]
    assert len(ids) == len(set(ids)) == 20


async def test_expired_claim_is_rejected_after_next_claim(services, library):
    await library.add("text")
    (slow,) = await services.ledger[ParseWork].claim(1)
    await end_leases(services)
    (quick,) = await services.ledger[ParseWork].claim(1)

    assert not await services.ledger[ParseWork].settle([ParseOutcome(slow, "Slow", "text/plain", [new_chunk("slow")])])
    assert await services.ledger[ParseWork].settle([ParseOutcome(quick, "Quick", "text/plain", [new_chunk("quick")])])
    assert quick.lost_leases == 1
    chunks = await services.ledger[Documents].chunks("default", quick.lease.id)
    assert [chunk.content.text for chunk in chunks] == ["quick"]


async def test_extended_lease_is_not_due(services, library):
    await library.add("text")
    short = ParseWork(services.database, worker="short", lease=SHORT)
    (claimed,) = await short.claim(1)
    await services.ledger[ParseWork].extend([claimed.lease])
    await age_rows(services.database, "documents.due_at", SHORT)

    assert await short.claim(1) == []


@guards(
    "shared/ledger/work/leases.py",
    "FOR NO KEY UPDATE OF t SKIP LOCKED",
    "FOR NO KEY UPDATE OF t",
    means="an extension of leases waits for settlements, which may wait for it",
)
async def test_extension_does_not_wait_for_locked_rows(services, library):
    for name in ("a.md", "b.md"):
        await library.add(f"text of {name}", name)
    short = ParseWork(services.database, worker="short", lease=SHORT)
    locked, free = [document.lease for document in await short.claim(2)]
    async with services.database.begin() as settling:  # a settlement, which may then need the other row
        await settling.execute(Statement("SELECT 1 FROM documents WHERE id = :id FOR UPDATE"), {"id": locked.id})
        async with asyncio.timeout(TIMEOUT_SECONDS):
            extension = await services.ledger[ParseWork].extend([locked, free])
    await age_rows(services.database, "documents.due_at", SHORT)

    assert extension == LeaseExtension({free.token}, locked={locked.token})
    assert [document.lease.id for document in await short.claim(2)] == [locked.id]


@guards(
    "shared/ledger/work/generation.sql",
    "WHERE a.lease_token = ANY(CAST(:tokens AS bigint[])) FOR UPDATE SKIP LOCKED))",
    "WHERE a.lease_token = ANY(CAST(:tokens AS bigint[]))))",
    means="an extension waits for the settlement of a discarded call, and other leases expire",
)
async def test_extension_waits_for_no_settlement_of_call(services, library):
    documents = [await parsed(services, library, f"text {number}", external_id=f"{number}") for number in range(3)]
    claimed = await claim_to_generate(services)
    await services.ledger[Documents].delete("default", documents[0].id)
    others = {chunk.lease.token for chunk in claimed if chunk.document_id != documents[0].id}

    async with services.database.begin() as settling:  # a settlement has deleted the call and is not committed
        await settling.execute(Statement("DELETE FROM abandoned_calls"))
        async with asyncio.timeout(TIMEOUT_SECONDS / 4):
            extension = await services.ledger[GenerateWork].extend([chunk.lease for chunk in claimed])

    assert extension == LeaseExtension(others, set())


@guards(
    "shared/ledger/work/parsing.sql",
    "UPDATE documents SET due_at = now() + :lease\nWHERE id = :id",
    "UPDATE documents SET due_at = due_at + 0 * CAST(:lease AS interval)\nWHERE id = :id",
    means="the lease on a large document expires while its chunks are stored",
)
async def test_slices_of_large_document_extend_its_lease(services, library, monkeypatch):
    monkeypatch.setattr("shared.ledger.work.parsing._SLICE_CHUNKS", 2)
    await library.add("text")
    short = ParseWork(services.database, worker="short", lease=SHORT)
    await store_two_of_three_chunks(services, short)
    await age_rows(services.database, "documents.due_at", SHORT)

    assert await short.claim(1) == []


async def test_released_claim_is_due_without_lost_lease(services, library):
    await library.add("text")
    (claimed,) = await services.ledger[ParseWork].claim(1)
    await services.ledger[ParseWork].release([claimed.lease])
    (again,) = await services.ledger[ParseWork].claim(1)

    assert (again.lost_leases, again.attempts) == (0, 0)


async def test_failed_drains_claim_is_due_with_lost_lease(services, library):
    await parsed(services, library, "one chunk")
    await library.add("text")
    documents, chunks = services.ledger[ParseWork], services.ledger[GenerateWork]
    for work, claim in ((documents, documents.claim), (chunks, partial(claim_to_generate, services))):
        (claimed,) = await claim(1)
        await work.release([claimed.lease], lost=True)
        (again,) = await claim(1)
        assert (again.lost_leases, again.attempts) == (1, 0)


async def test_undecodable_row_does_not_stop_other_claims(services, library):
    await parsed(services, library, "an odd chunk", "a sound chunk")
    await index_texts(services)
    async with services.database.begin() as connection:
        await connection.execute_sql(
            "UPDATE chunk_contents SET content = '[1]' WHERE content->>'text' = 'an odd chunk'"
        )

    assert [chunk.content.text for chunk in (await services.ledger[GenerateWork].claim(10)).chunks] == ["a sound chunk"]
    assert (
        await services.ledger[GenerateWork].claim(10)
    ).chunks == []  # the other one is leased, so that it does not fill each claim


async def test_first_paid_result_is_stored_despite_stale_claim(services, library):
    await parsed(services, library, "one chunk")
    (slow,) = await claim_to_generate(services)
    await end_leases(services)
    (quick,) = await claim_to_generate(services)
    await services.ledger[GenerateWork].settle([paid(slow, "Paid first?")])

    (generated,) = await services.ledger[IndexWork].claim(10)
    assert generated.questions == ("Paid first?",)
    await services.ledger[GenerateWork].settle(
        [paid(quick, "Paid second?")]
    )  # too late: the first result is stored already and is kept
    async with services.database.begin() as connection:
        assert (await connection.execute(Statement("SELECT questions FROM completions"))).scalars() == [["Paid first?"]]


async def test_same_content_is_generated_once_at_a_time(services, library):
    await parsed(services, library, "twin", external_id="a")
    await parsed(services, library, "twin", external_id="b")
    await index_texts(services)

    first, second = await asyncio.gather(claim_to_generate(services), claim_to_generate(services))

    assert len(first) + len(second) == 1
    await services.ledger[GenerateWork].settle([paid((first + second)[0])])
    assert len(await services.ledger[IndexWork].claim(10)) == 2


async def test_paid_content_needs_no_call(services, library):
    await parsed(services, library, "known text", external_id="a")
    (first,) = await claim_to_generate(services)
    await parsed(services, library, "known text", external_id="b")
    await index_texts(services)
    await services.ledger[GenerateWork].settle([paid(first)])
    await parsed(services, library, "known text", external_id="c")

    chunks = await services.ledger[IndexWork].claim(10)

    assert [(chunk.text_only, chunk.questions) for chunk in chunks] == [(False, ("What is it?",))] * 3
    assert sorted(chunk.has_text for chunk in chunks) == [False, True, True]


async def test_content_paid_during_text_indexing_needs_no_call(services, library):
    await parsed(services, library, "known text", external_id="a")
    (first,) = await claim_to_generate(services)
    await parsed(services, library, "known text", external_id="b")
    (text_only,) = await services.ledger[IndexWork].claim(10)
    await services.ledger[GenerateWork].settle([paid(first)])
    await services.ledger[IndexWork].settle([IndexOutcome(text_only, [], 0)])

    claimed = await services.ledger[GenerateWork].claim(10)

    assert (claimed.chunks, claimed.paid_already) == ([], 1)
    assert len(await services.ledger[IndexWork].claim(10)) == 2


async def test_tenants_do_not_share_paid_content():
    subject, options = ChunkContent.whole("text"), GenerationOptions()

    assert content_key("a", "m", subject, options) != content_key("b", "m", subject, options)


async def test_retry_is_due_at_ledger_time(services, library):
    await parsed(services, library, "chunk")
    (claimed,) = await claim_to_generate(services)
    await services.ledger[GenerateWork].settle(
        [FailedAttempt(claimed.lease, Retry(after=timedelta(minutes=5), reason="unavailable"))]
    )

    await age_rows(services.database, "chunks.due_at", timedelta(minutes=4))
    assert await claim_to_generate(services) == []
    await age_rows(services.database, "chunks.due_at", timedelta(minutes=1))
    (again,) = await claim_to_generate(services)
    assert again.attempts == 1


async def test_chunk_without_questions_is_indexed_and_dead(services, library):
    document = await parsed(services, library, "chunk")
    (claimed,) = await claim_to_generate(services)
    await services.ledger[GenerateWork].settle([FailedAttempt(claimed.lease, Dead("no JSON"), Usage(7, 3), calls=3)])
    (generated,) = await services.ledger[IndexWork].claim(10)
    assert (generated.questions, generated.error) == ((), "no JSON")
    await services.ledger[IndexWork].settle([IndexOutcome(generated, [], 0, generated.error)])
    await services.ledger[Finishing].finish(await services.ledger[Finishing].find_ended())

    found = await services.ledger[Documents].get("default", document.id)
    assert (found.state, found.progress.dead, found.progress.calls) == (DocumentState.DEGRADED, 1, 3)
    (chunk,) = await services.ledger[Documents].chunks("default", document.id)
    assert (chunk.state, chunk.error) == (ChunkState.DEAD, "no JSON")


async def test_dead_chunks_can_be_revived(services, library):
    document = await parsed(services, library, "chunk")
    (claimed,) = await claim_to_generate(services)
    await services.ledger[GenerateWork].settle([FailedAttempt(claimed.lease, Dead("no JSON"))])
    await services.ledger[IndexWork].settle(
        [IndexOutcome(c, [], 0, c.error) for c in await services.ledger[IndexWork].claim(10)]
    )
    await services.ledger[Finishing].finish(await services.ledger[Finishing].find_ended())

    revived = await services.ledger[Documents].retry("default", document.id)

    assert revived.state == DocumentState.SEARCHABLE
    assert [chunk.attempts for chunk in await claim_to_generate(services)] == [0]


async def test_only_failed_document_can_be_retried(services, library):
    document = await library.add("text")

    with pytest.raises(Conflict, match="queued"):
        await services.ledger[Documents].retry("default", document.id)


async def test_failed_document_has_reason_and_is_retryable(services, library):
    document = await library.add("text")
    (claimed,) = await services.ledger[ParseWork].claim(1)
    await services.ledger[ParseWork].settle_failed([FailedAttempt(claimed.lease, Dead("encrypted"))])

    failed = await services.ledger[Documents].get("default", document.id)
    assert (failed.state, failed.error) == (DocumentState.FAILED, "encrypted")
    assert (await services.ledger[Documents].retry("default", document.id)).state == DocumentState.QUEUED
    assert len(await services.ledger[ParseWork].claim(1)) == 1


async def test_texts_make_document_live_questions_make_it_ready(services, library):
    document = await parsed(services, library, "one", "two")

    async def shown(*outcomes):
        await services.ledger[IndexWork].settle(outcomes)
        await services.ledger[Finishing].finish([document.id])
        found = await services.ledger[Documents].get("default", document.id)
        return found.state, found.live_version, found.progress.searchable, found.progress.questions

    first, second = await services.ledger[IndexWork].claim(10)
    assert (first.text_only, second.text_only) == (True, True)
    assert await shown(IndexOutcome(first, [], 0)) == (DocumentState.INDEXING, None, 1, 0)
    assert await shown(IndexOutcome(second, [], 0)) == (DocumentState.SEARCHABLE, 1, 2, 0)

    await services.ledger[GenerateWork].settle([paid(chunk) for chunk in await claim_to_generate(services)])
    first, second = await services.ledger[IndexWork].claim(10)
    assert (first.has_text, second.has_text) == (True, True)
    assert await shown(IndexOutcome(first, [], 1)) == (DocumentState.SEARCHABLE, 1, 2, 1)
    assert await shown(IndexOutcome(second, [], 1)) == (DocumentState.READY, 1, 2, 2)


async def test_index_claims_contain_at_most_three_quarters_texts(services, library):
    await parsed(services, library, *(f"paid {number}" for number in range(12)), external_id="paid")
    await services.ledger[GenerateWork].settle([paid(chunk) for chunk in await claim_to_generate(services, 20)])
    await parsed(services, library, *(f"new {number}" for number in range(12)), external_id="new")

    claims = [[chunk.text_only for chunk in await services.ledger[IndexWork].claim(8)] for _ in range(4)]

    assert [(len(claim), sum(claim)) for claim in claims] == [(8, 6), (8, 6), (8, 0), (0, 0)]


async def test_reopened_document_is_not_finished(services, library):
    document = await parsed(services, library, "one")
    (chunk,) = await claim_to_generate(services)
    await services.ledger[GenerateWork].settle([FailedAttempt(chunk.lease, Dead("refused"))])
    (generated,) = await services.ledger[IndexWork].claim(10)
    await services.ledger[IndexWork].settle([IndexOutcome(generated, [], 0, "refused")])
    await services.ledger[Finishing].finish(await services.ledger[Finishing].find_ended())
    await services.ledger[Documents].retry("default", document.id)

    await services.ledger[Finishing].finish([document.id])

    assert (await services.ledger[Documents].get("default", document.id)).state == DocumentState.SEARCHABLE


async def test_replaced_document_keeps_live_version(services, library):
    document = await parsed(services, library, "one", external_id="a.md", ready_questions=("Is it?",))
    await services.ledger[IndexWork].settle(
        [IndexOutcome(chunk, [], 0) for chunk in await services.ledger[IndexWork].claim(10)]
    )
    await services.ledger[Finishing].finish(await services.ledger[Finishing].find_ended())
    await parsed(services, library, "two", external_id="a.md", ready_questions=("Is it?",))
    await services.ledger[IndexWork].settle(
        [IndexOutcome(chunk, [], 0) for chunk in await services.ledger[IndexWork].claim(10)]
    )
    await library.add("three", "a.md")

    await services.ledger[Finishing].finish([document.id])

    async with services.database.begin() as connection:
        swept = (await connection.execute(Statement("SELECT obsolete_version, repeats FROM sweeps"))).all()
        assert [tuple(row) for row in swept] == [(2, True)]
    assert (await services.ledger[Documents].get("default", document.id)).live_version == 1
    assert len(await services.ledger[Leftovers].purge_versions()) == 1
    async with services.database.begin() as connection:
        remaining = (
            await connection.execute(Statement("SELECT content ->> 'text', version FROM chunk_contents"))
        ).all()
        assert [tuple(row) for row in remaining] == [("one", 1)]


async def test_resubmission_during_deletion_creates_new_document(services, library):
    document = await library.add("one", "a.md")
    async with services.database.begin() as connection:
        await connection.execute(Statement("SELECT 1 FROM documents FOR UPDATE"))
        adding = asyncio.create_task(library.add("two", "a.md"))
        await until_blocked(services.database)
        await connection.execute(Statement("UPDATE documents SET state = 'deleting'"))

    assert (await adding).id != document.id


@pytest.mark.parametrize("existing", [True, False])
async def test_batch_documents_are_locked_in_name_order(services, library, existing):
    """Otherwise, two writers of the same documents would wait for each other."""
    new = {name: await library.new("one", name) for name in ("a", "b")}
    if existing:
        await services.ledger[Documents].submit_many(list(new.values()))
    theirs = [await library.new("two", name) for name in ("b", "a")]

    async def lock(connection, name):
        if existing:
            await submission._lock(connection, new[name].collection, {name})
        else:
            await submission._write(connection, [new[name]])

    async with services.database.begin() as connection:
        await lock(connection, "a")
        writing = asyncio.create_task(services.ledger[Documents].submit_many(theirs))
        await until_blocked(services.database)
        await connection.execute(Statement("SET LOCAL lock_timeout = '0.1s'"))  # deadlocks are checked after a second
        await lock(connection, "b")

    assert [(each.accepted, each.document.external_id, each.document.version) for each in await writing] == [
        (True, "b", 2),
        (True, "a", 2),
    ]


async def test_uploads_in_use_are_found_among_many_names(services, library):
    await library.add("one")
    (stored,) = (path.name for path in (services.settings.data_dir / "uploads").glob("??/*"))

    others = (f"{number:032x}" for number in range(40_000))
    assert await services.ledger[Documents].stored_in_use([stored, *others]) == {stored}


async def test_stale_index_settlement_is_not_recorded(services, library):
    await parsed(services, library, "one")
    await services.ledger[GenerateWork].settle([paid(chunk) for chunk in await claim_to_generate(services)])
    (slow,) = await services.ledger[IndexWork].claim(10)
    await end_leases(services)
    (quick,) = await services.ledger[IndexWork].claim(10)

    assert await services.ledger[IndexWork].settle([IndexOutcome(slow, [], 1)]) == set()
    assert await services.ledger[IndexWork].settle([IndexOutcome(quick, [], 1)]) == {quick.lease}


async def test_unfinished_version_is_discarded_by_next(services, library):
    await parsed(services, library, "one", external_id="a")
    (claimed,) = await claim_to_generate(services)
    await library.add("other", "a")

    await services.ledger[GenerateWork].settle([paid(claimed)])

    assert await services.ledger[IndexWork].claim(10) == []


async def test_next_version_stays_hidden_until_texts_are_stored(services, library):
    document = await parsed(services, library, "kept", external_id="a")
    await services.ledger[GenerateWork].settle([paid(chunk) for chunk in await claim_to_generate(services)])
    (first,) = await services.ledger[IndexWork].claim(10)
    await services.ledger[IndexWork].settle([IndexOutcome(first, [], 1)])
    await services.ledger[Finishing].finish(await services.ledger[Finishing].find_ended())
    assert not first.hidden

    await library.add("next", "a")
    (claimed,) = await services.ledger[ParseWork].claim(1)
    same = NewChunk(first.lease.id, 0, ChunkContent.whole("kept"), b"k" * 32)
    await services.ledger[ParseWork].settle([ParseOutcome(claimed, None, "text/markdown", [same, new_chunk("new", 1)])])

    hidden = {chunk.content.text: chunk.hidden for chunk in await services.ledger[IndexWork].claim(10)}
    assert hidden == {"kept": True, "new": True}
    assert claimed.live_version == 1
    assert document.id == claimed.lease.id


async def test_deleted_document_is_invisible_and_rejects_writers(services, library):
    document = await parsed(services, library, "one")
    (claimed,) = await claim_to_generate(services)
    await services.ledger[Documents].delete("default", document.id)

    with pytest.raises(NotFound):
        await services.ledger[Documents].get("default", document.id)
    await services.ledger[GenerateWork].settle([paid(claimed)])
    assert await services.ledger[IndexWork].claim(10) == []
    assert await services.ledger[Leftovers].deletable() == []  # its versions are deleted first
    await services.ledger[Leftovers].purge_versions()
    (deleted,) = await services.ledger[Leftovers].deletable()
    assert deleted.id == document.id


async def test_deleted_documents_name_is_reusable(services, library):
    document = await library.add("one", "a")
    await services.ledger[Documents].delete("default", document.id)

    assert (await library.add("one", "a")).id != document.id


async def test_deleted_document_is_swept_again_after_leases(services, library):
    document = await library.add("one", "a")
    await services.ledger[Documents].delete("default", document.id)
    leftovers = Leftovers(services.database, SHORT)
    await leftovers.purge_versions()
    await leftovers.finish_deletion(await leftovers.deletable())

    assert await leftovers.due_sweeps() == []
    await age_rows(services.database, "sweeps.due_at", 2 * SHORT)
    (sweep,) = await leftovers.due_sweeps()
    assert (sweep.document_id, sweep.obsolete_version) == (document.id, 2)
    await leftovers.settle_sweeps([sweep])
    assert await leftovers.due_sweeps() == []


async def test_another_tenant_sees_no_documents_or_collections(services, library):
    document = await library.add("secret")

    with pytest.raises(NotFound):
        await services.ledger[Documents].get("other", document.id)
    with pytest.raises(NotFound):
        await services.ledger[Documents].delete("other", document.id)
    with pytest.raises(NotFound):
        await services.ledger[Documents].chunks("other", document.id)
    assert await services.ledger[Documents].page("other") == []
    assert await services.ledger[Collections].find("other", "default") is None


async def test_document_pages_have_no_gaps_or_repeats(services, library):
    ids = {(await library.add(f"text {number}")).id for number in range(7)}
    seen, after = [], None
    while page := await services.ledger[Documents].page("default", after=after, limit=3):
        seen += [document.id for document in page]
        after = ListPosition(page[-1].id, at=page[-1].created_at)

    assert len(seen) == len(set(seen)) == 7
    assert set(seen) == ids


async def test_due_returns_queues_with_work(services, library):
    assert await services.ledger[Backlogs].due() == []
    await library.add("one")
    assert await services.ledger[Backlogs].due() == ["parse"]
    (claimed,) = await services.ledger[ParseWork].claim(1)
    assert await services.ledger[Backlogs].due() == []
    await services.ledger[ParseWork].settle([ParseOutcome(claimed, None, "text/markdown", [new_chunk("one")])])
    assert await services.ledger[Backlogs].due() == ["index"]
    await index_texts(services)
    assert await services.ledger[Backlogs].due() == ["generate"]
    await services.ledger[GenerateWork].settle([paid(chunk) for chunk in await claim_to_generate(services)])
    assert await services.ledger[Backlogs].due() == ["index"]


async def test_repeated_schema_migration_changes_nothing(services):
    from shared.ledger.postgres.schema import migrate

    await migrate(services.database)

    async with services.database.begin() as connection:
        assert (await connection.execute(Statement("SELECT count(*) FROM alembic_version"))).scalar_one_or_none() == 1


async def test_replacement_is_retried_after_deadlock(services, library):
    """A replacement locks the document, then its chunks; a settlement locks them in the opposite order."""
    replaced = False
    while not replaced:
        await empty(services)
        name = str(uuid4())
        document = await parsed(services, library, f"one {name}", external_id=name)
        # PostgreSQL ends the settlement instead if the machine needs a second between the statements.
        with suppress(TransactionConflict):
            async with services.database.begin() as worker:
                locked = {"id": document.id}
                await worker.execute(Statement("SELECT 1 FROM chunks WHERE document_id = :id FOR UPDATE"), locked)
                replacement = asyncio.create_task(library.add("two", name))
                while not (await worker.execute(Statement("SELECT 1 FROM pg_locks WHERE NOT granted"))).first():
                    await asyncio.sleep(0.01)
                await worker.execute(Statement("SELECT 1 FROM documents WHERE id = :id FOR UPDATE"), locked)
            replaced = True
        assert (await replacement).version == 2


@guards(
    "shared/ledger/work/parsing.sql",
    "WHERE NOT EXISTS (SELECT 1 FROM chunks e WHERE e.id = v.id AND e.version = d.version OFFSET 0)",
    "",
    means="a repeated attempt inserts chunks again that have ended meanwhile",
)
async def test_repeated_parse_inserts_no_ended_chunk(services, library, monkeypatch):
    monkeypatch.setattr("shared.ledger.work.parsing._SLICE_CHUNKS", 2)
    await library.add("text")
    claimed, chunks = await store_two_of_three_chunks(services, services.ledger[ParseWork], ready_questions=())
    written = await services.ledger[IndexWork].claim(10)
    await services.ledger[IndexWork].settle([IndexOutcome(chunk, [], 0) for chunk in written])

    await services.ledger[ParseWork].settle([ParseOutcome(claimed, "Title", "text/plain", chunks)])

    rows = await services.database.rows(Statement("SELECT ordinal, state FROM chunks ORDER BY ordinal, state"))
    assert len(written) == 2
    assert [(row["ordinal"], row["state"]) for row in rows] == [
        (0, ChunkState.INDEXED),
        (1, ChunkState.INDEXED),
        (2, ChunkState.PARSED),
    ]


@guards(
    "shared/ledger/documents/submission.py",
    "@again_after_collision\nasync def _submit(",
    "async def _submit(",
    means="an edit is refused because a chunk of the document ends",
)
async def test_replacement_during_last_settlement_is_retried(services, library):
    """PostgreSQL refuses to wait for a row that leaves the partition of open work."""
    name = str(uuid4())
    await parsed(services, library, "one", external_id=name, ready_questions=())
    (chunk,) = await services.ledger[IndexWork].claim(1)
    async with services.database.begin() as settlement:
        await settlement.execute(
            Statement("UPDATE chunks SET state = 'indexed' WHERE id = :id"), {"id": chunk.lease.id}
        )
        replacement = asyncio.create_task(library.add("two", name))
        await until_blocked(services.database)

    assert (await replacement).version == 2


async def set_age(services, age):
    """Set the age of open documents."""
    async with services.database.begin() as connection:
        await connection.execute(
            Statement("UPDATE documents SET updated_at = now() - CAST(:age AS interval)"), {"age": age}
        )


async def test_finished_old_document_is_found_within_a_minute(services, library):
    document = await parsed(services, library, "one", ready_questions=())
    await set_age(services, timedelta(hours=1))
    assert await services.ledger[Finishing].find_ended() == []  # its text is not indexed

    await services.ledger[IndexWork].settle(
        [IndexOutcome(chunk, [], 0) for chunk in await services.ledger[IndexWork].claim(10)]
    )
    assert await services.ledger[Finishing].find_ended() == []  # it was checked a moment ago

    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE documents SET due_at = due_at - interval '1 minute'"))
    assert await services.ledger[Finishing].find_ended() == [document.id]


async def test_finished_new_document_is_found_at_once(services, library):
    document = await parsed(services, library, "one", ready_questions=())
    assert await services.ledger[Finishing].find_ended() == []

    await services.ledger[IndexWork].settle(
        [IndexOutcome(chunk, [], 0) for chunk in await services.ledger[IndexWork].claim(10)]
    )

    assert await services.ledger[Finishing].find_ended() == [document.id]


async def test_limited_search_finds_every_finished_document(services, library):
    documents = {(await parsed(services, library, f"text {number}", ready_questions=())).id for number in range(3)}
    await services.ledger[IndexWork].settle(
        [IndexOutcome(chunk, [], 0) for chunk in await services.ledger[IndexWork].claim(10)]
    )

    assert {found for _ in range(3) for found in await services.ledger[Finishing].find_ended(limit=1)} == documents
