"""Values with fields of the next release can be read, because both releases run during an update."""

import orjson
import pytest

from shared.ledger.postgres.statements import Statement
from tests.support.api import as_tenant, calling, with_keys, work

HEADERS = as_tenant("alice")
COLLECTION = "/v1/collections/default"
BODY = {"text": "# Leave\n\nThirty days of leave.", "external_id": "leave", "questions": ["How much leave is there?"]}
PLANNED = {"documents": {"count": 10, "bytes": 160_000}, "store": True}
ATTEMPT = {"at": "2026-01-01T00:00:00Z", "attempt": 1, "error": "a timeout"}
CALIBRATION = {"weights": {"questions": 2.0, "text": 1.0, "bm25": 0.5}}

# Adds a field to each object that is the value of a column.
ADD = "UPDATE {table} SET {column} = (CAST({column} AS jsonb) || '{{\"added\": 1}}'::jsonb)"

# Adds a field to each object of the array that is the value of a column.
ADD_TO_EACH = """
    UPDATE {table} SET {column} = (
        SELECT jsonb_agg(e || '{{"added": 1}}'::jsonb) FROM jsonb_array_elements({column}) e)
    WHERE jsonb_typeof({column}) = 'array' AND {column} <> '[]'
"""

# Stores a history and a calibration, which only failures and long work write.
SET_HISTORY = Statement("UPDATE chunks SET history = CAST(:value AS jsonb)")
SET_CALIBRATION = Statement("UPDATE collections SET calibration = CAST(:value AS jsonb)")


@pytest.fixture
async def client(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        client.headers.update(HEADERS)
        yield client


def as_json(value):
    return orjson.dumps(value).decode()


async def add_to(services, table, column, *, each=False):
    statement = (ADD_TO_EACH if each else ADD).format(table=table, column=column)
    async with services.database.begin() as connection:
        changed = await connection.execute(Statement(statement))
    assert changed.rowcount > 0, (table, column)


async def ok(reply):
    assert reply.status_code < 300, reply.text
    return reply.json()


async def test_options_and_questions_of_newer_release_are_read(services, client):
    await ok(await client.put(COLLECTION, json={"questions_per_chunk": 3}))
    await ok(await client.post("/v1/documents", json=BODY))
    await add_to(services, "collections", "options")
    await add_to(services, "document_versions", "ready_questions", each=True)

    await work(services, "parse", "index")

    shown = await ok(await client.get(COLLECTION))
    assert (shown["options"]["questions_per_chunk"], shown["documents"]) == (3, {"ready": 1})


async def test_calibration_and_history_of_newer_release_are_read(services, client):
    document = await ok(await client.post("/v1/documents", json=BODY))
    await work(services, "parse", "index")
    async with services.database.begin() as connection:
        await connection.execute(SET_HISTORY, {"value": as_json([ATTEMPT | {"added": 1}])})
        weights = CALIBRATION["weights"] | {"added": 1.0}
        await connection.execute(SET_CALIBRATION, {"value": as_json({"weights": weights, "added": 1})})

    shown = await ok(await client.get(COLLECTION))
    found = await ok(await client.post("/v1/retrieve", json={"question": "How much leave?"}))
    (chunk,) = (await ok(await client.get(f"/v1/documents/{document['id']}/chunks")))["items"]

    assert shown["calibration"]["weights"] == weights
    assert len(found["chunks"]) == 1
    assert chunk["attempts"] == [ATTEMPT]


async def test_key_limits_of_newer_release_are_read(services, client):
    made = await ok(await client.post("/v1/keys", json={"name": "web", "scopes": ["read"]}))
    await add_to(services, "api_keys", "limits")

    listed = (await ok(await client.get("/v1/keys")))["items"]
    me = await ok(await client.get("/v1/me", headers={"authorization": f"Bearer {made['key']}"}))

    assert [key["name"] for key in listed] == ["web"]
    assert me["tenant"] == "alice"


async def test_labels_and_estimates_of_newer_release_are_read(services, client):
    await ok(await client.post("/v1/documents", json=BODY))
    await work(services, "parse", "index")
    question = {"question": "How much leave?", "external_ids": ["leave"]}
    await ok(await client.put(f"{COLLECTION}/labelled-sets/small", json={"questions": [question]}))
    await ok(await client.post("/v1/estimates", json=PLANNED))
    await add_to(services, "labelled_sets", "questions", each=True)
    await add_to(services, "estimates", "estimate")

    shown = await ok(await client.get(f"{COLLECTION}/labelled-sets/small"))
    status = await ok(await client.get("/v1/status"))

    assert [each["question"] for each in shown["questions"]] == ["How much leave?"]
    assert len(status["estimates"]) == 1
