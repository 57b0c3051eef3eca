"""Declared metadata fields: filters match equally with and without an index, for every tenant."""

import asyncio
import operator
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.index_location import IndexLocation
from shared.domain.errors import Conflict
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.submission import _write
from shared.ledger.model.collections import Collections
from shared.vectors.schema.fields import KEYS
from shared.vectors.schema.filters import caller_conditions, visible_points
from shared.vectors.schema.points import PointContext, points_of
from tests.support.api import work
from tests.support.planted import guards
from tests.support.qdrant import qdrant_client
from tests.support.waiting import until_blocked

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
FIELDS = (
    ("department", "keyword"),
    ("year", "integer"),
    ("tags", "keyword"),
    ("price", "float"),
    ("size", "integer"),
    ("draft", "bool"),
    ("at", "datetime"),
    ("until", "datetime"),
)
# Another tenant's fields, which have the same names but other types.
OTHER_FIELDS = tuple((name, "keyword") for name, kind in FIELDS if kind != "keyword")

TEXTS = st.sampled_from(["", "a", "b", "A", "ü", "a=b", "true", "1", "2024-01-01", "annual report", "department=a"])
INTEGERS = st.sampled_from([-(2**63), 2**63 - 1, 2**53, 2**53 + 1, -1, 0, 1, 2, 2024])
FLOATS = st.sampled_from([0.0, -0.0, 0.5, 1, 2, 2.0, 2**53 + 1, -1e300, 1e300, 5e-324])
DATES = st.sampled_from(
    [
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "2024-01-01 00:00:00",
        "2024-01-01T00:00:00.000001Z",
        "2024-01-01T01:00:00+01:00",
        "2023-12-31T23:59:59.999999",
        "0001-01-01",
        "9999-12-31T23:59:59Z",
    ]
)
VALUES = {"keyword": TEXTS, "integer": INTEGERS, "float": FLOATS, "bool": st.booleans(), "datetime": DATES}
NUMBERS = INTEGERS | FLOATS | st.sampled_from([0.25, 1.5, 2023.5, -(2.0**63)])


def metadata(fields):
    """Return a strategy for metadata: values, lists of values, null, or missing fields."""
    values = {name: VALUES[kind] | st.none() | st.lists(VALUES[kind], max_size=3) for name, kind in fields}
    return st.fixed_dictionaries({}, optional=values)


def bounds(values):
    return st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), values, min_size=1, max_size=2)


def lists(values):
    return st.lists(values, min_size=1, max_size=3)


LISTS = lists(TEXTS) | lists(INTEGERS)
CONDITIONS = (
    (TEXTS | NUMBERS | st.booleans())
    | LISTS.map(lambda values: {"any": values})
    | LISTS.map(lambda values: {"none": values})
    | bounds(NUMBERS)
    | bounds(DATES)
    | st.sampled_from(["a", "annual", "report annual"]).map(lambda text: {"text": text})
)


def conditions(kind):
    """Return a strategy for conditions on a field, most of them with values of its type."""
    compared = DATES if kind == "datetime" else NUMBERS
    listed = lists(VALUES[kind] if kind in ("keyword", "integer") else INTEGERS)
    of_lists = st.tuples(st.sampled_from(["any", "none"]), listed).map(lambda pair: dict([pair]))
    return VALUES[kind] | of_lists | bounds(compared) | CONDITIONS


PAIRS = st.one_of(*(st.tuples(st.just(name), conditions(kind)) for name, kind in FIELDS))
FILTERS = st.lists(PAIRS, min_size=1, max_size=2).map(dict)


def points(location, documents, fields):
    """Yield a point for each document, with the given declared fields."""
    content = ChunkContent.whole("The text.")
    for document, values in documents.items():
        context = PointContext(location, document, uuid4(), 1, 1, 0, "a.md", EPOCH, metadata=values, filterable=fields)
        yield from points_of(content, context, None, [])


@pytest.fixture(scope="module")
async def shared_collection(session_services):
    """Yield a Qdrant collection for all examples; each example uses its own groups."""
    name = f"test-{uuid4().hex}"
    await session_services.index.ensure_collection(name, 3)
    yield name
    await session_services.index.drop_collection(name)


async def found(index, location, filter_, fields):
    """Return the ids of the documents that match a filter."""
    selection = visible_points(location, caller_conditions(filter_, None, fields))
    (hits,) = await index.search(location.index_name, [{"filter": selection.texts, "limit": 100, "with_payload": True}])
    return sorted(hit.payload["document_id"] for hit in hits)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(metadata(FIELDS), min_size=3, max_size=8),
    others=st.lists(metadata(OTHER_FIELDS), max_size=4),
    filters=st.lists(FILTERS, min_size=6, max_size=10),
)
@example(
    documents=[{"department": ["1", "true"], "year": 1, "draft": True, "at": "2024-01-01"}],
    others=[],
    # Values of other types that are written like a value of the field's type.
    filters=[
        {"department": 1},
        {"department": True},
        {"department": {"any": [1]}},
        {"year": "1"},
        {"year": {"none": ["1"]}},
        {"draft": "true"},
        {"at": "2024-01-01"},
    ],
)
async def test_declared_field_matches_like_undeclared_field(
    session_services, shared_collection, documents, others, filters
):
    index = session_services.index
    declared, undeclared, other = (IndexLocation(shared_collection, tenant, uuid4().hex) for tenant in ("a", "b", "c"))
    same = {uuid4(): values for values in documents}
    written = [*points(declared, same, FIELDS), *points(undeclared, same, ())]
    written += points(other, {uuid4(): values for values in others}, OTHER_FIELDS)
    await index.upsert(shared_collection, written)

    for filter_ in filters:
        expected = await found(index, undeclared, filter_, ())
        assert await found(index, declared, filter_, FIELDS) == expected, filter_


# Values and conditions with an obvious meaning; the unusual ones are above.
PLAIN_TEXTS, PLAIN_NUMBERS = st.sampled_from(["a", "b", "c"]), st.integers(0, 4)
PLAIN = {
    "department": PLAIN_TEXTS,
    "year": PLAIN_NUMBERS,
    "price": PLAIN_NUMBERS.map(lambda n: n + 0.5),
    "draft": st.booleans(),
}
PLAIN_FIELDS = tuple((name, kind) for name, kind in FIELDS if name in PLAIN)
PLAIN_METADATA = st.fixed_dictionaries(
    {}, optional={name: values | st.none() | st.lists(values, max_size=2) for name, values in PLAIN.items()}
)
EXISTENCE = st.none() | st.booleans().map(lambda yes: {"exists": yes})
PLAIN_PAIRS = st.one_of(
    st.tuples(st.sampled_from(list(PLAIN)), EXISTENCE),
    st.tuples(st.just("department"), PLAIN_TEXTS | lists(PLAIN_TEXTS).map(lambda values: {"none": values})),
    st.tuples(st.just("year"), PLAIN_NUMBERS | lists(PLAIN_NUMBERS).map(lambda values: {"any": values})),
    st.tuples(st.sampled_from(["year", "price"]), bounds(PLAIN_NUMBERS)),
    st.tuples(st.just("draft"), st.booleans()),
)
NESTED_FILTERS = st.recursive(
    st.lists(PLAIN_PAIRS, min_size=1, max_size=2).map(dict),
    lambda filters: (
        st.lists(filters, min_size=1, max_size=3).map(lambda some: {"any": some})
        | st.lists(filters, min_size=1, max_size=3).map(lambda some: {"all": some})
        | st.tuples(filters, PLAIN_PAIRS).map(lambda both: {"not": both[0], both[1][0]: both[1][1]})
    ),
    max_leaves=6,
)
COMPARISONS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


def matches(filter_, metadata):
    """Evaluate a filter in Python, as the reference."""
    nested = {
        "all": lambda filters: all(matches(each, metadata) for each in filters),
        "any": lambda filters: any(matches(each, metadata) for each in filters),
        "not": lambda one: not matches(one, metadata),
    }
    parts = filter_.items()
    return all(nested[name](part) if name in nested else _fits(metadata.get(name), part) for name, part in parts)


def _fits(value, condition):
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not isinstance(condition, dict):
        return not values if condition is None else condition in values
    if bounds := condition.keys() & COMPARISONS:
        return any(all(COMPARISONS[bound](value, condition[bound]) for bound in bounds) for value in values)
    ((sign, wanted),) = condition.items()
    if sign == "exists":
        return bool(values) == wanted
    return bool(set(values) & set(wanted)) == (sign == "any")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(PLAIN_METADATA, min_size=4, max_size=8),
    filters=st.lists(NESTED_FILTERS, min_size=6, max_size=10),
)
@example(documents=[{}, {"year": None}, {"year": []}, {"year": 1}], filters=[{"year": None}, {"not": {"year": None}}])
async def test_nested_filters_match_reference_evaluation(session_services, shared_collection, documents, filters):
    index = session_services.index
    declared, undeclared = (IndexLocation(shared_collection, tenant, uuid4().hex) for tenant in ("a", "b"))
    same = {uuid4(): values for values in documents}
    await index.upsert(shared_collection, [*points(declared, same, PLAIN_FIELDS), *points(undeclared, same, ())])

    for filter_ in filters:
        expected = sorted(str(document) for document, values in same.items() if matches(filter_, values))
        assert await found(index, undeclared, filter_, ()) == expected, filter_
        assert await found(index, declared, filter_, PLAIN_FIELDS) == expected, filter_


MEANINGS = [
    ({"department": "hr"}, ["leave", "list"]),
    ({"department": {"any": ["hr", "law"]}}, ["law", "leave", "list"]),
    ({"department": {"none": ["hr"]}}, ["law", "none", "null"]),
    ({"year": 2024}, ["law", "list"]),
    ({"year": {"any": [2024, 2026]}}, ["law", "leave", "list"]),
    ({"year": {"gte": 2025}}, ["leave", "list"]),
    ({"year": {"gt": 2023.5, "lt": 2025.5}}, ["law", "list"]),
    ({"draft": True}, ["leave"]),
    ({"price": 2.0}, ["law", "leave"]),
    ({"at": {"gte": "2024-06-01", "lt": "2024-06-02T00:00:00+02:00"}}, ["leave"]),
    ({"department": "hr", "year": {"gt": 2025}}, ["leave"]),
    ({"department": {"text": "hr"}}, ["leave", "list"]),
]


async def test_declared_field_filters_have_documented_meaning(session_services, shared_collection):
    location = IndexLocation(shared_collection, "a", uuid4().hex)
    by_name = {
        "leave": {"department": "hr", "year": 2026, "draft": True, "price": 2, "at": "2024-06-01T10:00:00Z"},
        "law": {"department": "law", "year": 2024, "draft": False, "price": 2.0, "at": "2024-06-02"},
        "list": {"department": ["x", "hr"], "year": [2024, 2025], "draft": []},
        "null": {"department": None, "year": None, "at": None},
        "none": {},
    }
    ids = {name: uuid4() for name in by_name}
    documents = {ids[name]: values for name, values in by_name.items()}
    await session_services.index.upsert(shared_collection, list(points(location, documents, FIELDS)))

    for filter_, expected in MEANINGS:
        hits = await found(session_services.index, location, filter_, FIELDS)

        assert sorted(name for name, document in ids.items() if str(document) in hits) == expected, filter_


async def test_key_index_is_created_before_points_only_once(services):
    index, name = services.index, f"test-{uuid4().hex}"
    await index.ensure_collection(name, 3)
    location, documents = IndexLocation(name, "a", uuid4().hex), {uuid4(): {"year": 2026, "at": "2026-05-01"}}

    async def indexed():
        schema = (await index._info(name))["payload_schema"]
        return {key: (field["points"], field["params"]["enable_hnsw"]) for key, field in schema.items() if key in KEYS}

    await index.upsert(name, list(points(location, documents, ())))
    assert await indexed() == {}
    await index.upsert(name, list(points(location, documents, FIELDS)))
    assert await indexed() == {"terms": (1, False), "number_0": (1, False), "datetime_0": (1, False)}
    with requests_to_qdrant(index) as sent:
        await index.upsert(name, list(points(location, documents, FIELDS)))
    assert sent == [("PUT", f"/collections/{name}/points?wait=true")]
    await index.drop_collection(name)


@contextmanager
def requests_to_qdrant(index):
    """Record the requests to Qdrant in this context."""
    requests, sent = index._requests, []
    send = requests.send

    async def recorded(method, path, body=None):
        sent.append((method, path))
        return await send(method, path, body)

    requests.send = recorded
    try:
        yield sent
    finally:
        del requests.send  # to restore it would hide a later change of the class


async def put(client, **options):
    return await client.put("/v1/collections/a", json=options)


async def upload(client, name, **values):
    body = {"text": f"The text of {name}.", "external_id": name, "collection": "a", "metadata": values}
    return await client.post("/v1/documents", json=body)


async def test_documents_are_found_by_declared_fields(client, services, provider):
    declared = {"department": "keyword", "year": "integer"}
    made = await put(client, filterable=declared)
    assert (made.status_code, made.json()["options"]["filterable"]) == (201, declared)
    for name, department, year in (("leave", "hr", 2025), ("pay", "hr", 2026), ("law", "legal", 2026)):
        assert (await upload(client, name, department=department, year=year)).status_code == 202
    await work(services)

    query = {"question": "What does the text say?", "collection": "a"}
    for filter_, expected in (({"department": "hr", "year": {"gte": 2026}}, {"pay"}), ({"year": 2026}, {"pay", "law"})):
        reply = await client.post("/v1/retrieve", json=query | {"filter": filter_})
        assert {chunk["external_id"] for chunk in reply.json()["chunks"]} == expected
    collection = await services.ledger[Collections].get("default", "a")
    stored, _ = await qdrant_client(services).scroll(collection.index_name, limit=100)
    assert {tuple(point.payload["terms"]) for point in stored} == {
        ("department=hr", "year=2025"),
        ("department=hr", "year=2026"),
        ("department=legal", "year=2026"),
    }
    assert {tuple(point.payload["number_0"]) for point in stored} == {(2025,), (2026,)}


@guards(
    "shared/query/retrieve/retriever.py",
    "        await self._searcher.require_affordable(visible, conditions, shows_size=is_key)\n",
    "",
    means="queries are searched with a filter of any price",
)
async def test_filter_that_is_too_expensive_is_rejected(client, services, provider):
    for number in range(8):
        await upload(client, f"{number}.md", department="hr")
    await work(services)
    words = " ".join(["w"] * 200)
    filter_ = {"any": [{"department": {"text": words}}] * 64}  # 12,800 words in 8 chunks

    query = {"question": "Who?", "collection": "a"}
    refused = await client.post("/v1/retrieve", json=query | {"filter": filter_})
    few = await client.post("/v1/retrieve", json=query | {"filter": {"any": filter_["any"][:2]}})

    assert (refused.status_code, refused.json()["field"]) == (422, "filter")
    assert "declare the field with `filterable`" in refused.json()["detail"]
    assert few.status_code == 200


async def test_wrong_metadata_type_is_rejected_at_upload(client):
    await put(client, filterable={"year": "integer"})

    for wrong in ("2026", 2026.0, True, 2**63, {"of": 1}, [2026, "2027"], [[2026]], [None]):
        reply = await upload(client, "a", year=wrong)

        assert (reply.status_code, reply.json()["field"]) == (422, "metadata.year"), wrong
        assert "declares the metadata field 'year' as integer" in reply.json()["detail"], wrong
    for fitting in (None, 2026, [], [2026, 2027]):
        assert (await upload(client, "a", year=fitting)).status_code == 202
    assert (await upload(client, "b")).status_code == 202


async def test_fields_are_added_only_before_first_document(client, services):
    await put(client, filterable={"year": "integer"})
    more = await put(client, filterable={"department": "keyword", "month": "integer"}, questions_per_chunk=4)
    assert more.json()["options"]["filterable"] == {"year": "integer", "department": "keyword", "month": "integer"}
    stored = (await services.ledger[Collections].get("default", "a")).options.filterable
    assert stored == (("year", "integer"), ("department", "keyword"), ("month", "integer"))

    unchanged = await put(client, questions_per_chunk=5)
    assert (unchanged.json()["options"]["filterable"], unchanged.json()["options"]["questions_per_chunk"]) == (
        dict(stored),
        5,
    )
    other_type = await put(client, filterable={"year": "keyword"})
    assert (other_type.status_code, other_type.json()["field"]) == (409, "filterable")

    await upload(client, "a", year=2026)
    late = await put(client, filterable={"tags": "keyword"}, questions_per_chunk=7)
    assert (late.status_code, late.json()["field"]) == (409, "filterable")
    assert (await services.ledger[Collections].get("default", "a")).options.questions_per_chunk == 5
    assert (await put(client, filterable={"month": "integer"})).status_code == 200


async def test_invalid_declaration_creates_no_collection(client):
    for declared in (
        {"owner.team": "keyword"},
        {"a=b": "keyword"},
        {"rows[]": "integer"},
        {'"a"': "keyword"},
        {"": "keyword"},
        {"x" * 101: "keyword"},
        {f"n{n}": "integer" for n in range(9)},
        {f"at{n}": "datetime" for n in range(5)},
        {f"k{n}": "keyword" for n in range(17)},
    ):
        reply = await put(client, filterable=declared)

        assert (reply.status_code, reply.json()["field"]) == (422, "filterable"), declared
        assert (await client.get("/v1/collections")).json()["items"] == [], declared


async def test_unknown_field_type_is_rejected_by_name(client):
    reply = await put(client, filterable={"position": "geo"})

    assert (reply.status_code, reply.json()["field"]) == (422, "filterable.position")


async def declare(services, *fields):
    return await services.ledger[Collections].ensure(
        "default", "default", embedding_model="scripted-embedding", options=CollectionOptions(filterable=fields)
    )


async def test_declaration_waits_for_running_document_write(services, library):
    await library.collection()
    async with services.database.begin() as connection:
        await _write(connection, [await library.new("The text.")])
        declaring = asyncio.create_task(declare(services, ("year", "integer")))
        await until_blocked(services.database)
        assert not declaring.done()

    with pytest.raises(Conflict):
        await declaring


async def test_document_with_wrong_metadata_type_fails_with_remedy(services, library):
    await declare(services, ("year", "integer"))
    document = await library.add("The text.", metadata={"year": "2026"})
    await work(services, "parse")

    document = await services.ledger[Documents].get("default", document.id)
    assert document.state is DocumentState.FAILED
    assert document.error.startswith("The collection declares the metadata field 'year' as integer")
