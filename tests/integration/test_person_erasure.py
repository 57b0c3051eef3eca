"""A person's data is found in all documents and records, and only the chosen documents and the records are erased."""

import asyncio
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid4

import pytest

from features.all import FEATURES
from features.erasure.ledger.erasures import Erasures
from features.erasure.ledger.previews import Previews
from features.erasure.texts import pattern_of
from features.feedback.ledger.feedback import Feedback
from features.feedback.retraction import delete_retracted
from shared.domain.errors import NotFound
from shared.ledger.documents.documents import Documents
from shared.ledger.feedback.query_log import QueryLog, QueryLogEntry
from shared.ledger.model.collections import Collections
from shared.services.features import erased_tables
from tests.integration.test_erasure import CONVERSE, RESOLVE, SHARE, foreask, make_all_due, run
from tests.support.api import as_tenant, calling, ready, with_keys, work
from tests.support.erasing import erasure_steps
from tests.support.pages import commands_of
from tests.support.planted import guards

__all__ = ["foreask"]  # a fixture

PERSON = ["Ada Lovelace", "ada@x.org"]
CONVERSATION = """
    INSERT INTO conversations (tenant, owner, id, name, turns, collections, document_ids, changed_at)
    VALUES (:tenant, 'local', :id, 'Duty', :turns, '{}', '{}', now())
"""
SHARED = """
    INSERT INTO shared_answers (id, tenant, collection, question, answer, form, numbers, chunk_ids, document_ids,
                                expires_at)
    VALUES (gen_random_uuid(), :tenant, 'default', 'Who?', :answer, 'generative', '{}', '{}', '{}',
            now() + interval '1 day')
"""
ACCEPTED = """
    INSERT INTO accepted_questions (id, tenant, collection_id, document_id, chunk_id, question, state)
    SELECT gen_random_uuid(), tenant, collection_id, id, gen_random_uuid(), :question, 'waiting'
    FROM documents WHERE public_id = :document
"""


def previews_of(services):
    return Previews(services.database, erased_tables(FEATURES))


async def found(services, texts, tenant="default", collection=None):
    """Return the names of documents with the parts in which the texts occur, and the numbers of records."""
    page = await previews_of(services).page(tenant, texts, collection)
    assert page.following is None
    records = {kind: count for kind, count in page.records.items() if count}
    return {document.external_id: set(document.matches) for document in page.documents}, records


async def log(services, collection, question, answer=None):
    """Log a query, and return its id."""
    entry = QueryLogEntry(uuid4(), collection.tenant, collection.id, question, [])
    await services.ledger[QueryLog].append([entry])
    await run(services, "UPDATE queries SET answer = :answer WHERE id = :id", answer=answer, id=entry.id)
    return entry.id


async def record(services, tenant="default", document=None):
    """Give a tenant a record of each kind that names the person, and one of another person."""
    collection = await services.ledger[Collections].get(tenant, "default")
    for name in ("ADA  LOVELACE", "Grace Hopper"):
        await log(services, collection, f"Who replaces {name} on Monday?")
        await log(services, collection, "Who is on duty?", f"{name} is on duty [1].")
        await run(services, CONVERSATION, tenant=tenant, id=name, turns=f'[{{"question": "Who?\\n{name}"}}]')
        await run(services, SHARED, tenant=tenant, answer=f"On duty: {name}")
        if document is not None:
            await run(services, ACCEPTED, question=f"When does {name} work?", document=document)


def steps_of(services):
    """Return the steps that an erasure of a person needs."""
    cleanup = services.cleaner.steps
    names = ("purge", "delete", "outdate", "sweep")
    retract = partial(delete_retracted, services.ledger[Feedback], services.index)
    return [*(cleanup[name] for name in names), retract, erasure_steps(services)["erase"]]


async def finished(services, erasure):
    """Repeat the steps until an erasure has finished, and return it."""
    for _ in range(60):
        for step in steps_of(services):
            await step()
        await make_all_due(services)
        erasure = await services.ledger[Erasures].get(erasure.id)
        if erasure.finished_at is not None:
            return erasure
    raise AssertionError("the erasure does not finish")


async def submit(services, settings, *bodies):
    """Submit documents over HTTP, and process them."""
    async with calling(settings, services) as client:
        for body in bodies:
            assert (await client.post("/v1/documents", json=body)).status_code == 202
    await work(services)


async def counts(services, tenant="default"):
    names = ("documents", "queries", "accepted_questions", "conversations", "shared_answers")
    return [
        (await run(services, f"SELECT count(*) FROM {name} WHERE tenant = :tenant", tenant=tenant))[0][0]
        for name in names
    ]


# --- the texts ---


@pytest.mark.parametrize(
    ("text", "written", "matches"),
    [
        ("Ada Lovelace", "Ada Lovelace", True),
        ("Ada Lovelace", "ADA\n  LOVELACE", True),
        ("Ada Lovelace", r"Who?\nAda\nLovelace", True),  # in JSON
        ("Ada", "Adas Bericht", True),
        ("Ada", "Canada", False),
        ("Ada", "report_ada.pdf", True),
        ("ada@x.org", "mailto:Ada@X.org", True),
        ("ada@x.org", "ada@xyorg", False),
        ("Åsa Öberg", "åsa öberg", True),
        ("Åsa", "A\u030asa", True),
        ("Στέλλα", "ΣΤΈΛΛΑ", True),
        pytest.param("Straße", "STRASSE", True, id="two letters"),
        ("王伟", "员工王伟的记录", True),
        ("a(b[c{d*+?.^$|\\", "A(B[C{D*+?.^$|\\", True),
    ],
)
@guards(
    "features/erasure/texts.py",
    "letter.upper(), ",
    "",
    means="capital letters are not found",
    case="two letters",
)
@guards("features/erasure/texts.py", '("NFC", "NFD")', '("NFC",)', means="decomposed letters are not found")
async def test_person_is_found_as_written(services, text, written, matches):
    ((found,),) = await run(
        services, "SELECT CAST(:text AS text) ~ CAST(:pattern AS text)", text=written, pattern=pattern_of([text])
    )
    assert found is matches


async def test_longest_texts_make_valid_expression(services):
    pattern = pattern_of([chr(0x100 + index) * 49 + " " + "Ä" * 50 for index in range(10)])
    assert await run(services, "SELECT 'Ada' ~ CAST(:pattern AS text)", pattern=pattern) == [(False,)]


# --- the preview ---


@guards(
    "features/erasure/ledger/previews.sql",
    "('text', concat_ws(",
    "('text', concat_ws('', NULL) || concat_ws(",
    "t.content ->> 'text', p.text)",
    "p.text)",
    means="texts of chunks are not searched",
)
async def test_preview_finds_person_in_every_part(services, settings, provider):
    table = "| week | lead |\n|---|---|\n| 12 | Ada Lovelace |"
    await submit(
        services,
        settings,
        {"text": table, "external_id": "roster.md"},
        {"text": "Nothing.", "external_id": "of ada lovelace.md", "title": "Letters"},
        {"text": "Nothing.", "external_id": "title.md", "title": "Letters of Ada Lovelace"},
        {"text": "Nothing.", "external_id": "metadata.md", "metadata": {"author": "ada@x.org"}},
        {"text": "Grace Hopper.", "external_id": "other.md"},
    )

    documents, records = await found(services, PERSON)

    assert documents == {
        "roster.md": {"text"},
        "of ada lovelace.md": {"external_id"},
        "title.md": {"title"},
        "metadata.md": {"metadata"},
    }
    assert records == {}


@guards(
    "features/erasure/ledger/previews.sql",
    "WHERE tenant = :tenant AND {is_live} AND (CAST",
    "WHERE {is_live} AND (CAST",
    "documents d WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND d.tenant = :tenant AND {exists:d}",
    "documents d WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND {exists:d}",
    "      WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND d.tenant = :tenant AND {exists:d}) l",
    "      WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND {exists:d}) l",
    means="a preview shows documents of another tenant",
)
@guards(
    "features/erasure/ledger/text_searches.sql",
    "SELECT a.id, a.tenant = :tenant AND a.question",
    "SELECT a.id, a.question",
    means="a preview counts accepted questions of another tenant",
)
@guards(
    "features/erasure/ledger/text_searches.sql",
    "WHERE q.tenant = :tenant\n",
    "WHERE true\n",
    means="a preview counts logged queries of another tenant",
)
async def test_preview_is_of_own_tenant_only(services, settings, provider):
    for tenant in ("alice", "bob"):
        (document,) = await ready(services, ("Ada Lovelace is on duty.", f"{tenant}.md"), tenant=tenant)
        await record(services, tenant, document.id)
    async with calling(with_keys(settings), services) as client:
        body = {"texts": PERSON}
        reply = await client.post("/v1/erasure-previews", json=body, headers=as_tenant("alice"))
        assert reply.status_code == 200, reply.text
        named = {"document_ids": [str(document.id)]}
        other = await client.post("/v1/erasure-previews", json=named, headers=as_tenant("alice"))
        erased = await client.post("/v1/erasures", json=named, headers=as_tenant("alice"))

    preview = reply.json()
    assert [document["external_id"] for document in preview["documents"]] == ["alice.md"]
    expected = {"queries": 2, "accepted_questions": 1, "shared_answers": 1, "conversations": 1}
    assert {kind: count for kind, count in preview["records"].items() if count} == expected
    assert (preview["examined"], preview["next_cursor"]) == (1, None)
    assert (other.status_code, erased.status_code) == (404, 404)
    assert await run(services, "SELECT count(*) FROM erasures") == [(0,)]


async def test_preview_counts_rows_that_erasure_deletes(services, once, library):
    document, other = await once(ready, ("Ada Lovelace.", "a.md"), ("Grace Hopper.", "b.md"))
    for quoted in ([document.id], [document.id, other.id]):
        for statement in (SHARE, CONVERSE):
            await run(services, statement, tenant="default", collection="default", documents=quoted)
    await run(services, RESOLVE, tenant="default", collection="default", document=document.id)
    await run(services, ACCEPTED, question="Why?", document=document.id)
    ((questions,),) = await run(
        services, "SELECT sum(questions_passed) FROM chunks WHERE document_id = :id", id=document.id
    )

    (shown,) = (await previews_of(services).page("default", ["ada lovelace"])).documents

    assert shown.deletes == {
        "versions": 1,
        "chunks": 1,
        "questions": questions,
        "accepted_questions": 1,
        "resolutions": 1,
        "shared_answers": 2,
        "conversations": 2,
    }
    assert "Ada Lovelace" in shown.matches["text"]


async def test_preview_counts_gaps_and_feedback(services, library):
    collection = await library.collection()
    first, _ = [await log(services, collection, f"Where is Ada Lovelace{mark}") for mark in "?!"]
    await run(services, "UPDATE queries SET gap_id = id, helpful = false WHERE id = :id", id=first)

    assert await found(services, PERSON) == ({}, {"queries": 2, "queries_in_gaps": 1, "feedback": 1})


async def test_pages_of_preview_have_everything_once(services, settings, once, monkeypatch):
    await once(ready, *((f"Ada Lovelace, page {number}.", f"{number}.md") for number in range(5)))
    await record(services)
    monkeypatch.setattr("features.erasure.ledger.previews._SLICE", 2)
    monkeypatch.setattr("features.erasure.ledger.previews._SECONDS", 0.0)
    monkeypatch.setattr("features.erasure.ledger.text_searches._SLICE_LONG", 1)
    monkeypatch.setattr("features.erasure.ledger.text_searches._SLICE_QUERIES", 1)
    names, queries, conversations, cursor = [], 0, 0, None
    async with calling(settings, services) as client:
        for _ in range(30):
            body = {"texts": PERSON, "cursor": cursor}
            page = (await client.post("/v1/erasure-previews", json=body)).json()
            names += [document["external_id"] for document in page["documents"]]
            queries += page["records"]["queries"]
            conversations += page["records"]["conversations"]
            cursor = page["next_cursor"]
            if cursor is None:
                break

    assert (cursor, sorted(names)) == (None, [f"{number}.md" for number in range(5)])
    assert (queries, conversations) == (2, 1)


async def test_preview_of_collection_omits_others(services, settings, provider):
    bodies = [{"text": "Ada Lovelace.", "external_id": name, "collection": name} for name in ("reports", "papers")]
    await submit(services, settings, *bodies)

    documents, _ = await found(services, PERSON, collection="papers")

    assert set(documents) == {"papers"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"texts": ["A"]}, 422),
        ({"texts": ["  a  "]}, 422),
        ({"texts": ["Ada"] * 11}, 422),
        ({"texts": ["Ada"], "collection": "none"}, 404),
        ({"document_ids": [str(uuid4())]}, 404),
        ({"texts": ["Ada"], "cursor": "WzFd"}, 400),
        ({"texts": ["Ada"], "cursor": "WyJxdWVyaWVzIiwibm9uc2Vuc2UiXQ"}, 400),  # ["queries","nonsense"]
        ({"texts": ["Ada"], "cursor": "WyJhcGlfa2V5cyJd"}, 400),  # ["api_keys"]
    ],
)
async def test_unusable_preview_is_refused(services, settings, body, status):
    async with calling(settings, services) as client:
        reply = await client.post("/v1/erasure-previews", json=body)
    assert reply.status_code == status, reply.text


# --- the erasure ---


@guards(
    "features/erasure/routes.py",
    "start_documents(tenant, body.document_ids, body.texts)",
    "start_documents(tenant, body.document_ids, [])",
    means="records that name the person remain",
)
@guards(
    "features/erasure/ledger/text_searches.sql",
    "{next_queries}\n\n-- part: next_accepted",
    "queries q WHERE q.tenant = :tenant\n\n-- part: next_accepted",
    means="an erasure deletes questions that do not name the person",
)
async def test_only_chosen_documents_and_records_are_erased(services, settings, provider):
    documents = await ready(
        services,
        ("Ada Lovelace leads.", "a.md"),
        ("Ada Lovelace follows.", "b.md"),
        ("The gate opens.", "c.md"),
        tenant="alice",
    )
    (of_bob,) = await ready(services, ("Ada Lovelace.", "a.md"), tenant="bob")
    await record(services, "alice", documents[2].id)
    await record(services, "bob", of_bob.id)
    before = await counts(services, "bob")
    body = {"texts": PERSON, "document_ids": [str(documents[0].id)]}
    async with calling(with_keys(settings), services) as client:
        reply = await client.post("/v1/erasures", json=body, headers=as_tenant("alice"))
        again = await client.post("/v1/erasures", json=body, headers=as_tenant("alice"))
        erasure = reply.json()
        assert (reply.status_code, erasure["state"], erasure["scope"]) == (202, "running", "documents")
        assert again.json()["id"] == erasure["id"]
        hidden = await client.get(f"/v1/documents/{documents[0].id}", headers=as_tenant("alice"))
        assert hidden.status_code == 404

        await finished(services, await services.ledger[Erasures].get(UUID(erasure["id"])))

        address = reply.headers["location"]
        seen = (await client.get(address, headers=as_tenant("alice"))).json()
        listed = (await client.get("/v1/erasures", headers=as_tenant("alice"))).json()["items"]
        rest = (await client.get(f"{address}/remaining-data", headers=as_tenant("alice"))).json()
        for path in (address, f"{address}/remaining-data"):
            assert (await client.get(path, headers=as_tenant("bob"))).status_code == 404
        assert (await client.get("/v1/erasures", headers=as_tenant("bob"))).json()["items"] == []
        recorded = (await client.get("/v1/audit", headers=as_tenant("alice"))).json()["items"]

    assert (seen["state"], seen["document_ids"], seen["documents_left"]) == ("finished", body["document_ids"], 0)
    expected = {"documents": 1, "queries": 2, "accepted_questions": 1, "shared_answers": 1, "conversations": 1}
    assert expected.items() <= seen["deleted"].items()
    assert (listed, rest["found"]) == ([seen], 0)
    assert [(entry["action"], entry["object"]) for entry in recorded] == [("erase", "person")]
    assert "Ada" not in str(recorded)
    assert await counts(services, "alice") == [2, 2, 1, 1, 1]
    assert await counts(services, "bob") == before
    assert await run(services, "SELECT texts FROM erasures") == [([],)]
    assert await found(services, PERSON, "alice") == ({"b.md": {"text"}}, {})


async def test_record_without_document_is_erased(services, library):
    collection = await library.collection()
    await log(services, collection, "Where is Ada Lovelace?")

    erasure = await finished(services, await services.ledger[Erasures].start_documents("default", [], PERSON))

    assert (erasure.deleted["queries"], erasure.scope) == (1, "documents")
    assert await services.ledger[Collections].find("default", "default") is not None
    assert await run(services, "SELECT count(*) FROM queries") == [(0,)]


async def test_running_erasure_of_person_allows_uploads(services, library):
    await library.add("A text.", "a.md")
    await services.ledger[Erasures].start_documents("default", [], PERSON)

    await library.add("Another text.", "b.md")
    await services.ledger[Collections].ensure("default", "new", embedding_model=services.settings.embedding_model)

    assert len(await services.ledger[Documents].page("default")) == 2


@guards(
    "features/erasure/ledger/erasures.py",
    "sorted(found), texts)",
    "ids, texts)",
    means="a repeated erasure of an erased document fails",
)
async def test_erased_document_is_not_erased_again(services, once):
    documents = await once(ready, ("A text.", "a.md"), ("Another text.", "b.md"))
    one, other = (document.id for document in documents)
    erasures = services.ledger[Erasures]
    first = await erasures.start_documents("default", [one], [])
    assert (await erasures.start_documents("default", [one, one], [])).id == first.id
    await finished(services, first)

    assert (await erasures.start_documents("default", [one], [])).id == first.id
    second = await erasures.start_documents("default", [one, other], [])
    assert (second.id == first.id, second.public_ids) == (False, [other])
    with pytest.raises(NotFound):
        await erasures.start_documents("default", [uuid4()], [])


@guards(
    "features/erasure/ledger/erasures.sql",
    "chunk_ids = '{}',\n    build_ids = '{}', texts = '{}'",
    "chunk_ids = '{}',\n    build_ids = '{}'",
    means="the record of an erasure keeps the person's name",
)
async def test_killed_erasure_of_person_continues(services, once, monkeypatch):
    """Each step is interrupted, a little later in each iteration, and then run completely."""
    for name in ("_SLICE_QUERIES", "_SLICE_LONG", "_SLICE_ACCEPTED"):
        monkeypatch.setattr(f"features.erasure.ledger.text_searches.{name}", 1)
    documents = await once(ready, ("Ada Lovelace leads.", "a.md"), ("The gate opens.", "b.md"))
    await record(services, document=documents[1].id)
    erasure = await services.ledger[Erasures].start_documents("default", [documents[0].id], PERSON)

    for iteration in range(60):
        for step in steps_of(services):
            task = asyncio.create_task(step())
            await asyncio.wait({task}, timeout=0.001 * (iteration % 3))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await run(services, "UPDATE accepted_questions SET due_at = now()")  # a killed process's claim ends
            await step()
        await make_all_due(services)
        erasure = await services.ledger[Erasures].get(erasure.id)
        if erasure.finished_at:
            break

    assert (erasure.state, erasure.texts) == ("finished", [])
    assert await counts(services) == [1, 2, 1, 1, 1]
    assert await found(services, PERSON) == ({}, {})


async def test_retracted_question_delays_end_of_erasure(services, once):
    (document,) = await once(ready, ("The gate opens.", "a.md"))
    await run(services, ACCEPTED, question="Where is Ada Lovelace?", document=document.id)
    later = timedelta(hours=1)
    await run(services, "UPDATE accepted_questions SET due_at = now() + :later", later=later)
    erasures = services.ledger[Erasures]
    erasure = await erasures.start_documents("default", [], PERSON)
    step = erasure_steps(services)["erase"]
    for _ in range(20):
        await make_all_due(services)
        await step()

    assert (await erasures.get(erasure.id)).finished_at is None
    assert await run(services, "SELECT state FROM accepted_questions") == [("removing",)]

    await run(services, "DELETE FROM accepted_questions")
    assert (await finished(services, erasure)).deleted["accepted_questions"] == 1


# --- the command ---


async def test_documented_command_previews_and_erases_person(services, foreask):
    await ready(services, ("Ada Lovelace leads.", "a.md"), ("The gate opens.", "b.md"), tenant="acme")
    await record(services, "acme")
    (command,) = commands_of("erase.md", "How do I erase a person?")

    code, output = await foreask(f"{command} --yes")

    assert (code, "a.md" in output, "b.md" in output) == (0, True, False), output
    assert "2 logged queries" in output
    (erasure,) = await services.ledger[Erasures].page("acme")
    await finished(services, erasure)
    code, output = await foreask(f"{command} --yes")
    assert (code, "0 documents and 0 records" in output) == (0, True), output
    assert len(await services.ledger[Erasures].page("acme")) == 1
