"""A disabled question is not matched any more, in any version or build, and returns without a call to a model."""

import asyncio
from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest

from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.ids import chunk_point_id
from shared.domain.errors import Unavailable
from shared.http.schemas.queries import RetrieveReply
from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.documents.disabled_questions import DisabledQuestions
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.indexing import IndexWork
from shared.vectors.index import Index
from shared.vectors.schema.points import with_questions
from tests.conftest import Library
from tests.support.api import as_tenant, calling, ready, with_keys, work
from tests.support.planted import guards
from tests.support.qdrant import qdrant_client

LEAVE = "# Leave\n\nEverybody has thirty days of leave a year."
PAY = "# Pay\n\nSalaries are paid on the last working day."
TWO = f"{LEAVE} {'Days are counted by the hour. ' * 40}\n\n{PAY} {'Bonuses follow in spring. ' * 40}"  # two chunks


@pytest.fixture(autouse=True)
def distinct_questions(provider):
    """Make the questions of a chunk consist of its words only."""
    provider.script(questions=0)


async def indexed(services, text=LEAVE):
    (document,) = await ready(services, (text, "a.md"))
    return document


@pytest.fixture
async def document(once):
    """Return a document of one chunk with generated questions."""
    return await once(indexed)


async def chunks_of(client, document, **more):
    return (await client.get(f"/v1/documents/{document.id}/chunks", **more)).json()["items"]


async def first_question(client, document):
    """Return the id of the first chunk, and its first passed question."""
    chunk = (await chunks_of(client, document))[0]
    return chunk["id"], next(question["text"] for question in chunk["questions"] if question["passed"])


async def change(client, chunk, question, *, disabled=True, status=204, **more):
    """Change a question, and return its chunk, or the problem."""
    body = {"question": question, "disabled": disabled}
    reply = await client.patch(f"/v1/chunks/{chunk}/questions", json=body, **more)
    assert reply.status_code == status, reply.text
    if status != 204:
        return reply.json()
    return (await client.get(f"/v1/chunks/{chunk}", **more)).json()["chunk"]


async def matched(client, question, **more):
    """Return the questions of chunks that a question matches."""
    reply = await client.post("/v1/retrieve", json={"question": question}, **more)
    found = RetrieveReply.model_validate_json(reply.content)
    assert found.chunks  # their texts are found anyway
    return {chunk.matched_question for chunk in found.chunks}


async def disabled_in(client, document):
    return [q["text"] for chunk in await chunks_of(client, document) for q in chunk["questions"] if q["disabled"]]


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        return [tuple(row) for row in await connection.execute(Statement(statement), parameters)]


async def recorded(services):
    return [question for (question,) in await run(services, "SELECT question FROM disabled_questions ORDER BY 1")]


async def verified(services, *, repair=False):
    collection = await services.ledger[Collections].get("default", "default")
    comparison = Verification(services.ledger[Audit], services.index, collection, repair=repair)
    return [item.reason async for item in comparison.run() if isinstance(item, DifferingPoint)]


@guards(
    "shared/vectors/writes.py",
    'yield _setting({"group": group(location, "d")}, filters.enabled_questions(location, disabled))',
    "pass",
    means="a disabled question is still matched",
)
async def test_disabled_question_is_unmatched_at_once_for_free(client, services, provider, document):
    chunk, question = await first_question(client, document)
    assert question in await matched(client, question)
    provider.reset()

    shown = await change(client, chunk, f"  {question.upper()} ")

    embedded = provider.stats()["embedded_inputs"]
    assert (provider.stats()["calls"], embedded) == (0, 0)
    assert question not in await matched(client, question)
    assert shown["disabled_questions"] == 1
    (record,) = [each for each in shown["questions"] if each["disabled"]]
    assert (record["text"], record["passed"], record["disabled_by"]) == (question, True, None)
    assert record["disabled_at"] is not None
    assert await disabled_in(client, document) == [question]
    assert (await client.get(f"/v1/documents/{document.id}")).json()["state"] == "ready"


@guards(
    "shared/vectors/writes.py",
    'yield _setting({"group": group(location, "q")}, others)',
    "pass",
    means="an enabled question is not matched",
)
async def test_enabled_question_is_matched_again_for_free(client, services, provider, document):
    chunk, question = await first_question(client, document)
    await change(client, chunk, question)
    provider.reset()

    shown = await change(client, chunk, question, disabled=False)

    assert (provider.stats()["calls"], provider.stats()["embedded_inputs"]) == (0, 0)
    assert shown["disabled_questions"] == 0
    assert question in await matched(client, question)
    assert (await recorded(services), await verified(services)) == ([], [])
    await change(client, chunk, question, disabled=False)  # repeating it changes nothing


@pytest.mark.parametrize(
    ("text", "question", "typed"),
    [
        ("Die Straße zur Grube öffnet um sechs.", "Wann öffnet die Straße?", "WANN ÖFFNET DIE STRASSE"),
        ("港口早上六点开放,晚上九点关闭。", "港口几点开放?", "港口几点开放"),
    ],
    ids=["German", "Chinese"],
)
async def test_questions_of_other_languages_are_disabled(client, services, text, question, typed):
    document = await Library(services).add(text, "a.md", questions=[question])
    await work(services)
    (chunk,) = await chunks_of(client, document)
    assert await matched(client, question) == {question}

    await change(client, chunk["id"], typed)

    assert await matched(client, question) == {None}
    assert await disabled_in(client, document) == [question]


@guards(
    "shared/vectors/schema/points.py",
    'payload["group"] = group(context.location, "d")',
    "pass",
    means="an edit enables disabled questions",
)
@pytest.mark.parametrize("how", ["edit elsewhere", "upload with other metadata", "reindex"])
async def test_disabled_question_survives_another_version(client, services, library, provider, how):
    document = await library.add(TWO, "a.md")
    await work(services)
    chunk, question = await first_question(client, document)
    await change(client, chunk, question)
    provider.reset()

    if how == "edit elsewhere":
        await library.add(TWO.replace("last working day", "first day"), "a.md")
    elif how == "reindex":
        await services.ledger[Documents].reindex(await library.collection())
    else:
        new = await library.new(TWO, "a.md", metadata={"department": "hr"})
        await services.ledger[Documents].submit(replace(new, content_hash=bytes(32)))
    await work(services)

    assert how == "edit elsewhere" or provider.stats()["calls"] == 0  # the paid completion is used again
    assert (await client.get(f"/v1/documents/{document.id}")).json()["version"] == 2
    assert await disabled_in(client, document) == [question]
    assert question not in await matched(client, question)
    assert await verified(services) == []


@pytest.mark.parametrize("options", [{}, {"chunk_max_chars": 200}], ids=["same chunks", "other chunks"])
@guards(
    "shared/domain/corpus/disabled_questions.py",
    "or self.upload != chunk.upload:",
    "or self.upload:",
    means="a question returns in a build that divides the document differently",
    case="other chunks",
)
async def test_disabled_question_stays_so_in_new_build(client, services, library, options):
    text = "# Leave\n\n" + "Everybody has thirty days of leave a year. " * 8
    document = await library.add(text, "a.md", questions=["How much leave do I get?", "Who has leave?"])
    await work(services)
    ((chunk, question),) = [(each["id"], each["questions"][0]["text"]) for each in await chunks_of(client, document)]
    await change(client, chunk, question)

    model = services.settings.embedding_model
    builds = services.ledger[Builds]
    build = await builds.start("default", "default", options=CollectionOptions(**options), embedding_model=model)
    while await builds.fill():
        pass
    await work(services)
    await builds.switch("default", "default", build.number)

    chunks = await chunks_of(client, document)
    shown = [(each["id"], every) for each in chunks for every in each["questions"]]
    assert {every["disabled"] for _, every in shown if every["text"] == question} == {True}
    assert (len(chunks) > 1, question in await matched(client, question)) == (bool(options), False)
    other = next(identity for identity, every in shown if every["text"] == "Who has leave?")
    await change(client, other, "Who has leave?")  # in the former build, too
    await builds.switch("default", "default", 1)
    assert await matched(client, question) == {None}


@guards(
    "shared/ledger/documents/disabled_questions.py",
    "[each.of.text_hash for each in known]",
    "[each.of.text_hash for each in known[:1]]",
    means="a question stays disabled that was disabled twice in parts of its chunk",
)
async def test_enabling_ends_every_record_of_chunk(client, services, library):
    text = "# Leave\n\n" + "Everybody has thirty days of leave a year. " * 8
    document = await library.add(text, "a.md", questions=["How much leave do I get?"])
    await work(services)
    chunk, question = await first_question(client, document)
    await change(client, chunk, question)
    copy = """INSERT INTO disabled_questions
        SELECT document_id, sha256(text_hash), question, tenant, collection, upload, span_start, span_end / 2
        FROM disabled_questions RETURNING 1"""
    await run(services, copy)

    assert (await change(client, chunk, question, disabled=False))["disabled_questions"] == 0
    assert await recorded(services) == []


async def test_change_lost_by_qdrant_is_repeated(client, services, document, monkeypatch):
    async def unavailable(*_):
        raise Unavailable("unavailable", component="qdrant")

    chunk, question = await first_question(client, document)
    with monkeypatch.context() as patched:
        patched.setattr(Index, "describe", unavailable)
        await change(client, chunk, question)
        assert question in await matched(client, question)

    assert await verified(services) == []  # the update is due
    await run(services, "UPDATE documents SET description_due_at = now() RETURNING 1")
    await services.cleaner.clean()
    assert question not in await matched(client, question)


async def test_change_survives_kill_before_qdrant(client, services, document):
    chunk, question = await first_question(client, document)

    changed = services.ledger[DisabledQuestions].change
    await changed("default", UUID(chunk), question, disabled=True, by=None)
    assert question in await matched(client, question)
    await services.cleaner.clean()

    assert question not in await matched(client, question)


@guards(
    "shared/vectors/writes.py",
    'yield _setting({"token": description.token}, earlier)',
    "pass",
    means="a late writer enables a disabled question",
)
async def test_late_writer_does_not_enable_question(client, services, document):
    chunk, question = await first_question(client, document)
    await index_again(services, chunk)
    late = await services.ledger[IndexWork].claim(10)
    await change(client, chunk, question)

    outcome = await index_batch(services.indexer, late)

    assert question not in await matched(client, question)
    await IndexStage([services.indexer]).settle([outcome])
    await work(services, "index")
    await services.cleaner.clean()
    assert question not in await matched(client, question)
    assert await verified(services) == []


@guards(
    "shared/ledger/work/indexing.py",
    "if outdated := _with_other_disabled(settled, indexed):",
    "if outdated := []:",
    means="a claim that overtakes the change enables the question",
)
async def test_claim_during_change_does_not_enable_question(client, services, document):
    chunk, question = await first_question(client, document)
    await index_again(services, chunk)
    claimed = await services.ledger[IndexWork].claim(10)
    await change(client, chunk, question)
    again = await services.ledger[IndexWork].claim(10)
    unaware = [replace(each, disabled=claimed[0].disabled) for each in again]

    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, unaware)])
    await services.cleaner.clean()

    assert question not in await matched(client, question)
    assert await verified(services) == []


async def index_again(services, chunk):
    audit = services.ledger[Audit]
    async with audit.locked(await audit.page((await live(services)).id)) as held:
        assert await held.index_again([UUID(chunk)])


async def live(services):
    return await services.ledger[Collections].get("default", "default")


@guards(
    "features/verification/comparison.py",
    "if fault := _fault_of_group(point_id, chunk, stored):",
    "if fault := None:",
    means="verification does not notice that a disabled question is matched",
)
async def test_verification_repairs_group_of_questions(client, services, document):
    chunk, question = await first_question(client, document)
    await change(client, chunk, question)
    assert await verified(services, repair=True) == []
    await run(services, "DELETE FROM disabled_questions RETURNING 1")

    assert await verified(services) == ["disabled, though its question is not"]
    assert await verified(services, repair=True) == ["disabled, though its question is not"]
    await work(services, "index")

    assert question in await matched(client, question)
    assert await verified(services) == []


@guards(
    "shared/maintenance/descriptions.py",
    "while await descriptions.are_due(documents) and",
    "while (claimed := await descriptions.claim(len(documents), documents)) and",
    means="a change is acknowledged while another process still writes the one before it",
)
async def test_concurrent_changes_are_in_qdrant_when_acknowledged(client, services, document):
    chunk = (await chunks_of(client, document))[0]
    questions = [question["text"] for question in chunk["questions"] if question["passed"]]

    async def disable(question):
        await change(client, chunk["id"], question)
        return question in await matched(client, question)

    assert not any(await asyncio.gather(*map(disable, questions)))
    assert await disabled_in(client, document) == questions
    assert await services.ledger[Descriptions].claim(10) == []


@guards(
    "shared/ledger/documents/disabled_questions.py",
    "if same:",
    "if not same:",
    means="the text of a chunk is found by a disabled question",
)
async def test_text_with_prepended_questions_is_embedded_again(client, services, provider):
    await client.put("/v1/collections/default", json={"prepend_questions": True})
    document = await indexed(services)
    chunk, question = await first_question(client, document)
    provider.reset()

    await change(client, chunk, question)
    assert question not in await matched(client, question)
    await work(services, "index")

    (shown,) = await chunks_of(client, document)
    others = [each["text"] for each in shown["questions"] if each["passed"] and not each["disabled"]]
    text = with_questions(shown["text"], others)
    (expected,) = await services.indexer.embedder.embed([services.indexer.embedder.prefixes.passage(text)])
    point = chunk_point_id(UUID(chunk), 1)
    (stored,) = await qdrant_client(services).retrieve(
        (await live(services)).location.index_name, [point], with_vectors=True
    )
    assert np.allclose(stored.vector["dense"], expected, atol=1e-6)
    assert provider.stats()["calls"] == 0
    assert await verified(services) == []


async def test_unknown_chunk_or_question_is_not_found(client, services, document):
    chunk, question = await first_question(client, document)

    assert "no such" in (await change(client, chunk, "Is this another question?", status=404))["detail"]
    await change(client, document.id, question, status=404)
    await change(client, chunk, " ", status=422)
    assert await recorded(services) == []


@guards(
    "api/routes/chunks.py",
    "body: QuestionChange, chunk_id: UUID, request: Request, tenant: Manager,",
    "body: QuestionChange, chunk_id: UUID, request: Request, tenant: Reader,",
    means="a key that may only read changes the searches of all users",
)
async def test_other_tenant_or_scope_changes_nothing(services, settings):
    (document,) = await ready(services, (LEAVE, "a.md"), tenant="alice")
    await ready(services, (LEAVE, "a.md"), tenant="bob")
    async with calling(with_keys(settings), services) as client:
        (chunk,) = await chunks_of(client, document, headers=as_tenant("alice"))
        question = next(each["text"] for each in chunk["questions"] if each["passed"])
        await change(client, chunk["id"], question, status=404, headers=as_tenant("bob"))
        await change(client, chunk["id"], question, status=401)
        body = {"name": "reader", "scopes": ["read", "write", "ask"]}
        key = (await client.post("/v1/keys", json=body, headers=as_tenant("alice"))).json()["key"]
        await change(client, chunk["id"], question, status=403, headers={"authorization": f"Bearer {key}"})
        assert await recorded(services) == []

        shown = await change(client, chunk["id"], question, headers=as_tenant("alice"))

        (record,) = [each for each in shown["questions"] if each["disabled"]]
        assert record["disabled_by"].startswith("settings:")
        assert question not in await matched(client, question, headers=as_tenant("alice"))
        assert question in await matched(client, question, headers=as_tenant("bob"))


@guards(
    "features/feedback/ledger/suggestions.py",
    "for question in searchable_questions(chunk)",
    "for question in [each for each in chunk['questions'] if each]",
    means="a disabled question is suggested",
)
async def test_disabled_question_is_not_suggested(client, services, document):
    chunk = (await chunks_of(client, document))[0]
    assert (await client.get("/v1/collections/default/suggestions")).json()["items"]

    for question in [each["text"] for each in chunk["questions"] if each["passed"]]:
        await change(client, chunk["id"], question)

    assert (await client.get("/v1/collections/default/suggestions")).json()["items"] == []


@guards(
    "shared/ledger/documents/versions.py",
    "await connection.execute(SQL.delete_disabled_without_text",
    "_ = (SQL.delete_disabled_without_text",
    means="a question about a text that was edited away stays stored",
)
async def test_records_end_with_their_text(client, services, library):
    document = await library.add(TWO, "a.md")
    await work(services)
    chunk, question = await first_question(client, document)
    await change(client, chunk, question)

    await library.add(PAY, "a.md")
    await work(services)
    await services.cleaner.clean()
    assert await recorded(services) == []


@guards(
    "shared/ledger/documents/build_sync.py",
    "await connection.execute(SQL.delete_disabled,",
    "_ = (SQL.delete_disabled,",
    means="questions of a deleted document stay stored",
)
async def test_deletion_deletes_records(client, services, library, document):
    chunk, question = await first_question(client, document)
    await change(client, chunk, question)

    assert (await client.delete(f"/v1/documents/{document.id}")).status_code == 204

    assert await recorded(services) == []
    again = await library.add(LEAVE, "a.md")
    await work(services)
    assert await disabled_in(client, again) == []
    assert question in await matched(client, question)
