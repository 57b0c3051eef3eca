"""Feedback: a user's question is added to a chunk, survives new versions, and can be removed completely."""

from uuid import UUID, uuid4

import pytest

from features.feedback.ledger.feedback import Feedback
from features.feedback.retraction import delete_retracted
from features.feedback.schemas import AcceptedPage, FeedbackReply
from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.domain.corpus.ids import accepted_id, accepted_point_id
from shared.http.schemas.queries import RetrieveReply
from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.documents.audit import Audit
from shared.ledger.model.collections import Collections
from shared.ledger.work.indexing import IndexWork
from shared.settings import Tuning
from shared.vectors.index import Index
from shared.vectors.schema.filters import collection_points
from tests.support.api import as_tenant, calling, ready, with_keys, work
from tests.support.cleaning import clean
from tests.support.qdrant import qdrant_client

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "filename": "leave.md"}
PAY = {"text": "# Pay\n\nSalaries are paid on the last working day.", "filename": "pay.md"}
TWO = "# Leave\n\n{leave}\n\n# Pay\n\n{pay}"
USER_QUESTION = (
    "May somebody stay home with sick children on the last Friday?"  # its words are closer to PAY than to LEAVE
)


@pytest.fixture
async def indexed(once):
    """Index two documents, and return the ids by filename."""
    documents = await once(ready, *((body["text"], body["filename"]) for body in (LEAVE, PAY)))
    return {document.external_id: str(document.id) for document in documents}


async def ask(client, question=USER_QUESTION, **more):
    """Return a query's id and its chunks by external id, best first."""
    reply = await client.post("/v1/retrieve", json={"question": question} | more)
    found = RetrieveReply.model_validate_json(reply.content)
    return str(found.metadata.query_id), {chunk.external_id: chunk for chunk in found.chunks}


async def give(client, query_id, chunk_id, *, helpful=True, **more):
    body = {"query_id": query_id, "chunk_id": chunk_id, "helpful": helpful}
    return await client.post("/v1/feedback", json=body, **more)


async def accept(client, question=USER_QUESTION, name="leave.md"):
    """Accept a question for a document's chunk, and return the reply."""
    query_id, chunks = await ask(client, question)
    reply = await give(client, query_id, chunks[name].chunk_id)
    assert reply.status_code == 200, reply.text
    return FeedbackReply.model_validate_json(reply.content)


async def accepted(client, **more):
    reply = await client.get("/v1/collections/default/accepted-questions", **more)
    return AcceptedPage.model_validate_json(reply.content).items


async def points(services, collection="default", tenant="default"):
    """Return the payloads of users' questions in Qdrant, by point id."""
    found = await services.ledger[Collections].get(tenant, collection)
    records, _ = await qdrant_client(services).scroll(
        found.index_name, collection_points(found.location), limit=10_000, with_payload=True
    )
    return {str(r.id): r.payload for r in records if r.payload.get("source") == "user"}


async def verified(services, *, repair=False):
    collection = await services.ledger[Collections].get("default", "default")
    comparison = Verification(services.ledger[Audit], services.index, collection, repair=repair)
    return [item async for item in comparison.run() if isinstance(item, DifferingPoint)]


async def state_of(client, document_id):
    return (await client.get(f"/v1/documents/{document_id}")).json()["state"]


async def test_accepted_question_finds_chunk_by_other_words(client, indexed, services, provider):
    query_id, before = await ask(client)
    assert list(before) == ["pay.md", "leave.md"]

    given = await give(client, query_id, before["leave.md"].chunk_id)
    assert given.json() == {
        "outcome": "accepted",
        "chunk_id": before["leave.md"].chunk_id,
        "question": USER_QUESTION,
        "accepted_id": str(accepted_id(UUID(before["leave.md"].chunk_id), USER_QUESTION)),
    }
    assert (await accepted(client))[0].state == "waiting"
    assert set((await ask(client))[1]) == set(before)  # the chunk remains searchable in the meantime
    await work(services, "index")

    _, after = await ask(client)
    assert list(after) == ["leave.md", "pay.md"]
    best = after["leave.md"]
    assert (best.matched_question, best.matched_question_source) == (USER_QUESTION, "user")
    assert after["pay.md"].matched_question_source in ("generated", None)
    (own,) = await accepted(client)
    assert (own.state, own.question, str(own.query_id)) == ("indexed", USER_QUESTION, query_id)
    assert (own.external_id, str(own.document_id)) == ("leave.md", indexed["leave.md"])
    assert await state_of(client, indexed["leave.md"]) == "ready"
    assert provider.stats()["calls"] == 0
    assert await verified(services) == []


@pytest.mark.parametrize("route", ["feedback", "delete"])
async def test_retraction_restores_previous_results(client, indexed, services, route):
    before = (await ask(client))[1]
    given = await accept(client)
    await work(services, "index")
    assert len(await points(services)) == 1

    if route == "feedback":
        query_id, chunks = await ask(client)
        reply = await give(client, query_id, chunks["leave.md"].chunk_id, helpful=False)
        assert reply.json()["outcome"] == "retracted"
    else:
        address = f"/v1/collections/default/accepted-questions/{given.accepted_id}"
        assert (await client.delete(address)).status_code == 204
        assert (await client.delete(address)).status_code == 404
    assert await accepted(client) == []
    assert await state_of(client, indexed["leave.md"]) == "ready"
    await clean(services)

    assert await points(services) == {}
    after = (await ask(client))[1]
    assert {name: chunk.score for name, chunk in after.items()} == {n: c.score for n, c in before.items()}
    assert await verified(services) == []
    assert (await accept(client)).outcome == "accepted"  # the question can be accepted again


async def test_retraction_during_qdrant_outage_is_applied_later(client, indexed, services):
    given = await accept(client)
    await work(services, "index")
    await client.delete(f"/v1/collections/default/accepted-questions/{given.accepted_id}")
    unreachable = Index("http://127.0.0.1:9")  # the discard port, without a listener
    try:
        await delete_retracted(services.ledger[Feedback], unreachable)
    finally:
        await unreachable.aclose()
    assert len(await points(services)) == 1

    await clean(services)
    assert await points(services) == {}
    assert await services.ledger[Feedback].claim_removals(10) == []


async def test_repeated_question_is_accepted_once(client, indexed, services):
    first = await accept(client)
    await work(services, "index")

    again = await accept(client, f"  {USER_QUESTION.upper()} ")

    assert (again.outcome, again.accepted_id) == ("already_accepted", first.accepted_id)
    assert len(await accepted(client)) == len(await points(services)) == 1
    assert await state_of(client, indexed["leave.md"]) == "ready"


async def test_existing_chunk_question_is_not_added(client, indexed, services):
    chunks = (await client.get(f"/v1/documents/{indexed['leave.md']}/chunks")).json()["items"]
    own = next(question["text"] for question in chunks[0]["questions"] if question["passed"])

    given = await accept(client, own.lower().rstrip("?"))

    assert (given.outcome, given.accepted_id) == ("already_asked", None)
    assert await accepted(client) == []
    assert await state_of(client, indexed["leave.md"]) == "ready"


async def test_unaccepted_question_cannot_be_retracted(client, indexed):
    query_id, chunks = await ask(client)

    reply = await give(client, query_id, chunks["leave.md"].chunk_id, helpful=False)

    assert (reply.status_code, reply.json()["outcome"]) == (200, "not_accepted")
    assert await accepted(client) == []


async def test_question_limit_retracts_oldest_questions(services, settings, indexed):
    async with calling(settings.model_copy(update={"tuning": Tuning(accepted_per_chunk=2)}), services) as client:
        for number in range(4):
            await accept(client, f"{USER_QUESTION} {number}")
            await work(services, "index")
        remaining = [own.question for own in await accepted(client)]
    await clean(services)

    assert remaining == [f"{USER_QUESTION} 3", f"{USER_QUESTION} 2"]
    assert {payload["question"] for payload in (await points(services)).values()} == set(remaining)
    assert await verified(services) == []


async def test_feedback_on_unreturned_chunk_is_rejected(client, indexed):
    query_id, chunks = await ask(client, top_k=1)
    _, others = await ask(client)
    shown, hidden = chunks["pay.md"].chunk_id, others["leave.md"].chunk_id

    for named, chunk, helpful, status, field in (
        (str(uuid4()), shown, True, 404, "query_id"),
        (str(uuid4()), shown, False, 404, "query_id"),
        (query_id, hidden, True, 422, "chunk_id"),
        (query_id, hidden, False, 422, "chunk_id"),
        ("x", shown, True, 422, "query_id"),
        (query_id, shown, "yes", 422, "helpful"),
    ):
        reply = await give(client, named, chunk, helpful=helpful)
        assert (reply.status_code, reply.json()["field"]) == (status, field), reply.text


async def test_feedback_on_deleted_chunk_is_rejected(client, indexed, services):
    query_id, chunks = await ask(client)
    await accept(client, name="leave.md")
    await client.delete(f"/v1/documents/{indexed['leave.md']}")
    assert await accepted(client) == []  # users' questions are deleted with their document

    reply = await give(client, query_id, chunks["leave.md"].chunk_id)

    assert (reply.status_code, reply.json()["field"]) == (404, "chunk_id")


async def test_tenants_cannot_use_or_see_each_others_feedback(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        alice, bob = as_tenant("alice"), as_tenant("bob")
        for headers in (alice, bob):
            await client.post("/v1/documents", json=LEAVE, headers=headers)
        await work(services)
        found = (await client.post("/v1/retrieve", json={"question": USER_QUESTION}, headers=alice)).json()
        named, chunk = found["metadata"]["query_id"], found["chunks"][0]["chunk_id"]

        for helpful in (True, False):
            assert (await give(client, named, chunk, helpful=helpful, headers=bob)).status_code == 404
        own = (await give(client, named, chunk, headers=alice)).json()["accepted_id"]
        await work(services, "index")

        assert await accepted(client, headers=bob) == []
        address = f"/v1/collections/default/accepted-questions/{own}"
        assert (await client.delete(address, headers=bob)).status_code == 404
        assert [str(item.id) for item in await accepted(client, headers=alice)] == [own]
        assert await points(services, tenant="bob") == {}


async def test_accepted_list_is_paged_newest_first(client, indexed):
    for number in range(5):
        await accept(client, f"{USER_QUESTION} {number}")
    seen, cursor = [], None
    while True:
        page = (
            await client.get("/v1/collections/default/accepted-questions", params={"limit": 2} | (cursor or {}))
        ).json()
        seen += [own["question"] for own in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert seen == [f"{USER_QUESTION} {number}" for number in reversed(range(5))]
    assert (await client.get("/v1/collections/nowhere/accepted-questions")).status_code == 404


LONG_LEAVE = "Everybody has thirty days of leave a year. " * 30
LONG_PAY = "Salaries are paid on the last working day. " * 30


@pytest.fixture
async def two_chunks(client, once):
    """Index a document of two chunks and return its id."""
    (document,) = await once(ready, (TWO.format(leave=LONG_LEAVE, pay=LONG_PAY), "both.md"))
    assert len((await client.get(f"/v1/documents/{document.id}/chunks")).json()["items"]) == 2
    return str(document.id)


async def edit(client, **parts):
    text = TWO.format(**({"leave": LONG_LEAVE, "pay": LONG_PAY} | parts))
    await client.post("/v1/documents", json={"text": text, "external_id": "both.md"})


async def accept_of_leave(client, question=USER_QUESTION):
    reply = (await client.post("/v1/retrieve", json={"question": question})).json()
    chunk = next(c for c in reply["chunks"] if "thirty days" in c["text"])
    return (await give(client, reply["metadata"]["query_id"], chunk["chunk_id"])).json()


async def test_accepted_question_is_deleted_with_its_chunk(client, two_chunks, services):
    await accept_of_leave(client)
    await work(services, "index")

    await edit(client, pay=LONG_PAY + "Nobody is paid twice. ")
    await work(services)
    assert {payload["version"] for payload in (await points(services)).values()} == {2}
    await client.post("/v1/collections/default/reindex")
    await work(services)
    assert {payload["version"] for payload in (await points(services)).values()} == {3}
    assert [own.state for own in await accepted(client)] == ["indexed"]
    assert await verified(services) == []

    await edit(client, leave=LONG_PAY.replace("paid", "spent"))
    await work(services)
    await clean(services)
    assert await points(services) == {}
    assert await accepted(client) == []
    assert await verified(services) == []


async def test_question_accepted_during_processing_is_indexed_afterwards(client, two_chunks, services, provider):
    await edit(client, pay=LONG_PAY + "Nobody is paid twice. ")
    await work(services, "parse", "index", "generate")
    claimed = await services.ledger[IndexWork].claim(10)

    assert (await accept_of_leave(client))["outcome"] == "accepted"
    assert [own.state for own in await accepted(client)] == ["waiting"]
    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, claimed)])
    await work(services)

    assert [own.state for own in await accepted(client)] == ["indexed"]
    assert {payload["version"] for payload in (await points(services)).values()} == {2}
    assert await state_of(client, two_chunks) == "ready"
    assert await verified(services) == []


async def test_question_accepted_during_failed_edit_reaches_live_version(client, two_chunks, services, provider):
    await edit(client, pay=LONG_PAY + "Nobody is paid twice. ")
    assert (await accept_of_leave(client))["outcome"] == "accepted"
    await work(services, "parse", "generate")
    (shared,) = [c for c in await services.ledger[IndexWork].claim(10) if c.accepted]
    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, [shared])])
    assert {payload["version"] for payload in (await points(services)).values()} == {2}
    assert [own.state for own in await accepted(client)] == ["waiting"]

    await upload_unreadable(client)
    await work(services)
    await clean(services)

    assert {payload["version"] for payload in (await points(services)).values()} == {1}
    assert [own.state for own in await accepted(client)] == ["indexed"]
    assert await verified(services) == []


async def upload_unreadable(client):
    body = {"text": "%PDF-1.4 cut short", "external_id": "both.md", "filename": "both.pdf"}
    await client.post("/v1/documents", json=body)


async def test_accepted_question_is_added_to_concurrent_edit(client, two_chunks, services, provider):
    await accept_of_leave(client)
    await edit(client, pay=LONG_PAY + "Nobody is paid twice. ")
    await work(services, "parse", "generate")
    (live,) = [c for c in await services.ledger[IndexWork].claim(10) if not c.hidden]
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE chunks SET due_at = now() WHERE version = 2")
    edited = [c for c in await services.ledger[IndexWork].claim(10) if c.hidden]
    await services.ledger[IndexWork].release([live.lease])
    await accept_of_leave(client, "Who may be ill?")
    (live,) = await services.ledger[IndexWork].claim(10)
    assert (len(live.accepted), {len(c.accepted) for c in edited}) == (2, {0, 1})

    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, [live])])
    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, edited)])
    await work(services)

    assert [own.state for own in await accepted(client)] == ["indexed", "indexed"]
    assert [payload["version"] for payload in (await points(services)).values()] == [2, 2]
    assert await verified(services) == []


async def test_retraction_applies_to_live_and_pending_versions(client, two_chunks, services, provider):
    given = await accept_of_leave(client)
    await work(services, "index")
    await edit(client, pay=LONG_PAY + "Nobody is paid twice. ")
    await work(services, "parse", "generate")
    (shared,) = [c for c in await services.ledger[IndexWork].claim(10) if c.accepted]
    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, [shared])])
    assert {payload["version"] for payload in (await points(services)).values()} == {1, 2}

    await client.delete(f"/v1/collections/default/accepted-questions/{given['accepted_id']}")
    await clean(services)

    assert await points(services) == {}
    assert await accepted(client) == []


async def test_retraction_during_write_is_applied_afterwards(client, indexed, services):
    given = await accept(client)
    claimed = await services.ledger[IndexWork].claim(10)
    assert [own.id for chunk in claimed for own in chunk.accepted] == [given.accepted_id]

    await client.delete(f"/v1/collections/default/accepted-questions/{given.accepted_id}")
    await clean(services)
    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, claimed)])
    assert len(await points(services)) == 1
    await clean(services)

    assert await points(services) == {}
    assert await verified(services) == []


async def test_late_writer_does_not_restore_retracted_question(client, indexed, services):
    given = await accept(client)
    late = await services.ledger[IndexWork].claim(10)
    await services.ledger[IndexWork].release([chunk.lease for chunk in late])
    await work(services, "index")
    await client.delete(f"/v1/collections/default/accepted-questions/{given.accepted_id}")
    await clean(services)
    assert await points(services) == {}

    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, late)])
    await clean(services)

    assert await points(services) == {}
    assert await accepted(client) == []
    assert await verified(services) == []


async def test_question_is_not_reaccepted_during_removal(client, indexed, services):
    given = await accept(client)
    await work(services, "index")
    await client.delete(f"/v1/collections/default/accepted-questions/{given.accepted_id}")

    (removal,) = await services.ledger[Feedback].claim_removals(10)
    query_id, chunks = await ask(client)
    refused = await give(client, query_id, chunks["leave.md"].chunk_id)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    assert removal.versions == [1]
    await services.index.delete_by_id(removal.location, [accepted_point_id(removal.id, 1)])
    await services.ledger[Feedback].settle_removals([removal], {removal.id})
    assert (await accept(client)).outcome == "accepted"
    await work(services, "index")

    assert len(await points(services)) == 1
    assert await verified(services) == []


async def test_retried_dead_chunk_gets_its_accepted_questions(client, two_chunks, services, provider):
    await accept_of_leave(client)
    await work(services, "index")
    options = (await client.get("/v1/collections/default")).json()["options"]
    changed = await client.put("/v1/collections/default", json=options | {"prepend_questions": True})
    assert changed.status_code == 200  # so that the texts must be embedded again
    await client.post("/v1/collections/default/reindex")
    await work(services, "parse")
    provider.script(down=True)
    claimed = await services.ledger[IndexWork].claim(10)
    while claimed:  # until the chunk is dead
        await IndexStage([services.indexer]).settle([await index_batch(services.indexer, claimed)])
        async with services.database.begin() as connection:
            await connection.execute_sql("UPDATE chunks SET due_at = now(), attempts = 8 WHERE state = 'parsed'")
        claimed = await services.ledger[IndexWork].claim(10)
    assert await state_of(client, two_chunks) == "degraded"
    assert [own.state for own in await accepted(client)] == ["waiting"]
    assert await verified(services) == []

    provider.script(down=False)
    await client.post(f"/v1/documents/{two_chunks}/retry")
    await work(services)

    assert [own.state for own in await accepted(client)] == ["indexed"]
    assert len(await points(services)) == 1
    assert await verified(services) == []


async def test_unembeddable_question_is_rejected_and_blocks_nothing(client, indexed, services, provider):
    await accept(client)
    provider.script(refuse_containing="sick children")
    await work(services, "index")

    assert [own.state for own in await accepted(client)] == ["refused"]
    assert await points(services) == {}
    assert await state_of(client, indexed["leave.md"]) == "ready"
    assert await verified(services) == []
    provider.script(refuse_containing="")
    assert await services.ledger[IndexWork].claim(10) == []
    await accept(client)
    await work(services, "index")
    assert [own.state for own in await accepted(client)] == ["indexed"]


@pytest.mark.parametrize("damage", ["lost", "orphaned"])
async def test_verification_repairs_lost_and_orphaned_accepted_questions(client, indexed, services, provider, damage):
    await accept(client)
    await work(services, "index")
    collection = await services.ledger[Collections].get("default", "default")
    (point,) = await points(services)
    if damage == "lost":
        await services.index.delete_by_id(collection.location, [point])
    else:
        async with services.database.begin() as connection:
            await connection.execute_sql("DELETE FROM accepted_questions")

    (finding,) = await verified(services, repair=True)

    assert (finding.point_id, finding.repaired) == (point, True)
    assert finding.kind == ("missing" if damage == "lost" else "orphaned")
    await work(services, "index")
    assert list(await points(services)) == ([point] if damage == "lost" else [])
    assert await verified(services) == []
    assert provider.stats()["calls"] == 0


async def test_only_newest_accepted_questions_are_used_as_labels(client, indexed, services, monkeypatch):
    monkeypatch.setattr("shared.ledger.builds.calibrations._MOST_PAIRS", 2)
    for question in ("How long may I be away?", "What was that?", "Who is it?"):
        await accept(client, question)
    collection = await services.ledger[Collections].get("default", "default")

    newest = await services.ledger[Calibrations].accepted_questions(collection.id)

    assert [question for question, _ in newest] == ["What was that?", "Who is it?"]


async def test_accepted_questions_are_returned_as_labels(client, indexed, services):
    await accept(client, "How long may I be away?")
    await accept(client, "When does the money come?", "pay.md")
    query_id, chunks = await ask(client, "How long may I be away")
    await give(client, query_id, chunks["pay.md"].chunk_id)
    await accept(client, "What was that?")
    query_id, _ = await ask(client, "What was that?")
    await give(client, query_id, chunks["leave.md"].chunk_id, helpful=False)

    collection = await services.ledger[Collections].get("default", "default")

    leave, pay = chunks["leave.md"].chunk_id, chunks["pay.md"].chunk_id
    assert await services.ledger[Calibrations].accepted_questions(collection.id) == [
        ("How long may I be away?", [leave, pay]),
        ("When does the money come?", [pay]),
    ]


async def test_retraction_during_verification_is_not_a_finding(client, indexed, services, monkeypatch):
    given = await accept(client)
    await work(services, "index")
    stored_points = services.index.stored_points

    async def slow(location, ids):
        if await points(services):
            await client.delete(f"/v1/collections/default/accepted-questions/{given.accepted_id}")
            await clean(services)
        return await stored_points(location, ids)

    monkeypatch.setattr(services.index, "stored_points", slow)

    assert await verified(services) == []
    assert await points(services) == {}


async def test_question_is_accepted_for_unreturned_chunk(client, indexed, services, wakes):
    _, chunks = await ask(client)
    body = {"question": USER_QUESTION, "chunk_id": chunks["leave.md"].chunk_id}
    path = "/v1/collections/default/accepted-questions"

    given = FeedbackReply.model_validate_json((await client.post(path, json=body)).content)

    (waiting,) = await accepted(client)
    assert (given.outcome, given.accepted_id, waiting.query_id) == ("accepted", waiting.id, None)
    assert "index" in wakes
    await work(services)
    _, found = await ask(client)
    assert found["leave.md"].matched_question_source == "user"
    assert (await client.post(path, json=body)).json()["outcome"] == "already_accepted"
    for wrong in ({"chunk_id": str(uuid4())}, {"question": " "}):
        assert (await client.post(path, json=body | wrong)).status_code == (422 if "question" in wrong else 404)
