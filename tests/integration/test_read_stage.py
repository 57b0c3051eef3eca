"""Scans: each page is read once, under a lease, and its document is searchable by the texts of its pages."""

import asyncio
import hashlib
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from features.erasure.ledger.erasures import Erasures
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.errors import Transient
from shared.domain.jobs import PauseReason
from shared.domain.retry import Dead
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.page_limits import PageLimits
from shared.domain.stages.pages import PageOutcome, PageText, page_key
from shared.domain.stages.poison import DEATHS_ALONE, SUSPECT_AFTER
from shared.domain.stages.work import LeaseExtension
from shared.domain.states import DocumentState
from shared.ingest.drain import Drain, DrainLimits
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.document import Reading
from shared.ingest.parse.scans import language_data
from shared.ledger.documents.dead_letters import Choice, DeadLetters
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.page_texts import PageTexts
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import AdvisoryLock, lock
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.leftovers import Leftovers
from shared.ledger.work.pages import CLAIM_PAGES, Pages
from tests.conftest import Library
from tests.integration.test_builds import filled
from tests.integration.test_erasure import finished
from tests.support.api import work
from tests.support.planted import guards
from tests.support.scans import BLANK, FAINT, SMEARED, picture, scan, with_reader
from tests.support.sent import sent_statements
from tests.support.waiting import eventually
from workers.scheduler import NO_READER, explain_waiting_pages

HARBOUR, MARKET = "The harbour opens at six.", "The market closes at noon."
EVERYTHING = ("parse", "read", "parse", "index")  # of documents with their own questions


@pytest.fixture
def scanned(services, provider):
    return with_reader(services)[0]


@pytest.fixture
def reader(scanned):
    return scanned.reader.engine


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return [tuple(row) for row in result]


async def submitted(services, *pages, tenant="default", name="scan.pdf", questions=(), **options):
    """Submit a scan; by default no questions are generated for its chunks."""
    return await Library(services, tenant).add(scan(*pages), name, questions=questions, **options)


async def shown(services, document, tenant="default"):
    return await services.ledger[Documents].get(tenant, document.id)


async def texts_of(services, document):
    """Return the texts of the chunks that queries see."""
    rows = """SELECT t.content ->> 'text' FROM documents d JOIN chunks c ON c.document_id = d.id
              AND c.version = d.live_version JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
              WHERE d.public_id = :id ORDER BY c.ordinal"""
    return [row[0] for row in await run(services, rows, id=document.id)]


async def read(services, *pages):
    """Submit a scan, and do all its work."""
    scanned, _ = with_reader(services)
    document = await submitted(scanned, *pages)
    await work(scanned, *EVERYTHING)
    return document


async def pages_due(services, tenant, *pages, name="scan.pdf", **options):
    """Submit a scan whose pages are due."""
    document = await submitted(services, *pages, tenant=tenant, name=name, **options)
    await work(services, "parse")
    return document


def numbered(count, name="page"):
    return [f"{name} {number}" for number in range(1, count + 1)]


async def end_leases(services):
    await run(services, "UPDATE pages SET due_at = now() WHERE leased_by IS NOT NULL")


def outcome(page, words="A word."):
    return PageOutcome(page, PageText(words, 2, 90.0))


async def test_scan_is_searchable_by_texts_of_pages(scanned, reader):
    document = await submitted(scanned, HARBOUR, MARKET, questions=None)
    await work(scanned, "parse")
    waiting = await shown(scanned, document)
    await work(scanned, "read", "parse", "index", "generate", "index")

    ready = await shown(scanned, document)
    assert (waiting.state, waiting.progress.pages, waiting.progress.pages_read) == (DocumentState.READING, 2, 0)
    assert (ready.state, ready.progress.pages_read, ready.progress.pages_unread) == (DocumentState.READY, 2, 0)
    assert await texts_of(scanned, document) == [HARBOUR, MARKET]
    assert set(reader.reads.values()) == {1}


async def test_blank_page_is_read_and_not_dead(scanned):
    document = await submitted(scanned, HARBOUR, BLANK)
    await work(scanned, *EVERYTHING)

    ready = await shown(scanned, document)
    assert (ready.state, ready.progress.pages_read) == (DocumentState.READY, 2)


@guards(
    "shared/ingest/parse/stage.py",
    "if ready_made is None and content.uncertain else",
    "if False else",
    means="a model asks questions about misread words",
)
async def test_uncertain_text_asks_no_questions(scanned, provider):
    document = await submitted(scanned, HARBOUR, f"{MARKET} {FAINT}", questions=None)
    await work(scanned, *EVERYTHING, "generate", "index")

    assert (await shown(scanned, document)).state is DocumentState.READY
    assert await texts_of(scanned, document) == [HARBOUR, f"{MARKET} {FAINT}"]
    assert provider.stats()["calls"] == 1


async def test_document_without_scans_has_no_pages(scanned):
    document = await Library(scanned).add(HARBOUR, questions=())
    await work(scanned, "parse", "index")

    assert (await shown(scanned, document)).progress.pages == 0
    assert await run(scanned, "SELECT 1 FROM pages") == []


@guards(
    "shared/ledger/work/finishing.sql",
    "AND p.state = {PageState.DEAD}))",
    "AND false))",
    means="a document with an unread page is ready",
)
async def test_dead_page_leaves_document_degraded(scanned, once):
    document = await once(read, HARBOUR, SMEARED)

    degraded = await shown(scanned, document)
    assert (degraded.state, degraded.progress.pages_unread) == (DocumentState.DEGRADED, 1)
    (letter,) = await scanned.ledger[DeadLetters].page("default")
    assert (letter.kind, letter.ordinal, letter.reason) == ("page", 2, "Page 2 has ink, but no words.")
    assert [(r.reason, r.pages) for r in await scanned.ledger[DeadLetters].reasons("default")] == [(letter.reason, 1)]
    backlog = await scanned.ledger[Backlogs].measure("default", [])
    assert backlog.dead == 1


async def test_retried_dead_page_is_the_only_one_read(scanned, reader, once):
    document = await once(read, HARBOUR, SMEARED)
    (letter,) = await scanned.ledger[DeadLetters].page("default")
    reader.clear = True

    resolved = await scanned.ledger[DeadLetters].retry("default", Choice(letter_id=letter.id))
    await work(scanned, *EVERYTHING)

    assert (resolved.pages, resolved.chunks) == (1, 0)
    assert (await shown(scanned, document)).state is DocumentState.READY
    assert reader.reads == {("default", SMEARED): 1}


async def test_discarded_dead_page_makes_document_ready(scanned, once):
    document = await once(read, HARBOUR, SMEARED)

    resolved = await scanned.ledger[DeadLetters].discard("default", Choice())

    ready = await shown(scanned, document)
    assert (resolved.pages, ready.state, ready.progress.pages_unread) == (1, DocumentState.READY, 1)


async def test_document_stays_degraded_until_last_page_is_discarded(scanned):
    document = await submitted(scanned, HARBOUR, SMEARED, SMEARED)
    await work(scanned, *EVERYTHING)
    first, last = await scanned.ledger[DeadLetters].page("default")

    await scanned.ledger[DeadLetters].discard("default", Choice(letter_id=first.id))
    between = await shown(scanned, document)
    await scanned.ledger[DeadLetters].discard("default", Choice(letter_id=last.id))

    assert between.state is DocumentState.DEGRADED
    assert (await shown(scanned, document)).state is DocumentState.READY


async def test_scan_without_any_readable_page_fails_with_reason(scanned, reader):
    document = await submitted(scanned, SMEARED)
    await work(scanned, *EVERYTHING)
    failed = await shown(scanned, document)
    reader.clear = True
    await scanned.ledger[Documents].retry("default", document.id)
    await work(scanned, *EVERYTHING)

    assert failed.state is DocumentState.FAILED
    assert failed.error.endswith("The first one: Page 1 has ink, but no words.")
    assert (await shown(scanned, document)).state is DocumentState.READY


async def test_transient_failure_is_repeated(scanned, reader):
    document = await pages_due(scanned, "default", HARBOUR)

    def fail_once(_):
        if reader.reads.total() == 1:
            raise Transient("no parser process can be started")

    reader.before = fail_once
    await work(scanned, "read")
    await run(scanned, "UPDATE pages SET due_at = now()")
    await work(scanned, "read", "parse", "index")

    assert (await shown(scanned, document)).state is DocumentState.READY
    assert reader.reads.total() == 2


async def test_missing_language_data_fails_the_document(scanned):
    await scanned.ledger[Collections].ensure(
        "default",
        "default",
        embedding_model=scanned.settings.embedding_model,
        options=CollectionOptions(ocr_languages="tlh"),
    )
    document = await submitted(scanned, HARBOUR)
    await work(scanned, "parse")

    failed = await shown(scanned, document)
    assert failed.state is DocumentState.FAILED
    assert "tesseract-ocr-tlh" in failed.error


async def test_picture_is_read_by_the_engine(services, provider):
    """The one test with the real engine: its wiring, not its quality."""
    new = await Library(services).new("", "notice.png", questions=())
    upload = await services.uploads.store_bytes(picture("The harbour opens", "at six."), max_bytes=1_000_000)
    new = replace(new, upload=upload.name, filename="notice.png", media_type="image/png", content_hash=upload.sha256)
    document = (await services.ledger[Documents].submit(new)).document
    await work(services, *EVERYTHING)

    assert (await shown(services, document)).state is DocumentState.READY
    assert "harbour opens" in " ".join(await texts_of(services, document))


# Texts are reused


async def test_reindex_reads_no_page(scanned, reader, once):
    document = await once(read, HARBOUR, MARKET)
    await scanned.ledger[Documents].reindex(await Library(scanned).collection())
    await work(scanned, "parse", "parse", "index")

    again = await shown(scanned, document)
    assert (again.version, again.state, again.progress.pages_read) == (2, DocumentState.READY, 2)
    assert reader.reads.total() == 0


async def test_build_finds_texts_of_pages(scanned, reader, once):
    await once(read, HARBOUR, MARKET)
    await filled(scanned, chunk_max_chars=500)
    await work(scanned, "parse", "parse", "index")

    rows = "SELECT d.state, count(*) FROM documents d JOIN pages p ON p.document_id = d.id GROUP BY d.id, d.state"
    assert await run(scanned, rows) == [("ready", 2), ("ready", 2)]
    assert reader.reads.total() == 0


async def test_same_file_under_other_name_reads_nothing(scanned, reader, once):
    await once(read, HARBOUR)
    again = await submitted(scanned, HARBOUR, name="other.pdf")
    await work(scanned, "parse", "parse", "index")

    assert (await shown(scanned, again)).state is DocumentState.READY
    assert reader.reads.total() == 0


@guards(
    "shared/ledger/work/claims_read.sql",
    "AND o.leased_by IS NOT NULL AND o.id <> w.id OFFSET 0)",
    "AND false OFFSET 0)",
    "DISTINCT ON (key) id",
    "id",
    means="two documents with the same file read its pages at the same time",
)
async def test_same_file_uploaded_twice_is_read_once(scanned, reader):
    both = [await submitted(scanned, HARBOUR, MARKET, name=name) for name in ("a.pdf", "b.pdf")]
    await work(scanned, *EVERYTHING)

    assert {(await shown(scanned, document)).state for document in both} == {DocumentState.READY}
    assert set(reader.reads.values()) == {1}


@guards("shared/ingest/read/stage.py", "if page.has_text:", "if False:", means="a page whose text exists is read again")
async def test_text_that_appears_after_parsing_is_found(scanned, reader):
    """The text is stored between the insertion of a page and its claim, as by two concurrent transactions."""
    document = await pages_due(scanned, "default", HARBOUR)
    insert = "INSERT INTO page_texts (key, tenant, text, words, confidence) SELECT key, tenant, :text, 5, 90 FROM pages"
    await run(scanned, insert, text=MARKET)
    await work(scanned, "read", "parse", "index")

    assert await texts_of(scanned, document) == [MARKET]
    assert reader.reads.total() == 0


@guards(
    "shared/domain/stages/pages.py",
    "parts = (tenant, file_hash",
    'parts = ("", file_hash',
    means="tenants share texts of pages",
)
async def test_other_tenant_reads_same_file_itself(scanned, reader):
    for tenant in ("alice", "bob"):
        await submitted(scanned, HARBOUR, tenant=tenant)
        await work(scanned, *EVERYTHING)

    assert reader.reads == {("alice", HARBOUR): 1, ("bob", HARBOUR): 1}


async def test_other_languages_are_read_again(scanned, reader, once):
    await once(read, HARBOUR)
    await filled(scanned, ocr_languages="deu+eng")
    await work(scanned, *EVERYTHING)

    assert reader.reads.total() == 1


async def test_unused_texts_are_deleted_after_retention(scanned, once):
    document = await once(read, HARBOUR)
    texts = scanned.ledger[PageTexts]
    await texts.forget(timedelta())
    await texts.forget(timedelta())
    kept = await run(scanned, "SELECT count(*) FROM page_texts")
    await scanned.ledger[Documents].delete("default", document.id)
    await scanned.ledger[Leftovers].purge_versions()
    await texts.forget(timedelta())
    await texts.forget(timedelta())

    assert kept == [(1,)]
    assert await run(scanned, "SELECT count(*) FROM page_texts") == [(0,)]


# Claims


async def test_claim_takes_eight_pages_at_most(scanned):
    await pages_due(scanned, "default", *numbered(20))

    assert len(await scanned.ledger[Pages].claim(100)) == 8


async def test_pages_are_claimed_in_turn_between_tenants(scanned):
    await pages_due(scanned, "big", *numbered(30))
    await pages_due(scanned, "small", *numbered(2))

    claimed = Counter(page.tenant for page in await scanned.ledger[Pages].claim(8))
    assert claimed == {"big": 6, "small": 2}


async def test_uploads_are_read_before_bulk(scanned):
    await pages_due(scanned, "default", *numbered(9, "bulk"), name="bulk.pdf", lane=1)
    document = await pages_due(scanned, "default", *numbered(3, "upload"), name="upload.pdf")

    claimed = await scanned.ledger[Pages].claim(3)
    row = await run(scanned, "SELECT id FROM documents WHERE public_id = :id", id=document.id)
    assert {page.document_id for page in claimed} == {row[0][0]}


async def test_concurrent_claims_take_different_pages(scanned):
    await pages_due(scanned, "default", *numbered(32))

    claims = await asyncio.gather(*(scanned.ledger[Pages].claim(8) for _ in range(4)))
    numbers = [page.number for pages in claims for page in pages]
    assert len(set(numbers)) == len(numbers) == 32


async def test_page_of_paused_job_is_not_claimed(scanned):
    job = (await scanned.ledger[Jobs].open_load(await Library(scanned).collection(), key=None, expected=1)).job
    await pages_due(scanned, "default", HARBOUR)
    await run(scanned, "UPDATE pages SET lane = 16 * (SELECT number FROM jobs)")
    await scanned.ledger[Jobs].pause("default", job.id, PauseReason.USER)

    paused = await scanned.ledger[Pages].claim(8)
    await scanned.ledger[Jobs].resume("default", job.id)

    assert paused == []
    assert "read" in await scanned.ledger[Backlogs].due()
    assert len(await scanned.ledger[Pages].claim(8)) == 1


async def test_due_pages_wake_and_want_read_workers(scanned):
    before = (await scanned.ledger[Backlogs].due(), await scanned.wanted.update())
    await pages_due(scanned, "default", *numbered(500))

    after = (await scanned.ledger[Backlogs].due(), await scanned.wanted.update())
    survey = await scanned.ledger[Backlogs].survey()
    backlog = await scanned.ledger[Backlogs].measure("default", [])
    assert "read" not in before[0]
    assert "read" not in before[1]
    assert "read" in after[0]
    assert after[1]["read"] > 1
    assert survey.rows["pages", "waiting"] == 500
    assert ("read", 0) in survey.oldest
    assert backlog.stages["read"].due == 500


# Leases


async def test_lost_lease_cannot_settle_but_keeps_text(scanned):
    await pages_due(scanned, "default", HARBOUR)
    pages = scanned.ledger[Pages]
    (late,) = await pages.claim(8)
    await end_leases(scanned)
    (current,) = await pages.claim(8)

    advanced = await pages.settle([outcome(late)])

    assert (current.lost_leases, advanced) == (1, True)  # the text of a late worker is as good as any
    assert await run(scanned, "SELECT text FROM page_texts") == [("A word.",)]
    assert not await pages.settle([outcome(current, "Another text.")])
    assert await run(scanned, "SELECT text FROM page_texts") == [("A word.",)]


@guards(
    "shared/ledger/work/pages.sql",
    "WHERE p.id = v.id AND p.lease_token = v.token AND p.leased_by IS NOT NULL AND {FAIL_",
    "WHERE p.id = v.id AND {FAIL_",
    means="a late failure ends the claim of another worker on a page",
)
@guards(
    "shared/ledger/work/leases.py",
    "t.version = v.version AND t.lease_token = v.token AND",
    "t.version = v.version AND",
    means="a lost claim on a page is extended",
)
async def test_lost_lease_is_neither_extended_nor_failed(scanned):
    document = await pages_due(scanned, "default", HARBOUR)
    pages = scanned.ledger[Pages]
    (late,) = await pages.claim(8)
    await end_leases(scanned)
    (current,) = await pages.claim(8)

    assert await pages.extend([late.lease, current.lease]) == LeaseExtension({current.lease.token}, set())
    assert not await pages.settle([FailedAttempt(late.lease, Dead("smeared"))])
    await pages.release([late.lease])
    assert await run(scanned, "SELECT state, leased_by IS NOT NULL FROM pages") == [("waiting", True)]
    assert (await shown(scanned, document)).state is DocumentState.READING


async def test_page_that_kills_workers_is_suspected_then_dead(scanned):
    document = await pages_due(scanned, "default", HARBOUR, MARKET)
    pages = scanned.ledger[Pages]
    for _ in range(SUSPECT_AFTER):
        await pages.claim(8)
        await end_leases(scanned)
    assert await pages.claim(8) == []
    await run(scanned, "UPDATE pages SET lost_leases = 0, leased_by = NULL WHERE number = 1")
    for _ in range(DEATHS_ALONE):
        (suspect,) = await pages.claim(1, suspects=True)
        assert suspect.number == 2
        await end_leases(scanned)
    await work(scanned, "read", "parse", "index")

    degraded = await shown(scanned, document)
    assert (degraded.state, degraded.progress.pages_unread) == (DocumentState.DEGRADED, 1)


async def test_released_pages_are_due_at_once(scanned):
    await pages_due(scanned, "default", HARBOUR)
    pages = scanned.ledger[Pages]
    (page,) = await pages.claim(8)
    assert await pages.extend([page.lease]) == LeaseExtension({page.lease.token}, set())
    await pages.release([page.lease])

    assert await pages.extend([page.lease]) == LeaseExtension(set(), set())
    assert [again.lost_leases for again in await pages.claim(8)] == [0]


@guards(
    "shared/ledger/work/pages.sql",
    "ORDER BY d.id FOR NO KEY UPDATE\n\n-- part: read_rows",
    "ORDER BY d.id\n\n-- part: read_rows",
    means="settlements of the last two pages of a document miss each other",
)
async def test_concurrent_settlements_of_last_pages_advance_document(scanned):
    """Two settlements that do not see each other would leave a document waiting; twenty pairs make that likely.

    The pages are dead, because settlements of read pages also wait for each other at the number of pages of the day.
    """
    for number in range(20):
        await submitted(scanned, f"left {number}", f"right {number}", name=f"{number}.pdf")
    await work(scanned, "parse")
    pages = scanned.ledger[Pages]
    claimed = [page for _ in range(5) for page in await pages.claim(8)]
    pairs = [
        [page for page in claimed if page.document_id == document] for document in {p.document_id for p in claimed}
    ]

    for pair in pairs:
        await asyncio.gather(*(pages.settle([FailedAttempt(page.lease, Dead("smeared"))]) for page in pair))

    assert await run(scanned, "SELECT state, count(*) FROM documents GROUP BY state") == [("queued", 20)]


async def test_stopped_worker_repeats_only_pages_in_work(scanned, reader):
    """A drain is stopped while it reads: finished pages stay read, and the others are claimed by the next drain."""
    document = await pages_due(scanned, "default", *numbered(24))
    stopping = asyncio.Event()

    async def slow(_):
        if reader.reads.total() > 8:
            stopping.set()
            await asyncio.Event().wait()

    reader.before = slow
    limits = DrainLimits(lease=timedelta(seconds=30), budget=timedelta(minutes=1), grace=timedelta(milliseconds=50))
    await Drain(scanned.reader, limits, stopping).run()
    reader.before = lambda _: None
    await work(scanned, "read", "parse", "index")

    assert (await shown(scanned, document)).state is DocumentState.READY
    assert reader.reads.total() <= 24 + scanned.reader.slots


# OCR is turned off, or data is removed, while pages wait


async def test_texts_are_used_after_ocr_is_off(scanned):
    document = await submitted(scanned, HARBOUR, SMEARED)
    await work(scanned, "parse", "read")
    without = replace(scanned, parser=replace(scanned.parser, ocr=None))
    await work(without, "parse", "index")

    degraded = await shown(scanned, document)
    assert (degraded.state, degraded.progress.pages_unread) == (DocumentState.DEGRADED, 1)
    assert await texts_of(scanned, document) == [HARBOUR]


async def test_parse_worker_without_packages_leaves_texts_to_others(services, tmp_path, monkeypatch):
    monkeypatch.setattr(language_data, "_PACKAGES", ("foreask-has-no-such-package",))
    (tmp_path / "a.md").write_text(HARBOUR)

    with pytest.raises(Transient, match="install foreask with its extra 'ocr'"):
        await services.parser.sandbox.parse(
            tmp_path / "a.md", filename="a.md", media_type=None, options=ChunkingOptions(), reading=Reading({})
        )


async def wait_for_minutes(services):
    await run(services, "UPDATE pages SET due_at = now() - interval '3 minutes'")


async def test_document_says_that_no_reader_is_alive(scanned):
    document = await pages_due(scanned, "default", HARBOUR)
    await explain_waiting_pages(scanned)
    assert (await shown(scanned, document)).error is None  # a worker may just be starting

    await wait_for_minutes(scanned)
    assert await explain_waiting_pages(scanned)
    waiting = await shown(scanned, document)
    assert (waiting.state, waiting.error) == (DocumentState.READING, NO_READER)

    async with scanned.ledger[Heartbeats].beating("read", lambda: 0):
        await eventually(lambda: scanned.ledger[Heartbeats].beats("read"))
        await explain_waiting_pages(scanned)
        assert (await shown(scanned, document)).error is None


async def test_pages_of_missing_languages_wait_for_others(scanned):
    document = await pages_due(scanned, "default", HARBOUR, MARKET)
    await wait_for_minutes(scanned)
    without = replace(scanned, reader=replace(scanned.reader, languages=lambda: ("deu",)))
    await work(without, "read")

    waiting = await shown(scanned, document)
    assert (waiting.state, waiting.progress.pages_unread) == (DocumentState.READING, 0)
    assert "a read worker with the data of their languages" in waiting.error
    await work(scanned, "read", "parse", "index")
    ready = await shown(scanned, document)
    assert (ready.state, ready.progress.pages_read, ready.error) == (DocumentState.READY, 2, None)


# Edits, deletions, erasures


async def test_edit_while_reading_abandons_old_pages(scanned):
    await pages_due(scanned, "default", HARBOUR)
    (late,) = await scanned.ledger[Pages].claim(8)
    document = await submitted(scanned, MARKET)
    await scanned.ledger[Pages].settle([outcome(late)])
    await work(scanned, *EVERYTHING)

    assert (await shown(scanned, document)).version == 2
    assert await texts_of(scanned, document) == [MARKET]


async def test_cancelled_job_discards_documents_being_read(scanned):
    await pages_due(scanned, "default", HARBOUR)
    job = (await scanned.ledger[Jobs].open_load(await Library(scanned).collection(), key=None, expected=1)).job
    lane = "16 * (SELECT number FROM jobs)"
    await run(scanned, f"UPDATE documents SET job_id = :job, lane = {lane}", job=job.id)
    await run(scanned, f"UPDATE pages SET lane = {lane}")
    await scanned.ledger[Jobs].cancel("default", job.id)
    while await scanned.ledger[Jobs].settle():
        pass

    assert await run(scanned, "SELECT state FROM documents") == [("deleting",)]
    assert await run(scanned, "SELECT 1 FROM pages") == []


@guards(
    "shared/ledger/work/pages.sql",
    "AND (EXISTS (SELECT 1 FROM pages p WHERE p.key",
    "AND (true OR EXISTS (SELECT 1 FROM pages p WHERE p.key",
    means="a late settlement restores an erased text of a page",
)
@guards(
    "features/erasure/ledger/searches.py",
    "for table, keys in _OF_KEYS.items()}",
    'for table, keys in _OF_KEYS.items() if table != "page_texts"}',
    means="an erasure leaves the texts of pages",
    case="document",
)
@pytest.mark.parametrize("scope", ["tenant", "collection", "document"])
async def test_erasure_deletes_texts_of_pages(scanned, scope):
    document = await submitted(scanned, HARBOUR, MARKET, tenant="alice")
    await work(scanned, "parse")
    (late, *_) = await scanned.ledger[Pages].claim(1)
    await work(scanned, "read")
    erasures = scanned.ledger[Erasures]
    if scope == "document":
        erasure = await erasures.start_document(document.id)
    else:
        erasure = await erasures.start("alice", None if scope == "tenant" else "default")
    await finished(scanned, erasure)
    await scanned.ledger[Pages].settle([outcome(late)])

    assert await run(scanned, "SELECT number FROM pages") == []
    assert await run(scanned, "SELECT text FROM page_texts") == []


async def test_document_erasure_keeps_texts_of_other_documents(scanned, reader):
    document = await submitted(scanned, HARBOUR, MARKET, name="erased.pdf")
    await submitted(scanned, HARBOUR, MARKET, name="kept.pdf")
    await work(scanned, *EVERYTHING)

    await finished(scanned, await scanned.ledger[Erasures].start_document(document.id))

    assert await run(scanned, "SELECT count(*) FROM page_texts") == [(2,)]


# Limits


async def test_limit_of_pages_defers_until_midnight(scanned):
    limited = Pages(scanned.database, worker="w", lease=timedelta(seconds=30), limits=PageLimits({"default": 3}))
    document = await pages_due(scanned, "default", *numbered(5))
    other = await pages_due(scanned, "other", *numbered(5), name="other.pdf")
    claimed = [page for page in await limited.claim(8) if page.tenant == "default"]
    await limited.settle([outcome(page) for page in claimed])

    assert [page.tenant for page in await limited.claim(8)] == []  # the pages of the other tenant are in progress
    waiting = await shown(scanned, document)
    assert len(claimed) == 3
    assert waiting.error.startswith("The limit of 3 pages per day is reached: its pages are read from ")
    assert (await shown(scanned, other, "other")).error is None
    (due,) = await run(
        scanned,
        "SELECT DISTINCT to_char(due_at AT TIME ZONE 'UTC', 'HH24:MI') FROM pages"
        " WHERE tenant = 'default' AND state = 'waiting'",
    )
    assert due == ("00:00",)


@guards(
    "shared/ledger/work/pages.sql",
    "p.leased_by IS NULL AND p.due_at = {midnight}",
    "p.leased_by IS NULL AND p.due_at < now()",
    means="pages wait for the next day although their limit was raised",
)
@guards(
    "shared/ledger/work/pages.sql",
    "AND w.tenant NOT IN (",
    "OR w.tenant IN (",
    means="pages of a tenant at its limit are made due and deferred again and again",
)
async def test_raised_limit_of_pages_ends_deferral(scanned):
    def limited(most):
        return Pages(scanned.database, worker="w", lease=timedelta(seconds=30), limits=PageLimits({"default": most}))

    document = await pages_due(scanned, "default", *numbered(3))
    await limited(1).settle([outcome(page) for page in await limited(1).claim(8)])
    assert await limited(1).claim(8) == []
    assert not await limited(1).readmit()
    assert (await shown(scanned, document)).error

    assert await limited(3).readmit()
    assert not await limited(3).readmit()
    assert (await shown(scanned, document)).error is None
    assert len(await limited(3).claim(8)) == 2
    assert not await scanned.ledger[Pages].readmit()


async def test_shared_text_uses_no_page_of_day(scanned):
    await pages_due(scanned, "default", *numbered(3))
    pages = scanned.ledger[Pages]
    claimed = await pages.claim(8)
    await pages.settle([PageOutcome(claimed[0], None), *map(outcome, claimed[1:])])

    assert await run(scanned, "SELECT pages FROM pages_by_day") == [(2,)]


@guards(
    "shared/ledger/work/pages.py",
    "await _count(connection, stored)",
    "await _count(connection, [o.page.tenant for o in read if o.text is not None])",
    means="a settlement whose commit was in doubt uses the pages of a day twice",
)
async def test_repeated_settlement_uses_pages_of_day_once(scanned):
    await pages_due(scanned, "default", *numbered(3))
    outcomes = [outcome(page) for page in await scanned.ledger[Pages].claim(8)]
    for _ in range(2):  # the reply to the first commit was lost
        await scanned.ledger[Pages].settle(outcomes)

    assert await run(scanned, "SELECT pages FROM pages_by_day") == [(3,)]


def limited_to(services, pages):
    return Pages(services.database, worker="w", lease=timedelta(seconds=30), limits=PageLimits({}, pages))


async def test_concurrent_claim_stays_within_limit_of_pages(scanned):
    """An upload arrives while another claim takes pages of bulk work: the claims would not skip each other's pages."""
    limited = limited_to(scanned, 8)
    await pages_due(scanned, "default", *numbered(8, "bulk"), name="bulk.pdf", lane=1)
    async with scanned.database.begin() as connection:
        await lock(connection, AdvisoryLock.PAGES)
        parameters = limited._claim(8, suspects=False) | {"languages": None}
        first = (await connection.execute(CLAIM_PAGES[False], parameters)).all()
        await pages_due(scanned, "default", *numbered(8, "upload"), name="upload.pdf")
        with sent_statements("pg_try_advisory_xact_lock") as tries:
            second = asyncio.create_task(limited.claim(8))
            await eventually(lambda: second.done() or tries)

    assert (len(first), await second) == (8, [])


@guards(
    "shared/ledger/work/claims_read.sql",
    "c.position + coalesce((SELECT b.pages",
    "0 * coalesce((SELECT b.pages",
    means="a tenant reads more pages than its limit allows",
)
async def test_later_claims_take_rest_of_limit(scanned):
    """Of a limit of four, one page has been read and two are in progress."""
    await pages_due(scanned, "default", *numbered(8))
    limited = limited_to(scanned, 4)
    await limited.settle([outcome(page) for page in await limited.claim(1)])
    await limited.claim(2)

    assert len(await limited.claim(8)) == 1


async def test_suspect_beyond_limit_of_pages_is_not_claimed(scanned):
    await pages_due(scanned, "default", *numbered(3))
    suspected = "UPDATE pages SET lost_leases = :lost WHERE number = 3"
    await run(scanned, suspected, lost=SUSPECT_AFTER)
    limited = limited_to(scanned, 2)
    claimed = await limited.claim(8)

    assert await limited.claim(1, suspects=True) == []
    await limited.release([claimed[0].lease])
    assert [page.number for page in await limited.claim(1, suspects=True)] == [3]


async def test_deferred_pages_are_read_on_next_day(scanned):
    limited = Pages(scanned.database, worker="w", lease=timedelta(seconds=30), limits=PageLimits({}, 3))
    document = await pages_due(scanned, "default", *numbered(5))
    await limited.settle([outcome(page) for page in await limited.claim(8)])
    await limited.claim(8)
    await run(scanned, "UPDATE pages_by_day SET day = day - 1")
    await run(scanned, "UPDATE pages SET due_at = now() WHERE state = 'waiting'")
    claimed = await limited.claim(8)
    await limited.settle([outcome(page) for page in claimed])
    await limited.forget_days()

    queued = await shown(scanned, document)
    assert (len(claimed), queued.state, queued.error) == (2, DocumentState.QUEUED, None)
    assert await run(scanned, "SELECT pages FROM pages_by_day") == [(2,)]


def test_key_of_a_page_depends_on_every_part():
    file_hash = hashlib.sha256(b"scan").digest()
    keys = {
        page_key("a", file_hash, 1, engine="e", data="d", languages=("eng",)),
        page_key("b", file_hash, 1, engine="e", data="d", languages=("eng",)),
        page_key("a", file_hash[::-1], 1, engine="e", data="d", languages=("eng",)),
        page_key("a", file_hash, 2, engine="e", data="d", languages=("eng",)),
        page_key("a", file_hash, 1, engine="ed", data="", languages=("eng",)),
        page_key("a", file_hash, 1, engine="e", data="d", languages=("eng", "deu")),
        page_key("a", file_hash, 1, engine="e", data="d", languages=("deu", "eng")),
        page_key("a", file_hash, 1, engine="e", data="d", languages=("eng",), dpi=300),
    }
    assert len(keys) == 8


async def test_file_is_fetched_once_for_concurrent_pages(scanned, reader, monkeypatch):
    await pages_due(scanned, "default", *numbered(6))
    fetched, counts_fetches = [], asyncio.Event()
    uploads = scanned.uploads
    original = uploads.fetched

    def counted(name):
        fetched.append(name)
        return original(name)

    async def wait(_):
        await counts_fetches.wait()

    monkeypatch.setattr(uploads, "fetched", counted)
    reader.before = wait
    draining = asyncio.create_task(work(scanned, "read"))
    await eventually(lambda: reader.reads.total() >= scanned.reader.slots)
    assert len(fetched) == 1
    counts_fetches.set()
    await draining
