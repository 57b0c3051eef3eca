"""A logged query is shown with its result; the list of questions has filters for results, feedback, keys and words."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from features.erasure.ledger.erasures import Erasures
from features.feedback.schemas import AskedQuestionPage, LoggedQueryView
from shared.ledger.feedback.query_log import QueryLog, QueryOutcome
from tests.integration.test_erasure import finished
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "external_id": "leave.md"}
PAY = {"text": "# Pay\n\nSalaries are paid on the last working day.", "external_id": "pay.md"}
ASKED = "How many days of leave has everybody?"
OURS = as_tenant("alice")


async def filled(services):
    """Index two documents, and return their ids by external id."""
    async with calling(with_keys(services.settings), services) as client:
        ids = {}
        for body in (LEAVE, PAY):
            reply = await client.post("/v1/documents", json=body, headers=OURS)
            assert reply.status_code == 202, reply.text
            ids[body["external_id"]] = UUID(reply.json()["id"])
        await work(services)
    return ids


@pytest.fixture
async def documents(once):
    return await once(filled)


@pytest.fixture
def keyed(settings):
    return with_keys(settings).model_copy(update={"llm_input_price": 1.0, "llm_output_price": 2.0})


@pytest.fixture
async def client(services, keyed, provider):
    async with calling(keyed, services) as client:
        yield client


@pytest.fixture
async def storing(services, keyed, provider):
    """Yield a client of an API that stores answers."""
    async with calling(keyed.model_copy(update={"query_answers": True}), services) as client:
        yield client


async def ask(client, question, route="query", headers=OURS, **options):
    reply = await client.post(f"/v1/{route}", json={"question": question, **options}, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def ask_in_vain(client, question):
    return await ask(client, question, min_score=1.0)


async def shown(client, query_id):
    reply = await client.get(f"/v1/queries/{query_id}", headers=OURS)
    assert reply.status_code == 200, reply.text
    return LoggedQueryView.model_validate_json(reply.content)


async def listed(client, **parameters):
    reply = await client.get("/v1/collections/default/queries", params=parameters, headers=OURS)
    assert reply.status_code == 200, reply.text
    return AskedQuestionPage.model_validate_json(reply.content)


async def made_key(client, name, *scopes):
    """Create a key, and return its id and its headers."""
    body = {"name": name, "scopes": scopes or ["ask", "feedback"]}
    made = (await client.post("/v1/keys", json=body, headers=OURS)).json()
    return made["id"], {"authorization": f"Bearer {made['key']}"}


@guards(
    "shared/ledger/feedback/query_log.sql",
    "CAST(v.scores AS real[]), v.best_score,",
    "CAST('{}' AS real[]), v.best_score,",
    means="the scores of a query's passages are not stored",
)
async def test_answered_query_is_shown_with_result(storing, documents):
    key_id, headers = await made_key(storing, "intranet")
    reply = await ask(storing, ASKED, headers=headers)

    query = await shown(storing, reply["metadata"]["query_id"])

    assert (query.question, query.collection, query.state) == (ASKED, "default", "certain")
    assert (query.answer, query.answers_stored, query.form) == (reply["answer"], True, "generative")
    assert (str(query.key_id), query.key_name) == (key_id, "intranet")
    passages = query.passages
    assert [str(each.chunk_id) for each in passages] == [chunk["chunk_id"] for chunk in reply["chunks"]]
    scores = [round(chunk["score"], 4) for chunk in reply["chunks"]]
    assert [each.score for each in passages] == pytest.approx(scores, abs=1e-3)
    assert [each.number for each in passages if each.cited] == [each["number"] for each in reply["citations"]]
    assert {each.source.document_id for each in passages} == set(documents.values())
    assert (passages[0].source.external_id, passages[0].source.heading_path) == ("leave.md", ["Leave"])
    assert query.milliseconds["total"] >= query.milliseconds["search"] > 0
    assert query.usage.model_dump() == reply["metadata"]["usage"]
    tokens = query.usage.prompt_tokens + 2 * query.usage.completion_tokens
    assert query.cost == pytest.approx(tokens / 1_000_000)
    assert tokens > 0
    assert (query.helpful, query.gap_id) == (None, None)


@guards(
    "shared/http/queries/query_log.py",
    "answer=answer.text if self._keeps_answers else None",
    "answer=answer.text",
    means="answers are stored without the operator's consent",
)
async def test_answer_is_stored_only_if_allowed(client, services, documents):
    reply = await ask(client, ASKED)

    query = await shown(client, reply["metadata"]["query_id"])

    assert (query.answer, query.answers_stored, query.state) == (None, False, "certain")
    async with services.database.begin() as connection:
        assert (await connection.execute_sql("SELECT answer FROM queries")).scalars() == [None]


async def test_passages_without_answer_are_shown(client, documents):
    reply = await ask(client, ASKED, route="retrieve")

    query = await shown(client, reply["metadata"]["query_id"])

    assert (query.state, query.form, query.answer, query.cost) == ("passages", None, None, 0.0)
    assert len(query.passages) == 2
    assert query.milliseconds["search"] > 0


@pytest.mark.parametrize("route", ["chat/completions", "responses"])
async def test_query_through_openai_route_is_shown_with_answer(storing, documents, route):
    messages = [{"role": "user", "content": ASKED}]
    body = {"model": "default", "messages" if route == "chat/completions" else "input": messages}
    reply = (await storing.post(f"/v1/{route}", json=body, headers=OURS)).json()

    query = await shown(storing, reply["foreask"]["query_id"])

    assert (query.question, query.state) == (ASKED, "certain")
    assert query.answer == "The documents say so [1]."
    assert query.milliseconds["total"] > 0


async def test_searches_of_other_apis_are_logged_with_key(client, documents):
    key_id, headers = await made_key(client, "other", "ask")
    dify = {"knowledge_id": "default", "query": "When is pay?", "retrieval_setting": {"top_k": 1}}
    store = {"query": [ASKED, "How much?"]}
    for path, body in (("/retrieval", dify), ("/v1/vector_stores/default/search", store)):
        assert (await client.post(path, json=body, headers=headers)).status_code == 200

    questions = (await listed(client, key_id=key_id)).items
    assert {each.question for each in questions} == {ASKED, "How much?", "When is pay?"}


@guards(
    "shared/ledger/feedback/query_log.sql",
    "WHERE q.id = :id AND q.tenant = :tenant AND q.created_at",
    "WHERE q.id = :id AND CAST(:tenant AS text) <> '' AND q.created_at",
    means="a tenant reads the questions of others",
)
async def test_other_tenant_or_scope_reads_no_query(client, documents):
    query_id = (await ask(client, ASKED))["metadata"]["query_id"]
    _, headers = await made_key(client, "website")

    other = await client.get(f"/v1/queries/{query_id}", headers=as_tenant("bob"))
    asker = await client.get(f"/v1/queries/{query_id}", headers=headers)
    unknown = await client.get(f"/v1/queries/{uuid4()}", headers=OURS)

    assert [other.status_code, asker.status_code, unknown.status_code] == [404, 403, 404]


@guards(
    "features/feedback/routes/asked.py",
    "if Scope.READ not in caller.scopes:",
    "if False:",
    means="a key without the scope `read` reads documents and answers",
)
async def test_key_without_read_scope_sees_no_texts(storing, documents):
    query_id = (await ask(storing, ASKED))["metadata"]["query_id"]
    _, headers = await made_key(storing, "reviewer", "manage")

    reply = await storing.get(f"/v1/queries/{query_id}", headers=headers)

    query = LoggedQueryView.model_validate_json(reply.content)
    assert query.answer is None
    assert [(each.source.external_id, each.source.text) for each in query.passages] == [
        ("leave.md", ""),
        ("pay.md", ""),
    ]
    texts = {each.source.text for each in (await shown(storing, query_id)).passages}
    assert texts == {LEAVE["text"], PAY["text"]}


async def test_expired_query_is_not_shown(client, services, documents):
    query_id = (await ask(client, ASKED))["metadata"]["query_id"]
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE queries SET created_at = now() - interval '31 days'")

    assert (await client.get(f"/v1/queries/{query_id}", headers=OURS)).status_code == 404


@guards(
    "shared/ledger/feedback/query_log.py",
    'shown = row["answer"] if all(passage.source for passage in cited) else None',
    'shown = row["answer"]',
    means="an answer quotes a deleted document",
)
async def test_deleted_document_hides_answer_that_cites_it(storing, documents):
    query_id = (await ask(storing, ASKED))["metadata"]["query_id"]
    await storing.delete(f"/v1/documents/{documents['pay.md']}", headers=OURS)
    assert (await shown(storing, query_id)).answer == "The documents say so [1]."

    await storing.delete(f"/v1/documents/{documents['leave.md']}", headers=OURS)

    query = await shown(storing, query_id)
    assert query.answer is None
    assert [each.source for each in query.passages] == [None, None]


@guards(
    "features/erasure/ledger/searches.sql",
    "    answer = NULL,\n",
    "",
    means="the text of an answer survives the erasure of its document",
)
async def test_erased_document_removes_answer_and_score(storing, services, documents):
    query_id = (await ask(storing, ASKED))["metadata"]["query_id"]
    before = await shown(storing, query_id)
    kept = next(each for each in before.passages if each.source.external_id == "leave.md")

    await finished(services, await services.ledger[Erasures].start_document(documents["pay.md"]))

    async with services.database.begin() as connection:
        assert (await connection.execute_sql("SELECT answer FROM queries")).scalars() == [None]
    (left,) = (await shown(storing, query_id)).passages
    assert (left.chunk_id, left.score, left.number) == (kept.chunk_id, kept.score, 1)


@guards(
    "shared/ledger/feedback/query_log.sql",
    "answer = CASE WHEN chunk_ids = CAST(:chunks AS uuid[]) THEN CAST(:answer AS text) END",
    "answer = CAST(:answer AS text)",
    means="an answer that was written during an erasure is stored",
)
async def test_answer_written_during_erasure_is_not_stored(storing, services, documents):
    reply = await ask(storing, ASKED)
    query_id, chunks = reply["metadata"]["query_id"], [chunk["chunk_id"] for chunk in reply["chunks"]]
    await finished(services, await services.ledger[Erasures].start_document(documents["pay.md"]))

    await services.ledger[QueryLog].record(
        UUID(query_id), QueryOutcome(), found=True, certain=True, answer="Paid on Friday.", chunk_ids=chunks
    )

    assert (await shown(storing, query_id)).answer is None


async def test_questions_are_filtered_by_result_and_feedback(client, documents):
    certain = await ask(client, ASKED)
    await ask_in_vain(client, "zebra quark xylophone")
    await ask(client, "When are salaries paid?", route="retrieve")
    names = {"certain": ASKED, "none": "zebra quark xylophone", "passages": "When are salaries paid?"}

    for state, question in names.items():
        page = await listed(client, state=state)
        assert [(each.question, each.state) for each in page.items] == [(question, state)]
        assert page.total == 1
    assert (await listed(client)).total == 3
    assert (await listed(client, feedback="any")).items == []
    rated = {"query_id": certain["metadata"]["query_id"], "chunk_id": certain["chunks"][0]["chunk_id"]}
    for helpful in (True, False):
        await client.post("/v1/feedback", json=rated | {"helpful": helpful}, headers=OURS)
        found = [len((await listed(client, feedback=each)).items) for each in ("any", "helpful", "unhelpful")]
        assert found == [1, int(helpful), int(not helpful)]
    assert (await shown(client, certain["metadata"]["query_id"])).helpful is False


async def test_uncertain_answer_has_its_own_state(client, services, documents):
    query_id = UUID((await ask(client, ASKED))["metadata"]["query_id"])
    await services.ledger[QueryLog].record(query_id, QueryOutcome(), found=True, certain=False)

    assert [each.state for each in (await listed(client, state="uncertain")).items] == ["uncertain"]
    assert (await shown(client, query_id)).state == "uncertain"


async def test_questions_are_filtered_by_key_and_words(client, documents):
    key_id, headers = await made_key(client, "intranet")
    await ask(client, ASKED, headers=headers)
    await ask(client, "When are SALARIES paid, 100 % of them?")

    of_key = await listed(client, key_id=key_id)
    assert [(each.question, each.key_name) for each in of_key.items] == [(ASKED, "intranet")]
    assert [each.key_name for each in (await listed(client, q="salaries")).items] == [None]
    for words, total in (("LEAVE", 1), ("100 %", 1), ("100_%", 0), ("%", 1), ("a", 2)):
        assert (await listed(client, q=words)).total == total, words
    assert (await listed(client, key_id=str(uuid4()))).total == 0
    refused = await client.get("/v1/collections/default/queries", params={"q": "a\0b"}, headers=OURS)
    assert (refused.status_code, refused.json()["field"]) == (422, "q")
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert (await listed(client, since=later)).total == 0


async def test_filtered_questions_are_paged_by_cursor(client, documents):
    for number in range(5):
        await ask_in_vain(client, f"zebra quark {number}")
    await ask(client, ASKED)

    first = await listed(client, state="none", limit=3)
    rest = await listed(client, state="none", limit=3, cursor=first.next_cursor)

    assert [each.question[-1] for each in (*first.items, *rest.items)] == ["4", "3", "2", "1", "0"]
    assert (first.total, rest.total, rest.next_cursor) == (5, 5, None)


async def test_query_names_gap_of_same_question(client, documents):
    await ask_in_vain(client, "zebra quark xylophone?")
    gaps = (await client.get("/v1/collections/default/gaps", headers=OURS)).json()["items"]
    again = await ask_in_vain(client, "Zebra quark xylophone")

    assert str((await shown(client, again["metadata"]["query_id"])).gap_id) == gaps[0]["id"]
    assert gaps[0]["questions"][0]["query_id"] != again["metadata"]["query_id"]
    (wording,) = (await client.get(f"/v1/collections/default/gaps/{gaps[0]['id']}", headers=OURS)).json()["questions"]
    assert (wording["query_id"], wording["times"]) == (again["metadata"]["query_id"], 2)
    unknown = await client.get(f"/v1/collections/default/gaps/{uuid4()}", headers=OURS)
    assert unknown.status_code == 404
