"""No reply of any route, MCP tool or client reveals documents that the person may not read.

Each route that serves persons has a probe here, and a new one without a probe fails. Routes without a rule for persons
refuse them. The expected documents come from a model of readers (`tests.support.readable`), not from the product.
"""

import asyncio
import json
import re
from dataclasses import replace
from functools import partial
from random import Random
from uuid import uuid4

import pytest
from foreask_client import ApiError, AsyncClient, Client, NotFoundError

from shared.http.access.auth import Needs
from tests.integration.test_keys import ROUTES, SIGNING_IN, WITHOUT_KEY
from tests.support.api import KEYS, as_tenant, calling, serving, with_keys
from tests.support.planted import guards
from tests.support.readable import COLLECTIONS, QUESTION, World, fill, persons, picture_key, plans, secret_of

KEY = as_tenant("alice")
ACCEPT = {"accept": "application/json, text/event-stream"}
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SECRET = re.compile(rf"[bcdfghjkmnpqrstvwxz]{{12}}|{UUID_TEXT.pattern}")
UNKNOWN_WORD = secret_of("unknown", "word", 0)
# Fields that differ between two replies to the same request, or that are measured in the whole collection.
VOLATILE = {"milliseconds", "created", "created_at", "updated_at", "expires_at", "instance"}
VOLATILE |= {"query_id", "query_ids", "request_id"}
SCORED = {"score", "channels", "evidence", "reference_scores", "cosines", "words", "text_similarity", "similarity"}


def needs_of(dependant):
    own = [dependant.call] if isinstance(dependant.call, Needs) else []
    return own + [needs for each in dependant.dependencies for needs in needs_of(each)]


OF_PERSONS, OF_KEYS = [], []
for _route in ROUTES:
    if _route.path not in WITHOUT_KEY | SIGNING_IN:
        (_needs,) = needs_of(_route.dependant)
        (OF_PERSONS if _needs.persons else OF_KEYS).append(_route)


def plain(value, *, names=None):
    """Return a reply without ids, times and scores, with the names of documents and chunks as ids."""
    if isinstance(value, dict):
        return {
            key: plain(each, names=names)
            for key, each in value.items()
            if key not in VOLATILE and (names is None or key not in SCORED)
        } | ({"next_cursor": value["next_cursor"] is not None} if "next_cursor" in value else {})
    if isinstance(value, list):
        listed = [plain(each, names=names) for each in value]
        return listed if names is None else sorted(listed, key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, str):
        return UUID_TEXT.sub(lambda found: (names or {}).get(found[0], "id"), value)
    return value


class Prober:
    """A person who sends requests, and looks for secrets in each reply."""

    def __init__(self, client, world, person, key, random):
        self.client = client
        self.world = world
        self.person = person
        self.random = random
        self.headers = key | person.headers
        self.hidden = {word: where for where, word in world.hidden_words(person)}
        self.hidden |= {
            each: stored.name for stored in world.documents.values() for each in stored.ids_hidden_from(person)
        }
        self.sent = 0

    @property
    def documents(self):
        return self.world.documents.values()

    def some(self, number=8):
        """Return some documents, readable and hidden ones."""
        return self.random.sample(list(self.documents), min(number, len(self.documents)))

    def found(self, collection):
        return [each for each in self.documents if each.collection == collection and each.is_found_by(self.person)]

    def lost(self, number=4):
        """Return some documents of which the person reads no version."""
        lost = [each for each in self.documents if not each.shown_to(self.person)]
        return self.random.sample(lost, min(number, len(lost)))

    async def send(self, method, path, headers=None, **options):
        request = self.client.build_request(method, path, headers=self.headers | (headers or {}), **options)
        reply = await self.client.send(request)
        self.require_clean(f"{method} {path}", reply.text + str(reply.headers), str(request.url) + str(options))
        return reply

    def require_clean(self, request, reply, sent):
        """Check that a reply has no secret of a hidden document, except words of the request."""
        self.sent += 1
        words = [found[0] for found in SECRET.finditer(reply.lower())]
        leaked = {self.hidden[word] for word in words if word in self.hidden and word not in sent}
        assert not leaked, f"{request} tells {self.person} of {leaked}"

    async def same(self, *requests):
        """Send requests about hidden and unknown objects, and check that their replies are equal."""
        replies = []
        for method, path, options, word in requests:
            reply = await self.send(method, path, **options)
            text = reply.text.replace(word, "WORD") if word else reply.text
            replies.append((reply.status_code, plain(json.loads(text) if text else None)))
        for reply, request in zip(replies, requests, strict=True):
            assert reply == replies[0], (self.person, request)
        return replies[0]


def names(replies):
    return {each["external_id"] for each in replies}


def external_ids(documents):
    return {each.live.secrets["external_id"] for each in documents}


async def retrieve(prober):
    send = partial(prober.send, "POST", "/v1/retrieve")
    for collection in COLLECTIONS:
        expected = prober.found(collection)
        asked = {"question": QUESTION, "collection": collection, "top_k": 50}
        for more in ({"explain": True}, {"unit": "section", "diversity": 0.5}, {"unit": "sentences", "fusion": "rrf"}):
            reply = (await send(json=asked | more)).raise_for_status().json()
            assert names(reply["chunks"]) == external_ids(expected), (prober.person, more)
            facts = reply["metadata"]
            assert facts["matched_questions"] == len(expected)
            assert facts["unique_chunks"] == sum(len(each.chunk_ids) for each in expected)
            assert (facts["notice"], facts["unknown_fields"]) == (None, [])
        few = (await send(json=asked | {"top_k": 2})).json()
        assert len(few["chunks"]) == min(2, sum(len(each.chunk_ids) for each in expected))
    for hidden in prober.lost():
        asked = {"question": QUESTION, "collection": hidden.collection}
        words = hidden.live.secrets
        requests = [
            ({"filter": {"place": words["metadata"]}}, {"filter": {"place": UNKNOWN_WORD}}, words["metadata"]),
            ({"filter": {words["metadata"]: 1}}, {"filter": {UNKNOWN_WORD: 1}}, words["metadata"]),
            ({"document_ids": [hidden.document_id]}, {"document_ids": [str(uuid4())]}, None),
            (
                {"question": words["text"], "channels": ["bm25"]},
                {"question": UNKNOWN_WORD, "channels": ["bm25"]},
                words["text"],
            ),
        ]
        for of_hidden, of_unknown, word in requests:
            await prober.same(
                ("POST", "/v1/retrieve", {"json": asked | of_hidden}, word),
                ("POST", "/v1/retrieve", {"json": asked | of_unknown}, word and UNKNOWN_WORD),
            )
    dear = {"any": [{f"field{n}": n} for n in range(5)]}
    refused = await send(json={"question": QUESTION, "filter": dear})
    assert refused.status_code == 422
    assert "a person may send 4" in refused.json()["detail"]
    for details in ({"explain": "candidates"}, {"explain": True, "expected": [str(uuid4())]}):
        assert (await send(json={"question": QUESTION} | details)).status_code == 403


async def query(prober):
    for collection in COLLECTIONS:
        expected = prober.found(collection)
        for stream in (False, True):
            body = {"question": QUESTION, "collection": collection, "top_k": 50, "stream": stream}
            reply = (await prober.send("POST", "/v1/query", json=body)).raise_for_status()
            for each in expected:
                assert each.live.secrets["text"] in reply.text


async def complete(prober):
    for stream in (False, True):
        body = {"model": "default", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
        body["foreask"] = {"top_k": 50, "sources": True}
        reply = (await prober.send("POST", "/v1/chat/completions", json=body)).raise_for_status()
        assert ("url_citation" in reply.text) == bool(prober.found("default"))


async def respond(prober):
    for stream in (False, True):
        body = {"model": "default", "input": QUESTION, "stream": stream, "foreask": {"top_k": 50, "sources": True}}
        reply = (await prober.send("POST", "/v1/responses", json=body)).raise_for_status()
        assert ("url_citation" in reply.text) == bool(prober.found("default"))


async def search_store(prober):
    for collection in COLLECTIONS:
        path = f"/v1/vector_stores/{collection}/search"
        expected = external_ids(prober.found(collection))
        for question in (QUESTION, [QUESTION, f"{QUESTION} Please."]):
            reply = await prober.send("POST", path, json={"query": question, "max_num_results": 50})
            found = reply.raise_for_status().json()
            assert {each["foreask"]["external_id"] for each in found["data"]} == expected
            assert found["foreask"]["notice"] is None
    for hidden in prober.lost():
        words = hidden.live.secrets
        requests = [
            (path, {"query": QUESTION, "filters": {"type": "eq", "key": key, "value": value}}, word)
            for path in [f"/v1/vector_stores/{hidden.collection}/search"]
            for key, value, word in (
                ("place", words["metadata"], words["metadata"]),
                ("place", UNKNOWN_WORD, UNKNOWN_WORD),
                (words["metadata"], 1, words["metadata"]),
                (UNKNOWN_WORD, 1, UNKNOWN_WORD),
            )
        ]
        await prober.same(*(("POST", path, {"json": body}, word) for path, body, word in requests))


async def stores(prober):
    listed = (await prober.send("GET", "/v1/vector_stores")).raise_for_status().json()["data"]
    assert {each["id"] for each in listed} == set(COLLECTIONS)
    assert {(each["file_counts"], each["status"]) for each in listed} == {(None, "completed")}


async def store(prober):
    for name, status in (("default", 200), ("unknown", 404)):
        reply = await prober.send("GET", f"/v1/vector_stores/{name}")
        assert (reply.status_code, reply.json().get("file_counts")) == (status, None)


async def retrieval(prober):
    def body(collection, *conditions):
        listed = [{"name": name, "comparison_operator": "is", "value": value} for name, value in conditions]
        setting = {"top_k": 50, "score_threshold": 0}
        condition = {"logical_operator": "and", "conditions": listed}
        return {"knowledge_id": collection, "query": QUESTION, "retrieval_setting": setting} | (
            {"metadata_condition": condition} if listed else {}
        )

    for collection in COLLECTIONS:
        reply = (await prober.send("POST", "/retrieval", json=body(collection))).raise_for_status()
        found = {each["metadata"]["external_id"] for each in reply.json()["records"]}
        assert found == external_ids(prober.found(collection))
    for hidden in prober.lost():
        word = hidden.live.secrets["metadata"]
        await prober.same(
            ("POST", "/retrieval", {"json": body(hidden.collection, ("place", word))}, word),
            ("POST", "/retrieval", {"json": body(hidden.collection, ("place", UNKNOWN_WORD))}, UNKNOWN_WORD),
        )


async def models(prober):
    listed = (await prober.send("GET", "/v1/models")).json()["data"]
    assert {each["id"] for each in listed} == set(COLLECTIONS)


async def model(prober):
    for name, status in (("default", 200), ("unknown", 404)):
        assert (await prober.send("GET", f"/v1/models/{name}")).status_code == status


async def embeddings(prober):
    assert (await prober.send("POST", "/v1/embeddings", json={"input": "a", "model": "default"})).status_code == 400


async def similarity(prober):
    for collection in COLLECTIONS:
        of_collection = [each for each in prober.some(20) if each.collection == collection and each.chunk_ids]
        chunks = [chunk for each in of_collection for chunk in each.chunk_ids][:40]
        unknown = str(uuid4())
        body = {"questions": [QUESTION], "collection": collection, "chunk_ids": [*chunks, unknown]}
        reply = (await prober.send("POST", "/v1/similarity", json=body)).raise_for_status().json()
        shown = {chunk for each in of_collection if each.is_found_by(prober.person) for chunk in each.chunk_ids}
        assert {each["chunk_id"] for each in reply["chunks"]} == shown & set(chunks)
        assert set(reply["absent"]) == {*chunks, unknown} - shown


async def suggestions(prober):
    for collection in COLLECTIONS:
        reply = await prober.send("GET", f"/v1/collections/{collection}/suggestions", params={"limit": 20})
        items = reply.raise_for_status().json()["items"]
        expected = {
            each.document_id
            for each in prober.documents
            if each.collection == collection and each.live is each.newest and prober.person.reads(each.live.readers)
        }
        assert {item["document_id"] for item in items} <= expected
        assert len(items) == min(20, len(expected))
    assert (await prober.send("GET", "/v1/collections/unknown/suggestions")).status_code == 404


async def listed(prober, **params):
    items, cursor = [], None
    while True:
        page = await prober.send("GET", "/v1/documents", params=params | ({"cursor": cursor} if cursor else {}))
        reply = page.raise_for_status().json()
        items += reply["items"]
        cursor = reply["next_cursor"]
        if cursor is None:
            return items


async def documents(prober):
    expected = [each for each in prober.documents if each.is_listed_for(prober.person)]
    ids = {each.document_id for each in expected}
    for params in (
        {"sort": "newest", "limit": 3},
        {"sort": "updated"},
        {"sort": "name", "limit": 5},
        {"sort": "state"},
    ):
        items = await listed(prober, **params)
        assert [item["id"] for item in items] == list(dict.fromkeys(item["id"] for item in items))
        assert {item["id"] for item in items} == ids, (prober.person, params)
    for collection in COLLECTIONS:
        items = await listed(prober, collection=collection, metadata=False)
        assert {item["id"] for item in items} == {
            each.document_id for each in expected if each.collection == collection
        }
    by_state = [await listed(prober, state=state) for state in ("queued", "ready,searchable,indexing,parsing,degraded")]
    assert {item["id"] for items in by_state for item in items} == ids
    page = (await prober.send("GET", "/v1/documents", params={"q": "hours", "count": True, "limit": 1})).json()
    assert page["hits"] == len(expected)
    some = prober.some(10)
    items = await listed(prober, id=[each.document_id for each in some])
    assert {item["id"] for item in items} == ids & {each.document_id for each in some}
    assert await listed(prober, outdated=True) == await listed(prober, job=str(uuid4())) == []
    for hidden in prober.lost():
        words = hidden.live.secrets
        await prober.same(
            ("GET", "/v1/documents", {"params": {"external_id": words["external_id"]}}, None),
            ("GET", "/v1/documents", {"params": {"external_id": UNKNOWN_WORD}}, None),
        )
        for word in (words["title"], words["filename"], words["title"][:5]):
            counted = {"count": True, "limit": 1}
            await prober.same(
                ("GET", "/v1/documents", {"params": {"q": word, **counted}}, None),
                ("GET", "/v1/documents", {"params": {"q": UNKNOWN_WORD, **counted}}, None),
            )
        for reader in hidden.live.readers or ():
            items = await listed(prober, readable_by=reader)
            assert {item["id"] for item in items} <= ids


async def each_document(prober, address, *, of_live, found=200, headers=None):
    """Request a part of documents; hidden ones are answered like unknown ones."""
    for stored in prober.some(6):
        edition = stored.live if of_live else stored.newest
        # A person who does not read the newest version does not see the document.
        reads = prober.person.reads(edition.readers) and prober.person.reads(stored.newest.readers)
        path = f"/v1/documents/{{}}{address}"
        if not reads:
            sent = {"headers": headers} if headers else {}
            status, _ = await prober.same(
                ("GET", path.format(stored.document_id), sent, stored.document_id),
                ("GET", path.format(missing := str(uuid4())), sent, missing),
            )
            assert status == 404
            continue
        reply = await prober.send("GET", path.format(stored.document_id), headers=headers)
        is_processed = of_live or stored.live is stored.newest
        yield stored, edition, reply, is_processed
        assert reply.status_code == (found if is_processed or reply.status_code == found else 404)


async def document(prober):
    async for stored, edition, reply, _ in each_document(prober, "", of_live=False):
        assert reply.json()["title"] == f"Hours {edition.secrets['title']}", stored


async def chunks(prober):
    for version in ("latest", "live"):
        of_live = version == "live"
        address = f"/chunks?version={version}"
        async for _, edition, reply, is_processed in each_document(prober, address, of_live=of_live):
            assert (edition.secrets["text"] in reply.text) == is_processed
    for stored in prober.some(4):
        if not prober.person.reads(stored.newest.readers):
            for around in (stored.chunk_ids[0], uuid4()):
                await prober.same(
                    ("GET", f"/v1/documents/{stored.document_id}/chunks?version=live&around={around}", {}, None),
                    ("GET", f"/v1/documents/{uuid4()}/chunks?version=live&around={uuid4()}", {}, None),
                )


async def chunk(prober):
    for stored in prober.some(8):
        chunk_id = stored.chunk_ids[0]
        if prober.person.reads(stored.live.readers):
            reply = await prober.send("GET", f"/v1/chunks/{chunk_id}")
            assert stored.live.secrets["text"] in reply.raise_for_status().text
        else:
            status, _ = await prober.same(
                ("GET", f"/v1/chunks/{chunk_id}", {}, None), ("GET", f"/v1/chunks/{uuid4()}", {}, None)
            )
            assert status == 404


async def content(prober):
    for address, of_live in (("/content", False), ("/content?version=live", True)):
        async for _, edition, reply, _ in each_document(prober, address, of_live=of_live):
            assert edition.secrets["text"] in reply.text
        part = {"range": "bytes=0-400"}
        async for _, edition, reply, _ in each_document(prober, address, of_live=of_live, found=206, headers=part):
            assert edition.secrets["text"] in reply.text
    for stored in prober.some(4):
        path = f"/v1/documents/{stored.document_id}/content"
        tag = (await prober.client.get(path, headers=KEY)).headers["etag"]
        if not prober.person.reads(stored.newest.readers):
            for headers in ({"if-none-match": tag}, {"range": "bytes=0-9", "if-range": tag}, {"range": "bytes=9999-"}):
                status, _ = await prober.same(
                    ("GET", path, {"headers": headers}, None),
                    ("GET", f"/v1/documents/{uuid4()}/content", {"headers": headers}, None),
                )
                assert status == 404


async def text(prober):
    for address, of_live in (("/text", False), ("/text?version=live", True)):
        async for _, edition, reply, is_processed in each_document(prober, address, of_live=of_live):
            assert (edition.secrets["text"] in reply.text) == is_processed


async def image(prober):
    for address, of_live in (("/pages/1/image", False), ("/pages/1/image?version=live", True)):
        async for _, edition, reply, _ in each_document(prober, address, of_live=of_live):
            assert reply.content.decode() == edition.secrets["picture"]
    for stored in prober.some(4):
        if not prober.person.reads(stored.newest.readers):
            headers = {"if-none-match": f'"{picture_key(stored.newest).hex()}"'}
            await prober.same(
                ("GET", f"/v1/documents/{stored.document_id}/pages/1/image", {"headers": headers}, None),
                ("GET", f"/v1/documents/{uuid4()}/pages/1/image", {"headers": headers}, None),
            )


async def answered(client, headers, **more):
    reply = await client.post("/v1/query", json={"question": QUESTION, "top_k": 3} | more, headers=headers)
    answer = reply.raise_for_status().json()
    used = {each["document_id"] for each in answer["chunks"]}
    return {"query_id": answer["metadata"]["query_id"], "answer": answer["answer"]}, used


async def share(prober):
    body, used = await answered(prober.client, prober.headers)
    if not used:
        return
    mine = await prober.send("POST", "/v1/shared-answers", json=body)
    assert mine.status_code == 201, mine.text
    theirs, _ = await answered(prober.client, KEY)
    await prober.same(
        ("POST", "/v1/shared-answers", {"json": theirs}, None),
        ("POST", "/v1/shared-answers", {"json": theirs | {"query_id": str(uuid4())}}, None),
    )


async def open_shared(prober):
    for collection in COLLECTIONS:
        body, used = await answered(prober.client, KEY, collection=collection)
        shared = await prober.client.post("/v1/shared-answers", json=body, headers=KEY)
        answer_id = shared.raise_for_status().json()["id"]
        by_id = {each.document_id: each for each in prober.documents}
        if all(prober.person.reads(by_id[each].live.readers) for each in used):
            opened = await prober.send("GET", f"/v1/shared-answers/{answer_id}")
            assert opened.raise_for_status().json()["answer"] == body["answer"]
        else:
            status, _ = await prober.same(
                ("GET", f"/v1/shared-answers/{answer_id}", {}, None),
                ("GET", f"/v1/shared-answers/{uuid4()}", {}, None),
            )
            assert status == 404


async def delete_shared(prober):
    body, _ = await answered(prober.client, KEY, top_k=4)
    shared = await prober.client.post("/v1/shared-answers", json=body, headers=KEY)
    status, _ = await prober.same(
        ("DELETE", f"/v1/shared-answers/{shared.raise_for_status().json()['id']}", {}, None),
        ("DELETE", f"/v1/shared-answers/{uuid4()}", {}, None),
    )
    assert status == 404


def conversation(stored):
    words = stored.live.secrets
    cited = {"number": 1, "chunk_id": stored.chunk_ids[0], "document_id": stored.document_id, "sentences": []}
    cited |= {"external_id": words["external_id"], "title": words["title"], "filename": None}
    cited |= {"heading_path": [], "page": None}
    turn = {"question": QUESTION, "searched": QUESTION, "collection": "default", "answer": f"{words['text']} [1]."}
    turn |= {"form": "generative", "found": True, "certain": True, "incomplete_reason": None, "stopped": False}
    turn |= {"query_id": None, "sources": [cited], "document_ids": [stored.document_id]}
    return {"name": words["title"], "changed_at": "2026-10-01T09:00:00Z", "turns": [turn]}


async def keep_conversation(prober):
    """Another person, who reads everything that the key reads, stores a conversation, too."""
    other = prober.headers | {"x-foreask-user": "other"}
    for stored in prober.lost(2):
        body = conversation(stored)
        path = f"/v1/conversations/{stored.name}"
        (await prober.client.put(path, json=body, headers=other)).raise_for_status()
    for stored in [each for each in prober.documents if each.is_found_by(prober.person)][:1]:
        (await prober.send("PUT", f"/v1/conversations/{stored.name}", json=conversation(stored))).raise_for_status()


async def conversations(prober):
    await keep_conversation(prober)
    items = (await prober.send("GET", "/v1/conversations")).raise_for_status().json()["items"]
    mine = [each.name for each in prober.documents if each.is_found_by(prober.person)][:1]
    assert [item["id"] for item in items] == mine


async def delete_conversation(prober):
    await keep_conversation(prober)
    for stored in prober.lost(2):
        await prober.same(
            ("DELETE", f"/v1/conversations/{stored.name}", {}, stored.name),
            ("DELETE", "/v1/conversations/unknown", {}, "unknown"),
        )
    other = prober.headers | {"x-foreask-user": "other"}
    assert (await prober.send("DELETE", "/v1/conversations")).status_code == 204
    left = (await prober.client.get("/v1/conversations", headers=other)).json()["items"]
    assert len(left) >= min(2, len(prober.lost(2)))


async def feedback(prober):
    asked = {"question": QUESTION, "top_k": 50}
    mine = (await prober.send("POST", "/v1/retrieve", json=asked)).json()
    other = (await prober.client.post("/v1/retrieve", json=asked, headers=KEY)).json()
    query_id, theirs = mine["metadata"]["query_id"], other["metadata"]["query_id"]
    chunk_ids = [each["chunk_id"] for each in mine["chunks"]]
    for chunk_id in chunk_ids[:2]:
        body = {"query_id": query_id, "chunk_id": chunk_id, "helpful": False}
        assert (await prober.send("POST", "/v1/feedback", json=body)).json()["outcome"] == "not_accepted"
        await prober.same(
            ("POST", "/v1/feedback", {"json": body | {"query_id": theirs}}, None),
            ("POST", "/v1/feedback", {"json": body | {"query_id": str(uuid4())}}, None),
        )
    for hidden in prober.lost(2):
        body = {"query_id": query_id, "chunk_id": hidden.chunk_ids[0], "helpful": False}
        await prober.same(
            ("POST", "/v1/feedback", {"json": body}, None),
            ("POST", "/v1/feedback", {"json": body | {"chunk_id": str(uuid4())}}, None),
        )


async def me(prober):
    reply = (await prober.send("GET", "/v1/me")).raise_for_status().json()
    assert reply["scopes"] == ["ask", "feedback", "read"]


PROBES = {
    ("POST", "/v1/retrieve"): retrieve,
    ("POST", "/v1/query"): query,
    ("POST", "/v1/chat/completions"): complete,
    ("POST", "/v1/responses"): respond,
    ("POST", "/v1/vector_stores/{name}/search"): search_store,
    ("GET", "/v1/vector_stores"): stores,
    ("GET", "/v1/vector_stores/{name}"): store,
    ("POST", "/retrieval"): retrieval,
    ("GET", "/v1/models"): models,
    ("GET", "/v1/models/{name}"): model,
    ("POST", "/v1/embeddings"): embeddings,
    ("POST", "/v1/similarity"): similarity,
    ("GET", "/v1/collections/{name}/suggestions"): suggestions,
    ("GET", "/v1/documents"): documents,
    ("GET", "/v1/documents/{document_id}"): document,
    ("GET", "/v1/documents/{document_id}/chunks"): chunks,
    ("GET", "/v1/chunks/{chunk_id}"): chunk,
    ("GET", "/v1/documents/{document_id}/content"): content,
    ("GET", "/v1/documents/{document_id}/text"): text,
    ("GET", "/v1/documents/{document_id}/pages/{number}/image"): image,
    ("POST", "/v1/shared-answers"): share,
    ("GET", "/v1/shared-answers/{answer_id}"): open_shared,
    ("DELETE", "/v1/shared-answers/{answer_id}"): delete_shared,
    ("GET", "/v1/conversations"): conversations,
    ("PUT", "/v1/conversations/{conversation_id}"): keep_conversation,
    ("DELETE", "/v1/conversations/{conversation_id}"): delete_conversation,
    ("DELETE", "/v1/conversations"): delete_conversation,
    ("POST", "/v1/feedback"): feedback,
    ("GET", "/v1/me"): me,
}


async def tool(prober, name, **arguments):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    reply = (await prober.send("POST", "/mcp", headers=ACCEPT, json=body)).raise_for_status().json()["result"]
    return reply["isError"], reply["content"][0]["text"]


async def search_tool(prober):
    for collection in COLLECTIONS:
        _, found = await tool(prober, "search", query=QUESTION, collection=collection, top_k=50)
        shown = {each["metadata"]["external_id"] for each in json.loads(found)["results"]}
        assert shown == external_ids(prober.found(collection))


async def ask_tool(prober):
    for collection in COLLECTIONS:
        _, found = await tool(prober, "ask", question=QUESTION, collection=collection)
        shown = [each for each in prober.found(collection) if each.live.secrets["external_id"] in found]
        assert bool(shown) == bool(prober.found(collection))


async def list_tool(prober):
    is_error, found = await tool(prober, "list_collections")
    assert (is_error, json.loads(found)) == (False, {"collections": ["default", "handbook"], "more": 0})


async def fetch_tool(prober):
    for stored in prober.some(8):
        is_error, read = await tool(prober, "fetch", id=stored.chunk_ids[0])
        assert is_error != prober.person.reads(stored.live.readers)
        if is_error:
            _, unknown = await tool(prober, "fetch", id=str(missing := uuid4()))
            assert read == unknown.replace(str(missing), stored.chunk_ids[0])
        else:
            assert stored.live.secrets["text"] in json.loads(read)["text"]


TOOL_PROBES = {
    "search": search_tool,
    "fetch": fetch_tool,
    "ask": ask_tool,
    "list_collections": list_tool,
}


async def stored_world(once, documents, **changes):
    people = persons(Random(documents))
    planned = tuple(replace(plan, **changes) for plan in plans(Random(documents), people, documents))
    return World(await once(fill, planned), people), planned


@pytest.fixture
async def client(services, settings, provider):
    allowed = {"shared_answer_retention_days": 7, "conversation_retention_days": 30}
    async with calling(with_keys(settings).model_copy(update=allowed), services) as client:
        yield client


@pytest.fixture
async def delegating(client):
    """Return a function that makes a key that acts for persons and manages nothing."""

    async def make():
        body = {"name": "portal", "scopes": ["ask", "read", "feedback", "delegate"]}
        made = (await client.post("/v1/keys", json=body, headers=KEY)).raise_for_status().json()
        return {"authorization": f"Bearer {made['key']}"}

    return make


@guards(
    "shared/http/access/auth.py",
    "Reader = Annotated[str, Depends(Needs(Scope.READ))]",
    "Reader = Annotated[str, Depends(Needs(Scope.READ, persons=True))]",
    means="routes without a rule for persons serve them",
)
def test_each_route_of_persons_has_a_probe():
    assert {(method, route.path) for route in OF_PERSONS for method in route.methods} == PROBES.keys()


@guards(
    "api/routes/documents.py",
    "caller.tenant, document_id, principals=caller.principals)",
    "caller.tenant, document_id)",
    means="a person reads any document by its id",
    case="few",
)
@guards(
    "api/routes/documents.py",
    "        principals=caller.principals,\n",
    "",
    means="the list of documents shows a person every document",
    case="few",
)
@guards(
    "api/routes/chunks.py",
    "            limit=limit,\n            principals=self.caller.principals,\n",
    "            limit=limit,\n",
    means="a person lists the chunks of any document",
    case="few",
)
@guards(
    "api/routes/chunks.py",
    "live=self.live, principals=self.caller.principals",
    "live=self.live",
    means="a person finds out whether a hidden document has a chunk",
    case="few",
)
@guards(
    "api/routes/chunks.py",
    "before=before, after=after, principals=caller.principals",
    "before=before, after=after",
    means="a person reads any chunk by its id",
    case="few",
)
@guards(
    "api/routes/contents.py",
    'document_id, live=version == "live", principals=caller.principals\n',
    'document_id, live=version == "live"\n',
    means="a person downloads any document",
    case="few",
)
@guards(
    "api/routes/contents.py",
    'document_id, number, live=version == "live", principals=caller.principals',
    'document_id, number, live=version == "live"',
    means="a person sees the pages of any document",
    case="few",
)
@guards(
    "api/routes/contents.py",
    "        limit=_PAGE,\n        principals=caller.principals,\n",
    "        limit=_PAGE,\n",
    means="a person reads the text of any document",
    case="few",
)
@guards(
    "features/shared_answers/routes.py",
    "oldest=timedelta(days=days), principals=caller.principals",
    "oldest=timedelta(days=days), principals=None",
    means="a person opens answers from documents that the person cannot read",
    case="few",
)
@guards(
    "shared/http/queries/searching.py",
    'parameters["restriction"] = caller.restriction',
    'parameters["restriction"] = type(caller.restriction)()',
    means="queries of a person search all documents",
    case="few",
)
@guards(
    "features/openai/routes/vector_stores.py",
    "return Scope.READ in caller.scopes and not caller.restriction.is_partial",
    "return Scope.READ in caller.scopes",
    means="a person learns the number of documents",
    case="few",
)
@guards(
    "shared/http/access/auth.py",
    "        if self.person is not None:\n            return Owner(",
    "        if False:\n            return Owner(",
    means="all persons of a key share their conversations",
    case="few",
)
@pytest.mark.parametrize(("people", "number"), [(3, 14), (20, 42)], ids=["few", "all"])
async def test_routes_reveal_no_hidden_documents(client, delegating, once, people, number):
    world, _ = await stored_world(once, number)
    key = await delegating()
    sent = 0
    for person in world.people[:people]:
        prober = Prober(client, world, person, key, Random(person.user))
        for probe in dict.fromkeys(PROBES.values()):
            await probe(prober)
        sent += prober.sent
    assert sent >= 100 * people


@guards(
    "features/mcp/routes.py",
    "*PERSON_HEADERS, ",
    "",
    means="tools read with the rights of the key instead of the person",
    case="few",
)
@pytest.mark.parametrize(("people", "number"), [(3, 14), (20, 42)], ids=["few", "all"])
async def test_mcp_tools_reveal_no_hidden_documents(client, delegating, once, people, number):
    world, _ = await stored_world(once, number)
    key = await delegating()
    for person in world.people[:people]:
        prober = Prober(client, world, person, key, Random(person.user))
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        tools = (await prober.send("POST", "/mcp", headers=ACCEPT, json=body)).json()["result"]["tools"]
        assert {each["name"] for each in tools} == TOOL_PROBES.keys()
        for probe in TOOL_PROBES.values():
            await probe(prober)
        is_error, refused = await tool(prober, "add_document", text="a", external_id="a")
        assert (is_error, refused) == (True, "There is no tool 'add_document' for this key.")
    unnamed = await client.post("/mcp", headers=key | ACCEPT, json=body)
    assert (unnamed.status_code, "name one with" in unnamed.json()["detail"]) == (403, True)


def _address(path, known):
    values = {"name": "unknown", "number": 1, "tenant": "alice", "labelled_set": "set"} | known
    return re.sub(r"{(\w+)(?::\w+)?}", lambda found: str(values.get(found[1], uuid4())), path)


@guards(
    "shared/http/access/auth.py",
    "if caller.person is not None and not self.persons:",
    "if False:",
    means="routes without a rule for persons serve them",
)
async def test_other_routes_refuse_persons_whatever_they_name(client, delegating, once):
    world, _ = await stored_world(once, 14)
    prober = Prober(client, world, world.people[0], await delegating(), Random(1))
    stored = next(iter(world.documents.values()))
    existing = {"document_id": stored.document_id, "chunk_id": stored.chunk_ids[0]}
    for route in OF_KEYS:
        (method,) = route.methods
        of_existing, of_unknown = [
            await prober.send(method, _address(route.path, known)) for known in (existing | {"name": "default"}, {})
        ]
        assert of_existing.status_code == 403, route.path
        assert plain(of_existing.json()) == plain(of_unknown.json())
    assert len(OF_KEYS) > 60


async def test_python_client_finds_only_readable_documents(client, delegating, once):
    world, _ = await stored_world(once, 14)
    key = await delegating()
    for person in world.people[:4]:
        prober = Prober(client, world, person, key, Random(person.user))
        async with AsyncClient("http://127.0.0.1", headers=prober.headers, http_transport=client._transport) as foreask:
            found = await foreask.retrieve(QUESTION, top_k=50)
            answer = await foreask.query(QUESTION, top_k=50)
            events = [event async for event in foreask.query_events(QUESTION, top_k=50)]
            listed = [each async for each in foreask.documents()]
            for reply in (found, answer, events, listed):
                prober.require_clean("client", repr(reply), "")
            expected = external_ids(prober.found("default"))
            assert {each.external_id for each in found.chunks} == expected
            assert {each.external_id for each in answer.chunks} == expected
            for hidden in prober.lost(2):
                with pytest.raises(NotFoundError):
                    await foreask.document(hidden.document_id)
                with pytest.raises(ApiError) as refused:
                    await foreask.delete_document(hidden.document_id)
                assert refused.value.status == 403


def found_by(framework, url, key, person):
    """Return the external ids of the documents that a framework's retriever finds for a person.

    The retriever names the person itself, or each question does.
    """
    named = {"user": person.user, "groups": list(person.groups)}
    common = {"url": url, "api_key": key}
    if framework == "langchain":
        from foreask_langchain import ForeaskRetriever as OfLangChain

        own, each = OfLangChain(**common, **named, k=50), OfLangChain(**common, k=50)
        results = [own.invoke(QUESTION), each.invoke(QUESTION, **named)]
        return [{document.metadata["external_id"] for document in found} for found in results]
    if framework == "llama-index":
        from foreask_llama_index import ForeaskRetriever as OfLlamaIndex

        with Client(url, key) as shared:
            retrievers = [OfLlamaIndex(**common, **named, top_k=50), OfLlamaIndex(shared.acting_for(**named), top_k=50)]
            results = [retriever.retrieve(QUESTION) for retriever in retrievers]
        return [{node.node.metadata["external_id"] for node in found} for found in results]
    from haystack.utils import Secret
    from haystack_integrations.components.retrievers.foreask import ForeaskRetriever as OfHaystack

    common |= {"api_key": Secret.from_token(key), "top_k": 50}
    results = [OfHaystack(**common, **named).run(QUESTION), OfHaystack(**common).run(QUESTION, **named)]
    return [{document.meta["external_id"] for document in found["documents"]} for found in results]


@guards(
    "clients/python/foreask_client/synchronous/connection.py",
    "other._auth = self._auth.acting_for(user, groups)",
    "pass",
    means="a question of a person finds all documents of the key",
)
@pytest.mark.parametrize("framework", ["langchain", "llama-index", "haystack"])
async def test_retrievers_find_only_readable_documents(services, settings, once, monkeypatch, framework):
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    world, _ = await stored_world(once, 14)
    async with serving(with_keys(settings), services) as server:
        for person in world.people[:4]:
            expected = [each for each in world.documents.values() if each.is_found_by(person)]
            of_default = external_ids(each for each in expected if each.collection == "default")
            found = await asyncio.to_thread(found_by, framework, str(server.base_url), KEYS["alice"], person)
            assert found == [of_default] * 2


def named(world):
    """Return the names of documents and chunks by their ids."""
    found = {}
    for stored in world.documents.values():
        found[stored.document_id] = stored.name
        found |= {chunk: f"{stored.name} {n}" for n, chunk in enumerate(stored.chunk_ids)}
    return found


def differences(one, other, path=""):
    """Yield where two replies differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for n, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}.{n}")
    elif one != other:
        yield path, one, other


async def whole_replies(client, headers, world):
    """Return the replies to requests of a person, without ids, times and scores."""
    names = named(world)
    replies = {}

    async def send(method, path, **options):
        reply = await client.request(method, path, headers=headers, **options)
        shown = plain(reply.json(), names=names) if "json" in reply.headers["content-type"] else reply.text
        replies[method, UUID_TEXT.sub(lambda found: names.get(found[0], "id"), path), str(options)] = (
            reply.status_code,
            shown,
        )

    for collection in COLLECTIONS:
        asked = {"question": QUESTION, "collection": collection}
        for more in (
            {"top_k": 50, "explain": True},
            {"top_k": 50, "channels": ["questions"]},
            {"filter": {"place": "a"}},
        ):
            await send("POST", "/v1/retrieve", json=asked | more)
        await send("GET", f"/v1/collections/{collection}/suggestions?limit=20")
        await send("GET", f"/v1/documents?collection={collection}&q=hours&count=true")
    for query_string in ("", "?sort=name&limit=2", "?sort=state", "?sort=updated", "?state=ready"):
        await send("GET", f"/v1/documents{query_string}")
    for stored in world.documents.values():
        for address in ("", "/chunks", "/chunks?version=live", "/text?version=live", "/content"):
            await send("GET", f"/v1/documents/{stored.document_id}{address}")
        await send("GET", f"/v1/chunks/{stored.chunk_ids[0]}")
    await send("GET", "/v1/models")
    return replies


@pytest.mark.parametrize("number", [0, 4, 7])
async def test_replies_equal_those_without_hidden_documents(client, services, once, number):
    world, planned = await stored_world(once, 14, is_finished=True)  # the work of the other tenant would finish edits
    person = world.people[number]
    readable = {name: stored for name, stored in world.documents.items() if stored.shown_to(person)}
    assert 0 < len(readable) < len(world.documents)
    fewer = World(await fill(services, tuple(p for p in planned if p.name in readable), tenant="bob"), [person])

    ours = await whole_replies(client, KEY | person.headers, World(readable, [person]))
    theirs = await whole_replies(client, as_tenant("bob") | person.headers, fewer)

    assert ours.keys() == theirs.keys()
    for request, reply in ours.items():
        assert list(differences(reply, theirs[request])) == [], request
