"""Keys: created, listed and revoked while the API runs; scopes, filters, and the operator's keys."""

import asyncio
import hashlib
import re
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import time_machine
import typer
from fastapi.routing import APIRoute, iter_route_contexts
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from api.app import create
from api.http.page import ADDRESSES, Page
from api.schemas.me import LimitsView, MeView
from cli.commands import audit
from cli.commands import keys as commands
from cli.commands.documents import status as show_status
from cli.commands.verify import verify
from shared.domain.access.key_texts import OPERATOR, draw, hash_of
from shared.domain.access.keys import KeySpecification, Scope
from shared.http.access.auth import Needs
from shared.http.access.key_cache import KeyCache
from shared.http.strict_route import FixedRoutes
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.tenants.keys import Keys
from shared.settings import ApiKey, Settings, TenantLimits
from tests.support.api import KEYS, as_tenant, calling, events_of, running, serving, with_keys, work
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS

OPERATORS_KEY = "operator-0123456789abcdef0123456789"
MANAGER = as_tenant("alice")
PUBLIC = {"text": "# Leave\n\nEverybody has thirty days of leave.", "metadata": {"audience": "public"}}
SECRET = {"text": "# Leave\n\nDirectors have sixty days of leave.", "metadata": {"audience": "board"}}


@pytest.fixture
def keyed(settings):
    """Return settings with a key of each tenant and an operator's key."""
    operators = (ApiKey.parse_operator(OPERATORS_KEY),)
    return with_keys(settings).model_copy(update={"operator_keys": operators})


@pytest.fixture
async def client(services, keyed, provider):
    async with calling(keyed, services) as client:
        yield client


def bearer(key):
    return {"authorization": f"Bearer {key}"}


OPERATORS = bearer(OPERATORS_KEY)


async def make(client, *scopes, name="one", headers=MANAGER, **more):
    reply = await client.post("/v1/keys", json={"name": name, "scopes": scopes, **more}, headers=headers)
    assert reply.status_code == 201, reply.text
    return reply.json()


async def status_of(client, key):
    return (await client.get("/v1/status", headers=bearer(key))).status_code


def key_cache_of(client):
    return client._transport.app.state.api.key_cache


async def test_key_is_shown_once_and_works_until_revoked(client, services, keyed, provider):
    made = await make(client, "read")
    async with calling(keyed, services) as other:  # another process of the API
        assert await status_of(client, made["key"]) == await status_of(other, made["key"]) == 200

        (listed,) = (await client.get("/v1/keys", headers=MANAGER)).json()["items"]
        assert listed["id"] == made["id"]
        assert "key" not in listed
        async with services.database.begin() as connection:
            row = (await connection.execute(Statement("SELECT * FROM api_keys"))).one()
        assert row["sha256"] == hashlib.sha256(made["key"].encode()).digest()
        assert made["key"] not in str(dict(row))

        assert (await client.delete(f"/v1/keys/{made['id']}", headers=MANAGER)).status_code == 204
        refused = await client.get("/v1/status", headers=bearer(made["key"]))
        assert (refused.status_code, refused.json()["detail"]) == (401, "The key 'one' was revoked.")
        assert refused.json()["key_state"] == "revoked"
        unknown = await client.get("/v1/me", headers=bearer("an-unknown-key"))
        assert (unknown.status_code, unknown.json()["key_state"]) == (401, "unknown")
        key_cache_of(other)._now = lambda: time.monotonic() + 5
        assert await status_of(other, made["key"]) == 401


async def test_tenants_manage_only_their_own_keys(client):
    old = await make(client, "read", name="app-2025")
    new = await make(client, "read", name="app-2026")
    assert await status_of(client, old["key"]) == await status_of(client, new["key"]) == 200

    assert (await client.get("/v1/keys", headers=as_tenant("bob"))).json()["items"] == []
    assert (await client.delete(f"/v1/keys/{old['id']}", headers=as_tenant("bob"))).status_code == 404
    again = {"name": "app-2025", "scopes": ["read"]}
    assert (await client.post("/v1/keys", json=again, headers=MANAGER)).status_code == 409
    await client.delete(f"/v1/keys/{old['id']}", headers=MANAGER)
    await make(client, "read", name="app-2025")
    assert await status_of(client, new["key"]) == 200


async def test_expired_key_is_rejected(client, services):
    key = (await make(client, "read", expires_in_seconds=60))["key"]
    assert await status_of(client, key) == 200

    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE api_keys SET expires_at = now() - interval '1 second'"))
    key_cache_of(client).forget()
    refused = await client.get("/v1/status", headers=bearer(key))
    assert (refused.status_code, refused.json()["detail"]) == (401, "The key 'one' has expired.")
    assert refused.json()["key_state"] == "expired"


@guards(
    "shared/ledger/tenants/keys.sql",
    "now() AS read_at",
    "CAST('2000-01-01' AS timestamptz) AS read_at",
    means="an expired key is accepted",
)
@pytest.mark.parametrize("minutes", [-5, 5])
async def test_key_expires_by_clock_of_ledger(client, services, minutes):
    """The API's clock is five minutes slow or fast."""
    with time_machine.travel(timedelta(minutes=minutes)):
        made = await make(client, "read", expires_in_seconds=60)
        assert await status_of(client, made["key"]) == 200
        changed = await client.patch(f"/v1/keys/{made['id']}", json={"expires_in_seconds": 90}, headers=MANAGER)
        async with services.database.begin() as connection:
            ends_in = "SELECT extract(epoch FROM expires_at - now()) FROM api_keys"
            assert 60 < (await connection.execute(Statement(ends_in))).scalar_one() <= 90
            await connection.execute(Statement("UPDATE api_keys SET expires_at = now()"))
        key_cache_of(client).forget()
        assert (changed.status_code, await status_of(client, made["key"])) == (200, 401)


async def test_revoked_key_disconnects_listeners(services, keyed, provider):
    async with serving(keyed, services) as client:
        made = await make(client, "read")
        async with client.stream("GET", "/v1/events", headers=bearer(made["key"])) as stream:
            events = events_of(stream)
            assert (await anext(events))[0] == "progress"
            await client.delete(f"/v1/keys/{made['id']}", headers=MANAGER)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                remaining = [event async for event in events]

    assert [(name, problem["status"]) for name, problem in remaining] == [("error", 401)]


INVALID = [
    ({"scopes": []}, "scopes"),
    ({"scopes": ["operator"]}, "scopes.0"),
    ({"scopes": ["read", "ask"], "filter": {"audience": "public"}}, "scopes"),
    ({"filter": {}}, "filter"),
    ({"filter": {"any": [{"audience": {}}]}}, "filter.any.0.audience"),
    ({"filter": {"audience": "x" * 9_000}}, "filter"),
    ({"filter": {"year": 2**63}}, "filter"),
    ({"name": "settings:01234567"}, "name"),
    ({"expires_in_seconds": 0}, "expires_in_seconds"),
]


async def test_invalid_key_request_is_rejected_by_field(client):
    for change, field in INVALID:
        reply = await client.post("/v1/keys", json={"name": "one", "scopes": ["ask"]} | change, headers=MANAGER)

        assert (reply.status_code, reply.json()["field"]) == (422, field), change


async def test_key_creation_on_keyless_server_is_rejected(services, settings, provider):
    async with calling(settings, services) as client:
        reply = await client.post("/v1/keys", json={"name": "one", "scopes": ["ask"]})
    assert reply.status_code == 409


# Scopes


def needs_of(dependant):
    """Return the scopes that a route and its dependencies declare."""
    own = [dependant.call.scope] if isinstance(dependant.call, Needs) else []
    return own + [scope for each in dependant.dependencies for scope in needs_of(each)]


WITHOUT_KEY = {"/docs", "/health/live", "/health/ready", "/v1/sign-in"}
SIGNING_IN = {"/v1/sign-in/token", "/v1/sign-in/refresh"}  # `test_sign_in.py`
APP = create(Settings(_env_file=None))
EVERY = [each for each in iter_route_contexts(APP.routes) if not isinstance(each.route, FixedRoutes)]
ROUTES = [route for route in EVERY if isinstance(route.original_route, APIRoute)]
SCOPED = [(route, needs_of(route.dependant)) for route in ROUTES if route.path not in WITHOUT_KEY | SIGNING_IN]


def test_every_route_declares_one_scope():
    assert {route.path for route in EVERY} - {route.path for route in ROUTES} == {
        "/openapi.json",
        "/docs/files",
        "/mcp",  # checks the key itself: `test_mcp.py`
        "/.well-known/oauth-protected-resource",  # says where persons sign in
        "/.well-known/oauth-protected-resource/mcp",
        *ADDRESSES,  # the page contains no tenant's data and asks for a key itself
        f"{Page().address}/{{name:path}}",
    }
    described = {(path, method.upper()) for path, operations in APP.openapi()["paths"].items() for method in operations}
    assert {(route.path, method) for route in ROUTES for method in route.methods if route.path != "/docs"} == described
    for route, scopes in SCOPED:
        assert len(scopes) == 1, route.path
        assert (scopes == [Scope.OPERATOR]) == route.path.startswith("/v1/operator/"), route.path


def refusal_of(route):
    """Return the status for a missing or refused key; Dify knows no 401."""
    return 403 if route.path == "/retrieval" else 401


async def requested(client, route, headers):
    names = re.findall(r"{(\w+_id)}", route.path)
    ids = {name: uuid4() for name in names}
    path = route.path.format(**ids, number=1, name="handbook", labelled_set="set", tenant="alice")
    (method,) = route.methods
    return await client.request(method, path, headers=headers)


async def test_routes_reject_keys_without_scope(client):
    keys = {
        scope: (await make(client, scope, name=scope))["key"]
        for scope in ("read", "ask", "feedback", "write", "manage")
    }
    keys["operator"] = OPERATORS_KEY
    for route, (needed,) in SCOPED:
        assert (await requested(client, route, {})).status_code == refusal_of(route), route.path
        for scope, key in keys.items():
            if scope == needed or needed is None:
                continue
            reply = await requested(client, route, bearer(key))
            assert reply.status_code == 403, (route.path, scope)
            problem = reply.json()
            expected = f"This request needs a key with the scope '{needed}', which this key lacks."
            if "error_code" in problem:  # in Dify's format
                assert problem == {"error_code": 1002, "error_msg": expected}
                continue
            if "error" in problem:  # in OpenAI's format
                assert problem["error"]["code"] == "forbidden"
                assert problem["error"]["message"] == expected
                continue
            assert problem["type"] == "urn:foreask:problem:forbidden"
            assert problem["detail"] == expected


@guards(
    "shared/http/access/auth.py",
    "Scope.ASK in caller.scopes and caller.filter is None",
    "Scope.ASK in caller.scopes",
    means="a key with a filter downloads documents that its filter excludes",
)
@guards(
    "shared/http/access/auth.py",
    'request.query_params.getlist("version") == ["live"]',
    "True",
    means="a key that only asks downloads a version that no answer cites yet",
)
async def test_asking_key_downloads_only_live_originals(client, services):
    first, second = ("# Leave\n\nThirty days.", "# Leave\n\nForty days.")
    upload = {"text": first, "external_id": "leave.md"}
    document = (await client.post("/v1/documents", json=upload, headers=MANAGER)).json()["id"]
    await work(services)
    await client.post("/v1/documents", json=upload | {"text": second}, headers=MANAGER)  # not processed
    asks, filtered, rates = [
        bearer((await make(client, scope, name=name, **more))["key"])
        for name, scope, more in (
            ("asks", "ask", {}),
            ("filtered", "ask", {"filter": {"audience": "public"}}),
            ("rates", "feedback", {}),
        )
    ]

    async def status(part, headers, query="?version=live"):
        return (await client.get(f"/v1/documents/{document}/{part}{query}", headers=headers)).status_code

    assert (await client.get(f"/v1/documents/{document}/content?version=live", headers=asks)).text == first
    for part in ("content", "text"):
        assert await status(part, asks) == 200
        assert await status(part, as_tenant("bob")) == 404
        assert await status(part, filtered) == await status(part, rates) == 403
        for query in ("", "?version=latest", "?version=latest&version=live", "?version=live&version=latest"):
            assert await status(part, asks, query) == 403, query
    for path in ("", "/chunks?version=live", "/pages/1/image?version=live"):
        assert (await client.get(f"/v1/documents/{document}{path}", headers=asks)).status_code == 403, path


async def test_routes_without_keys_refuse_other_users(services, settings, provider):
    async with calling(settings, services, own=False) as client:
        for route, _ in SCOPED:
            reply = await requested(client, route, bearer("any"))
            assert (reply.status_code, "foreask keys setting" in reply.text) == (refusal_of(route), True), route.path
        assert (await client.post("/mcp", json={})).status_code == 401
        for path in sorted(WITHOUT_KEY):
            assert (await client.get(path)).status_code == 200, path


async def test_key_lists_its_tenant_and_rights(client, keyed):
    assert [route.path for route, needed in SCOPED if needed == [None]] == ["/v1/me"]
    made = await make(client, "ask", name="website", filter={"audience": "public"})

    asker = MeView.model_validate_json((await client.get("/v1/me", headers=bearer(made["key"]))).content)
    assert (asker.tenant, asker.key, asker.scopes) == ("alice", "website", ["ask"])
    assert (asker.filter, asker.estimates) == ({"audience": "public"}, False)
    assert (asker.chat, asker.embedding) == (keyed.llm_model, keyed.embedding_model)
    assert asker.limits.upload_bytes == keyed.max_upload_bytes
    manager = MeView.model_validate_json((await client.get("/v1/me", headers=MANAGER)).content)
    assert (manager.scopes, manager.estimates) == (["ask", "delegate", "feedback", "manage", "read", "write"], True)
    operator = MeView.model_validate_json((await client.get("/v1/me", headers=OPERATORS)).content)
    assert (operator.tenant, operator.scopes) == (None, ["operator"])


@guards(
    "api/routes/me.py",
    "settings.limits_of(tenant),",
    'settings.limits_of("bob"),',
    means="a key reads the limits of another tenant",
)
async def test_key_lists_limits_of_its_tenant(services, keyed):
    limits = TenantLimits(documents=11, collections=12, upload_bytes_per_day=13, tokens_per_day=14)
    limited = keyed.model_copy(update={"tenant_limits": {"alice": limits}})
    async with calling(limited, services) as client:
        shown = (await client.get("/v1/me", headers=MANAGER)).json()["limits"]

    assert {name: shown[name] for name in LimitsView.model_fields.keys() & TenantLimits.model_fields.keys()} == {
        name: value for name, value in limits if name in LimitsView.model_fields
    }


@guards(
    "api/routes/limits.py",
    "services.ledger[Documents].counts(tenant)",
    'services.ledger[Documents].counts("bob")',
    means="a key reads the use of another tenant",
)
async def test_limits_are_listed_with_their_use(services, keyed):
    limits = TenantLimits(documents=4, upload_bytes_per_day=1000, query_tokens_per_day=5000, tokens_per_day=9000)
    limited = keyed.model_copy(update={"tenant_limits": {"alice": limits}})
    async with calling(limited, services) as client:
        await client.post("/v1/documents", json=PUBLIC, headers=MANAGER)
        await client.post("/v1/retrieve", json={"question": "How many days of leave?"}, headers=MANAGER)
        ours = (await client.get("/v1/limits", headers=MANAGER)).json()["items"]
        operators = (await client.get("/v1/operator/tenants/alice/limits", headers=OPERATORS)).json()["items"]
        theirs = (await client.get("/v1/limits", headers=as_tenant("bob"))).json()["items"]

    assert ours == operators
    use = {each["name"]: (each["limit"], each["used"]) for each in ours}
    assert (use["documents"], use["collections"], use["tokens_per_day"]) == ((4, 1), (None, 1), (9000, None))
    assert use["upload_bytes_per_day"] == (1000, len(PUBLIC["text"].encode()))
    assert use["query_tokens_per_day"][1] is not None
    assert use["requests_per_second"] == use["query_cost_per_day"] == (None, None)
    assert {each["name"]: each["used"] for each in theirs}["documents"] == 0


async def test_key_cannot_grant_missing_scope(client):
    key = (await make(client, "manage"))["key"]

    reply = await client.post("/v1/keys", json={"name": "two", "scopes": ["read"]}, headers=bearer(key))
    assert reply.status_code == 403
    await make(client, "manage", name="two", headers=bearer(key))


# Filters


QUERIES = [
    {},
    {"filter": {"audience": "board"}},
    {"filter": {"audience": {"any": ["board", "public"]}}},
    {"filter": {"any": [{"audience": "board"}, {"not": {"audience": "public"}}, {"audience": {"exists": True}}]}},
    {"unit": "section", "explain": True},
    {"unit": "sentences", "diversity": 1.0},
    {"channels": ["bm25"]},
]


async def test_key_filter_applies_to_queries_and_feedback(client, services):
    ids = {}
    for body in (PUBLIC, SECRET):
        reply = await client.post("/v1/documents", json=body, headers=MANAGER)
        ids[body["metadata"]["audience"]] = reply.json()["id"]
    await work(services)
    key = bearer((await make(client, "ask", "feedback", filter=PUBLIC["metadata"]))["key"])
    query_body = {"question": "How many days of leave do directors have?"}

    for query in QUERIES:
        mine = (await client.post("/v1/retrieve", json=query_body | query, headers=MANAGER)).json()["chunks"]
        theirs = await client.post("/v1/retrieve", json=query_body | query, headers=key)
        answer = await client.post("/v1/query", json=query_body | query, headers=key)
        chat = {"model": "default", "messages": [{"role": "user", "content": query_body["question"]}], "foreask": query}
        completion = await client.post("/v1/chat/completions", json=chat, headers=key)
        assert completion.status_code == 200, completion.text
        assert ids["board"] in {chunk["document_id"] for chunk in mine}
        expected = [] if query.get("filter") == SECRET["metadata"] else [ids["public"]]
        assert [chunk["document_id"] for chunk in theirs.json()["chunks"]] == expected
        assert "sixty" not in theirs.text + answer.text + completion.text
    asked = query_body["question"]
    of_dify = {"knowledge_id": "default", "query": asked, "retrieval_setting": {"top_k": 5, "score_threshold": 0}}
    for path, body in (
        ("/v1/responses", {"model": "default", "input": asked}),
        ("/v1/vector_stores/default/search", {"query": asked}),
        ("/retrieval", of_dify),
    ):
        reply = (await client.post(path, json=body, headers=key)).raise_for_status()
        assert "sixty" in (await client.post(path, json=body, headers=MANAGER)).text or path == "/v1/responses"
        assert (ids["public"] in reply.text, "sixty" in reply.text) == (True, False), path

    hidden = (
        await client.post("/v1/retrieve", json=query_body | {"filter": SECRET["metadata"]}, headers=MANAGER)
    ).json()
    expected = {"explain": True, "expected": [hidden["chunks"][0]["chunk_id"]]}
    found = (await client.post("/v1/retrieve", json=query_body | expected, headers=key)).json()
    (explained,) = found["metadata"]["explain"]["expected"]
    assert (explained["left_out"], explained["channels"], explained["question"]) == ("absent", {}, None)
    body = {"questions": [query_body["question"]], "collection": "default", "chunk_ids": expected["expected"]}
    await client.post(
        "/v1/documents", json=PUBLIC, headers=as_tenant("bob")
    )  # the other tenant also has a collection with this name
    for headers, absent in ((key, True), (as_tenant("bob"), True), (MANAGER, False)):
        compared = (await client.post("/v1/similarity", json=body, headers=headers)).json()
        assert (compared["absent"] == expected["expected"], not compared["chunks"]) == (absent, absent)
    for retrieved, status in ((found, 200), (hidden, 422)):
        body = {"query_id": found["metadata"]["query_id"], "chunk_id": retrieved["chunks"][0]["chunk_id"]}
        reply = await client.post("/v1/feedback", json=body | {"helpful": True}, headers=key)
        assert reply.status_code == status
    assert (await client.get(f"/v1/documents/{ids['public']}", headers=key)).status_code == 403


# Logs and statements


async def test_logs_contain_key_names_but_no_keys(client):
    key = (await make(client, "read", name="website"))["key"]
    wrong = "fa_wrong-0123456789abcdef"

    with capture_logs(processors=[merge_contextvars]) as lines:
        await client.post("/v1/query", json={"question": "a"}, headers=bearer(wrong))
        await client.post("/v1/query", json={"question": "a"}, headers={"x-api-key": "wrong"})
        await client.post("/v1/query", json={"question": "a"})
        await client.post("/v1/query", json={"question": "a"}, headers=bearer(key))
        await client.get("/v1/collections/secret-words", headers=bearer(wrong))

    assert "secret-words" not in str(lines)
    refused = [(line["status"], line["key"]) for line in lines if line["event"] == "key.refused"]
    short = hash_of(wrong).hex()[:8], hash_of("wrong").hex()[:8]
    assert refused == [(401, short[0]), (401, short[1]), (401, None), (403, "website"), (401, short[0])]
    assert key not in str(lines)
    assert wrong not in str(lines)


async def test_last_use_is_recorded_once_a_minute(client, services):
    key = (await make(client, "read"))["key"]
    key_cache = key_cache_of(client)

    async def used():
        await status_of(client, key)
        if key_cache._recording is not None:
            await key_cache._recording
        (listed,) = (await client.get("/v1/keys", headers=MANAGER)).json()["items"]
        return listed["last_used_at"]

    first = await used()
    assert datetime.now(UTC) - datetime.fromisoformat(first) < timedelta(seconds=30)
    assert await used() == first
    key_cache._recorded.clear()  # like another process, which reads the time from the ledger
    assert await used() == first
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE api_keys SET last_used_at = last_used_at - interval '61 seconds'"))
    key_cache._recorded.clear()
    assert await used() > first


class Counted:
    """The ledger's keys with the number of lookups and the maximum of concurrent ones."""

    def __init__(self, keys):
        self._keys = keys
        self.lookups = self.running = self.at_once = 0

    async def find(self, hashes):
        self.lookups += 1
        self.running += 1
        self.at_once = max(self.at_once, self.running)
        found = await self._keys.find(hashes)
        self.running -= 1
        return found


async def test_flood_of_wrong_keys_runs_one_statement(services):
    counted = Counted(services.ledger[Keys])
    cache = KeyCache(counted)
    right = draw()
    await services.ledger[Keys].make(KeySpecification("alice", "one", {Scope.READ}), hash_of(right))
    hashes = [hash_of(f"wrong-{number}") for number in range(500)]

    found = await asyncio.gather(*(cache.find(sha256) for sha256 in [*hashes, hash_of(right), *hashes]))
    assert [key.name for key in found if key] == ["one"]
    assert counted.lookups == 1
    await asyncio.gather(*(cache.find(sha256) for sha256 in hashes))
    assert counted.lookups == 1

    later = []
    for number in range(100):
        later.append(asyncio.create_task(cache.find(hash_of(f"later-{number}"))))
        await asyncio.sleep(0)
    await asyncio.gather(*later)
    assert counted.at_once == 1
    assert counted.lookups < 100


async def test_wrong_keys_do_not_evict_valid_key(services, monkeypatch):
    monkeypatch.setattr("shared.http.access.key_cache._MOST", 10)
    counted = Counted(services.ledger[Keys])
    cache = KeyCache(counted)
    right = hash_of(draw())
    await services.ledger[Keys].make(KeySpecification("alice", "one", {Scope.READ}), right)
    assert await cache.find(right)
    for number in range(25):
        assert await cache.find(hash_of(f"wrong-{number}")) is None

    lookups = counted.lookups
    assert await cache.find(right)
    assert counted.lookups == lookups
    assert len(cache._invalid) <= 10


async def test_configured_keys_work_during_ledger_outage(services, keyed, provider):
    from embedded.ports import free_port

    nowhere = type(keyed.database_url)(f"postgresql://a:b@127.0.0.1:{free_port()}/c")
    async with calling(keyed.model_copy(update={"database_url": nowhere})) as client:
        reply = await client.get("/v1/status", headers=bearer(draw()))
        assert (reply.status_code, reply.json()["component"]) == (503, "ledger")
        assert (await client.get("/v1/operator/status", headers=MANAGER)).status_code == 403


# The operator


async def test_operator_sees_state_of_every_tenant(client):
    for body, tenant in ((PUBLIC, "alice"), (SECRET, "alice"), (PUBLIC, "bob")):
        await client.post("/v1/documents", json=body, headers=as_tenant(tenant))

    page = (await client.get("/v1/operator/tenants", headers=OPERATORS)).json()
    alice, bob = page["items"]
    assert (alice["tenant"], alice["documents"], alice["dead"]) == ("alice", {"queued": 2}, 0)
    assert (alice["chunks"], alice["stages"]["parse"]["due"]) == ({}, 2)
    assert (bob["tenant"], bob["documents"]) == ("bob", {"queued": 1})
    first = (await client.get("/v1/operator/tenants?limit=1", headers=OPERATORS)).json()
    rest = await client.get("/v1/operator/tenants", params={"cursor": first["next_cursor"]}, headers=OPERATORS)
    assert [each["tenant"] for each in first["items"] + rest.json()["items"]] == ["alice", "bob"]

    status = (await client.get("/v1/operator/status", headers=OPERATORS)).json()
    assert status == {
        "tenants": 2,
        "documents": {"queued": 3},
        "chunks": {},
        "open": {"parse": 3, "read": 0, "generate": 0, "index": 0},
        "workers_wanted": None,
        "dead": 0,
    }


@pytest.mark.usefixtures("runner")
async def test_operator_repairs_collections_but_reads_nothing(client, services):
    secret = {
        "external_id": "secret-name.md",
        "title": "secret title",
        "text": "# Secret\n\nA secret text of somebody.",
    }
    await client.post("/v1/documents", json=secret | {"questions": ["A secret question?"]}, headers=MANAGER)
    await work(services)
    collection = await services.ledger[Collections].get("alice", "default")
    (document,) = await services.ledger[Documents].page("alice", limit=2)
    await services.index.delete_document(collection.location, document.id)

    address = "/v1/operator/tenants/alice/collections"
    replies = [
        await client.get("/v1/operator/tenants", headers=OPERATORS),
        await client.get(address, headers=OPERATORS),
        await client.post(f"{address}/default/verify", json={}, headers=OPERATORS | {"accept": "text/event-stream"}),
        await client.post(f"{address}/default/verify", json={"repair": True}, headers=OPERATORS),
    ]
    assert [reply.status_code for reply in replies] == [200] * 4
    assert all("secret" not in reply.text.lower() for reply in replies)
    assert '"cursor":null' in replies[2].text
    assert replies[3].json()["missing"] == replies[3].json()["repaired"] > 0
    await work(services, "index")
    again = await client.post(f"{address}/default/verify", json={}, headers=OPERATORS)
    assert again.json()["missing"] == 0


async def test_operator_key_from_ledger_is_accepted(client, services):
    key = draw()
    await services.ledger[Keys].make(KeySpecification(OPERATOR, "night-shift", {Scope.OPERATOR}), hash_of(key))

    assert (await client.get("/v1/operator/status", headers=bearer(key))).status_code == 200
    assert await status_of(client, key) == 403
    assert (await client.get("/v1/operator/status", headers=bearer(KEYS["alice"]))).status_code == 403


# The command line


@pytest.fixture
def command(services, keyed, monkeypatch, capsys):
    """Return a function that runs a command with the settings of these engines and returns its output."""
    for name, value in keyed.environment().items():
        monkeypatch.setenv(name, value)

    async def run(command, *arguments, **options):
        await asyncio.to_thread(command, *arguments, **options)
        return capsys.readouterr().out

    return run


async def test_key_commands_work_without_server(client, command):
    printed = await command(commands.create, "ci", scope=[commands.ScopeChoice.READ], days=9, tenant="alice")
    key = printed.split("FOREASK_API_KEY=")[1].strip()
    assert await status_of(client, key) == 200
    printed = await command(commands.create, "bot", limits=["tokens_per_day=5", "cost_per_day=0.5"], tenant="alice")
    me = (await client.get("/v1/me", headers=bearer(printed.split("FOREASK_API_KEY=")[1].strip()))).json()
    assert (me["key_limits"]["tokens_per_day"], me["key_limits"]["cost_per_day"]) == (5, 0.5)
    assert me["scopes"] == ["ask", "feedback", "read", "write"]
    for wrong in ("tokens=5", "tokens_per_day=many", "tokens_per_day=0", "cost_per_day=nan"):
        with pytest.raises(typer.BadParameter):
            await command(commands.create, "wrong", limits=[wrong], tenant="alice")
    assert "ci  read  expires" in await command(commands.list_, tenant="alice")

    await command(commands.revoke, "ci", tenant="alice")
    key_cache_of(client).forget()
    assert await status_of(client, key) == 401
    printed = await command(commands.create, "night-shift", operator=True)
    operators = bearer(printed.split("FOREASK_API_KEY=")[1].strip())
    assert (await client.get("/v1/operator/status", headers=operators)).status_code == 200


async def test_key_commands_work_over_the_api(services, keyed, provider, command):
    async with serving(keyed, services) as client:
        server = {"url": str(client.base_url), "key": KEYS["alice"]}
        await client.put("/v1/collections/default", json={}, headers=MANAGER)
        limits = ["max_tokens=500"]
        printed = await command(commands.create, "website", filters=["audience=public"], limits=limits, **server)
        made = bearer(printed.split("FOREASK_API_KEY=")[1].split()[0])  # a log line may follow
        assert (await client.post("/v1/retrieve", json={"question": "a"}, headers=made)).status_code == 200
        assert "website  ask  valid" in await command(commands.list_, **server)
        changed = await command(commands.change, "website", limits=["max_tokens=800"], days=2, **server)
        assert re.search(
            r'website  ask  expires \d{4}.* only {"audience": "public"}  max_tokens=800$', changed, re.MULTILINE
        )
        await command(commands.change, "website", unlimited=True, forever=True, **server)
        assert re.search(r'website  ask  valid.*"public"}$', await command(commands.list_, **server), re.MULTILINE)
        for options in ({}, {"limits": limits, "unlimited": True}, {"days": 1, "forever": True}):
            with pytest.raises(typer.BadParameter):
                await command(commands.change, "website", **options, **server)
        await command(commands.revoke, "website", **server)
        recorded = await command(audit.list_, kind="key", name="website", **server)
        assert re.findall(r"(create|change|revoke) key website", recorded) == ["revoke", "change", "change", "create"]
        assert "limits.max_tokens: 500 -> 800" in recorded
        assert (await client.post("/v1/retrieve", json={"question": "a"}, headers=made)).status_code == 401

        await client.post("/v1/documents", json=PUBLIC, headers=MANAGER)
        operator = {"url": server["url"], "key": OPERATORS_KEY}
        assert "alice" in await command(show_status, every=True, **operator)
        budget = {"unit": "tokens", "limit": 900, "period": "day"}
        await client.put("/v1/operator/tenants/alice/budgets", json=budget, headers=bearer(OPERATORS_KEY))
        listed = await command(audit.list_, every=True, **operator)
        assert re.search(r"  alice  \S+  create budget .*limit: 900", listed)
        async with running(services):
            assert "default" in await command(verify, tenant="alice", **operator)
