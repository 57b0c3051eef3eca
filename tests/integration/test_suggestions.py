"""Suggested questions are generated questions of a tenant's own documents, and the same all day."""

from datetime import date, timedelta

import pytest

from features.feedback.ledger.suggestions import Suggestions
from shared.domain.corpus.questions import plain
from shared.ledger.model.collections import Collections
from tests.conftest import Library
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards

DAY = date(2026, 11, 26)
PLACES = ("harbour", "library", "market", "bakery", "museum", "station")


@pytest.fixture(autouse=True)
def distinct_questions(provider):
    """Make the questions of a chunk consist of its words only."""
    provider.script(questions=0)


def text_of(name):
    return f"# The {name}\n\nThe {name} opens at seven in the morning. The keeper of the {name} is Ada."


async def upload(client, names, *, collection="default", headers=None, **more):
    for name in names:
        body = {"text": text_of(name), "external_id": f"{name}.md", "collection": collection, **more}
        (await client.post("/v1/documents", json=body, headers=headers)).raise_for_status()


async def suggested(client, collection="default", headers=None, **params):
    reply = await client.get(f"/v1/collections/{collection}/suggestions", params=params, headers=headers)
    return reply.raise_for_status().json()["items"]


async def fill(services):
    library = Library(services)
    for name in PLACES:
        await library.add(text_of(name), f"{name}.md")
    await work(services)


@pytest.fixture
async def places(once):
    await once(fill)


async def test_suggestions_are_passed_questions_of_different_documents(client, places):
    items = await suggested(client, limit=5)

    assert len({item["document_id"] for item in items}) == len(items) == 5
    assert len({plain(item["question"]) for item in items}) == 5
    for item in items:
        chunk = (await client.get(f"/v1/chunks/{item['chunk_id']}")).json()["chunk"]
        assert item["document_id"] == chunk["document_id"]
        assert {"text": item["question"], "passed": True, "source": "generated"}.items() <= next(
            question for question in chunk["questions"] if question["text"] == item["question"]
        ).items()


async def test_suggestions_change_only_once_a_day(services, places):
    collection = await services.ledger[Collections].get("default", "default")

    days = [await services.ledger[Suggestions].for_day(collection.id, DAY + timedelta(days=n)) for n in range(8)]

    assert days[0] == await services.ledger[Suggestions].for_day(collection.id, DAY)
    assert len({tuple(each.question for each in day[:3]) for day in days}) > 4
    assert {each.document_id for day in days for each in day[:3]} > {each.document_id for each in days[0][:3]}


async def test_deleted_documents_and_users_questions_are_not_suggested(client, services, places):
    question = {"question": "Which keeper has the largest keys of all?"}
    found = (await client.post("/v1/retrieve", json=question)).json()
    rated = {"query_id": found["metadata"]["query_id"], "chunk_id": found["chunks"][0]["chunk_id"], "helpful": True}
    assert (await client.post("/v1/feedback", json=rated)).json()["outcome"] == "accepted"
    await work(services)
    gone = [document["id"] for document in (await client.get("/v1/documents")).json()["items"][:4]]
    for document in gone:
        await client.delete(f"/v1/documents/{document}")

    items = await suggested(client, limit=20)

    assert len(items) == len(PLACES) - 4
    assert not {item["document_id"] for item in items} & set(gone)
    assert question["question"] not in {item["question"] for item in items}


async def test_tenants_get_suggestions_of_own_documents_only(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        await upload(client, PLACES[:2], headers=as_tenant("alice"))
        await upload(client, PLACES[2:4], headers=as_tenant("bob"))
        await work(services)

        of_alice = await suggested(client, headers=as_tenant("alice"), limit=20)
        of_bob = await suggested(client, headers=as_tenant("bob"), limit=20)

        own = (await client.get("/v1/documents", headers=as_tenant("alice"))).json()["items"]
        assert {item["document_id"] for item in of_alice} == {document["id"] for document in own}
        assert len(of_bob) == 2
        assert not {item["document_id"] for item in of_alice} & {item["document_id"] for item in of_bob}
        await upload(client, PLACES[4:5], collection="private", headers=as_tenant("alice"))
        other = await client.get("/v1/collections/private/suggestions", headers=as_tenant("bob"))
        assert other.status_code == 404
        assert (await client.get("/v1/collections/default/suggestions")).status_code == 401


@guards(
    "features/feedback/routes/suggestions.py",
    "if caller.filter is not None:",
    "if False:",
    means="suggestions ignore the filter of a key",
)
async def test_filter_and_scopes_of_a_key_apply(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        manager = as_tenant("alice")
        await upload(client, PLACES[:3], headers=manager, metadata={"public": True})
        await upload(client, PLACES[3:6], headers=manager, metadata={"public": False})
        await work(services)
        keys = {}
        for name, body in {
            "website": {"scopes": ["ask"], "filter": {"public": True}},
            "uploads": {"scopes": ["write"]},
        }.items():
            made = await client.post("/v1/keys", json={"name": name, **body}, headers=manager)
            keys[name] = {"authorization": f"Bearer {made.raise_for_status().json()['key']}"}

        items = await suggested(client, headers=keys["website"], limit=20)
        refused = await client.get("/v1/collections/default/suggestions", headers=keys["uploads"])

        documents = (await client.get("/v1/documents", headers=manager)).json()["items"]
        public = {document["id"] for document in documents if document["metadata"]["public"]}
        assert {item["document_id"] for item in items} == public
        assert refused.status_code == 403


async def test_number_of_suggestions_is_limited(client, places):
    assert len(await suggested(client)) == 3
    for limit in (0, 21):
        reply = await client.get("/v1/collections/default/suggestions", params={"limit": limit})
        assert reply.status_code == 422


async def test_collection_without_ready_documents_has_no_suggestions(client, services, provider):
    await upload(client, PLACES[:1])

    assert await suggested(client) == []

    await work(services)
    assert len(await suggested(client)) == 1
