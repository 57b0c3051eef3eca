"""The audit log: each change is recorded with its author, in its transaction, without secrets, and per tenant."""

import asyncio
import hashlib
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest
from structlog.testing import capture_logs

from cli.commands import keys as commands
from features.audit_log.ledger import AuditLog
from features.erasure.ledger.erasures import Erasures
from shared.domain.access.actors import Actor, ActorKind
from shared.domain.access.key_texts import hash_of
from shared.domain.access.keys import KeySpecification, Scope
from shared.ledger.builds.builds import Builds
from shared.ledger.postgres import actors
from shared.ledger.postgres.statements import Statement
from shared.ledger.tenants.keys import Keys
from shared.settings import ApiKey
from tests.integration.test_erasure import finished
from tests.support.api import KEYS, as_tenant, calling, with_keys
from tests.support.planted import guards

OPERATORS_KEY = "operator-0123456789abcdef0123456789"
MANAGER, OTHER = as_tenant("alice"), as_tenant("bob")
OPERATORS = {"authorization": f"Bearer {OPERATORS_KEY}"}
AUTHOR = f"settings:{hashlib.sha256(KEYS['alice'].encode()).hexdigest()[:8]}"
PROMPT = "Write questions about the secret harbour project of our company for: {text}"


@pytest.fixture
def keyed(settings, tmp_path):
    operators = (ApiKey.parse_operator(OPERATORS_KEY),)
    changes = {
        "operator_keys": operators,
        "webhooks_private_networks": True,
        "source_roots": {"*": [tmp_path.as_uri()]},
    }
    return with_keys(settings).model_copy(update=changes)


@pytest.fixture
async def client(services, keyed, provider):
    async with calling(keyed, services) as client:
        yield client


async def sent(client, method, path, body=None, headers=MANAGER):
    reply = await client.request(method, path, json=body, headers=headers)
    assert reply.status_code < 300, reply.text
    return reply.json() if reply.content else None


async def entries(client, headers=MANAGER, **filters):
    reply = await client.get("/v1/audit", params=filters, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()["items"]


def brief(found):
    """Return actions, objects and names, the oldest first."""
    return [(each["action"], each["object"], each["object_name"]) for each in reversed(found)]


async def count(services):
    (row,) = await services.database.rows(Statement("SELECT count(*) AS entries FROM audit_log"))
    return row["entries"]


@guards(
    "shared/http/access/auth.py",
    "if self.scope in _RECORDED:",
    "if False:",
    means="changes of settings are not recorded",
)
async def test_key_changes_are_recorded_with_author(client):
    made = await sent(client, "POST", "/v1/keys", {"name": "admin", "scopes": ["manage", "ask", "read"]})
    admin = {"authorization": f"Bearer {made['key']}"}
    other = await sent(client, "POST", "/v1/keys", {"name": "website", "scopes": ["ask"]}, admin)
    limits = {"limits": {"requests_per_second": 5.0}}
    await sent(client, "PATCH", f"/v1/keys/{other['id']}", limits, admin)
    await sent(client, "DELETE", f"/v1/keys/{other['id']}", None, admin)
    await sent(client, "DELETE", f"/v1/keys/{other['id']}", None, admin)  # changes nothing

    found = await entries(client)
    assert brief(found) == [
        ("create", "key", "admin"),
        ("create", "key", "website"),
        ("change", "key", "website"),
        ("revoke", "key", "website"),
    ]
    assert found[3]["actor"] == {"kind": "key", "name": AUTHOR, "key_id": None}
    assert [each["actor"] for each in found[:3]] == [{"kind": "key", "name": "admin", "key_id": made["id"]}] * 3
    assert found[1]["changes"] == {"limits.requests_per_second": {"before": None, "after": 5.0}}
    assert found[0]["changes"].keys() == {"revoked_at"}
    assert brief(await entries(client, actor="admin", name="website", object="key")) == brief(found)[1:]
    assert await entries(client, object="budget") == []


@guards(
    "shared/ledger/postgres/database.py",
    "if actors.is_recorded() or not self._keeps_session:",
    "if not self._keeps_session:",
    means="changes of one statement are not recorded",
)
async def test_changes_of_other_settings_are_recorded(client, tmp_path):
    body = {"period": "month", "unit": "tokens", "limit": 1000}
    budget = await sent(client, "PUT", "/v1/budgets", body)
    await sent(client, "PUT", "/v1/budgets", body | {"limit": 2000})
    await sent(client, "DELETE", f"/v1/budgets/{budget['id']}")
    webhook = await sent(client, "POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/hooks?token=t0ps3cret"})
    await sent(client, "DELETE", f"/v1/webhooks/{webhook['id']}")
    await sent(client, "PUT", "/v1/collections/papers", {"questions_per_chunk": 4})
    await sent(client, "PUT", "/v1/collections/papers", {"prompt": PROMPT})
    await sent(client, "POST", "/v1/collections/papers/builds", {})
    await sent(client, "POST", "/v1/collections/papers/builds/2/pause")
    await sent(client, "POST", "/v1/collections/papers/builds/2/resume")
    await sent(client, "DELETE", "/v1/collections/papers/builds/2")
    await sent(client, "POST", "/v1/sources", {"name": "docs", "uri": tmp_path.as_uri(), "collection": "papers"})
    await sent(client, "PATCH", "/v1/sources/docs", {"max_delete_share": 0.5})
    await sent(client, "DELETE", "/v1/sources/docs?documents=keep")
    await sent(client, "POST", "/v1/documents", {"text": "A text.", "collection": "uploads"})
    await sent(client, "DELETE", "/v1/collections/papers")

    found = await entries(client)
    assert brief(found) == [
        ("create", "budget", "everything, month, tokens"),
        ("change", "budget", "everything, month, tokens"),
        ("delete", "budget", "everything, month, tokens"),
        ("create", "webhook", "http://127.0.0.1:9"),
        ("delete", "webhook", "http://127.0.0.1:9"),
        ("create", "collection", "papers"),
        ("change", "collection", "papers"),
        ("start", "build", "papers, build 2"),
        ("pause", "build", "papers, build 2"),
        ("resume", "build", "papers, build 2"),
        ("cancel", "build", "papers, build 2"),
        ("create", "source", "docs"),
        ("change", "source", "docs"),
        ("remove", "source", "docs"),
        ("create", "collection", "uploads"),
        ("erase", "collection", "papers"),
    ]
    oldest = found[::-1]
    assert oldest[1]["changes"] == {"limit": {"before": 1000, "after": 2000}}
    assert oldest[5]["changes"]["options.questions_per_chunk"] == {"before": None, "after": 4}
    assert oldest[6]["changes"]["options.prompt"]["after"].startswith(f"{len(PROMPT)} characters, SHA-256 ")
    assert oldest[12]["changes"] == {"max_delete_share": {"before": 0.1, "after": 0.5}}


@guards(
    "shared/ledger/postgres/migrations/schema.sql",
    "record_change('url', 'events', 'disabled_at')",
    "record_change('url', 'events', 'secret')",
    means="secrets of webhooks are recorded",
)
@guards(
    "shared/ledger/postgres/migrations/schema.sql",
    "WHEN field LIKE '%prompt%' OR",
    "WHEN false OR",
    means="prompts are recorded",
)
async def test_secrets_and_contents_are_never_recorded(client, services):
    with capture_logs() as logs:
        made = await sent(client, "POST", "/v1/keys", {"name": "website", "scopes": ["ask"]})
        hook = await sent(client, "POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/s3cret?token=t0ps3cret"})
        await sent(client, "PUT", "/v1/collections/papers", {"prompt": PROMPT})
        await sent(client, "DELETE", f"/v1/keys/{made['id']}")
        listed = (await client.get("/v1/keys", headers=MANAGER)).text
        audit = (await client.get("/v1/audit", headers=MANAGER)).text
    stored = str(await services.database.rows(Statement("SELECT CAST(a.* AS text) FROM audit_log a")))
    digest = hash_of(made["key"]).hex()
    for secret in (made["key"], KEYS["alice"], digest, hook["secret"], "s3cret", "t0ps3cret", "harbour"):
        assert secret not in stored
        assert secret not in audit
    for secret in (made["key"], KEYS["alice"], digest):
        assert secret not in listed
        assert secret not in str(logs)


async def test_failed_change_leaves_no_entry(client, services):
    await sent(client, "POST", "/v1/keys", {"name": "website", "scopes": ["ask"]})
    before = await count(services)
    again = await client.post("/v1/keys", json={"name": "website", "scopes": ["ask"]}, headers=MANAGER)
    assert again.status_code == 409
    with actors.recorded(Actor(ActorKind.COMMAND_LINE)):
        async with services.database.begin() as connection:
            await connection.execute(Statement("UPDATE api_keys SET revoked_at = now()"))
            written = (await connection.execute(Statement("SELECT count(*) FROM audit_log"))).scalar_one()
            assert written == before + 1
            await connection.rollback()
    assert await count(services) == before


@pytest.fixture
async def refusing(services):
    """Refuse all entries of keys."""
    async with services.database.begin() as connection:
        await connection.execute(
            Statement("ALTER TABLE audit_log ADD CONSTRAINT refuse CHECK (object <> 'key') NOT VALID")
        )
    yield
    async with services.database.begin() as connection:
        await connection.execute(Statement("ALTER TABLE audit_log DROP CONSTRAINT refuse"))


@pytest.mark.usefixtures("refusing")
async def test_change_without_entry_is_not_made(client, services):
    reply = await client.post("/v1/keys", json={"name": "website", "scopes": ["ask"]}, headers=MANAGER)
    assert reply.status_code == 500
    assert await services.database.rows(Statement("SELECT 1 FROM api_keys")) == []


@guards(
    "features/audit_log/ledger.sql",
    "WHERE (tenant = :tenant OR",
    "WHERE (:tenant <> '' OR",
    means="a tenant reads the changes of others",
)
async def test_only_managers_read_own_tenants_entries(client):
    await sent(client, "POST", "/v1/keys", {"name": "ours", "scopes": ["read", "write", "ask"]})
    theirs = await sent(client, "POST", "/v1/keys", {"name": "theirs", "scopes": ["read", "write", "ask"]}, OTHER)

    assert brief(await entries(client)) == [("create", "key", "ours")]
    assert brief(await entries(client, OTHER)) == [("create", "key", "theirs")]
    assert await entries(client, name="theirs") == []
    reader = {"authorization": f"Bearer {theirs['key']}"}
    assert (await client.get("/v1/audit", headers=reader)).status_code == 403
    assert (await client.get("/v1/audit", headers=OPERATORS)).status_code == 403
    assert (await client.get("/v1/operator/audit", headers=MANAGER)).status_code == 403


async def test_operators_and_commands_are_recorded(client, services, keyed, monkeypatch):
    for name, value in keyed.environment().items():
        monkeypatch.setenv(name, value)
    await asyncio.to_thread(commands.create, "ci", scope=[commands.ScopeChoice.READ], tenant="alice")
    await asyncio.to_thread(commands.create, "night-shift", operator=True)
    budget = {"period": "day", "unit": "tokens", "limit": 5}
    await sent(client, "PUT", "/v1/operator/tenants/alice/budgets", budget, OPERATORS)
    await sent(client, "POST", "/v1/keys", {"name": "own", "scopes": ["read"]})

    found = await entries(client)
    assert [(each["actor"]["kind"], each["object_name"]) for each in found] == [
        ("key", "own"),
        ("operator", "everything, day, tokens"),
        ("command line", "ci"),
    ]
    all_tenants = (await sent(client, "GET", "/v1/operator/audit", headers=OPERATORS))["items"]
    assert [(each["tenant"], each["object_name"]) for each in all_tenants] == [
        ("alice", "everything, day, tokens"),
        (None, "night-shift"),
        ("alice", "ci"),
    ]


async def test_changes_without_author_are_not_recorded(client, services):
    await sent(client, "POST", "/v1/documents", {"text": "A text."})
    before = await count(services)
    await services.ledger[Keys].make(KeySpecification("alice", "one", {Scope.READ}), hash_of("one"))
    assert await count(services) == before


async def test_pages_of_entries_are_complete(client):
    for number in range(5):
        await sent(client, "POST", "/v1/keys", {"name": f"key-{number}", "scopes": ["ask"]})
    first = await sent(client, "GET", "/v1/audit?limit=3")
    second = await sent(client, "GET", f"/v1/audit?limit=3&cursor={first['next_cursor']}")
    names = [each["object_name"] for each in first["items"] + second["items"]]
    assert names == [f"key-{number}" for number in reversed(range(5))]
    assert second["next_cursor"] is None


@guards(
    "shared/ledger/postgres/migrations/schema.sql",
    "BEFORE UPDATE ON audit_log",
    "BEFORE UPDATE OF id ON audit_log",
    means="recorded changes can be changed",
)
async def test_entries_are_never_changed_and_expire(client, services):
    for name in ("old", "new"):
        await sent(client, "POST", "/v1/keys", {"name": name, "scopes": ["ask"]})
    with pytest.raises(asyncpg.PostgresError):
        await services.database.rows(Statement("UPDATE audit_log SET actor_name = 'another'"))

    async with services.database.begin() as connection:  # the owner of the table can disable the trigger
        await connection.execute(Statement("ALTER TABLE audit_log DISABLE TRIGGER refuse_change"))
        await connection.execute(
            Statement("UPDATE audit_log SET created_at = now() - interval '31 days' WHERE object_name = 'old'")
        )
        await connection.execute(Statement("ALTER TABLE audit_log ENABLE TRIGGER refuse_change"))
    await services.ledger[AuditLog].forget(timedelta(days=30))
    assert brief(await entries(client)) == [("create", "key", "new")]


async def test_changed_key_limits_apply_in_other_processes(client, services, keyed, provider):
    made = await sent(client, "POST", "/v1/keys", {"name": "website", "scopes": ["ask", "read"]})
    key = {"authorization": f"Bearer {made['key']}"}
    async with calling(keyed, services) as other:
        assert (await other.get("/v1/me", headers=key)).json()["key_limits"]["requests_per_second"] is None
        change = {"limits": {"requests_per_second": 0.5}}
        changed = await sent(client, "PATCH", f"/v1/keys/{made['id']}", change)
        assert changed["limits"]["requests_per_second"] == 0.5
        cache = other._transport.app.state.api.key_cache
        now = cache._now()
        cache._now = lambda: now + 5  # the limits apply within five seconds
        answers = [(await other.get("/v1/status", headers=key)).status_code for _ in range(3)]
    assert answers[0] == 200
    assert answers[-1] == 429


@guards(
    "api/routes/keys.py",
    "if missing := key.scopes - caller.scopes:",
    "if missing := key.scopes - key.scopes:",
    means="a key changes or revokes keys with scopes that it lacks",
)
@guards(
    "shared/ledger/tenants/keys.py",
    "            allow(_key_of(row))\n",
    "",
    means="a key revokes keys with scopes that it lacks",
)
@guards(
    "shared/ledger/tenants/keys.sql",
    "SELECT {key_columns} FROM api_keys WHERE tenant = :tenant AND id = :id FOR UPDATE",
    "SELECT {key_columns} FROM api_keys WHERE :tenant <> '' AND id = :id FOR UPDATE",
    means="a key changes keys of other tenants",
)
async def test_key_changes_only_own_tenants_lesser_keys(client):
    admin = await sent(client, "POST", "/v1/keys", {"name": "admin", "scopes": ["manage", "ask"]})
    writer = await sent(client, "POST", "/v1/keys", {"name": "writer", "scopes": ["write"]})
    asker = await sent(client, "POST", "/v1/keys", {"name": "asker", "scopes": ["ask"]})
    change = {"limits": {"requests_per_second": 5.0}}

    async def status(key, headers, body=change):
        return (await client.patch(f"/v1/keys/{key['id']}", json=body, headers=headers)).status_code

    of_admin = {"authorization": f"Bearer {admin['key']}"}
    assert await status(writer, OTHER) == 404
    assert await status(writer, of_admin) == 403  # it lacks `write`
    assert (await client.delete(f"/v1/keys/{writer['id']}", headers=of_admin)).status_code == 403
    assert (await client.get("/v1/me", headers={"authorization": f"Bearer {writer['key']}"})).status_code == 200
    assert await status(asker, of_admin) == 200
    assert await status(asker, {"authorization": f"Bearer {asker['key']}"}) == 403
    assert await status(admin, MANAGER) == 422  # a key with limits cannot manage
    assert await status(asker, MANAGER, {"scopes": ["manage"]}) == 422
    of_bob = {"name": "spy", "scopes": ["read"], "tenant": "bob"}
    assert (await client.post("/v1/keys", json=of_bob, headers=MANAGER)).status_code == 422
    assert (await client.delete(f"/v1/keys/{asker['id']}", headers=of_admin)).status_code == 204
    assert await status(asker, MANAGER) == 409


async def test_keys_of_settings_are_listed_but_fixed(client):
    made = await sent(client, "POST", "/v1/keys", {"name": "website", "scopes": ["ask"]})
    listed = (await client.get("/v1/keys", headers=MANAGER)).json()
    assert [each["name"] for each in listed["from_settings"]] == [AUTHOR]
    assert [each["prefix"] for each in listed["items"]] == [made["key"][:7]]
    assert UUID(listed["items"][0]["id"])


@guards(
    "features/audit_log/ledger.sql",
    "WHERE tenant = :tenant LIMIT",
    "WHERE :tenant = '' LIMIT",
    means="an erasure of a tenant keeps the recorded changes",
)
async def test_tenant_erasure_deletes_entries_and_stays_recorded(client, services):
    await sent(client, "POST", "/v1/keys", {"name": "ours", "scopes": ["ask"]})
    await sent(client, "POST", "/v1/keys", {"name": "theirs", "scopes": ["ask"]}, OTHER)
    erasure = await sent(client, "DELETE", "/v1/operator/tenants/alice?confirm=alice", None, OPERATORS)
    await finished(services, await services.ledger[Erasures].get(UUID(erasure["id"])))

    assert await entries(client) == []
    assert brief(await entries(client, OTHER)) == [("create", "key", "theirs")]
    found = (await sent(client, "GET", "/v1/operator/audit", headers=OPERATORS))["items"]
    assert brief(found) == [("erase", "tenant", erasure["id"])]
    assert (await sent(client, "GET", "/v1/operator/tenants/alice/remaining-data", headers=OPERATORS))["found"] == 0


async def test_switch_and_return_of_builds_are_recorded(client, services):
    await sent(client, "PUT", "/v1/collections/papers", {})
    await sent(client, "POST", "/v1/collections/papers/builds", {})
    await services.ledger[Builds].fill()  # by the scheduler
    await sent(client, "POST", "/v1/collections/papers/builds/2/switch", {"force": True})
    await sent(client, "POST", "/v1/collections/papers/builds/1/switch", {"force": True})

    assert brief(await entries(client, object="build")) == [
        ("start", "build", "papers, build 2"),
        ("switch", "build", "papers, build 2"),
        ("switch", "build", "papers, build 1"),
    ]


async def test_approvals_and_enabled_webhooks_are_recorded(client, services, tmp_path):
    hook = await sent(client, "POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/"})
    await sent(client, "POST", "/v1/sources", {"name": "docs", "uri": tmp_path.as_uri()})
    await sent(client, "POST", "/v1/sources/docs/sync")
    async with services.database.begin() as connection:  # as after five days of failures, and after a listing
        await connection.execute(Statement("UPDATE webhooks SET disabled_at = now()"))
        await connection.execute(
            Statement("UPDATE jobs SET state = 'paused', pause_reason = 'approval' WHERE kind = 'sync'")
        )
        await connection.execute(Statement("UPDATE syncs SET state = 'done', listed_at = now(), ended_at = now()"))
        await connection.execute(Statement("DELETE FROM job_claims"))
    await sent(client, "POST", f"/v1/webhooks/{hook['id']}/resume")
    await sent(client, "POST", "/v1/sources/docs/approve", {"deletions": 3})

    newest, enabled = (await entries(client))[:2]
    assert brief([newest, enabled]) == [("enable", "webhook", "http://127.0.0.1:9"), ("approve", "source", "docs")]
    assert newest["changes"] == {"approved": {"before": None, "after": 3}}
