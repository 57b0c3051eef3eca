"""Answers are shared within a tenant, with the server's own text, while their passages are unchanged."""

from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from features.erasure.ledger.erasures import Erasures
from features.shared_answers.feature import forget
from features.shared_answers.ledger import SharedAnswers
from shared.ledger.feedback.query_log import QueryLog, QueryOutcome
from shared.ledger.postgres.statements import Statement
from tests.conftest import Library
from tests.integration.test_erasure import finished
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "external_id": "leave.md"}
QUESTION = {"question": "How many days of leave does everybody have?"}


async def add(services, document, **options):
    """Index a document of alice, with a single question."""
    questions = [QUESTION["question"]]
    await Library(services, "alice").add(document["text"], document["external_id"], questions=questions, **options)
    await work(services, "parse", "index")


async def add_leave(services):
    await add(services, LEAVE)


@pytest.fixture
async def leave(once):
    await once(add_leave)


@asynccontextmanager
async def sharing(settings, services=None):
    """Yield a client of an API with keys that shares answers; it builds its services if there are none."""
    changed = with_keys(settings).model_copy(update={"shared_answer_retention_days": 7})
    async with calling(changed, services) as client:
        yield client


async def answered(client, headers, **more):
    reply = (await client.post("/v1/query", json=QUESTION | more, headers=headers)).raise_for_status().json()
    return {"query_id": reply["metadata"]["query_id"], "answer": reply["answer"]}


async def shared(client, headers=None, **more):
    headers = headers or as_tenant("alice")
    body = await answered(client, headers) | more
    reply = await client.post("/v1/shared-answers", json=body, headers=headers)
    assert reply.status_code == 201, reply.text
    return reply.json()


async def key_of(client, tenant, name, **body):
    made = await client.post("/v1/keys", json={"name": name, **body}, headers=as_tenant(tenant))
    return {"authorization": f"Bearer {made.raise_for_status().json()['key']}"}


async def opened(client, answer, headers=None):
    return await client.get(f"/v1/shared-answers/{answer['id']}", headers=headers or as_tenant("alice"))


async def rows(services):
    async with services.database.begin() as connection:
        return (await connection.execute(Statement("SELECT count(*) FROM shared_answers"))).scalar_one()


async def make_due(services, age):
    async with services.database.begin() as connection:
        await connection.execute(
            Statement("UPDATE shared_answers SET checked_at = now() - CAST(:age AS interval)"), {"age": age}
        )


@guards(
    "features/shared_answers/routes.py",
    "support = found_by(answer.answer, passages)",
    "support = found_by('', passages)",
    means="a shared answer does not name the sentences that support it",
)
async def test_shared_answer_has_supporting_sentences(services, settings, provider):
    rules = "# Rules\n\nLeave ends in December. The documents say so in chapter two. Ask the office."
    await add(services, {"text": rules, "external_id": "rules.md"})
    async with sharing(settings, services) as client:
        alice = as_tenant("alice")
        body = await answered(client, alice, question="When does leave end, and do the documents say so?")
        answer = (await client.post("/v1/shared-answers", json=body, headers=alice)).raise_for_status().json()
        [source] = (await opened(client, answer)).json()["sources"]

    supporting = [source["text"][start:end] for start, end in source["sentences"]]
    assert supporting == ["The documents say so in chapter two."]


@guards(
    "features/shared_answers/routes.py",
    'quoted_sentences if answer.form == "extractive" else supporting',
    "supporting",
    means="a shared quotation of a row highlights the header of its table",
)
async def test_shared_quotation_has_sentences_of_its_answer(services, settings, provider):
    fees = "# Fees\n\n| Ship | Fee |\n|---|---|\n| Ketch | 4 euros |\n| Brig | 9 euros |\n"
    await add(services, {"text": fees, "external_id": "fees.md"})
    async with sharing(settings.model_copy(update={"answering": "extractive"})) as client:
        alice = as_tenant("alice")
        question = {"question": "Ship Brig: which fee?"}
        reply = (await client.post("/v1/query", json=question, headers=alice)).raise_for_status().json()
        body = {"query_id": reply["metadata"]["query_id"], "answer": reply["answer"]}
        answer = (await client.post("/v1/shared-answers", json=body, headers=alice)).raise_for_status().json()

    [citation], [source] = reply["citations"], answer["sources"]
    assert "Ship: Brig; Fee: 9 euros" in answer["answer"]
    assert source["sentences"] == citation["sentences"]


async def test_colleague_opens_answer_with_its_passages(services, settings, leave):
    async with sharing(settings, services) as client:
        answer = await shared(client)
        colleague = await key_of(client, "alice", "colleague", scopes=["ask"])

        reply = await opened(client, answer, colleague)

        assert reply.status_code == 200
        assert reply.json() == answer
        assert answer["question"] == QUESTION["question"]
        assert answer["answer"] == "The documents say so [1]."
        (source,) = answer["sources"]
        assert (source["number"], source["external_id"]) == (1, "leave.md")
        assert "thirty days of leave" in source["text"]
        assert answer["shared_by"] is None  # a key of the settings is named by a part of its hash


@guards(
    "features/shared_answers/ledger.sql",
    "WHERE id = :id AND tenant = :tenant AND expires_at",
    "WHERE id = :id AND :tenant <> '' AND expires_at",
    "(CAST(:chunks AS uuid[])) AND d.tenant = :tenant AND l.name",
    "(CAST(:chunks AS uuid[])) AND :tenant <> '' AND l.name",
    means="a shared answer is opened by another tenant",
)
async def test_answer_is_not_found_without_access(services, settings, leave):
    async with sharing(settings, services) as client:
        answer = await shared(client)
        filtered = await key_of(client, "alice", "website", scopes=["ask"], filter={"public": True})
        reader = await key_of(client, "alice", "reader", scopes=["read"])

        missing = await client.get(f"/v1/shared-answers/{uuid4()}", headers=as_tenant("alice"))
        others = [await opened(client, answer, headers) for headers in (as_tenant("bob"), filtered)]

        assert {reply.status_code for reply in (missing, *others)} == {404}
        details = {reply.json()["detail"].replace(answer["id"], "ID") for reply in others}
        assert details == {missing.json()["detail"].replace(missing.request.url.path.rpartition("/")[2], "ID")}
        assert "ask the question again" in details.pop()
        assert (await opened(client, answer, reader)).status_code == 403
        assert (await client.get(f"/v1/shared-answers/{answer['id']}")).status_code == 401


@guards(
    "features/shared_answers/ledger.py",
    "if query.answer_sha256 != digest_of(new.text, query.chunk_ids):",
    "if False:",
    means="a forged text is shared as an answer",
)
async def test_only_own_answer_of_server_is_shared(services, settings, leave):
    async with sharing(settings, services) as client:
        own = await answered(client, as_tenant("alice"))
        first, second = [await key_of(client, "alice", name, scopes=["ask"]) for name in ("first", "second")]
        of_first = await answered(client, first)

        async def status(body, headers):
            return (await client.post("/v1/shared-answers", json=body, headers=headers)).status_code

        assert await status(own | {"answer": own["answer"] + " Call 0900-1."}, as_tenant("alice")) == 422
        assert await status(own | {"query_id": str(uuid4())}, as_tenant("alice")) == 404
        assert await status(own, as_tenant("bob")) == 404
        assert await status(of_first, second) == 404
        assert await status(of_first, first) == 201
        assert await rows(services) == 1


async def test_answer_without_citations_is_not_shared(services, settings, leave):
    async with sharing(settings, services) as client:
        reply = await client.post("/v1/query", json=QUESTION | {"min_score": 1.0}, headers=as_tenant("alice"))
        body = {"query_id": reply.json()["metadata"]["query_id"], "answer": reply.json()["answer"]}

        assert reply.json()["found"] is False
        assert (await client.post("/v1/shared-answers", json=body, headers=as_tenant("alice"))).status_code == 409


async def test_key_with_filter_cannot_share(services, settings, provider):
    await add(services, LEAVE, metadata={"public": True})
    async with sharing(settings, services) as client:
        filtered = await key_of(client, "alice", "website", scopes=["ask"], filter={"public": True})
        body = await answered(client, filtered)

        assert (await client.post("/v1/shared-answers", json=body, headers=filtered)).status_code == 403
        assert (await client.get("/v1/me", headers=filtered)).json()["shared_answer_retention_days"] == 0
        assert (await client.get("/v1/me", headers=as_tenant("alice"))).json()["shared_answer_retention_days"] == 7


async def test_sharing_is_off_by_default(services, settings, leave):
    async with sharing(settings, services) as client:
        answer = await shared(client)
    async with calling(with_keys(settings), services) as client:
        body = await answered(client, as_tenant("alice"))

        assert (await client.post("/v1/shared-answers", json=body, headers=as_tenant("alice"))).status_code == 409
        assert (await opened(client, answer)).status_code == 404
        assert (await client.get("/v1/me", headers=as_tenant("alice"))).json()["shared_answer_retention_days"] == 0

    assert services.settings.shared_answer_retention_days == 0
    assert await forget(services.ledger[SharedAnswers], services.settings) is False
    assert await rows(services) == 0


async def test_expired_answer_is_hidden_and_deleted(services, settings, leave):
    async with sharing(settings, services) as client:
        answer = await shared(client, days=1)
        too_long = await client.post(
            "/v1/shared-answers",
            json=await answered(client, as_tenant("alice")) | {"days": 8},
            headers=as_tenant("alice"),
        )
        async with services.database.begin() as connection:
            await connection.execute(Statement("UPDATE shared_answers SET expires_at = now()"))

        assert too_long.status_code == 422
        assert (await opened(client, answer)).status_code == 404
        await make_due(services, timedelta(minutes=11))
        await services.ledger[SharedAnswers].forget(timedelta(days=7))
        assert await rows(services) == 0


@guards(
    "features/shared_answers/ledger.sql",
    "    AND {exists:d}",
    "    ",
    means="a shared answer is shown without its deleted passage",
    case="delete",
)
@pytest.mark.parametrize("change", ["delete", "replace"])
async def test_changed_document_hides_and_deletes_answer(services, settings, leave, change):
    async with sharing(settings, services) as client:
        answer = await shared(client)
        if change == "delete":
            await client.delete(f"/v1/documents/{answer['sources'][0]['document_id']}", headers=as_tenant("alice"))
        else:
            await add(services, LEAVE | {"text": "# Leave\n\nIt was abolished."})

        assert (await opened(client, answer)).status_code == 404
        await make_due(services, timedelta(minutes=11))
        await services.ledger[SharedAnswers].forget(timedelta(days=7))
        assert await rows(services) == 0


async def test_unchanged_passage_of_edited_document_stays_shared(services, settings, leave):
    async with sharing(settings, services) as client:
        answer = await shared(client)
        longer = LEAVE["text"] + "\n\n# Travel\n\n" + "Trains are booked by the office. " * 60
        await add(services, LEAVE | {"text": longer})

        reply = await opened(client, answer)

        assert reply.status_code == 200
        assert reply.json()["sources"][0]["text"] == answer["sources"][0]["text"]
        await make_due(services, timedelta(minutes=11))
        await services.ledger[SharedAnswers].forget(timedelta(days=7))
        assert await rows(services) == 1


async def test_sharer_and_managers_delete_answer(services, settings, leave):
    async with sharing(settings, services) as client:
        first, second = [await key_of(client, "alice", name, scopes=["ask"]) for name in ("first", "second")]
        answer = await shared(client, first)

        async def deleted(headers):
            return (await client.delete(f"/v1/shared-answers/{answer['id']}", headers=headers)).status_code

        assert answer["shared_by"] == "first"
        assert [await deleted(headers) for headers in (second, as_tenant("bob"))] == [404, 404]
        assert await deleted(first) == 204
        answer = await shared(client, first)
        assert await deleted(as_tenant("alice")) == 204
        assert (await opened(client, answer)).status_code == 404


@guards(
    "shared/ledger/feedback/query_log.py",
    "(*map(str, chunk_ids), answer)",
    "(answer,)",
    means="the digest of an answer does not contain its passages",
)
async def test_document_erased_during_answer_cannot_be_shared(services, settings, leave):
    await add(services, {"text": "# Pay\n\nEverybody is paid on Friday.", "external_id": "pay.md"})
    async with sharing(settings, services) as client:
        answer = (await client.post("/v1/query", json=QUESTION, headers=as_tenant("alice"))).json()
        body = {"query_id": answer["metadata"]["query_id"], "answer": answer["answer"]}
        async with services.database.begin() as connection:
            written = (await connection.execute(Statement("SELECT answer_sha256 FROM queries"))).scalar_one()
        erased = UUID(answer["citations"][0]["document_id"])
        await finished(services, await services.ledger[Erasures].start_document(erased))
        await services.ledger[QueryLog].record(  # the model wrote meanwhile
            UUID(body["query_id"]), QueryOutcome(), found=True, certain=True, digest=written
        )

        reply = await client.post("/v1/shared-answers", json=body, headers=as_tenant("alice"))

        assert len(answer["chunks"]) == 2
        assert reply.status_code == 422  # its [1] would be the other document
        assert await rows(services) == 0


async def test_answer_is_shared_once_for_each_key(services, settings, leave):
    async with sharing(settings, services) as client:
        body = await answered(client, as_tenant("alice"))

        replies = [await client.post("/v1/shared-answers", json=body, headers=as_tenant("alice")) for _ in range(3)]
        shorter = await client.post("/v1/shared-answers", json=body | {"days": 1}, headers=as_tenant("alice"))

        assert len({reply.json()["id"] for reply in replies}) == 1
        assert shorter.json()["id"] != replies[0].json()["id"]
        assert await rows(services) == 2


@guards(
    "api/routes/queries.py",
    "can_be_shared=within",
    "can_be_shared=True",
    means="an answer is shared although its passages are larger than their chunks",
)
async def test_answer_of_larger_passages_is_not_shared(services, settings, provider):
    async with sharing(settings, services) as client:
        options = {"section_max_chars": 10_000}
        (await client.put("/v1/collections/long", json=options, headers=as_tenant("alice"))).raise_for_status()
        long = "# Leave\n\n" + " ".join(f"In year {n}, everybody has {n + 30} days of leave." for n in range(60))
        body = {"text": long, "collection": "long", "questions": []}
        await client.post("/v1/documents", json=body, headers=as_tenant("alice"))
        await work(services, "parse", "index")
        asked = QUESTION | {"collection": "long", "unit": "section", "max_tokens": 8_000}
        answer = (await client.post("/v1/query", json=asked, headers=as_tenant("alice"))).json()
        body = {"query_id": answer["metadata"]["query_id"], "answer": answer["answer"]}

        reply = await client.post("/v1/shared-answers", json=body, headers=as_tenant("alice"))

        (chunk,) = answer["chunks"]
        assert chunk["span"] != chunk["chunk_span"]
        assert (reply.status_code, "not recorded" in reply.json()["detail"]) == (409, True)


@guards(
    "features/shared_answers/ledger.sql",
    "AND e.finished_at IS NULL",
    "AND e.finished_at IS NOT NULL",
    means="an answer about a document is shared while the document is erased",
)
async def test_document_being_erased_cannot_be_shared(services, settings, leave):
    async with sharing(settings, services) as client:
        answer, body = await shared(client), await answered(client, as_tenant("alice"))
        await services.ledger[Erasures].start_document(UUID(answer["sources"][0]["document_id"]))

        reply = await client.post("/v1/shared-answers", json=body, headers=as_tenant("alice"))

        assert (reply.status_code, "erased" in reply.json()["detail"]) == (409, True)
        assert (await opened(client, answer)).status_code == 404
