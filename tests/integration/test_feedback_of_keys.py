"""Feedback of keys without `manage`: each key affects only its own accepted questions, and reads no other user's."""

import pytest

from features.feedback.schemas import AcceptedPage
from shared.http.schemas.queries import RetrieveReply
from shared.ledger.builds.builds import Builds
from shared.settings import Tuning
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards

EDITOR = as_tenant("alice")
PUBLIC = {"audience": "public"}
LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "external_id": "leave", "metadata": PUBLIC}
PAY = {"text": "# Pay\n\nSalaries are paid on the last working day.", "external_id": "pay", "metadata": PUBLIC}
PRIVATE_QUESTION = "Is Ms Schmidt to be dismissed in March, and what leave has she?"


@pytest.fixture
def keyed(settings):
    return with_keys(settings).model_copy(update={"tuning": Tuning(accepted_per_chunk=2)})


@pytest.fixture
async def client(services, keyed, provider):
    async with calling(keyed, services) as client:
        yield client


async def indexed(services):
    """Index two documents, and return the ids of their chunks by external id."""
    async with calling(with_keys(services.settings), services) as client:
        for body in (LEAVE, PAY):
            assert (await client.post("/v1/documents", json=body, headers=EDITOR)).status_code == 202
        await work(services)
        _, found = await ask(client, EDITOR, "Which leave is there?")
    return {name: chunk.chunk_id for name, chunk in found.items()}


@pytest.fixture
async def chunks(once):
    return await once(indexed)


async def key(client, name, *scopes, **more):
    """Create a key, and return its headers."""
    body = {"name": name, "scopes": scopes or ["ask", "feedback"], **more}
    reply = await client.post("/v1/keys", json=body, headers=EDITOR)
    assert reply.status_code == 201, reply.text
    return {"authorization": f"Bearer {reply.json()['key']}"}


async def ask(client, headers, question):
    """Return a query's id and its chunks by external id."""
    reply = await client.post("/v1/retrieve", json={"question": question, "top_k": 50}, headers=headers)
    found = RetrieveReply.model_validate_json(reply.content)
    return str(found.metadata.query_id), {chunk.external_id: chunk for chunk in found.chunks}


async def give(client, headers, query_id, chunk_id, *, helpful=True):
    body = {"query_id": query_id, "chunk_id": chunk_id, "helpful": helpful}
    return await client.post("/v1/feedback", json=body, headers=headers)


async def outcome(client, headers, question, chunk_id, *, helpful=True):
    """Ask a question, give feedback on a chunk that it returned, and return the outcome."""
    query_id, _ = await ask(client, headers, question)
    reply = await give(client, headers, query_id, chunk_id, helpful=helpful)
    assert reply.status_code == 200, reply.text
    return reply.json()["outcome"]


async def edit(client, question, chunk_id):
    """Accept a question as an editor."""
    body = {"question": question, "chunk_id": chunk_id}
    reply = await client.post("/v1/collections/default/accepted-questions", json=body, headers=EDITOR)
    assert reply.status_code == 200, reply.text
    return reply.json()["outcome"]


async def accepted(client):
    """Return the accepted questions, newest first, each with whether a key accepted it."""
    reply = await client.get("/v1/collections/default/accepted-questions", headers=EDITOR)
    items = AcceptedPage.model_validate_json(reply.content).items
    return [(item.question, item.accepted_by is not None) for item in items]


async def test_feedback_needs_its_own_scope(client, chunks):
    asker = await key(client, "asker", "ask")
    query_id, _ = await ask(client, asker, "What is paid?")

    refused = await give(client, asker, query_id, chunks["pay"])

    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "This request needs a key with the scope 'feedback', which this key lacks.",
    )
    website = await key(client, "website", "ask", "feedback", filter=PUBLIC)
    assert await outcome(client, website, "What is paid?", chunks["pay"]) == "accepted"


@guards(
    "features/feedback/ledger/feedback.sql",
    "(CAST(:key AS uuid) IS NULL OR accepted_by = :key)",
    "true",
    means="a key may retract the questions of other keys",
)
async def test_key_retracts_only_its_own_questions(client, chunks):
    website, staff = await key(client, "website"), await key(client, "staff")
    await edit(client, "What did an editor add?", chunks["leave"])
    await outcome(client, staff, "What did the staff ask?", chunks["leave"])

    for question in ("What did an editor add?", "What did the staff ask?"):
        assert await outcome(client, website, question, chunks["leave"]) == "already_accepted"
        assert await outcome(client, website, question, chunks["leave"], helpful=False) == "not_accepted"

    assert await accepted(client) == [("What did the staff ask?", True), ("What did an editor add?", False)]
    assert await outcome(client, staff, "What did the staff ask?", chunks["leave"], helpful=False) == "retracted"
    assert await outcome(client, EDITOR, "What did an editor add?", chunks["leave"], helpful=False) == "retracted"
    assert await accepted(client) == []


async def test_key_that_writes_documents_retracts_only_own_questions(client, chunks):
    writer = await key(client, "writer", "ask", "feedback", "read", "write")
    await edit(client, "What did an editor add?", chunks["leave"])

    assert await outcome(client, writer, "What did an editor add?", chunks["leave"], helpful=False) == "not_accepted"


async def test_question_accepted_again_belongs_to_its_new_key(client, chunks):
    website, staff = await key(client, "website"), await key(client, "staff")
    for helpful in (True, False):
        await outcome(client, staff, "What was asked twice?", chunks["leave"], helpful=helpful)

    assert await outcome(client, website, "What was asked twice?", chunks["leave"]) == "accepted"
    assert await outcome(client, staff, "What was asked twice?", chunks["leave"], helpful=False) == "not_accepted"
    assert await outcome(client, website, "What was asked twice?", chunks["leave"], helpful=False) == "retracted"


async def test_key_displaces_only_its_own_questions(client, chunks):
    website, staff = await key(client, "website"), await key(client, "staff")
    await edit(client, "What did an editor add?", chunks["leave"])
    await outcome(client, staff, "What did the staff ask?", chunks["leave"])

    assert await outcome(client, website, "junk 1 qwert?", chunks["leave"]) == "chunk_full"
    assert await outcome(client, staff, "What else did the staff ask?", chunks["leave"]) == "accepted"
    assert await accepted(client) == [("What else did the staff ask?", True), ("What did an editor add?", False)]


async def test_editor_displaces_questions_of_keys_first(client, chunks):
    staff = await key(client, "staff")
    await edit(client, "What did an editor add?", chunks["leave"])
    await outcome(client, staff, "What did the staff ask?", chunks["leave"])

    await edit(client, "What did the editor add next?", chunks["leave"])
    assert await accepted(client) == [("What did the editor add next?", False), ("What did an editor add?", False)]
    await edit(client, "What did the editor add last?", chunks["leave"])
    assert await accepted(client) == [
        ("What did the editor add last?", False),
        ("What did the editor add next?", False),
    ]


async def test_editor_takes_over_question_of_key(client, chunks):
    staff = await key(client, "staff")
    await outcome(client, staff, "What did the staff ask?", chunks["leave"])

    assert await edit(client, "What did the staff ask?", chunks["leave"]) == "already_accepted"
    assert await outcome(client, staff, "What did the staff ask?", chunks["leave"], helpful=False) == "not_accepted"
    assert await accepted(client) == [("What did the staff ask?", False)]


@guards(
    "shared/ledger/documents/accepted_questions.py",
    '"accepted_by": question.accepted_by',
    '"accepted_by": None',
    means="accepted questions belong to editors after a rebuild",
)
async def test_owner_of_question_survives_a_rebuild(client, chunks, services):
    staff, website = await key(client, "staff"), await key(client, "website")
    await outcome(client, staff, "What did the staff ask?", chunks["leave"])
    await work(services, "index")
    built = await client.post("/v1/collections/default/builds", json={}, headers=EDITOR)
    assert built.status_code in {200, 201, 202}, built.text
    while await services.ledger[Builds].fill():
        pass
    await work(services)
    assert await are_keys_questions(services) == [True, True]  # in the live build and in the new one
    assert await outcome(client, website, "What did the staff ask?", chunks["leave"], helpful=False) == "not_accepted"

    await edit(client, "What did the staff ask?", chunks["leave"])
    assert await are_keys_questions(services) == [False, False]


async def are_keys_questions(services):
    """Return for each accepted question of each build whether a key accepted it."""
    async with services.database.begin() as connection:
        rows = await connection.execute_sql("SELECT accepted_by IS NOT NULL FROM accepted_questions")
        return list(rows.scalars())


async def everything(client, headers, question, chunk_id):
    """Return the replies of each route that names matched questions."""
    body = {"question": question, "explain": "candidates", "expected": [chunk_id]}
    chat = {"model": "default", "messages": [{"role": "user", "content": question}]}
    call = {"name": "search", "arguments": {"query": question}}
    compared = {"questions": [question], "collection": "default", "chunk_ids": [chunk_id]}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    json_only = headers | {"accept": "application/json, text/event-stream"}
    replies = {
        "retrieve": await client.post("/v1/retrieve", json=body, headers=headers),
        "query": await client.post("/v1/query", json=body, headers=headers),
        "stream": await client.post("/v1/query", json=body | {"stream": True}, headers=headers),
        "chat": await client.post("/v1/chat/completions", json=chat, headers=headers),
        "similarity": await client.post("/v1/similarity", json=compared, headers=headers),
        "mcp": await client.post("/mcp", json=rpc, headers=json_only),
    }
    for name, reply in replies.items():
        assert reply.status_code == 200, (name, reply.text)
    assert replies["mcp"].json()["result"]["isError"] is False
    return replies


@guards(
    "shared/http/queries/searching.py",
    "if not caller.reads_users_questions:",
    "if False:",
    means="replies to a public key contain the questions of other users",
)
async def test_users_questions_are_shown_only_with_read_scope(client, chunks, services):
    staff, website = await key(client, "staff"), await key(client, "website")
    reader = await key(client, "reader", "ask", "read")
    await outcome(client, staff, PRIVATE_QUESTION, chunks["leave"])
    await work(services, "index")
    asked = "Is Mr Schmidt to be dismissed in March, and what leave has he?"

    for name, reply in (await everything(client, website, asked, chunks["leave"])).items():
        assert "Ms Schmidt" not in reply.text, name
    shown = await everything(client, reader, asked, chunks["leave"])
    for name in ("retrieve", "query", "stream", "similarity"):
        assert "Ms Schmidt" in shown[name].text, name

    hidden = await everything(client, website, asked, chunks["leave"])
    first = hidden["retrieve"].json()["chunks"][0]
    assert (first["external_id"], first["matched_question"], first["matched_question_source"]) == (
        "leave",
        None,
        "user",
    )
    (expected,) = hidden["retrieve"].json()["metadata"]["explain"]["expected"]
    assert (expected["rank"], expected["question"]) == (1, None)
    stored = hidden["similarity"].json()["chunks"][0]["questions"]
    assert [each["text"] for each in stored if each["source"] == "user"] == [None]
    assert all(each["text"] for each in stored if each["source"] != "user")


async def test_query_of_another_key_is_not_found(client, chunks):
    website, staff = await key(client, "website"), await key(client, "staff")
    query_id, _ = await ask(client, staff, "What did the staff ask?")

    for helpful in (True, False):
        reply = await give(client, website, query_id, chunks["leave"], helpful=helpful)
        assert (reply.status_code, reply.json()["field"]) == (404, "query_id")
    assert (await give(client, EDITOR, query_id, chunks["leave"])).json()["outcome"] == "accepted"


async def test_feedback_on_chunk_hidden_by_filter_is_rejected(client, chunks, services):
    website = await key(client, "website", filter=PUBLIC)
    query_id, found = await ask(client, website, "Which leave is there?")
    assert "leave" in found
    document = found["leave"].document_id
    await client.patch(f"/v1/documents/{document}", json={"metadata": {"audience": "board"}}, headers=EDITOR)
    await work(services)

    for helpful in (True, False):
        reply = await give(client, website, query_id, chunks["leave"], helpful=helpful)
        assert (reply.status_code, reply.json()["field"]) == (404, "chunk_id"), reply.text
    assert (await give(client, website, query_id, chunks["pay"])).json()["outcome"] == "accepted"


async def test_reviewed_feedback_waits_for_an_editor(services, keyed, client, chunks):
    website = await key(client, "website")
    async with calling(keyed.model_copy(update={"feedback_review": True}), services) as reviewing:
        assert await outcome(reviewing, EDITOR, "What may editors do?", chunks["leave"]) == "accepted"
        assert await outcome(reviewing, EDITOR, "What may editors do?", chunks["leave"], helpful=False) == "retracted"
        assert await outcome(reviewing, website, "What may staff do?", chunks["pay"]) == "pending_review"
        assert await accepted(reviewing) == []
        asked = (await reviewing.get("/v1/collections/default/queries", headers=EDITOR)).json()["items"]
        held = [each for each in asked if each["helpful"]]
        assert [(each["question"], each["helpful_chunk_id"]) for each in held] == [
            ("What may staff do?", chunks["pay"])
        ]

        assert await edit(reviewing, held[0]["question"], held[0]["helpful_chunk_id"]) == "accepted"
        assert await outcome(reviewing, website, "What may staff do?", chunks["pay"]) == "already_accepted"
        assert await outcome(reviewing, website, "What may staff do?", chunks["pay"], helpful=False) == "not_accepted"
        assert await accepted(reviewing) == [("What may staff do?", False)]


async def test_question_of_deleted_chunk_is_not_held(services, keyed, client, chunks):
    website = await key(client, "website")
    async with calling(keyed.model_copy(update={"feedback_review": True}), services) as reviewing:
        query_id, found = await ask(reviewing, website, "What is paid?")
        await client.delete(f"/v1/documents/{found['pay'].document_id}", headers=EDITOR)

        reply = await give(reviewing, website, query_id, chunks["pay"])

        assert (reply.status_code, reply.json()["field"]) == (404, "chunk_id")
