"""Qdrant's points match the ledger, regardless of concurrent writes, edits and crashes."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import islice
from uuid import uuid4

import pytest

from features.feedback.ledger.feedback import Feedback
from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.domain.corpus.ids import accepted_point_id
from shared.domain.errors import ForeaskError
from shared.domain.retry import Dead, Retry
from shared.domain.spending.usage import Usage
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.sweeps import POINTS_STAY
from shared.domain.states import DocumentState
from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.dead_letters import Choice, DeadLetters
from shared.ledger.documents.documents import Documents
from shared.ledger.feedback.query_log import QueryLog, QueryLogEntry
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.finishing import Finishing
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from shared.query.retrieve.replaced import ReplacedVersions
from shared.vectors.index import Index
from shared.vectors.schema.payload_indexes import REQUIRED
from shared.vectors.transport.connection import SEARCH_SECONDS
from tests.conftest import Library
from tests.integration.test_ledger import index_texts
from tests.integration.test_stages import TWO_SECTIONS, points, texts_found
from tests.support.api import delete_replaced, ready, work
from tests.support.cleaning import clean
from tests.support.planted import guards
from tests.support.qdrant import qdrant_client

SEVEN = "The harbour opens at seven in the morning for all ships."
NINE = "The harbour opens at nine in the morning for all boats."
UNREADABLE = "%PDF-1.4 cut short"
QUESTION = "When does the harbour open?"


async def run(services, statement):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement))
        return [tuple(row) for row in result]


async def end_leases(services):
    await run(services, "UPDATE chunks SET due_at = now() WHERE leased_by IS NOT NULL")


async def clean_completely(services):
    """Clean up until no sweep is left, as if every lease had expired."""
    while True:
        await services.cleaner.clean()
        if not await run(services, "SELECT 1 FROM sweeps"):
            return
        await run(services, "UPDATE sweeps SET due_at = now()")


async def differences(services, library):
    comparison = Verification(services.ledger[Audit], services.index, await library.collection(), repair=False)
    return [(item.kind, item.reason) async for item in comparison.run() if isinstance(item, DifferingPoint)]


async def indexed(indexer, batch):
    await IndexStage([indexer]).settle([await index_batch(indexer, batch)])


def during(monkeypatch, services, action, *, before):
    """Run an action before or after the first request that changes points with several operations."""
    change = services.index._change
    done = []

    async def interrupted_change(*arguments):
        first = not done
        done.append(True)
        if first and before:
            await action()
        await change(*arguments)
        if first and not before:
            await action()

    monkeypatch.setattr(services.index, "_change", interrupted_change)


# --- successive versions ---


async def parsed_only(services):
    """Add a document of which only the chunks exist, and return it."""
    document = await Library(services).add(TWO_SECTIONS, "a.md")
    await work(services, "parse")
    return document


async def test_never_live_version_is_invisible_after_next_fails(services, library, once):
    document = await once(parsed_only)
    await indexed(services.indexer, await services.ledger[IndexWork].claim(1))
    assert await texts_found(services, library, "What is about alpha number?")

    await library.add(UNREADABLE, "a.md")
    await work(services)
    await services.cleaner.clean()

    found = await services.ledger[Documents].get("default", document.id)
    assert (found.state, found.live_version) == (DocumentState.FAILED, None)
    assert await texts_found(services, library, "What is about alpha number?") == []
    assert await points(services, library) == {}


async def test_edit_of_never_live_version_becomes_ready(services, library, once):
    document = await once(parsed_only)
    await indexed(services.indexer, await services.ledger[IndexWork].claim(1))
    await library.add(NINE, "a.md")
    await work(services)

    assert (await services.ledger[Documents].get("default", document.id)).state == DocumentState.READY
    await services.cleaner.sweep()
    assert {p["version"] for p in (await points(services, library)).values()} == {2}
    assert await differences(services, library) == []


async def test_late_points_of_never_live_version_are_deleted(services, library, once):
    await once(parsed_only)
    late = await services.ledger[IndexWork].claim(10)
    await library.add(UNREADABLE, "a.md")
    await work(services)
    await clean_completely(services)

    await indexed(services.indexer, late)
    await clean_completely(services)

    assert await points(services, library) == {}


async def test_hidden_points_of_abandoned_edit_are_removed(services, library, once):
    await once(ready, (SEVEN, "a.md"))
    before = await points(services, library)
    await library.add(NINE, "a.md")
    await work(services, "parse")
    await index_batch(services.indexer, await services.ledger[IndexWork].claim(10))
    assert await points(services, library, hidden=True)

    await library.add(UNREADABLE, "a.md")
    await work(services)
    await clean_completely(services)

    assert await points(services, library) == before
    assert await differences(services, library) == []


ALPHA, GAMMA, BETA, DELTA = (
    f"# {n}\n\n" + f"{n} is the word of the bay. " * 60 for n in ("alpha", "gamma", "beta", "delta")
)
FIRST, SECOND, THIRD = ALPHA, f"{BETA}\n\n{GAMMA}", f"{DELTA}\n\n{GAMMA}"


async def words_found(services, library):
    found = await texts_found(services, library, "gamma is the word", top_k=9)
    return sorted({chunk.split()[1] for chunk in found})


async def common_chunk(services):
    """Claim due chunks, return the chunk that two versions share, and release the others."""
    claimed = await services.ledger[IndexWork].claim(10)
    (common,) = [chunk for chunk in claimed if "gamma" in chunk.content.text]
    await services.ledger[IndexWork].release([c.lease for c in claimed if c is not common])
    return common


async def edited(services):
    """Edit an indexed document, and return it."""
    library = Library(services)
    document = await library.add(FIRST, "a.md", questions=["What is the word of the bay?"])
    await work(services, "parse", "index")
    await library.add(SECOND, "a.md")
    return document


@pytest.mark.parametrize("before", [True, False], ids=["before the request", "after the request"])
async def test_document_stays_searchable_during_edit_and_show(services, library, once, monkeypatch, before):
    document = await once(edited)

    async def edit():
        await library.add(THIRD, "a.md")

    during(monkeypatch, services, edit, before=before)
    await work(services, "parse", "index")
    assert await words_found(services, library) == ["alpha"]
    await services.cleaner.clean()
    await work(services, "parse")
    assert await words_found(services, library) == ["alpha"]

    await index_batch(services.indexer, [await common_chunk(services)])
    assert await words_found(services, library) == ["alpha"]
    await library.add(UNREADABLE, "a.md")
    await work(services)
    await clean_completely(services)

    found = await services.ledger[Documents].get("default", document.id)
    assert (found.state, found.live_version) == (DocumentState.FAILED, 1)
    assert await words_found(services, library) == ["alpha"]
    assert await differences(services, library) == []


async def killed_during_show(services, monkeypatch, *, before):
    """Index the last texts of an edit, in a process that is killed when it shows the new version."""
    batch = await services.ledger[IndexWork].claim(10)

    async def die():
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        during(patched, services, die, before=before)
        with suppress(asyncio.CancelledError):
            await indexed(services.indexer, batch)


@pytest.mark.parametrize("before", [True, False], ids=["before the request", "after the request"])
async def test_document_stays_searchable_after_kill_during_show(services, library, once, monkeypatch, before):
    document = await once(edited)
    await work(services, "parse")
    await killed_during_show(services, monkeypatch, before=before)
    assert await words_found(services, library) == ["alpha"]

    await services.cleaner.clean()
    assert await words_found(services, library) == ["beta", "gamma"]
    await library.add(UNREADABLE, "a.md")
    await work(services)
    found = await services.ledger[Documents].get("default", document.id)
    assert (found.state, found.live_version) == (DocumentState.FAILED, 2)
    assert await words_found(services, library) == ["beta", "gamma"]
    await clean_completely(services)
    assert await differences(services, library) == []


async def test_points_of_killed_abandoned_edit_are_deleted(services, library, once, monkeypatch):
    await once(edited)
    before = await points(services, library)
    await work(services, "parse")
    await killed_during_show(services, monkeypatch, before=False)
    assert not await points(services, library, hidden=True)

    await library.add(UNREADABLE, "a.md")
    await work(services)
    await services.cleaner.clean()

    assert await points(services, library) == before
    assert await words_found(services, library) == ["alpha"]


@guards(
    "shared/query/retrieve/retriever.py",
    "others = {each for each in found if",
    "others = {each for each in () if",
    means="queries see two versions of a document after its replacement was interrupted",
)
@pytest.mark.parametrize("shown", [("beta",), ("beta", "gamma")], ids=["partly", "completely"])
async def test_query_sees_one_version_after_interrupted_replacement(services, library, once, monkeypatch, shown):
    await once(edited)
    await work(services, "parse")
    await killed_during_show(services, monkeypatch, before=True)
    stored = await points(services, library, version=2)
    visible = [i for i, payload in stored.items() if any(word in payload.get("text", "") for word in shown)]
    await services.index.show((await library.collection()).location, visible)

    assert await words_found(services, library) == ["alpha"]


async def whole_points(services, library):
    """Return the payload and vectors of every point, by id."""
    name = (await library.collection()).index_name
    records, _ = await qdrant_client(services).scroll(name, limit=10_000, with_payload=True, with_vectors=True)
    return {record.id: (record.payload, record.vector) for record in records}


async def test_abandoned_edit_does_not_change_shared_chunks(services, library, provider):
    await library.add(SECOND, "a.md")
    await work(services)
    await accepted_of(services, library, "gamma", "where is the bay with the word")
    await work(services)
    before = await whole_points(services, library)
    await library.add(THIRD, "a.md", metadata={"edited": True})
    await work(services, "parse", "generate")
    await indexed(services.indexer, [await common_chunk(services)])
    assert {i: p for i, p in (await whole_points(services, library)).items() if i in before} == before
    assert (await points(services, library)).keys() > before.keys()

    await library.add(UNREADABLE, "a.md")
    await work(services)
    await clean_completely(services)

    assert await whole_points(services, library) == before
    assert await differences(services, library) == []
    await services.ledger[DeadLetters].discard("default", Choice())
    assert (await services.ledger[Documents].reindex(await library.collection())).documents == 1
    await work(services)
    await clean_completely(services)
    assert await run(services, "SELECT state FROM documents") == [("ready",)]
    after = await points(services, library)
    assert len(after) == len(before)
    assert {p["version"] for p in after.values()} == {4}
    assert await differences(services, library) == []


async def replaced(services):
    """Replace a document. The points of the version before are not deleted yet."""
    await edited(services)
    await work(services, "parse")
    await indexed(services.indexer, await services.ledger[IndexWork].claim(10))


@guards(
    "shared/ledger/documents/versions.py",
    "POINTS_STAY if were_live else timedelta()",
    "timedelta()",
    means="a search that began before a version was replaced finds none of its texts",
)
async def test_replaced_points_stay_for_running_searches(services, library, once):
    await once(replaced)

    await services.cleaner.clean()

    assert {p["version"] for p in (await points(services, library)).values()} == {1, 2}
    assert await words_found(services, library) == ["beta", "gamma"]
    assert await run(services, "SELECT obsolete_version, repeats, due_at > now() FROM sweeps") == [(1, True, True)]
    await delete_replaced(services)
    assert {p["version"] for p in (await points(services, library)).values()} == {2}
    assert await run(services, "SELECT obsolete_version, repeats, due_at > now() FROM sweeps") == [(1, False, True)]


async def test_points_stay_longer_than_any_search():
    assert POINTS_STAY.total_seconds() > SEARCH_SECONDS


def searches(monkeypatch, services, meanwhile=()):
    """Record the searches of a process that remembers nothing; call the next of `meanwhile` after each."""
    monkeypatch.setattr(services.retriever, "_replaced", ReplacedVersions())
    rank, sent, actions = services.index.rank, [], iter(meanwhile)

    async def recorded(name, searched):
        sent.append(searched)
        hits = await rank(name, searched)
        for action in islice(actions, 1):
            await action()
        return hits

    monkeypatch.setattr(services.index, "rank", recorded)
    return sent


async def test_query_during_replacement_searches_once(services, library, once, monkeypatch):
    await once(replaced)
    sent = searches(monkeypatch, services)

    assert await texts_found(services, library, "gamma is the word", top_k=1) == [GAMMA.strip()]

    assert len(sent) == 1


@guards(
    "shared/query/retrieve/retriever.py",
    "if self.is_crowded and not enough and not self.is_last:",
    "if False:",
    means="texts are missing while the points of replaced versions are not deleted",
)
async def test_replaced_points_do_not_crowd_out_texts(services, library, once, monkeypatch):
    await once(replaced)
    monkeypatch.setattr("shared.query.retrieve.searching.limit_of", lambda *_: 1)
    sent = searches(monkeypatch, services)

    assert await texts_found(services, library, "alpha is the word", top_k=1) != []

    assert [len(each[0]["filter"]["must_not"]) for each in sent] == [1, 3]

    assert await texts_found(services, library, "alpha is the word", top_k=1) != []

    assert [len(each[0]["filter"]["must_not"]) for each in sent] == [1, 3, 2]  # it remembers the replaced version


@guards(
    "shared/query/retrieve/retriever.py",
    "any(age is not None and age <= seconds for _, age in shown.values())",
    "False",
    means="a query whose search found half of a new version does not see the rest",
)
async def test_search_before_replacement_is_repeated(services, library, once, monkeypatch):
    await once(edited)
    await work(services, "parse")
    batch = await services.ledger[IndexWork].claim(10)
    await index_batch(services.indexer, batch)
    stored = await points(services, library, version=2)
    beta = [i for i, payload in stored.items() if "beta" in payload.get("text", "")]
    location = (await library.collection()).location
    await services.index.show(location, beta)
    sent = searches(monkeypatch, services, [partial(indexed, services.indexer, batch)])

    assert await texts_found(services, library, "gamma is the word", top_k=1) == [GAMMA.strip()]

    assert len(sent) == 2


async def test_documents_of_large_batch_finish_together(services, library):
    for number in range(120):
        await library.add(f"Text number {number}.", questions=[])
    await work(services, "parse")
    batch = await services.ledger[IndexWork].claim(200)

    await indexed(services.indexer, batch)

    assert await run(services, "SELECT state, count(*) FROM documents GROUP BY state") == [("ready", 120)]


# --- late writers ---


async def second_version(services):
    """Add a document whose second version has questions and waits for indexing."""
    library = Library(services)
    paid = await library.add(NINE, "paid.md")
    await work(services)
    await services.ledger[Documents].delete("default", paid.id)
    await clean_completely(services)
    await library.add(SEVEN, "a.md")
    await work(services)
    document = await library.add(NINE, "a.md")
    await work(services, "parse")
    return document


async def test_late_writer_of_live_version_hides_nothing(services, library, once):
    document = await once(second_version)
    late = await services.ledger[IndexWork].claim(10)
    await end_leases(services)
    await work(services, "index")
    before = await points(services, library)
    assert await texts_found(services, library, QUESTION) == [NINE]

    await indexed(services.indexer, late)

    assert await texts_found(services, library, QUESTION) == [NINE]
    await clean_completely(services)
    assert await points(services, library) == before
    assert await differences(services, library) == []
    found = await services.ledger[Documents].get("default", document.id)
    assert (found.state, found.live_version) == (DocumentState.READY, 2)


@pytest.mark.parametrize("dies", [False, True], ids=["settles", "dies before settling"])
async def test_dropped_question_of_late_writer_is_deleted(services, library, once, dies):
    await once(second_version)
    late = await services.ledger[IndexWork].claim(10)
    await end_leases(services)
    await indexed(replace(services.indexer, floor=0.99), await services.ledger[IndexWork].claim(10))
    await delete_replaced(services)
    before = await points(services, library)

    outcomes = await index_batch(services.indexer, late)
    if not dies:
        await IndexStage([services.indexer]).settle([outcomes])
    assert (await points(services, library)).keys() > before.keys()
    await clean_completely(services)

    assert await points(services, library) == before


async def test_late_points_written_before_settlement_are_deleted(services, library, once):
    await once(second_version)
    late = await services.ledger[IndexWork].claim(10)
    await end_leases(services)
    strict = replace(services.indexer, floor=0.99)
    successor = await index_batch(strict, await services.ledger[IndexWork].claim(10))
    written = await points(services, library)

    await indexed(services.indexer, late)
    await services.cleaner.clean()
    await IndexStage([strict]).settle([successor])
    await clean_completely(services)

    assert (await points(services, library)).keys() == {i for i, p in written.items() if p["version"] == 2}
    assert await differences(services, library) == []


async def test_rewritten_chunk_keeps_no_dropped_question(services, library, once):
    await once(ready, (TWO_SECTIONS, "a.md"))
    before = await points(services, library)
    await run(services, "UPDATE chunks SET state = 'generated', due_at = now()")
    await run(services, "UPDATE documents SET state = 'searchable'")

    batch = await services.ledger[IndexWork].claim(10)
    await indexed(replace(services.indexer, floor=0.99), batch)

    after = await points(services, library)
    assert after.keys() == {identity for identity, p in before.items() if "text" in p}
    assert await differences(services, library) == []


async def test_first_version_is_written_without_deletion_requests(services, library, provider, monkeypatch):
    await library.add(TWO_SECTIONS, "a.md")

    async def unwanted(*_, **__):
        raise AssertionError

    monkeypatch.setattr(services.index, "_delete", unwanted)
    monkeypatch.setattr(services.index, "_change", unwanted)
    await work(services)

    assert await differences(services, library) == []


# --- repeated settlements ---


async def test_repeated_settlement_changes_nothing(services, library, once):
    await once(second_version)
    outcomes = await index_batch(services.indexer, await services.ledger[IndexWork].claim(10))
    for _ in range(2):
        await IndexStage([services.indexer]).settle([outcomes])
    await clean_completely(services)

    assert await texts_found(services, library, QUESTION) == [NINE]
    assert await differences(services, library) == []


async def test_stale_settlement_sends_no_request_to_qdrant(services, library, once):
    await once(second_version)
    late = await services.ledger[IndexWork].claim(10)
    outcomes = await index_batch(services.indexer, late)
    await end_leases(services)
    await services.ledger[IndexWork].claim(10)
    unreachable = Index("http://127.0.0.1:9")  # the discard port, without a listener
    try:
        finisher = replace(services.indexer.finisher, index=unreachable)
        await IndexStage([replace(services.indexer, index=unreachable, finisher=finisher)]).settle([outcomes])
    finally:
        await unreachable.aclose()


@guards(
    "shared/ledger/work/failures.py",
    "AND t.lease_token = v.token AND t.leased_by IS NOT NULL",
    "AND t.lease_token = v.token",
    means="a failure that is settled twice is counted twice",
)
async def test_failure_settled_twice_counts_once(services, library):
    decision = Retry(timedelta(seconds=5), "500")
    parsing, generation, indexing = (services.ledger[each] for each in (ParseWork, GenerateWork, IndexWork))
    await library.add("one two three", "a.md")
    (document,) = await parsing.claim(1)
    for _ in range(2):
        await parsing.settle_failed([FailedAttempt(document.lease, decision)])
    counts = "attempts, jsonb_array_length(history)"
    assert await run(services, f"SELECT {counts} FROM documents") == [(1, 1)]

    await run(services, "UPDATE documents SET due_at = now()")
    await work(services, "parse")
    await index_texts(services)
    (chunk,) = (await generation.claim(1)).chunks
    for _ in range(2):
        await generation.settle([FailedAttempt(chunk.lease, decision, Usage(100, 10), 1)])
    costs = f"{counts}, prompt_tokens, calls"
    assert await run(services, f"SELECT {costs} FROM chunks") == [(1, 1, 100, 1)]

    (again,) = await claimed_again(services)
    await generation.settle([FailedAttempt(again.lease, Dead("no JSON"))])
    (to_index,) = await indexing.claim(1)
    for _ in range(2):
        await indexing.settle_failed([FailedAttempt(to_index.lease, decision)])
    assert await run(services, f"SELECT {counts} FROM chunks") == [(1, 3)]


async def claimed_again(services):
    await run(services, "UPDATE chunks SET due_at = now()")
    return (await services.ledger[GenerateWork].claim(1)).chunks


async def test_document_with_live_worker_is_not_suspect(services, library):
    await library.add("one two three")
    for _ in range(2):
        (document,) = await services.ledger[ParseWork].claim(1)
        await run(services, "UPDATE documents SET due_at = now()")
    (document,) = await services.ledger[ParseWork].claim(1, suspects=True)
    assert document.lost_leases == 2

    await services.ledger[ParseWork].settle_failed([FailedAttempt(document.lease, Retry(timedelta(), "500"))])

    (document,) = await services.ledger[ParseWork].claim(1)
    assert document.lost_leases == 0


# --- users' questions and the collection ---


async def accepted(services, library, question):
    """Accept a question for the only chunk; return a function that retracts it."""
    return await accepted_of(services, library, "", question)


async def accepted_of(services, library, words, question):
    """Accept a question for the live chunk with these words; return a function that retracts it."""
    collection = await library.collection()
    live = "SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version"
    contents = "chunk_contents t ON t.chunk_id = c.id AND t.version = c.version"
    ((chunk,),) = await run(services, f"{live} JOIN {contents} WHERE t.content ->> 'text' LIKE '%{words}%'")
    entry = QueryLogEntry(uuid4(), "default", collection.id, question, [str(chunk)])
    await services.ledger[QueryLog].append([entry])
    await services.ledger[Feedback].accept("default", entry.id, chunk, most=10)
    return partial(services.ledger[Feedback].retract, "default", entry.id, chunk)


LEAVE = ("Everybody has thirty days of leave a year.", "l.md")


async def test_question_retracted_while_waiting_is_not_found(services, library, once):
    await once(ready, LEAVE)
    retract = await accepted(services, library, "vacation allowance please tell")
    await work(services, "index")
    await accepted(services, library, "holiday entitlement please tell")
    assert len(await points(services, library, source="user")) == 1

    await retract()
    await clean(services)

    assert await points(services, library, source="user") == {}
    await work(services, "index")
    await clean(services)
    assert await run(services, "SELECT state FROM accepted_questions") == [("indexed",)]
    assert await differences(services, library) == []


async def test_point_of_question_retracted_during_write_is_deleted(services, library, once):
    await once(ready, LEAVE)
    collection = await library.collection()
    retract = await accepted(services, library, "vacation allowance please tell")
    writing = await services.ledger[IndexWork].claim(10)
    await retract()

    (question,) = await services.ledger[Feedback].claim_removals(10)
    await services.index.delete_by_id(collection.location, [accepted_point_id(question.id, 1)])
    await indexed(services.indexer, writing)
    await services.ledger[Feedback].settle_removals([question], {question.id})
    await clean(services)

    assert await run(services, "SELECT 1 FROM accepted_questions") == []
    assert await points(services, library, source="user") == {}
    assert await differences(services, library) == []


async def test_missing_payload_indexes_are_created_on_next_use(services, monkeypatch):
    name = f"interrupted-{uuid4().hex}"
    create = services.index._index
    calls = []

    async def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError
        await create(*arguments)

    monkeypatch.setattr(services.index, "_index", failing)
    with pytest.raises(ForeaskError):
        await services.index.ensure_collection(name, 3)
    await services.index.ensure_collection(name, 3)

    schema = (await qdrant_client(services).get_collection(name)).payload_schema
    assert schema.keys() == REQUIRED.keys()
    await services.index.drop_collection(name)


@guards(
    "shared/vectors/writes.py",
    'await self._change(location.index_name, [_setting({"hidden": False}, hidden)])',
    "pass",
    means="a new version stays hidden",
)
@guards(
    "shared/ledger/work/finishing.sql",
    "AND (d.live_version IS NULL\n",
    "AND (true\n",
    means="a version is live before Qdrant shows it",
)
async def test_edit_is_searchable_once_qdrant_shows_it(services, library, once):
    (document,) = await once(ready, (SEVEN, "a.md"))
    await library.add(NINE, "a.md")
    await work(services, "parse")
    outcomes = await index_batch(services.indexer, await services.ledger[IndexWork].claim(10))
    await services.ledger[IndexWork].settle(outcomes)
    (hidden,) = await services.ledger[Finishing].finish([document.id])  # the worker dies at this point
    assert hidden.version == 2

    async def seen():
        found = await services.ledger[Documents].get("default", document.id)
        return found.state, await texts_found(services, library, QUESTION)

    assert await seen() == (DocumentState.INDEXING, [SEVEN])
    await services.cleaner.finish()
    assert await seen() == (DocumentState.SEARCHABLE, [NINE])


@guards(
    "shared/maintenance/cleanup.py",
    '            "finish": self.finish,',
    "",
    means="the unfinished documents of a killed worker are not finished",
)
async def test_document_of_dead_worker_is_finished_later(services, library, provider):
    document = await library.add(SEVEN, "a.md", questions=["When does it open?"])
    await work(services, "parse")
    outcomes = await index_batch(services.indexer, await services.ledger[IndexWork].claim(10))
    await services.ledger[IndexWork].settle(outcomes)

    await services.cleaner.clean()

    assert (await services.ledger[Documents].get("default", document.id)).state == DocumentState.READY
