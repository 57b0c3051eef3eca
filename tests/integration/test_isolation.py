"""Tenants share a Qdrant collection, but never see another tenant's points, counts or scores."""

from uuid import UUID

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.domain.corpus.collections import Baseline
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.query.retrieve import Query
from shared.vectors.hits import SectionKey
from shared.vectors.schema.filters import visible_points
from tests.conftest import Library
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.emptying import empty
from tests.support.qdrant import qdrant_client

WORDS = st.sampled_from(["harbour", "tide", "keeper", "lighthouse", "rope", "anchor", "storm", "gull"])
TEXTS = st.lists(st.lists(WORDS, min_size=3, max_size=12).map(" ".join), min_size=1, max_size=3)
QUESTION = "Where does the keeper of the lighthouse tie the rope?"


async def index_documents(services, tenant, texts):
    """Index documents of a tenant, with the same names for every tenant."""
    library = Library(services, tenant)
    for number, text in enumerate(texts):
        await library.add(f"The text says {text}.", f"{number}.md")
    await work(services)


async def seen(services, tenant):
    """Return everything that a tenant can see of the index, with scores."""
    collection = await Library(services, tenant).collection()
    index, location = services.index, collection.location
    (found,) = await services.retriever.search_channels(collection, [QUESTION], Baseline())
    stored, _ = await index.scroll_points(location)
    verification = Verification(services.ledger[Audit], index, collection, repair=True)
    return {
        "scores": {channel: dict(hits.scores) for channel, hits in found.items()},
        "hits": {channel: hits.points for channel, hits in found.items()},
        "retrieved": [
            (c.chunk_id, c.score, c.text)
            for c in (await services.retriever.retrieve(collection, Query(QUESTION))).chunks
        ],
        "stored": stored,
        "points": await index.count_points(location),
        "chunks": await index.count_chunks(location),
        "differences": [item async for item in verification.run() if isinstance(item, DifferingPoint)],
    }


def without_ids(view):
    """Return the part of a view that must be equal for two tenants with equal content."""
    return {
        "scores": {channel: sorted(scores.values()) for channel, scores in view["scores"].items()},
        "retrieved": sorted((score, text) for _, score, text in view["retrieved"]),
        "points": view["points"],
    }


def of_any_text(examples):
    """Run a test with so many random texts."""
    run = settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    return lambda test: run(given(texts=TEXTS, others=TEXTS)(test))


@of_any_text(examples=3)
async def test_another_tenants_writes_change_no_results(services, provider, texts, others):
    await empty(services)
    await check_isolation(services, texts, others)


@of_any_text(examples=10)
async def test_tenants_writes_of_any_text_change_no_results(services, provider, texts, others):
    await empty(services)
    await check_isolation(services, texts, others)


async def check_isolation(services, texts, others):
    """Check that Alice sees the same points, counts and scores whatever Bob stores and deletes."""
    await index_documents(services, "alice", texts)
    before = await seen(services, "alice")
    assert before["points"] > before["chunks"] >= len(texts)

    await index_documents(services, "bob", texts)
    same = await seen(services, "bob")
    assert await seen(services, "alice") == before
    assert without_ids(same) == without_ids(before)
    assert not {p.id for p in same["stored"]} & {p.id for p in before["stored"]}

    await index_documents(services, "bob", [*others, *texts, *others])
    assert await seen(services, "alice") == before

    documents = {p.document_id for p in (await seen(services, "bob"))["stored"]}
    for document in documents:
        await services.ledger[Documents].delete("bob", document)
    await services.cleaner.clean()
    assert (await seen(services, "bob"))["points"] == 0
    assert await seen(services, "alice") == before


@pytest.mark.parametrize("other", [("bob", "default"), ("alice", "second")], ids=["a tenant", "a collection"])
async def test_another_tenants_ids_read_and_change_nothing(services, provider, other):
    await index_documents(services, "alice", ["harbour tide keeper"])
    before = await seen(services, "alice")
    mine = (await Library(services, "alice").collection()).location
    tenant, name = other
    location = (await Library(services, tenant).collection(name)).location
    index, ids = services.index, [point.id for point in before["stored"]]
    (document,) = {point.document_id for point in before["stored"]}
    chunks = [str(point.chunk_id) for point in before["stored"]]
    versions = dict.fromkeys(chunks, 1)
    assert location.index_name == mine.index_name

    assert await index.stored_points(location, ids) == {}
    assert await index.chunk_payloads(location, versions, ids) == ({}, {})
    assert await index.text_vectors(visible_points(location), chunks) == {}
    section = SectionKey(str(document), 1, 0, 100)
    assert await index.section_payloads(location, [section]) == {section: []}
    assert await index.scroll_points(location) == ([], None)
    await index.show(location, ids)
    await index.delete_by_id(location, ids)
    await index.delete_document(location, document)

    assert await seen(services, "alice") == before
    own = await index.chunk_payloads(mine, versions, ids)
    assert own.chunks.keys() == set(chunks)
    assert own.questions.keys() < set(ids)


def groups_of(selected):
    """Return the groups that a filter selects, or an empty set without a condition on groups."""
    named = [condition["match"] for condition in selected["must"] if condition.get("key") == "group"]
    return {value for match in named for value in match.get("any") or [match["value"]]}


def requests_of(path, body):
    """Yield the groups of each search, scroll, count and change in one request to Qdrant."""
    if path.endswith("/query/batch"):
        for search in body["searches"]:
            yield groups_of(search["filter"])
            if search.get("using") == "bm25":
                yield groups_of(search["params"]["idf"]["corpus"])
    elif "operations" in body:
        for operation in body["operations"]:
            (change,) = operation.values()
            yield groups_of(change["filter"])
    elif path.endswith("/points") and "points" in body:
        yield {point["payload"]["group"] for point in body["points"]}
    elif "ids" not in body:  # point ids are derived from the collection's id
        yield groups_of(body["filter"])


@pytest.fixture
def sent(services, monkeypatch):
    """Return a list that receives the path and groups of every request about points."""
    requests, sent = services.index._requests, []
    send = requests.send

    async def recorded(method, address, body=None, *limits):
        path = address.partition("?")[0]
        if "/points" in path:
            content = orjson.loads(body) if isinstance(body, bytes) else body
            sent.append((path.rpartition("/points")[2], list(requests_of(path, content))))
        return await send(method, address, body, *limits)

    monkeypatch.setattr(requests, "send", recorded)
    return sent


async def test_every_qdrant_request_stays_within_one_collection(services, settings, provider, sent):
    alice = as_tenant("alice")
    async with calling(with_keys(settings), services) as client:
        sizes = {"chunk_max_chars": 300, "chunk_overlap_chars": 0, "section_max_chars": 1200}
        await client.put("/v1/collections/default", json=sizes, headers=alice)
        text = "# Harbour\n\n" + "\n\n".join(f"The keeper of pier {n} ties the rope {n}. " * 5 for n in range(4))
        for edition in ("first", "second"):
            body = {"text": f"{text}\n\nThe {edition}.", "external_id": "a.md"}
            document = (await client.post("/v1/documents", json=body, headers=alice)).json()["id"]
            await work(services)
        query = {"question": QUESTION, "unit": "section", "diversity": 0.5, "filter": {"x": {"none": ["y"]}}}
        reply = (await client.post("/v1/retrieve", json=query, headers=alice)).json()
        feedback = {"query_id": reply["metadata"]["query_id"], "chunk_id": reply["chunks"][0]["chunk_id"]}
        given = await client.post("/v1/feedback", json=feedback | {"helpful": True}, headers=alice)
        assert given.status_code in (200, 202), given.text
        await work(services)
        (await client.get("/v1/collections", headers=alice)).raise_for_status()
        (chunk, *_) = (await client.get(f"/v1/documents/{document}/chunks", headers=alice)).json()["items"]
        asked = next(each["text"] for each in chunk["questions"] if each["source"] == "generated" and each["passed"])
        for disabled in (True, False):
            body = {"question": asked, "disabled": disabled}
            changed = await client.patch(f"/v1/chunks/{chunk['id']}/questions", json=body, headers=alice)
            changed.raise_for_status()
        collection = await services.ledger[Collections].get("alice", "default")
        verification = Verification(services.ledger[Audit], services.index, collection, repair=True)
        assert [item async for item in verification.run() if isinstance(item, DifferingPoint)] == []
        (await client.delete(f"/v1/documents/{document}", headers=alice)).raise_for_status()
        await services.cleaner.clean()
        await services.index.ready()

    build = UUID(str(collection.id)).hex
    whole = {f"{build}/{kind}" for kind in ("q", "t", "d")}
    probes = [("/query/batch", [{""}])]
    outside = [request for request in sent if not all(groups and groups <= whole for groups in request[1])]
    assert [request for request in outside if request not in probes] == []
    assert {path for path, _ in sent} >= {"", "/batch", "/count", "/delete", "/query/batch", "/scroll"}


async def test_qdrant_builds_graphs_per_group_only(services):
    await services.index.ensure_collection("graphs", 3)
    info = await qdrant_client(services).get_collection("graphs")
    graphs = info.config.hnsw_config

    assert (graphs.m, graphs.payload_m) == (0, 16)
    made = {field for field, index in info.payload_schema.items() if index.params.enable_hnsw is not False}
    assert made == {"group"}
    assert info.payload_schema["group"].params.is_tenant
    assert info.payload_schema.keys() > {"tenant", "document_id", "chunk_id", "version", "token", "hidden"}
