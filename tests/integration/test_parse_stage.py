"""Parse stage: a large document blocks no event loop, a tenant no other, and a missing folder fails no document."""

import asyncio
from collections import Counter
from dataclasses import replace
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from shared.broker.wakeups import Wakeups
from shared.domain.corpus.documents import ReadyQuestion
from shared.domain.errors import Unavailable
from shared.domain.stages.poison import DEATHS_ALONE, SUSPECT_AFTER
from shared.domain.states import DocumentState
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ingest.parse.isolation.small_files import MOST_TOGETHER, SMALL_BYTES
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.statements import Statement
from tests.conftest import Library
from tests.support.api import work
from tests.support.loopwatch import watched_loop
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS


async def test_many_quoted_questions_do_not_block_event_loop(services, library):
    facts = [
        f"Fact number {number} says that lamp {number} burns until dawn on cliff {number}." for number in range(6000)
    ]
    questions = [ReadyQuestion(f"When does lamp {n} burn?", quote=fact[5:-4]) for n, fact in enumerate(facts)]
    sections = "\n\n".join(f"# Part {n}\n\n" + " ".join(facts[3 * n : 3 * n + 3]) for n in range(2000))
    large = await library.add(sections, "large.md", questions=questions)
    small = await library.add("A small text.", "small.md", questions=["Which text?"])

    async with watched_loop() as watch:
        await work(services, "parse")

    watch.require_free()
    async with services.database.begin() as connection:
        found = await connection.execute(Statement("SELECT content->>'text', ready_questions FROM chunk_contents"))
        assigned = [(content, question) for content, given in found for question in given]
    assert len(assigned) == 6001
    assert all(question.split()[3] in content.split() for content, question in assigned if "lamp" in question)
    for document in (large, small):
        state = (await services.ledger[Documents].get("default", document.id)).state
        assert state == DocumentState.INDEXING


async def document_states(services):
    async with services.database.begin() as connection:
        return [
            tuple(row) for row in await connection.execute(Statement("SELECT DISTINCT state, attempts FROM documents"))
        ]


async def test_unavailable_upload_folder_does_not_fail_documents(services, library):
    for number in range(3):
        await library.add(f"Text number {number}.")
    folder = services.settings.data_dir / "uploads"
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()  # like the mount point of an unmounted folder

    with pytest.raises(Unavailable) as caught:
        await work(services, "parse")
    assert caught.value.component == "uploads"
    assert await document_states(services) == [("queued", 0)]

    folder.rmdir()
    folder.with_name("elsewhere").rename(folder)
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE documents SET due_at = now()"))
    await work(services, "parse")
    assert await document_states(services) == [("indexing", 0)]


async def test_unlistable_upload_folder_does_not_fail_documents(services, library):
    await library.add("A text.")
    folder = services.settings.data_dir / "uploads"
    folder.rename(folder.with_name("elsewhere"))
    try:
        with pytest.raises(Unavailable):
            await work(services, "parse")
        assert await document_states(services) == [("queued", 0)]
    finally:
        folder.with_name("elsewhere").rename(folder)


async def test_single_missing_upload_fails_with_remedy(services, library):
    missing = await library.add("A text without its file.", "missing.md")
    (file,) = (services.settings.data_dir / "uploads").glob("??/*")
    await library.add("A text with its file.", "stored.md")
    file.unlink()
    await work(services, "parse")

    found = await services.ledger[Documents].get("default", missing.id)
    assert (found.state, found.error) == (
        DocumentState.FAILED,
        "The stored file is missing: upload it again.",
    )
    assert await services.uploads.require() is None


UNSETTLED = "A text with a wrong language."


class Forging(ParsingSandbox):
    """A sandbox that accepts one wrong value, as if the check of a field had been forgotten."""

    async def parse(self, *path, **named):
        document = await super().parse(*path, **named)
        (chunk,) = document.chunks
        return replace(document, chunks=(replace(chunk, language={"a": 1}),)) if chunk.text == UNSETTLED else document


async def test_unsettleable_document_becomes_poison_without_stopping_others(services, library):
    bad = await library.add(UNSETTLED)
    quiet = [await library.add(f"A quiet text {number}.") for number in range(3)]

    async def state_of(document):
        return (await services.ledger[Documents].get("default", document.id)).state

    async with Forging() as sandbox:
        forged = replace(services, parser=replace(services.parser, sandbox=sandbox))
        await work(forged, "parse")
        assert [await state_of(document) for document in quiet] == [DocumentState.INDEXING] * 3

        for _ in range(SUSPECT_AFTER + DEATHS_ALONE):
            assert await state_of(bad) == DocumentState.PARSING
            async with services.database.begin() as connection:
                await connection.execute(Statement("UPDATE documents SET due_at = now()"))
            await work(forged, "parse")
    failed = await services.ledger[Documents].get("default", bad.id)
    assert failed.state == DocumentState.FAILED
    assert "its worker ended" in failed.error


async def test_document_with_too_many_chunks_fails_without_calls(services, library, provider):
    three = "\n\n".join(f"# {name}\n\n" + f"{name} is a part of the bay. " * 60 for name in ("Alpha", "Beta", "Gamma"))
    document = await library.add(three)

    await work(replace(services, parser=replace(services.parser, max_chunks=2)))

    shown = await services.ledger[Documents].get("default", document.id)
    assert (shown.state, provider.stats()["calls"]) == (DocumentState.FAILED, 0)
    assert shown.error.startswith("The document has 3 chunks, more than the 2 allowed: divide it")


@guards(
    "shared/services/parse.py",
    "reserved=_RESERVED_SLOTS",
    "reserved=0",
    means="one tenant's files take all slots of a parse worker",
)
async def test_tenant_leaves_slots_to_others(services, settings, wakeups, library):
    stage = replace(services.parser, wakeups=wakeups)
    for number in range(stage.slots + 1):
        await library.add(f"Text {number}.")
    held = Counter(document.tenant for document in await stage.claim(stage.slots, {}))
    assert 0 < held["default"] < stage.slots_of_large
    assert await stage.claim(stage.slots - held.total(), held) == []
    async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while await redis.llen("foreask.parse") != 1:  # for a worker with free slots
                await asyncio.sleep(0.01)

    await Library(services, "quiet").add("A note.")
    assert [document.tenant for document in await stage.claim(1, held)] == ["quiet"]


@pytest.fixture
async def wakeups(settings):
    wakeups = Wakeups(settings.redis_url.get_secret_value())
    yield wakeups
    await wakeups.aclose()


async def add_pack(services, library, texts):
    uploads = await services.uploads.store_pack([text.encode() for text in texts])
    for text, upload in zip(texts, uploads, strict=True):
        new = await library.new(text)
        await services.ledger[Documents].submit(
            replace(new, upload=upload.name, size_bytes=upload.size_bytes, content_hash=upload.sha256)
        )


async def full_of_small(services, wakeups, library):
    """Return a stage after its claims of small documents, and the number that each tenant holds."""
    await add_pack(services, library, [f"Small text {number}." for number in range(MOST_TOGETHER)])
    stage, held = replace(services.parser, wakeups=wakeups), Counter()
    while claimed := await stage.claim(stage.slots, held):
        held.update(document.tenant for document in claimed)
    return stage, held


@guards(
    "shared/ingest/parse/stage.py",
    "min(self.slots, 2 * self._room)",
    "self.slots_of_large",
    means="each few small documents cost a claim and a settlement",
)
async def test_small_documents_fill_more_slots(services, wakeups, library):
    await add_pack(services, library, [f"Small text {number}." for number in range(2 * MOST_TOGETHER)])
    stage, held, claims = replace(services.parser, wakeups=wakeups), Counter(), []

    while claimed := await stage.claim(stage.slots, held):
        held.update(document.tenant for document in claimed)
        claims.append(len(claimed))

    assert (held.total(), claims[0] < stage.slots_of_large < max(claims)) == (2 * MOST_TOGETHER, True)


@guards(
    "shared/ingest/parse/stage.py",
    "await self.work.release([document.lease for document in excess])",
    "pass",
    means="large documents wait for a worker that has no process for them",
)
async def test_excess_large_documents_are_released(services, wakeups, library):
    stage, held = await full_of_small(services, wakeups, library)
    most = stage.slots_of_large
    await add_pack(services, library, [f"Long {number}. ".ljust(SMALL_BYTES + 1, "a") for number in range(2 * most)])

    claimed = await stage.claim(stage.slots, held)

    assert len(claimed) == most
    assert await stage.claim(stage.slots, held + Counter(document.tenant for document in claimed)) == []
    async with services.database.begin() as connection:
        due = "SELECT count(*) FROM documents WHERE leased_by IS NULL AND due_at <= now() AND attempts = 0"
        assert (await connection.execute(Statement(due))).scalar_one() == most
    other = await replace(services.parser, wakeups=wakeups).claim(stage.slots, {})
    assert len(other) == most - stage.reserved


@guards(
    "shared/ingest/parse/stage.py",
    "max(self._room - sum(held.values()), self.reserved - of_others)",
    "self._room - sum(held.values())",
    means="a tenant's small documents behind its large one delay every other tenant",
)
async def test_many_small_documents_leave_slots_to_others(services, wakeups, library):
    stage, held = await full_of_small(services, wakeups, library)
    stage._room = stage.slots_of_large  # a large document is claimed, or one takes seconds
    assert held.total() > stage.slots_of_large
    assert await stage.claim(stage.slots, held) == []

    for _ in range(2):
        await Library(services, "quiet").add(f"A note {uuid4()}.")
    claimed = await stage.claim(stage.slots, held)
    held.update(document.tenant for document in claimed)

    assert [document.tenant for document in claimed] == ["quiet"] * stage.reserved
    assert await stage.claim(stage.slots, held) == []
