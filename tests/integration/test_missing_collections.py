"""A collection that does not exist is answered 404 on every route, with the names that the key may see."""

import re
from functools import cache
from uuid import uuid4

import openai
import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from foreask_client import AsyncClient, NotFoundError

from api.app import create
from shared.domain.errors import Unavailable
from shared.http.strict_route import FixedRoutes
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.settings import ApiKey, Settings
from tests.support.api import KEYS, as_tenant, calling, serving, with_keys, work
from tests.support.pages import foreask_with_background
from tests.support.planted import guards

MISSING = "handbok"
QUESTION = {"question": "How much leave do I get?"}
ALICE, BOB = as_tenant("alice"), as_tenant("bob")
OPERATORS_KEY = "operator-0123456789abcdef0123456789"
OPERATOR = {"authorization": f"Bearer {OPERATORS_KEY}"}
NO_COLLECTION = "urn:foreask:problem:no-collection"

# Routes that name a collection which need not exist, with the reason.
NEED_NONE = {
    "PUT /v1/collections/{name}": "creates it",
    "POST /v1/documents": "creates it",
    "POST /v1/documents:batch": "creates it",
    "POST /v1/jobs": "creates it, as the first upload of the load would",
    "POST /v1/sources": "creates it",
    "POST /v1/estimates": "estimates a load before its first upload, which creates it",
    "POST /v1/documents/estimate": "likewise",
    "PUT /v1/budgets": "limits the costs of a collection before its first upload",
    "PUT /v1/operator/tenants/{tenant}/budgets": "likewise",
}

APP = create(Settings(_env_file=None))


@cache
def described():
    """Return the OpenAPI document: making it takes a second."""
    return APP.openapi()


def resolved(schema):
    """Return a schema without its reference."""
    return described()["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def body_of(operation):
    """Return the schema of a request's body; an empty one if it has none."""
    content = operation.get("requestBody", {}).get("content", {})
    schemas = [kind["schema"] for kind in content.values() if "schema" in kind]
    kinds = [resolved(kind) for schema in schemas for kind in schema.get("anyOf", [schema])]
    return next((kind for kind in kinds if kind.get("type") == "object"), {})


def names_in_body(operation):
    """Return the properties of the body that name a collection: OpenAI's clients call it model, Dify knowledge."""
    foreign = {"model", "knowledge_id"} if "openai" in operation["tags"] else {"knowledge_id"}
    return [name for name in body_of(operation).get("properties", {}) if "collection" in name or name in foreign]


def names_in_query(operation):
    return [
        each["name"]
        for each in operation.get("parameters", [])
        if each["in"] == "query" and "collection" in each["name"]
    ]


def is_in_path(path):
    return bool(re.search(r"(collections|models|vector_stores)/{|{\w*collection\w*}", path))


def naming():
    """Return the operations that name a collection, by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, operations in described()["paths"].items()
        for method, operation in operations.items()
        if is_in_path(path) or names_in_query(operation) or names_in_body(operation)
    }


def value_of(parameter):
    schema = parameter["schema"]
    if schema.get("format") == "uuid":
        return str(uuid4())
    return "1" if schema.get("type") == "integer" else "x"


async def requested(client, named, operation):
    """Send a request that is valid except for the name of its collection."""
    method, path = named.split(" ")
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            before = path.partition("{" + parameter["name"] + "}")[0]
            is_name = (
                before.endswith(("collections/", "models/", "vector_stores/")) or "collection" in parameter["name"]
            )
            value = MISSING if is_name else "alice" if parameter["name"] == "tenant" else value_of(parameter)
            path = path.replace("{" + parameter["name"] + "}", value)
    body = None
    if schema := body_of(operation):
        body = {**schema["example"], **dict.fromkeys(names_in_body(operation), MISSING)}
    headers = OPERATOR if path.startswith("/v1/operator/") else ALICE
    query = dict.fromkeys(names_in_query(operation), MISSING)
    return await client.request(method, path, params=query, json=body, headers=headers)


@pytest.fixture
def keyed(settings):
    return with_keys(settings).model_copy(update={"operator_keys": (ApiKey.parse_operator(OPERATORS_KEY),)})


@pytest.fixture
async def client(services, keyed, provider):
    async with calling(keyed, services) as client:
        yield client


@pytest.fixture
async def served(services, settings, provider):
    async with serving(settings, services) as client:
        yield client


@pytest.fixture
def foreask(capsys, monkeypatch):
    """Return a function that runs a command as a user does."""

    async def nothing():
        return

    return foreask_with_background(nothing, capsys, monkeypatch)


async def create_all(client, *names, headers=ALICE):
    for name in names:
        reply = await client.put(f"/v1/collections/{name}", json={}, headers=headers)
        assert reply.status_code == 201, reply.text


async def key_with(client, *scopes, **more):
    made = await client.post("/v1/keys", json={"name": "-".join(scopes), "scopes": scopes, **more}, headers=ALICE)
    return {"authorization": f"Bearer {made.json()['key']}"}


async def retrieved(client, headers=ALICE, **body):
    return (await client.post("/v1/retrieve", json=QUESTION | body, headers=headers)).json()


@guards(
    "api/routes/documents.py",
    "    await services.ledger[Collections].require(tenant, collection)\n",
    "",
    means="the list of documents of a missing collection is empty",
)
@guards(
    "features/evaluation/routes.py",
    "    await services.ledger[Collections].require(tenant, name)\n    return",
    "    return",
    means="a labelled set is missing, and not its collection",
)
async def test_every_route_answers_404_for_missing_collection(client):
    await create_all(client, "handbook")
    wrong, operations = {}, naming()
    assert NEED_NONE.keys() <= operations.keys()

    for named in operations.keys() - NEED_NONE.keys():
        reply = await requested(client, named, operations[named])
        problem = reply.json() if reply.content else {}
        error = problem.get("error") or {
            "message": problem.get("detail") or problem.get("error_msg", ""),
            "code": problem.get("type") or problem.get("error_code"),
        }
        expected = (404, True, f"There is no collection '{MISSING}': there is 'handbook'.")
        codes = {NO_COLLECTION, "model_not_found", "vector_store_not_found", 2001}
        if (reply.status_code, error["code"] in codes, error["message"]) != expected:
            wrong[named] = reply.text

    assert not wrong
    assert len(operations) > 50


def test_enumeration_knows_all_described_routes():
    served = {
        (method, route.path)
        for route in iter_route_contexts(APP.routes)
        if not isinstance(route.route, FixedRoutes) and isinstance(route.original_route, APIRoute)
        for method in route.methods
    }
    in_document = {(method.upper(), path) for path, each in described()["paths"].items() for method in each}

    assert {pair for pair in served if pair[1] != "/docs"} == in_document


async def test_routes_that_need_no_collection_create_or_ignore(client):
    text = {"text": "# Leave\n\nEverybody has thirty days of leave.", "collection": "first"}

    uploaded = await client.post("/v1/documents", json=text, headers=ALICE)
    batched = await client.post(
        "/v1/documents:batch?collection=second",
        content=b'{"text": "A text."}\n',
        headers=ALICE | {"content-type": "application/x-ndjson"},
    )
    loaded = await client.post("/v1/jobs", json={"collection": "third", "idempotency_key": "a"}, headers=ALICE)
    estimate = {"collection": "fourth", "documents": {"count": 1, "bytes": 1}}
    estimated = await client.post("/v1/estimates", json=estimate, headers=ALICE)

    assert (uploaded.status_code, batched.status_code, loaded.status_code, estimated.status_code) == (
        202,
        200,
        201,
        200,
    )
    listed = (await client.get("/v1/collections", headers=ALICE)).json()["items"]
    assert [each["name"] for each in listed] == ["first", "second", "third"]


@guards(
    "shared/ledger/model/collections.sql",
    "FROM collections WHERE tenant = :tenant AND name >= :name",
    "FROM collections WHERE tenant >= '' AND name >= :name",
    means="a tenant sees the names of another tenant's collections",
)
async def test_tenants_never_see_each_others_names(client):
    await create_all(client, "handbook", headers=ALICE)
    await create_all(client, "handbooks-of-bob", headers=BOB)

    of_alice, of_bob = [await retrieved(client, headers, collection=MISSING) for headers in (ALICE, BOB)]

    assert (of_alice["collections"], of_alice["other_collections"]) == (["handbook"], 0)
    assert (of_bob["collections"], of_bob["other_collections"]) == (["handbooks-of-bob"], 0)
    assert "bob" not in of_alice["detail"]


async def test_name_of_another_tenant_is_missing(client):
    await create_all(client, "handbook", headers=BOB)

    mine, nowhere = [await retrieved(client, collection=name) for name in ("handbook", MISSING)]

    assert mine == nowhere | {"detail": nowhere["detail"].replace(MISSING, "handbook")}
    assert mine["collections"] == []


async def test_names_are_five_most_similar_and_a_number(client):
    names = ["archive", "faq", "handbook", "handbook-2026", "hands-on", "hr", "legal", "manual"]
    await create_all(client, *names)

    problem = await retrieved(client, collection=MISSING)

    assert problem["collections"][:3] == ["handbook", "handbook-2026", "hands-on"]
    assert (len(problem["collections"]), problem["other_collections"]) == (5, 3)
    assert set(problem["collections"]) < set(names)
    assert problem["detail"].startswith(f"There is no collection '{MISSING}': there are 'handbook', 'handbook-2026', ")
    assert problem["detail"].endswith(" and 3 others (GET /v1/collections lists them).")
    assert (problem["status"], problem["type"], problem["field"]) == (404, NO_COLLECTION, "collection")


async def test_many_collections_are_counted_but_not_read(client, services):
    await create_all(client, "handbook")
    copies = """
    INSERT INTO collections (id, tenant, name, options, embedding_model, index_name)
    SELECT gen_random_uuid(), tenant, 'x-' || number, options, embedding_model, index_name
    FROM collections, generate_series(1, 3000) AS number WHERE name = 'handbook'
    """
    async with services.database.begin() as connection:
        await connection.execute(Statement(copies))

    problem = await retrieved(client, collection=MISSING)

    assert problem["collections"][0] == "handbook"
    assert problem["other_collections"] == 2_996


@pytest.mark.parametrize(
    ("scopes", "hint"),
    [
        (("read",), "GET /v1/collections"),
        (("ask",), "GET /v1/models"),
        (("manage", "write"), None),
    ],
)
async def test_key_sees_names_that_it_may_list(client, scopes, hint):
    await create_all(client, *(f"handbook-{number}" for number in range(6)))
    headers = await key_with(client, *scopes)
    route = {"read": "/v1/documents?collection=handbok", "ask": "/v1/models/handbok"}.get(scopes[0])

    reply = await (
        client.get(route, headers=headers) if route else client.delete("/v1/collections/handbok", headers=headers)
    )

    problem = reply.json()
    sentence = problem["error"]["message"] if "error" in problem else problem["detail"]
    assert reply.status_code == 404
    assert ("handbook-0" in sentence, "collections" in problem) == (hint is not None, scopes == ("read",))
    assert sentence.endswith(f"and 1 other ({hint} lists them)." if hint else f"no collection '{MISSING}'.")


async def test_default_collection_without_documents_says_so(client):
    empty = await retrieved(client)
    await create_all(client, "handbook")
    others = await retrieved(client)

    assert empty["detail"] == "The collection 'default' has no documents yet: the first upload creates it."
    assert (empty["status"], empty["collections"], empty["other_collections"]) == (404, [], 0)
    assert others["detail"] == "The collection 'default' has no documents yet: there is 'handbook'."


async def test_unavailable_ledger_leaves_names_out(client, services, monkeypatch):
    async def fail(*_):
        raise Unavailable("down", component="ledger")

    await create_all(client, "handbook")
    monkeypatch.setattr(Collections, "names_near", fail)

    problem = await retrieved(client, collection=MISSING)

    assert (problem["status"], problem["detail"]) == (404, f"There is no collection '{MISSING}'.")
    assert "collections" not in problem


async def test_stream_and_conversation_fail_before_any_call(client, provider):
    history = [{"role": "user", "content": "Hello"}]

    streamed = await client.post("/v1/query", json=QUESTION | {"stream": True}, headers=ALICE)
    continued = await client.post("/v1/query", json=QUESTION | {"history": history}, headers=ALICE)

    assert [reply.status_code for reply in (streamed, continued)] == [404, 404]
    assert streamed.headers["content-type"] == "application/problem+json"
    assert provider.stats()["calls"] == 0


async def test_clients_raise_not_found_with_names(services, keyed, provider):
    async with serving(keyed, services) as served:
        await create_all(served, "handbook")
        async with AsyncClient(str(served.base_url), KEYS["alice"]) as foreask:
            with pytest.raises(NotFoundError, match="there is 'handbook'") as raised:
                await foreask.retrieve("How much leave?", collection=MISSING)
            with pytest.raises(NotFoundError):
                async for _ in foreask.query_events("How much leave?", collection=MISSING):
                    pass
        async with openai.AsyncOpenAI(
            base_url=f"{served.base_url}/v1", api_key=KEYS["alice"], max_retries=0
        ) as answering:
            with pytest.raises(openai.NotFoundError, match="there is 'handbook'") as refused:
                await answering.chat.completions.create(model=MISSING, messages=[{"role": "user", "content": "Leave?"}])

    assert (raised.value.type, raised.value.problem["collections"]) == ("no-collection", ["handbook"])
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    "command",
    [
        "ask 'How much leave?' -c handbok",
        "ask 'How much leave?' -c handbok --json",
        "documents list -c handbok",
        "dead-letters list -c handbok",
        "gaps list -c handbok",
        "reindex handbok",
        "builds list handbok",
        "verify -c handbok",
        "sources list -c handbok",
        "calibrate handbok",
    ],
)
async def test_commands_exit_with_4_and_one_sentence(served, foreask, command):
    await create_all(served, "handbook", headers={})

    result = await foreask(f"foreask {command} --url {served.base_url}")

    assert result == (4, f"There is no collection '{MISSING}': there is 'handbook'.\n")


async def test_first_question_of_command_names_first_step(served, foreask):
    result = await foreask(f"foreask ask 'How much leave?' --url {served.base_url}")

    assert result == (4, "The collection 'default' has no documents yet: the first upload creates it.\n")


async def test_upload_ends_the_404(client, services):
    text = {"text": "# Leave\n\nEverybody has thirty days of leave."}
    assert (await retrieved(client))["status"] == 404

    await client.post("/v1/documents", json=text, headers=ALICE)
    waiting = await retrieved(client)
    await work(services, "parse", "index")

    assert waiting["chunks"] == []
    assert (await retrieved(client))["chunks"]
