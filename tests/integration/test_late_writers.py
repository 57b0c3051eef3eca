"""A late writer hides no text that queries must find, shows no replaced text, and takes over no later claim."""

import socket
from dataclasses import replace

import pytest

from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.indexing import IndexWork
from shared.query.retrieve import Query
from tests.integration.test_stages import texts_found
from tests.support.api import ready, searchable, work
from tests.support.planted import guards
from tests.support.qdrant import qdrant_client

ASKED = "What is the password of the harbour office?"
OLD = "The password of the harbour office is herring forty-two."
NEW = "The harbour office has no password any more."


def two_sections(edition):
    return "\n\n".join(
        f"# {name}\n\n"
        + " ".join(f"{name}{number} {edition} is about {name} number {number} {edition}." for number in range(20))
        for name in ("alpha", "beta")
    )


async def late_claim(services):
    """Return the claim of the questions of a live version, which is written too late."""
    await searchable(services, (OLD, "a.md"))
    await work(services, "generate")
    return await services.ledger[IndexWork].claim(10)


@guards(
    "shared/ledger/work/claims_index.sql",
    " AND {no_other_is_live}\n        ORDER",
    "\n        ORDER",
    means="questions are written hidden while their version goes live, and hide its texts",
)
async def test_questions_of_next_version_wait_until_live(services, library, provider):
    await library.add(two_sections("old"), "a.md")
    await work(services)
    await library.add(two_sections("new"), "a.md")
    await work(services, "parse")
    claim = services.ledger[IndexWork].claim
    first = await claim(1)
    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, first)])
    await work(services, "generate")
    (last,) = await claim(1)

    assert (last.text_only, await claim(10)) == (True, [])

    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, [last])])
    (questions,) = await claim(10)
    assert (questions.lease.id, questions.hidden) == (first[0].lease.id, False)
    await index_batch(services.indexer, [questions])
    assert len(await texts_found(services, library, "What is alpha3 about?")) == 2


@guards(
    "shared/ledger/work/claims_index.sql",
    "AND ({TO_INDEX_TEXT:w} OR {no_other_is_live})",
    "",
    means="a suspect's questions are written hidden while their version goes live",
)
async def test_suspected_questions_of_next_version_wait(services, library, provider):
    await library.add(two_sections("old"), "a.md")
    await work(services)
    await library.add(two_sections("new"), "a.md")
    await work(services, "parse")
    claim = services.ledger[IndexWork].claim
    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, await claim(1))])
    await work(services, "generate")
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET lost_leases = 2 WHERE state = 'generated'"))

    assert await claim(10, suspects=True) == []


@guards(
    "shared/query/retrieve/retriever.py",
    "others = {each for each in found if",
    "others = {each for each in () if",
    means="a late writer of a replaced version shows its text",
)
@pytest.mark.parametrize("settles", [True, False], ids=["settles", "dies before settling"])
async def test_late_writer_shows_no_replaced_text(services, library, provider, once, settles):
    late = await once(late_claim)
    await library.add(NEW, "a.md")
    await work(services)

    outcome = await index_batch(services.indexer, late)
    if settles:
        await IndexStage([services.indexer]).settle([outcome])

    assert await texts_found(services, library, ASKED) == [NEW]
    assert await texts_found(services, library, ASKED, top_k=1) == [NEW]


@guards(
    "shared/ledger/documents/documents.sql",
    "WHERE d.id IS NULL",
    "WHERE false",
    means="a deleted document is found until its points are deleted",
)
async def test_deleted_document_is_not_found_at_once(services, library, provider, once):
    await once(ready, (OLD, "a.md"), (NEW, "b.md"))
    (document,) = [d for d in await services.ledger[Documents].page("default") if d.external_id == "a.md"]

    await services.ledger[Documents].delete("default", document.id)

    assert await texts_found(services, library, ASKED, top_k=1) == [NEW]


async def test_late_writer_shows_no_deleted_text(services, library, provider, once):
    late = await once(late_claim)
    (document,) = await services.ledger[Documents].page("default")
    await services.ledger[Documents].delete("default", document.id)
    await services.cleaner.clean()

    await index_batch(services.indexer, late)

    assert await texts_found(services, library, ASKED) == []


@guards(
    "shared/query/retrieve/retriever.py",
    "if self.is_changed and not self.is_last:",
    "if False:",
    means="a query sees neither version of a document that was replaced between its requests",
)
async def test_document_replaced_during_query_is_found(services, library, once, monkeypatch):
    await once(ready, (OLD, "a.md"))
    read = services.index.chunk_payloads

    async def late(*arguments):
        monkeypatch.undo()
        await library.add(NEW, "a.md")
        await work(services)
        return await read(*arguments)

    monkeypatch.setattr(services.index, "chunk_payloads", late)

    assert await texts_found(services, library, ASKED) == [NEW]


@guards(
    "shared/query/retrieve/retriever.py",
    "checked = await within(_CHECK_BUDGET, self._find_shown(found, principals))",
    "checked = await self._find_shown(found, principals)",
    means="a query fails or hangs while the ledger does not answer",
    case="refuses",
)
@pytest.mark.parametrize("is_silent", [False, True], ids=["refuses", "is silent"])
async def test_query_continues_without_ledger(services, library, once, monkeypatch, is_silent):
    await once(ready, (OLD, "a.md"))
    collection = await library.collection()
    silent = socket.create_server(("127.0.0.1", 0))  # which accepts connections and never reads
    database = Database(f"postgresql://user@127.0.0.1:{silent.getsockname()[1]}/name")
    if not is_silent:
        silent.close()
    monkeypatch.setattr(services.retriever, "_checks_after", 0.0)  # also restores it
    monkeypatch.setattr(services.retriever, "_find_shown", Documents(database).shown_versions)

    retrieval = await services.retriever.retrieve(collection, Query(ASKED))

    assert [chunk.text for chunk in retrieval.chunks] == [OLD]
    assert "which versions are current" in retrieval.trace.skipped["check"]
    silent.close()
    await database.aclose()


@guards(
    "shared/vectors/schema/filters.py",
    '{"has_id": list(ids)}, _up_to("token", token)]}',
    '{"has_id": list(ids)}]}',
    means="a late writer gives a text the token of its own claim, so the sweep of the later claim deletes the text",
)
async def test_late_writer_keeps_token_of_later_claim(services, library, provider):
    await searchable(services, ("The keeper lives alone.", "a.md"))
    await work(services, "generate")
    (claimed,) = await services.ledger[IndexWork].claim(10)
    client = qdrant_client(services)

    async def token_after_claim(token):
        chunk = replace(claimed, lease=replace(claimed.lease, token=token))
        await services.index.renew(claimed.index_name, [chunk])
        points, _ = await client.scroll(claimed.index_name, limit=10)
        return {point.payload["token"] for point in points}

    first = claimed.lease.token
    assert await token_after_claim(first + 2) == {first + 2}
    assert await token_after_claim(first + 1) == {first + 2}
