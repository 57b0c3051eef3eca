"""Notices of queries: a field that no document has, a filter that nothing passes, a collection without documents."""

import pytest

from shared.domain.corpus.metadata_fields import MOST_KNOWN_FIELDS
from shared.domain.errors import Unavailable
from shared.ledger.builds.builds import Builds
from shared.ledger.model.collections import Collections
from tests.support.api import KEYS, as_tenant, calling, events_of, serving, with_keys, work
from tests.support.pages import foreask_with_background
from tests.support.planted import guards

ALICE = as_tenant("alice")
QUESTION = {"question": "How many days of leave has everybody?"}
LEAVE = {
    "text": "# Leave\n\nEverybody has thirty days of leave a year.",
    "external_id": "leave.md",
    "metadata": {"department": "hr", "year": 2026, "owner": {"team": "people", "names": [{"first": "Ann"}]}},
}
SENTENCE = (
    "So far, no document of the collection 'default' has the metadata field 'departement' of the filter: there are"
)
FIELDS = ["department", "owner", "owner.names", "owner.names.first", "owner.team", "year"]


async def fill(services):
    async with calling(with_keys(services.settings), services) as client:
        await client.put("/v1/collections/default", json={"filterable": {"level": "integer"}}, headers=ALICE)
        await client.post("/v1/documents", json=LEAVE, headers=ALICE)
    await work(services)


@pytest.fixture
async def client(services, settings, once):
    await once(fill)
    async with calling(with_keys(settings), services) as client:
        yield client


async def found(client, filter_=None, headers=ALICE, **more):
    reply = await client.post("/v1/retrieve", json=QUESTION | {"filter": filter_} | more, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def notices(client, filter_):
    reply = (await found(client, filter_))["metadata"]
    return reply["unknown_fields"], reply["notice"]


@guards(
    "shared/http/queries/notices.py",
    "retrieval.unknown_fields = _unknown(body, collection, caller)",
    "retrieval.unknown_fields = []",
    means="a field that no document has is not reported",
)
async def test_unknown_field_is_reported_with_similar_fields(client):
    unknown, notice = await notices(client, {"departement": "hr"})

    assert unknown == ["departement"]
    assert notice == (
        f"{SENTENCE} 'department', 'level', 'owner', 'owner.names', 'owner.names.first' and 2 others"
        " (GET /v1/collections/default lists them)."
    )
    collection = (await client.get("/v1/collections/default", headers=ALICE)).json()
    assert collection["metadata_fields"] == FIELDS


@pytest.mark.parametrize(
    "filter_",
    [
        {"department": "hr"},
        {"level": {"exists": False}},
        {"owner.team": "people", "year": {"gte": 2026}},
        {"owner": {"exists": True}},
        {"owner.names[].first": "Ann"},
        {"owner.names[0].first": "Ann"},
        {"any": [{"department": "hr"}, {"not": {"owner.team": "sales"}}]},
    ],
    ids=str,
)
async def test_known_fields_have_no_notice(client, filter_):
    result = await found(client, filter_)

    assert [chunk["external_id"] for chunk in result["chunks"]] == ["leave.md"]
    assert (result["metadata"]["unknown_fields"], result["metadata"]["notice"]) == ([], None)
    assert result["metadata"]["notice_codes"] == []


@pytest.mark.parametrize(
    ("filter_", "unknown"),
    [
        ({"archived": {"none": ["yes"]}}, ["archived"]),
        ({"not": {"archived": True}}, ["archived"]),
        ({"archived": {"exists": False}, "department": "hr"}, ["archived"]),
        ({"any": [{"departement": "hr"}, {"all": [{"department": "hr"}, {"yeer": None}]}]}, ["departement", "yeer"]),
        ({"owner.taem": None}, ["owner.taem"]),
    ],
    ids=str,
)
async def test_unknown_field_leaves_the_result_unchanged(client, filter_, unknown):
    result = await found(client, filter_)

    assert [chunk["external_id"] for chunk in result["chunks"]] == ["leave.md"]
    assert result["metadata"]["unknown_fields"] == unknown
    assert f"metadata field{'s' if unknown[1:] else ''} '{unknown[0]}'" in result["metadata"]["notice"]


async def test_answers_and_streams_report_unknown_fields(client):
    body = QUESTION | {"filter": {"departement": "hr"}}

    answer = (await client.post("/v1/query", json=body, headers=ALICE)).json()
    streamed = await client.post("/v1/query", json=body | {"stream": True}, headers=ALICE)
    events = dict([event async for event in events_of(streamed)])
    message = {"role": "user", "content": QUESTION["question"]}
    chat = {"model": "default", "messages": [message], "foreask": {"filter": {"departement": "hr"}}}
    completed = (await client.post("/v1/chat/completions", json=chat, headers=ALICE)).json()

    assert answer["found"] is False
    assert answer["metadata"]["notice_codes"] == ["unknown_fields"]
    of_events = [events[name]["metadata"]["notice"] for name in ("retrieved", "done")]
    for notice in (answer["metadata"]["notice"], *of_events, completed["foreask"]["notice"]):
        assert notice.startswith(SENTENCE)


@guards(
    "shared/http/queries/notices.py",
    "collection = await collections.get(retrieval.collection.tenant, retrieval.collection.name)",
    "collection = retrieval.collection",
    means="a field of a new document is reported as unknown for five seconds",
)
async def test_new_field_is_known_within_cache_lifetime(client, services):
    assert (await notices(client, {"status": "new"}))[0] == ["status"]

    await client.post("/v1/documents", json=LEAVE | {"metadata": {"status": "new"}, "external_id": "b"}, headers=ALICE)
    await work(services)

    assert await notices(client, {"status": "new"}) == ([], None)


async def test_field_is_known_whichever_door_it_came_by(client, services):
    (document,) = (await client.get("/v1/documents", headers=ALICE)).json()["items"]
    metadata = LEAVE["metadata"] | {"of_change": 1}
    form = {"file": ("a.md", b"# Pay\n\nSalaries are paid monthly."), "metadata": (None, '{"of_form": 1}')}
    line = b'{"text": "A text.", "metadata": {"of_batch": 1}}\n'

    await client.patch(f"/v1/documents/{document['id']}", json={"metadata": metadata}, headers=ALICE)
    await client.post("/v1/documents", files=form, headers=ALICE)
    await client.post("/v1/documents:batch", content=line, headers=ALICE | {"content-type": "application/x-ndjson"})
    await work(services, "parse")

    collection = (await client.get("/v1/collections/default", headers=ALICE)).json()
    assert collection["metadata_fields"] == sorted([*FIELDS, "of_batch", "of_change", "of_form"])
    assert (await notices(client, {"any": [{"of_change": 1}, {"of_form": 1}, {"of_batch": 1}]}))[0] == []


async def test_ask_command_prints_notice(services, settings, once, capsys, monkeypatch):
    await once(fill)
    monkeypatch.setenv("FOREASK_API_KEY", KEYS["alice"])

    async def nothing():
        return

    async with serving(with_keys(settings), services) as served:
        command = f"foreask ask 'How much leave?' --filter departement=hr --url {served.base_url}"
        code, printed = await foreask_with_background(nothing, capsys, monkeypatch)(command)

    assert code == 0
    assert SENTENCE in printed


async def test_build_has_fields_of_its_documents(client, services):
    builds = services.ledger[Builds]
    await client.post("/v1/collections/default/builds", json={"chunk_max_chars": 900}, headers=ALICE)
    while await builds.fill():
        pass
    await work(services)

    await builds.switch("alice", "default", 2)

    assert (await services.ledger[Collections].get("alice", "default")).metadata_fields == tuple(FIELDS)


async def test_too_many_fields_are_not_watched(client, services):
    many = {f"user-{number:03}": True for number in range(MOST_KNOWN_FIELDS)}
    await client.post("/v1/documents", json=LEAVE | {"metadata": many, "external_id": "b"}, headers=ALICE)
    await work(services, "parse")

    collection = await services.ledger[Collections].get("alice", "default")

    assert len(collection.metadata_fields) == MOST_KNOWN_FIELDS
    assert (await notices(client, {"departement": "hr"}))[0] == []


async def test_key_with_filter_learns_no_fields(client):
    body = {"name": "public", "scopes": ["ask"], "filter": {"departement": "hr"}}
    key = (await client.post("/v1/keys", json=body, headers=ALICE)).json()["key"]
    headers = {"authorization": f"Bearer {key}"}

    own = (await found(client, {"yeer": 2026}, headers))["metadata"]
    of_key = (await found(client, headers=headers))["metadata"]

    assert own["notice"].endswith("has the metadata field 'yeer' of the filter.")
    assert (of_key["unknown_fields"], of_key["notice"]) == ([], None)


async def test_empty_result_says_why(client, services):
    await client.put("/v1/collections/empty", json={}, headers=ALICE)
    await client.post("/v1/documents", json=LEAVE | {"collection": "waiting"}, headers=ALICE)
    unknown_id = "0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11"

    results = [
        await found(client, {"department": "sales"}),
        await found(client, document_ids=[unknown_id]),
        await found(client, {"departement": "hr"}, collection="empty"),
        await found(client, collection="waiting"),
        await found(client, min_score=0.999),
    ]

    assert [result["chunks"] for result in results] == [[], [], [], [], []]
    assert [result["metadata"]["notice"] for result in results] == [
        "No searchable document of the collection 'default' passes the filter.",
        "No searchable document of the collection 'default' is among `document_ids`.",
        "The collection 'empty' has no documents yet.",
        "No document of the collection 'waiting' is searchable yet.",
        None,
    ]


async def test_known_filter_reads_no_ledger(client, monkeypatch):
    await found(client, {"department": "hr"})
    reads = []
    read = Collections.find

    async def counted(*arguments):
        reads.append(arguments)
        return await read(*arguments)

    monkeypatch.setattr(Collections, "find", counted)

    await found(client, {"department": "hr"})

    assert reads == []
    await found(client, {"departement": "hr"})
    assert len(reads) == 1


async def test_unavailable_ledger_leaves_notices_out(client, monkeypatch):
    await found(client, {"department": "hr"})

    async def fail(*_):
        raise Unavailable("down", component="ledger")

    monkeypatch.setattr(Collections, "find", fail)

    assert await notices(client, {"departement": "hr"}) == ([], None)
