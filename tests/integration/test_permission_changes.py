"""Changed readers hold for each request that starts after the change, on every path, while Qdrant is not up to date."""

import asyncio
from random import Random

import pytest

from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.postgres.statements import Statement
from shared.maintenance.descriptions import update_points
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards
from tests.support.readable import Someone, change_in_ledger

KEY = as_tenant("alice")
ADA, BOB = Someone("ada", frozenset({"legal"})), Someone("bob", frozenset({"legal"}))
QUESTION = "When does the harbour open?"
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def client(services, settings, provider):
    allowed = {"shared_answer_retention_days": 7}
    async with calling(with_keys(settings).model_copy(update=allowed), services) as client:
        yield client


def headers_of(person):
    return KEY | person.headers


async def upload(client, name, readers, **more):
    body = {
        "text": f"# {name}\n\nThe harbour of {name} opens at seven.",
        "external_id": name,
        "questions": [f"When does the harbour of {name} open?"],
        "readable_by": readers,
    }
    reply = await client.post("/v1/documents", json=body | more, headers=KEY)
    return reply.raise_for_status().json()["id"]


async def retrieved(client, person, **more):
    body = {"question": QUESTION, "top_k": 10} | more
    reply = await client.post("/v1/retrieve", json=body, headers=headers_of(person))
    return reply.raise_for_status().json()


async def found(client, person, **more):
    return {chunk["external_id"] for chunk in (await retrieved(client, person, **more))["chunks"]}


async def suggested(client, person):
    path = "/v1/collections/default/suggestions?limit=20"
    reply = await client.get(path, headers=headers_of(person))
    return {item["document_id"] for item in reply.raise_for_status().json()["items"]}


async def compared(client, person, chunk):
    body = {"questions": [QUESTION], "collection": "default", "chunk_ids": [chunk]}
    reply = (await client.post("/v1/similarity", json=body, headers=headers_of(person))).raise_for_status().json()
    return [each["chunk_id"] for each in reply["chunks"]]


async def rated(client, person, query, *, helpful=True):
    body = {"query_id": query["metadata"]["query_id"], "chunk_id": query["chunks"][0]["chunk_id"]}
    return await client.post("/v1/feedback", json=body | {"helpful": helpful}, headers=headers_of(person))


@guards(
    "features/feedback/routes/suggestions.py",
    "datetime.now(UTC).date(), caller.principals)",
    "datetime.now(UTC).date(), None)",
    means="suggestions show a person the questions of every document",
)
@guards(
    "features/similarity/routes.py",
    "requested, caller.principals)",
    "requested, None)",
    means="until Qdrant is updated, a person compares questions with chunks of a document that the person lost",
)
@guards(
    "features/feedback/routes/feedback.py",
    "[chunk_id], caller.principals):",
    "[chunk_id], None):",
    means="until Qdrant is updated, a person rates a chunk of a document that the person lost",
)
async def test_lost_document_is_hidden_on_each_path(client, services):
    document = await upload(client, "contract", ["group:legal"])
    await work(services)
    query = await retrieved(client, ADA)
    chunk = query["chunks"][0]["chunk_id"]
    assert await suggested(client, ADA) == {document}
    assert await compared(client, ADA, chunk) == [chunk]

    await change_in_ledger(services, document, ("user:bob",))  # the API is killed before it updates Qdrant

    assert await found(client, ADA) == await suggested(client, ADA) == set()
    assert await compared(client, ADA, chunk) == []
    refused = await rated(client, ADA, query)
    assert (refused.status_code, refused.json()["detail"]) == (404, f"The chunk {chunk} does not exist any more.")
    assert await found(client, BOB) == {"contract"}
    assert await suggested(client, BOB) == {document}


@guards(
    "shared/query/retrieve/retriever.py",
    "            search.shown |= await self._unreadable(search)\n",
    "",
    means="a person finds too few documents while the readers of many are being changed",
)
async def test_mass_change_leaves_no_gaps_in_results(client, services):
    """The search finds 100 chunks, all of documents that the person has lost, and 12 readable ones rank after them."""
    lines = [f"When does the harbour open, at pier {n}?" for n in range(150)]
    for n, line in enumerate(lines):
        text = f"# Hours\n\n{line} It opens at seven."
        await upload(client, f"lost {n}", ["group:legal"], text=text, questions=[line])
    for n in range(12):
        await upload(client, f"kept {n}", ["everyone"], text=f"# Boats\n\nBoat {n} is blue.", questions=[])
    await work(services)
    lost = "UPDATE document_versions SET readable_by = '{user:bob}' WHERE readable_by = '{group:legal}'"
    async with services.database.begin() as connection:
        await connection.execute(Statement(lost))
        await connection.execute(
            Statement("UPDATE documents SET description_due_at = now() WHERE external_id LIKE 'lost%'")
        )

    reply = await retrieved(client, ADA, explain=True)

    assert {chunk["external_id"].split()[0] for chunk in reply["chunks"]} == {"kept"}
    assert len(reply["chunks"]) == 10
    assert (reply["metadata"]["unique_chunks"], reply["metadata"]["matched_questions"]) == (12, 0)
    assert (await retrieved(client, ADA, top_k=50))["metadata"]["unique_chunks"] == 12


@guards(
    "shared/ledger/documents/submission.py",
    "await descriptions.restrict(connection, rows, self.readers, newest=not self.are_replaced)",
    "await descriptions.change(connection, rows, readable_by=self.readers)",
    means="the text before an edit gets the readers of the edit when that is uploaded again",
)
@guards(
    "shared/ledger/documents/descriptions.sql",
    "ARRAY(SELECT unnest(readable_by) INTERSECT SELECT unnest(CAST(:readable_by AS text[])) ORDER BY 1) END",
    "CAST(:readable_by AS text[]) END",
    means="the readers of an edit read the text before it, until the edit is complete",
)
async def test_repeated_edit_widens_no_readers_of_live_text(client, services):
    await upload(client, "contract", ["group:legal"])
    await work(services)
    eve = Someone("eve", frozenset())

    for readers in (["user:ada"], ["everyone"]):  # the edit is not processed
        document = await upload(client, "contract", readers, text="# Public\n\nThe harbour opens at eight.")

    for person in (eve, BOB, Someone("ada", frozenset())):
        assert await found(client, person) == set()
    assert (await client.get(f"/v1/documents/{document}/text?version=live", headers=headers_of(eve))).status_code == 404
    await work(services)
    assert await found(client, eve) == {"contract"}


async def test_person_gains_documents_when_qdrant_is_updated(client, services):
    document = await upload(client, "contract", ["group:legal"])
    await work(services)
    eve = Someone("eve", frozenset())

    await change_in_ledger(services, document, ("user:eve",))

    assert await found(client, eve) == set()
    descriptions = services.ledger[Descriptions]
    await update_points(descriptions, services.index, await descriptions.claim(10))
    assert await found(client, eve) == {"contract"}


class Changes:
    """A document whose readers change again and again, and the readers that a request may still see.

    Every second change is cut off before Qdrant is updated, as by a kill of the API. The scheduler's updates are cut
    off now and then, too, after it has claimed the document.
    """

    def __init__(self, client, services, document):
        self.client = client
        self.services = services
        self.document = document
        self.readers = ["group:legal"]  # after each change
        self.acknowledged = 0

    async def change(self, number):
        readers = ("ada", "bob", "nobody")[number % 3]
        self.readers.append(f"user:{readers}")
        if number % 2:
            await change_in_ledger(self.services, self.document, (f"user:{readers}",))
        else:
            body = {"readable_by": [f"user:{readers}"]}
            path = f"/v1/documents/{self.document}"
            (await self.client.patch(path, json=body, headers=KEY)).raise_for_status()
        self.acknowledged = len(self.readers) - 1

    async def schedule(self, number):
        descriptions = self.services.ledger[Descriptions]
        claimed = await descriptions.claim(10)
        if claimed and number % 3:  # else it is killed
            await update_points(descriptions, self.services.index, claimed)

    async def reads(self, person, request):
        """Send a request; check that its result fits the readers at some time during it."""
        first = self.acknowledged
        sees = await request(person)
        during = self.readers[first:]
        may = any(reader in {f"user:{person.user}", "group:legal"} for reader in during)
        assert may or not sees, f"{person} still reads a document of {during}"
        return sees


async def make_due(services):
    """End the claim of a killed scheduler."""
    async with services.database.begin() as connection:
        await connection.execute(
            Statement("UPDATE documents SET description_due_at = now() WHERE description_due_at > now()")
        )


@guards(
    "shared/query/retrieve/retriever.py",
    "checked = await within(_CHECK_BUDGET, self._find_shown(found, principals))",
    "checked = await within(_CHECK_BUDGET, self._find_shown(found, None))",
    means="queries trust the readers in Qdrant, which a killed process has not updated",
)
@pytest.mark.parametrize("number", [60, 1_000])
async def test_no_query_after_a_change_sees_old_readers(client, services, number):
    document = await upload(client, "contract", ["group:legal"])
    for n in range(3):
        await upload(client, f"public {n}", ["everyone"])
    await work(services)
    chunk = next(c["chunk_id"] for c in (await retrieved(client, ADA))["chunks"] if c["external_id"] == "contract")

    async def retrieve(person):
        names = await found(client, person)
        assert names >= {"public 0", "public 1", "public 2"}
        return "contract" in names

    async def suggest(person):
        return document in await suggested(client, person)

    async def compare(person):
        return await compared(client, person, chunk) != []

    async def read(person):
        path = random.choice([f"/v1/documents/{document}", f"/v1/chunks/{chunk}", f"/v1/documents/{document}/content"])
        return (await client.get(path, headers=headers_of(person))).status_code == 200

    random, changes = Random(number), Changes(client, services, document)
    kinds = [retrieve, retrieve, retrieve, suggest, compare, read]
    seen = {True: 0, False: 0}

    async def ask(share):
        for _ in range(share):
            sees = await changes.reads(random.choice([ADA, BOB]), random.choice(kinds))
            seen[sees] += 1

    asking = [asyncio.create_task(ask(number // 5)) for _ in range(5)]
    while not all(task.done() for task in asking):
        await changes.change(len(changes.readers))
        await changes.schedule(len(changes.readers))
        await make_due(services)
        await asyncio.sleep(0)
    await asyncio.gather(*asking)

    assert sum(seen.values()) == number
    assert all(seen.values())
    assert len(changes.readers) > number / 20


async def key_of(client, *scopes):
    made = await client.post("/v1/keys", json={"name": "-".join(scopes), "scopes": scopes}, headers=KEY)
    return {"authorization": f"Bearer {made.raise_for_status().json()['key']}"}


async def shared(client, headers):
    """Share an answer that cites the first passage of a query only."""
    reply = await client.post("/v1/query", json={"question": QUESTION, "top_k": 10}, headers=headers)
    answer = reply.raise_for_status().json()
    assert [each["number"] for each in answer["citations"]] == [1]
    body = {"query_id": answer["metadata"]["query_id"], "answer": answer["answer"]}
    sharing = await client.post("/v1/shared-answers", json=body, headers=headers)
    return answer, sharing


@guards(
    "features/shared_answers/ledger.sql",
    "d.public_id = ANY(document_ids)) = cardinality(document_ids))",
    "d.public_id = ANY(document_ids)) >= 0)",
    means="a person opens an answer that was written from documents which the person cannot read",
)
@guards(
    "features/shared_answers/ledger.py",
    "    return count == len(document_ids)",
    "    return True",
    means="a person shares an answer from documents that the person has lost",
)
async def test_shared_answer_needs_all_its_documents(client, services):
    public = await upload(client, "public", ["everyone"], questions=[QUESTION])
    secret = await upload(client, "secret", ["group:legal"])
    await work(services)
    eve = Someone("eve", frozenset())
    answer, sharing = await shared(client, headers_of(ADA))
    assert {each["document_id"] for each in answer["chunks"]} == {public, secret}
    assert answer["citations"][0]["document_id"] == public
    path = f"/v1/shared-answers/{sharing.raise_for_status().json()['id']}"

    assert (await client.get(path, headers=headers_of(BOB))).status_code == 200
    assert (await client.get(path, headers=headers_of(eve))).status_code == 404
    assert (await client.get(path, headers=KEY)).status_code == 200
    await change_in_ledger(services, secret, ("user:ada",))
    assert (await client.get(path, headers=headers_of(BOB))).status_code == 404
    await change_in_ledger(services, secret, ())
    again = {"query_id": answer["metadata"]["query_id"], "answer": answer["answer"]}
    assert (await client.post("/v1/shared-answers", json=again, headers=headers_of(ADA))).status_code == 409


@guards(
    "api/routes/chunks.py",
    'if each.source != "user"',
    "if True",
    means="a person reads questions of other users with a chunk",
)
@guards(
    "shared/http/access/auth.py",
    "return Scope.READ in self.scopes and self.person is None",
    "return Scope.READ in self.scopes",
    means="replies to a person contain questions that were accepted from other users",
)
async def test_persons_never_see_users_questions(client, services):
    await upload(client, "contract", ["group:legal"])
    await work(services)
    asked = "When may the wimbrel ferry depart?"
    query = await retrieved(client, ADA, question=asked)
    assert (await rated(client, ADA, query)).json()["outcome"] == "accepted"
    await work(services)
    chunk = query["chunks"][0]["chunk_id"]
    body = {"questions": [asked[:-10]], "collection": "default", "chunk_ids": [chunk]}
    requests = [
        ("POST", "/v1/retrieve", {"question": asked[:-10]}),
        ("POST", "/v1/query", {"question": asked[:-10]}),
        ("POST", "/v1/similarity", body),
        ("GET", f"/v1/chunks/{chunk}", None),
        ("GET", f"/v1/documents/{query['chunks'][0]['document_id']}/chunks", None),
        ("GET", "/v1/collections/default/suggestions", None),
    ]

    for method, path, content in requests:
        of_key = await client.request(method, path, json=content, headers=KEY)
        for person in (ADA, BOB):
            reply = await client.request(method, path, json=content, headers=headers_of(person))
            assert "depart" not in reply.raise_for_status().text, path
        assert ("depart" in of_key.text) == (not path.endswith("/suggestions")), path


@guards(
    "shared/http/access/auth.py",
    "            return self.key_id\n        return person_id(",
    "            return self.key_id\n        return self.key_id or person_id(",
    means="all persons of a key share their queries and their feedback",
)
async def test_feedback_changes_only_own_queries_and_questions(client, services):
    await upload(client, "contract", ["group:legal"])
    await work(services)
    key = await key_of(client, "ask", "read", "feedback", "delegate")
    ada, bob = key | ADA.headers, key | BOB.headers

    async def ask(headers):
        body = {"question": "Who has the third key?"}
        return (await client.post("/v1/retrieve", json=body, headers=headers)).raise_for_status().json()

    async def rate(headers, query, *, helpful):
        body = {"query_id": query["metadata"]["query_id"], "chunk_id": query["chunks"][0]["chunk_id"]}
        return await client.post("/v1/feedback", json=body | {"helpful": helpful}, headers=headers)

    of_ada, of_bob = await ask(ada), await ask(bob)
    assert (await rate(bob, of_ada, helpful=True)).status_code == 404
    assert (await rate(ada, of_ada, helpful=True)).json()["outcome"] == "accepted"
    assert (await rate(bob, of_bob, helpful=False)).json()["outcome"] == "not_accepted"
    assert (await rate(ada, of_ada, helpful=False)).json()["outcome"] == "retracted"
    async with services.database.begin() as connection:
        rows = (await connection.execute(Statement("SELECT DISTINCT key_id FROM queries"))).scalars()
    assert len(rows) == 2
    for path in ("queries", "gaps", "accepted-questions"):
        assert (await client.get(f"/v1/collections/default/{path}", headers=ada)).status_code == 403


@guards(
    "shared/http/queries/notices.py",
    "    if body.filter is None or caller.person is not None:",
    "    if body.filter is None:",
    means="a person finds out which fields the metadata of hidden documents has",
)
async def test_person_learns_no_field_of_hidden_documents(client, services):
    await upload(client, "contract", ["group:legal"], metadata={"salary": 1})
    await upload(client, "public", ["everyone"])
    await work(services)
    eve = Someone("eve", frozenset())

    hidden = (await retrieved(client, eve, filter={"salary": {"exists": True}}))["metadata"]
    unknown = (await retrieved(client, eve, filter={"bonus": {"exists": True}}))["metadata"]

    for field in ("unknown_fields", "notice", "notice_codes"):
        assert hidden[field] == unknown[field]


@guards(
    "shared/query/retrieve/retriever.py",
    "conditions, shows_size=is_key)",
    "conditions, shows_size=True)",
    means="a person finds out the number of all chunks by the price of a filter",
)
async def test_price_of_filter_hides_size_from_persons(client, services):
    await upload(client, "public", ["everyone"])
    await work(services)
    body = {"question": QUESTION, "filter": {"any": [{f"field{n}": n} for n in range(5)]}}

    refused = await client.post("/v1/retrieve", json=body, headers=headers_of(ADA))

    assert (refused.status_code, refused.json()["field"]) == (422, "filter")
    assert "a person may send 4: send fewer" in refused.json()["detail"]
    assert (await client.post("/v1/retrieve", json=body, headers=KEY)).status_code == 200
