"""One suite for every implementation of Qdrant: local mode, the embedded engine and, at QDRANT_URL, a server."""

import asyncio
import os
import uuid
from contextlib import asynccontextmanager

import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as q
from qdrant_client.http.exceptions import UnexpectedResponse

from embedded.ports import free_port
from embedded.qdrant import process
from embedded.supervisor import Supervisor

TARGETS = ["local", "embedded"] + (["server"] if os.environ.get("QDRANT_URL") else [])
WITH_INDEXES = [target for target in TARGETS if target != "local"]  # local mode has no payload indexes


@pytest.fixture(scope="module")
def embedded_access(tmp_path_factory):
    directory = tmp_path_factory.mktemp("qdrant")
    port = free_port()
    with Supervisor([process.child(directory / "data", port, directory / "qdrant.log")]):
        key = process.key(directory / "data").get_secret_value()
        yield {"url": process.url(port), "headers": {"api-key": key}}


@pytest.fixture(scope="module", params=TARGETS)
async def client(request):
    if request.param == "local":
        client = AsyncQdrantClient(":memory:")
    elif request.param == "embedded":
        client = AsyncQdrantClient(**request.getfixturevalue("embedded_access"), timeout=60)
    else:
        client = AsyncQdrantClient(url=os.environ["QDRANT_URL"], api_key=os.environ.get("QDRANT_API_KEY"), timeout=60)
    client.is_local = request.param == "local"
    yield client
    await client.close()


@asynccontextmanager
async def created(client):
    """Yield the name of a new collection, which is deleted afterwards."""
    name = f"test-{uuid.uuid4().hex}"
    await client.create_collection(
        name,
        vectors_config={
            "question": q.VectorParams(size=3, distance=q.Distance.COSINE),
            "text": q.VectorParams(size=2, distance=q.Distance.DOT),
        },
        sparse_vectors_config={"bm25": q.SparseVectorParams(modifier=q.Modifier.IDF)},
    )
    if not client.is_local:  # local mode has no payload indexes and says so with a warning
        await client.create_payload_index(name, "tenant", q.KeywordIndexParams(type="keyword", is_tenant=True))
        await client.create_payload_index(name, "chunk", "keyword")
        await client.create_payload_index(name, "version", "integer")
    yield name
    await client.delete_collection(name)


@pytest.fixture(scope="module")
async def shared_collection(client):
    async with created(client) as name:
        yield name


@pytest.fixture
async def collection(client, shared_collection):
    """A collection without points. Tests share it: to create one takes the engine ten times as long as to empty one."""
    await client.delete(shared_collection, q.FilterSelector(filter=q.Filter()), wait=True)
    return shared_collection


@pytest.fixture
async def own_collection(client):
    """A collection for a test that adds indexes, thousands of points, or words whose rarity counts."""
    async with created(client) as name:
        yield name


POINTS = [
    (
        [1.0, 0.0, 0.0],
        {"tenant": "a", "chunk": "c1", "version": 1, "tags": ["x", "y"], "at": "2024-01-01T00:00:00Z"},
    ),
    ([0.9, 0.1, 0.0], {"tenant": "a", "chunk": "c1", "version": 2, "tags": ["y"], "at": "2024-06-01T00:00:00Z"}),
    ([0.8, 0.3, 0.0], {"tenant": "a", "chunk": "c2", "version": 2, "tags": [], "none": None}),
    ([0.0, 1.0, 0.0], {"tenant": "b", "chunk": "c3", "version": 3, "nest": [{"p": 1, "q": 2}, {"p": 2, "q": 1}]}),
    ([0.0, 0.9, 0.2], {"tenant": "b", "chunk": "c3", "version": 4, "flag": True, "score": 0.5}),
    ([0.0, 0.0, 1.0], {"tenant": "b", "chunk": "c4", "version": 5, "deep": {"field": "value"}}),
]


@pytest.fixture
async def filled(client, collection):
    await fill(client, collection)
    return collection


async def fill(client, collection):
    points = [q.PointStruct(id=i, vector={"question": v}, payload=p) for i, (v, p) in enumerate(POINTS, start=1)]
    await client.upsert(collection, points, wait=True)


def must(*conditions, **clauses):
    return q.Filter(must=list(conditions), **clauses)


def match(key, value):
    return q.FieldCondition(key=key, match=q.MatchValue(value=value))


async def ids_of(client, collection, condition):
    points, _ = await client.scroll(collection, scroll_filter=condition, limit=100)
    return [point.id for point in points]


async def nearest(client, collection, query, **more):
    """Send one search in a batch, as the product sends all its searches."""
    (reply,) = await client.query_batch_points(collection, [q.QueryRequest(query=query, **more)])
    return reply.points


async def ids_near(client, collection, vector, **more):
    return [point.id for point in await nearest(client, collection, vector, using="question", **more)]


# --- collections ---


async def test_collection_info_shows_creation_parameters(client, collection):
    info = await client.get_collection(collection)

    assert info.config.params.vectors["question"].size == 3
    assert info.config.params.vectors["text"].distance == q.Distance.DOT
    assert info.config.params.sparse_vectors["bm25"].modifier == q.Modifier.IDF
    assert info.points_count == 0
    assert info.status == q.CollectionStatus.GREEN
    if not client.is_local:
        assert info.payload_schema["tenant"].data_type == q.PayloadSchemaType.KEYWORD
        assert info.payload_schema["tenant"].params.is_tenant is True
        assert info.payload_schema["version"].data_type == q.PayloadSchemaType.INTEGER


async def test_collection_is_listed_until_deleted(client):
    name = f"test-{uuid.uuid4().hex}.with a strange näme"
    await client.create_collection(name, vectors_config=q.VectorParams(size=2, distance=q.Distance.DOT))

    assert await client.collection_exists(name)
    assert name in [collection.name for collection in (await client.get_collections()).collections]
    assert await client.delete_collection(name)
    assert not await client.collection_exists(name)
    assert not await client.delete_collection(name)


@pytest.mark.parametrize("call", ["get_collection", "count", "scroll", "delete_missing_points"])
async def test_missing_collection_raises_not_found(client, call):
    calls = {
        "get_collection": lambda: client.get_collection("nowhere"),
        "count": lambda: client.count("nowhere"),
        "scroll": lambda: client.scroll("nowhere"),
        "delete_missing_points": lambda: client.delete("nowhere", [1]),
    }
    with pytest.raises(Exception, match=r"(?i)not found|doesn't exist") as caught:
        await calls[call]()
    if not client.is_local:  # local mode raises ValueError, which has no status
        assert caught.value.status_code == 404


async def test_second_creation_of_collection_is_rejected(client, collection):
    with pytest.raises(Exception, match="already exists") as caught:
        await client.create_collection(collection, vectors_config=q.VectorParams(size=2, distance=q.Distance.DOT))
    if not client.is_local:
        assert caught.value.status_code == 409


async def test_single_unnamed_vector_is_supported(client):
    name = f"test-{uuid.uuid4().hex}"
    await client.create_collection(name, vectors_config=q.VectorParams(size=2, distance=q.Distance.DOT))
    await client.upsert(name, [q.PointStruct(id=1, vector=[1.0, 2.0], payload={})], wait=True)

    (point,) = await nearest(client, name, [1.0, 1.0], with_vector=True)

    assert (point.score, point.vector) == (3.0, [1.0, 2.0])
    assert (await client.get_collection(name)).config.params.vectors.size == 2
    await client.delete_collection(name)


@pytest.fixture
async def grouped(client):
    """An empty collection of many groups, with a graph for each group instead of one over all points."""
    name = f"test-{uuid.uuid4().hex}"
    await client.create_collection(
        name,
        vectors_config={"dense": q.VectorParams(size=4, distance=q.Distance.COSINE, on_disk=True)},
        hnsw_config=q.HnswConfigDiff(m=0, payload_m=16),
        quantization_config=INT8,
        on_disk_payload=True,
        shard_number=1,
        replication_factor=1,
        write_consistency_factor=1,
    )
    await client.create_payload_index(name, "group", q.KeywordIndexParams(type="keyword", is_tenant=True))
    yield name
    await client.delete_collection(name)


INT8 = q.ScalarQuantization(scalar=q.ScalarQuantizationConfig(type=q.ScalarType.INT8, quantile=0.99, always_ram=True))


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)  # local mode stores none of these parameters
async def test_grouped_collection_info_shows_its_configuration(client, grouped):
    info = await client.get_collection(grouped)

    assert (info.config.hnsw_config.m, info.config.hnsw_config.payload_m) == (0, 16)
    assert info.config.quantization_config == INT8
    assert info.config.params.vectors["dense"].on_disk is True
    assert info.config.params.on_disk_payload is True
    params = info.config.params
    assert (params.shard_number, params.replication_factor, params.write_consistency_factor) == (1, 1, 1)
    assert info.payload_schema["group"].params.is_tenant is True


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)
async def test_group_search_returns_only_group_points(client, grouped):
    def point(number):
        angles = [1.0, 0.3 * number, 0.0, 0.1]
        return q.PointStruct(id=number, vector={"dense": angles}, payload={"group": f"b{number % 3}/q"})

    await client.upsert(grouped, [point(number) for number in range(30)], wait=True)
    exactly = q.SearchParams(quantization=q.QuantizationSearchParams(rescore=True, oversampling=2.0))
    where = must(match("group", "b1/q"))

    points = await nearest(client, grouped, [1.0, 0.0, 0.0, 0.1], using="dense", filter=where, limit=4, params=exactly)

    assert [p.id for p in points] == [1, 4, 7, 10]


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)
async def test_filter_only_index_reports_no_graphs(client, grouped):
    filters_alone = q.KeywordIndexParams(type="keyword", enable_hnsw=False)

    await client.create_payload_index(grouped, "document_id", filters_alone, wait=True)

    assert (await client.get_collection(grouped)).payload_schema["document_id"].params.enable_hnsw is False


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)
async def test_payload_index_is_added_to_existing_points(client, own_collection):
    await fill(client, own_collection)
    assert "score" not in (await client.get_collection(own_collection)).payload_schema

    await client.create_payload_index(own_collection, "score", q.FloatIndexParams(type="float"), wait=True)
    await client.create_payload_index(own_collection, "score", q.FloatIndexParams(type="float"), wait=True)

    index = (await client.get_collection(own_collection)).payload_schema["score"]
    assert (index.data_type, index.points) == (q.PayloadSchemaType.FLOAT, 1)
    high = must(q.FieldCondition(key="score", range=q.Range(gt=0.4)))
    assert await ids_of(client, own_collection, high) == [5]


# --- points ---


async def test_retrieved_points_equal_written_points(client, collection):
    identity = str(uuid.uuid4())
    vectors = {
        "question": [0.0, 3.0, 4.0],
        "text": [1.5, -2.0],
        "bm25": q.SparseVector(indices=[7, 900_000], values=[0.5, 1.5]),
    }
    payload = {"text": "Köln 😀", "n": 7, "f": 0.25, "b": True, "none": None, "list": [1, "x"], "deep": {"a": {"b": 1}}}
    await client.upsert(collection, [q.PointStruct(id=identity, vector=vectors, payload=payload)], wait=True)

    (point,) = await client.retrieve(collection, [identity], with_vectors=True)

    assert point.id == identity
    assert point.payload == payload
    assert point.vector["question"] == pytest.approx([0.0, 0.6, 0.8])  # cosine vectors are stored normalised
    assert point.vector["text"] == [1.5, -2.0]
    assert point.vector["bm25"].indices == [7, 900_000]
    assert point.vector["bm25"].values == [0.5, 1.5]


@pytest.mark.parametrize("bits", [1, 2**128 - 1, 0xBFFFF3F8_9959_F223_F629_00000100000A])
async def test_point_id_may_use_all_128_bits(client, collection, bits):
    identity = str(uuid.UUID(int=bits))
    await client.upsert(collection, [q.PointStruct(id=identity, vector={"question": [0, 1, 0]}, payload={})], wait=True)

    assert await ids_near(client, collection, [0.0, 1.0, 0.0]) == [identity]
    assert [point.id for point in await client.retrieve(collection, [identity])] == [identity]


async def test_upsert_replaces_all_fields_of_point(client, filled):
    await client.upsert(filled, [q.PointStruct(id=1, vector={"text": [1.0, 1.0]}, payload={"new": 1})], wait=True)

    (point,) = await client.retrieve(filled, [1], with_vectors=True)

    assert point.payload == {"new": 1}
    assert set(point.vector) == {"text"}
    assert (await client.count(filled)).count == len(POINTS)


async def test_update_filter_overwrites_matches_and_inserts_new_points(client, filled):
    older = q.Filter(must=[q.FieldCondition(key="version", range=q.Range(lt=2))])
    points = [q.PointStruct(id=i, vector={"question": [1, 1, 1]}, payload={"version": 9}) for i in (1, 2, 99)]

    await client.upsert(filled, points, wait=True, update_filter=older)

    versions = {point.id: point.payload["version"] for point in await client.retrieve(filled, [1, 2, 99])}
    assert versions == {1: 9, 2: 2, 99: 9}


async def stored_after_rejection(client, collection, vector):
    """Write a point with this vector between two valid points; return the ids that are stored despite the rejection."""
    good = {"question": [1.0, 0.0, 0.0]}
    points = [q.PointStruct(id=i, vector=v, payload={}) for i, v in enumerate([good, vector, good], start=1)]

    with pytest.raises(UnexpectedResponse) as caught:
        await client.upsert(collection, points, wait=True)

    assert caught.value.status_code == 400
    return await ids_of(client, collection, None)


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)  # local mode stores the points before the invalid one
async def test_wrong_vector_size_is_rejected_without_writes(client, collection):
    assert await stored_after_rejection(client, collection, {"question": [1.0, 2.0]}) == []


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)
@pytest.mark.parametrize(
    "vector",
    [{"nope": [1.0, 2.0, 3.0]}, [1.0, 2.0, 3.0], {"bm25": [1.0, 2.0]}],
    ids=["name", "unnamed", "dense-for-sparse"],
)
async def test_point_with_unknown_vector_is_rejected_others_written(client, collection, vector):
    written = await stored_after_rejection(client, collection, vector)

    assert written  # a server may have written one or both valid points
    assert set(written) <= {1, 3}


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)  # local mode ignores it
async def test_empty_optimizer_change_is_accepted(client, collection):
    assert await client.update_collection(collection, optimizers_config=q.OptimizersConfigDiff())


async def test_points_are_deleted_by_id_and_filter(client, filled):
    await client.delete(filled, [1, 4, 12345], wait=True)
    assert await ids_of(client, filled, None) == [2, 3, 5, 6]

    await client.delete(filled, q.FilterSelector(filter=must(match("tenant", "b"))), wait=True)
    assert await ids_of(client, filled, None) == [2, 3]


async def test_payload_is_set_by_id_and_filter(client, filled):
    await client.set_payload(filled, {"version": 7}, [1], wait=True)
    await client.set_payload(filled, {"seen": True}, q.Filter(must=[match("tenant", "b")]), wait=True)

    payloads = {point.id: point.payload for point in await client.retrieve(filled, [1, 2, 4, 6])}
    assert payloads[1] == {**POINTS[0][1], "version": 7}
    assert payloads[2] == POINTS[1][1]
    assert payloads[4]["seen"] is payloads[6]["seen"] is True


async def test_batch_updates_are_applied_in_order(client, filled):
    point = q.PointStruct(id=50, vector={"question": [1.0, 0.0, 0.0]}, payload={"a": 1})
    results = await client.batch_update_points(
        filled,
        [
            q.UpsertOperation(upsert=q.PointsList(points=[point])),
            q.SetPayloadOperation(set_payload=q.SetPayload(payload={"b": 2}, points=[50])),
            q.DeleteOperation(delete=q.PointIdsList(points=[1])),
            q.SetPayloadOperation(set_payload=q.SetPayload(payload={"b": 3}, points=[50])),
        ],
        wait=True,
    )

    assert [result.status for result in results] == [q.UpdateStatus.COMPLETED] * 4
    assert [p.payload for p in await client.retrieve(filled, [50, 1])] == [{"a": 1, "b": 3}]


async def test_waiting_upsert_returns_completed(client, collection):
    point = q.PointStruct(id=1, vector={"question": [1.0, 0.0, 0.0]}, payload={})

    assert (await client.upsert(collection, [point], wait=True)).status == q.UpdateStatus.COMPLETED


# --- filters ---

DATE = "2024-03-01T00:00:00Z"
FILTERS = {
    "value": (must(match("tenant", "a")), [1, 2, 3]),
    "bool": (must(match("flag", value=True)), [5]),
    "nested path": (must(match("deep.field", "value")), [6]),
    "any": (must(q.FieldCondition(key="chunk", match=q.MatchAny(any=["c1", "c4"]))), [1, 2, 6]),
    "any of a list": (must(q.FieldCondition(key="tags", match=q.MatchAny(any=["x"]))), [1]),
    "except": (must(q.FieldCondition(key="chunk", match=q.MatchExcept(**{"except": ["c1", "c3"]}))), [3, 6]),
    "range": (must(q.FieldCondition(key="version", range=q.Range(gte=2, lt=4))), [2, 3, 4]),
    "float range": (must(q.FieldCondition(key="score", range=q.Range(gt=0.4, lte=0.5))), [5]),
    "datetime": (must(q.FieldCondition(key="at", range=q.DatetimeRange(lt=DATE))), [1]),
    "empty": (must(q.IsEmptyCondition(is_empty=q.PayloadField(key="tags"))), [3, 4, 5, 6]),
    "null": (must(q.IsNullCondition(is_null=q.PayloadField(key="none"))), [3]),
    "ids": (must(q.HasIdCondition(has_id=[2, 5, 77])), [2, 5]),
    "vector": (must(q.HasVectorCondition(has_vector="question")), [1, 2, 3, 4, 5, 6]),
    "no vector": (must(q.HasVectorCondition(has_vector="text")), []),
    "count": (must(q.FieldCondition(key="tags", values_count=q.ValuesCount(gte=2))), [1]),
    "nested": (must(q.NestedCondition(nested=q.Nested(key="nest", filter=must(match("p", 1), match("q", 2))))), [4]),
    "not nested": (must(q.NestedCondition(nested=q.Nested(key="nest", filter=must(match("p", 1), match("q", 1))))), []),
    "must not": (q.Filter(must_not=[match("tenant", "a"), match("chunk", "c4")]), [4, 5]),
    "should": (q.Filter(should=[match("chunk", "c1"), match("version", 5)]), [1, 2, 6]),
    "min should": (
        q.Filter(min_should=q.MinShould(conditions=[match("tenant", "a"), match("version", 2)], min_count=2)),
        [2, 3],
    ),
    "filter in a filter": (
        must(match("tenant", "b"), q.Filter(should=[match("chunk", "c4"), match("flag", value=True)])),
        [5, 6],
    ),
}


async def test_filter_selects_matching_points(client, filled):
    async def counted(condition):
        return (await client.count(filled, count_filter=condition, exact=True)).count

    async def queried(condition):
        return sorted(await ids_near(client, filled, [1.0, 0.0, 0.0], filter=condition))

    expected = {name: ids for name, (_, ids) in FILTERS.items()}

    assert {name: await ids_of(client, filled, condition) for name, (condition, _) in FILTERS.items()} == expected
    assert {name: await queried(condition) for name, (condition, _) in FILTERS.items()} == expected
    assert {name: await counted(condition) for name, (condition, _) in FILTERS.items()} == {
        name: len(ids) for name, ids in expected.items()
    }


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)  # local mode compares substrings
async def test_text_index_matches_words_and_phrases(client, own_collection):
    await client.create_payload_index(
        own_collection, "body", q.TextIndexParams(type="text", tokenizer="word", lowercase=True, phrase_matching=True)
    )
    texts = ["The quick brown fox", "brown and quick", "nothing"]
    points = [q.PointStruct(id=i, vector={}, payload={"body": text}) for i, text in enumerate(texts, start=1)]
    await client.upsert(own_collection, points, wait=True)

    words = must(q.FieldCondition(key="body", match=q.MatchText(text="QUICK brown")))
    phrase = must(q.FieldCondition(key="body", match=q.MatchPhrase(phrase="quick brown")))
    either = must(q.FieldCondition(key="body", match=q.MatchTextAny(text_any="fox nothing")))

    assert await ids_of(client, own_collection, words) == [1, 2]
    assert await ids_of(client, own_collection, phrase) == [1]
    assert await ids_of(client, own_collection, either) == [1, 3]


# --- scrolling ---


async def test_scroll_returns_every_point_once(client, filled):
    scrolled, offset = [], None
    while True:
        points, offset = await client.scroll(filled, limit=4, offset=offset, with_payload=["tenant"])
        scrolled += [(point.id, point.payload) for point in points]
        if offset is None:
            break

    assert scrolled == [(i, {"tenant": payload["tenant"]}) for i, (_, payload) in enumerate(POINTS, start=1)]


async def test_returned_point_parts_are_selectable(client, filled):
    only = await client.retrieve(filled, [1], with_payload=["tenant", "tags"])
    nothing = await client.retrieve(filled, [1], with_payload=False)

    assert only[0].payload == {"tenant": "a", "tags": ["x", "y"]}
    assert not nothing[0].payload
    assert nothing[0].vector is None


# --- queries ---


async def test_nearest_points_come_first_with_cosine_score(client, filled):
    points = await nearest(client, filled, [1.0, 0.0, 0.0], using="question", limit=3)

    assert [point.id for point in points] == [1, 2, 3]
    assert [point.score for point in points] == pytest.approx([1.0, 0.9939, 0.9363], abs=1e-4)


async def test_query_applies_offset_threshold_and_parameters(client, filled):
    exact = None if client.is_local else q.SearchParams(exact=True, hnsw_ef=64)  # local mode warns that it has no index

    assert await ids_near(client, filled, [1.0, 0.0, 0.0], limit=2, offset=1, params=exact) == [2, 3]
    assert await ids_near(client, filled, [1.0, 0.0, 0.0], score_threshold=0.99) == [1, 2]


async def test_query_vector_of_wrong_size_is_rejected(client, filled):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        await ids_near(client, filled, [1.0, 0.0])
    if not client.is_local:
        assert caught.value.status_code == 400


SPARSE = {1: ([1, 2], [1.0, 1.0]), 2: ([1], [2.0]), 3: ([3], [1.0]), 4: ([1, 3], [1.0, 0.5])}


@pytest.fixture
async def sparse(client, own_collection):
    points = []
    for identity, (indices, values) in SPARSE.items():
        vector = {"bm25": q.SparseVector(indices=indices, values=values), "question": POINTS[identity - 1][0]}
        points.append(q.PointStruct(id=identity, vector=vector, payload=POINTS[identity - 1][1]))
    await client.upsert(own_collection, points, wait=True)
    return own_collection


async def test_sparse_scores_are_weighted_by_rarity(client, sparse):
    query = q.SparseVector(indices=[1, 2], values=[1.0, 1.0])

    points = await nearest(client, sparse, query, using="bm25")

    assert {point.id for point in points} == {1, 2, 4}
    by_id = {point.id: point.score for point in points}
    assert by_id[1] > by_id[2] > by_id[4]
    assert by_id[2] == pytest.approx(2 * by_id[4], rel=1e-4)
    assert by_id[1] / by_id[4] > 2  # token 2 is rarer than token 1


async def test_nested_filter_lists_points_with_vector(client, filled):
    chunks = q.FieldCondition(key="chunk", match=q.MatchAny(any=["c1", "c3"]))
    visible = q.Filter(must=[match("tenant", "a")], must_not=[match("version", 1)])
    listed = q.Filter(must=[visible, chunks, q.HasVectorCondition(has_vector="question")])

    (point,) = await nearest(client, filled, None, filter=listed, limit=8, with_payload=True, with_vector=["question"])

    assert (point.id, point.payload) == (2, POINTS[1][1])
    assert point.vector["question"] == pytest.approx([0.9939, 0.1104, 0.0], abs=1e-4)


async def test_group_idf_ignores_other_groups(client, sparse):
    query = q.SparseVector(indices=[1, 2], values=[1.0, 1.0])
    group = must(match("tenant", "a"))
    within = q.SearchParams(idf=q.IdfCorpusParams(corpus=group))

    async def scores(**more):
        return [(p.id, p.score) for p in await nearest(client, sparse, query, using="bm25", filter=group, **more)]

    before, before_of_all = await scores(params=within), await scores()
    common = q.SparseVector(indices=[1], values=[1.0])
    others = [q.PointStruct(id=i, vector={"bm25": common}, payload={"tenant": "b"}) for i in range(100, 150)]
    await client.upsert(sparse, others, wait=True)

    assert [identity for identity, _ in before] == [1, 2]
    assert await scores(params=within) == before
    assert await scores() != before_of_all


@pytest.mark.parametrize("client", WITH_INDEXES, indirect=True)  # local mode has no indexes and warns of parameters
async def test_explicit_global_idf_equals_default(client, sparse):
    query = q.SparseVector(indices=[1, 2], values=[1.0, 1.0])
    everywhere = q.SearchParams(idf=q.IdfScope.GLOBAL)

    named = await nearest(client, sparse, query, using="bm25", params=everywhere)

    assert [p.score for p in named] == [p.score for p in await nearest(client, sparse, query, using="bm25")]


async def test_batch_queries_are_answered_in_order(client, filled):
    requests = [
        q.QueryRequest(query=[1.0, 0.0, 0.0], using="question", limit=1, with_payload=True),
        q.QueryRequest(query=[0.0, 0.0, 1.0], using="question", limit=2, filter=must(match("tenant", "b"))),
        q.QueryRequest(query=[1.0, 0.0, 0.0], using="question", limit=1, with_vector=True),
    ]
    first, second, third = await client.query_batch_points(filled, requests)

    assert [(point.id, point.payload) for point in first.points] == [(1, POINTS[0][1])]
    assert [point.id for point in second.points] == [6, 5]
    assert third.points[0].id == 1
    assert third.points[0].vector["question"] == pytest.approx([1.0, 0.0, 0.0])


async def test_queries_are_answered_during_writes(client, own_collection):
    await fill(client, own_collection)

    async def write(stream):
        for batch in range(10):
            base = 1000 + stream * 10_000 + batch * 100
            points = [
                q.PointStruct(id=base + i, vector={"question": [0.0, 0.0, -1.0]}, payload={"tenant": "z"})
                for i in range(100)
            ]
            await client.upsert(own_collection, points, wait=True)

    async def read():
        for _ in range(30):
            assert await ids_near(client, own_collection, [1.0, 0.0, 0.0], limit=2) == [1, 2]

    await asyncio.gather(write(0), write(1), read(), read())

    assert (await client.count(own_collection)).count == len(POINTS) + 2000
