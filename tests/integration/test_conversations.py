"""Conversations are stored for their key alone, and deleted by age, with their key and with the data that they cite."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from features.conversations import feature
from features.conversations.domain import Citations, Conversation
from features.conversations.ledger import Conversations
from features.erasure.ledger.erasures import Erasures
from shared.domain.access.keys import Owner
from shared.ledger.postgres.statements import Statement
from shared.settings import ApiKey
from tests.integration.test_erasure import finished
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "external_id": "leave.md", "title": "Leave"}
NOW = datetime.now(UTC)
ALICE = Owner("alice", "local")


async def indexed(services):
    """Index a document of alice."""
    async with calling(with_keys(services.settings), services) as client:
        await client.post("/v1/documents", json=LEAVE, headers=as_tenant("alice"))
    await work(services)


@pytest.fixture
async def storing(services, settings, once):
    """Return a function that calls an API with keys that stores conversations; alice has a document."""
    await once(indexed)

    def storing(**more):
        return calling(with_keys(settings).model_copy(update={"conversation_retention_days": 30, **more}), services)

    return storing


def turn(document_id=None, **more):
    source = {
        "number": 1,
        "chunk_id": str(uuid4()),
        "document_id": str(document_id),
        "external_id": "leave.md",
        "title": None,
        "filename": None,
        "heading_path": [],
        "page": None,
        "sentences": [[0, 4]],
    }
    return {
        "question": "How much leave?",
        "searched": "How much leave?",
        "collection": "default",
        "answer": "Thirty days [1].",
        "form": "generative",
        "found": True,
        "certain": True,
        "incomplete_reason": None,
        "stopped": False,
        "query_id": None,
        "sources": [source] if document_id else [],
        "document_ids": [],
        **more,
    }


def conversation(*turns, name="Leave", at=NOW):
    return {"name": name, "changed_at": at.isoformat(), "turns": list(turns) or [turn()]}


async def put(client, body=None, conversation_id="first", headers=None):
    address = f"/v1/conversations/{conversation_id}"
    return await client.put(address, json=body or conversation(), headers=headers or as_tenant("alice"))


async def listed(client, headers=None, **parameters):
    reply = await client.get("/v1/conversations", params=parameters, headers=headers or as_tenant("alice"))
    assert reply.status_code == 200, reply.text
    return reply.json()


async def names(client, headers=None):
    return [each["name"] for each in (await listed(client, headers))["items"]]


async def key_of(client, tenant, name, *scopes):
    body = {"name": name, "scopes": list(scopes or ["ask"])}
    made = (await client.post("/v1/keys", json=body, headers=as_tenant(tenant))).raise_for_status().json()
    return made["id"], {"authorization": f"Bearer {made['key']}"}


async def document_of(client, tenant="alice", collection="default"):
    reply = await client.get("/v1/documents", params={"collection": collection}, headers=as_tenant(tenant))
    return UUID(reply.json()["items"][0]["id"])


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return [tuple(row) for row in result]


async def rows(services):
    return sorted(each for (each,) in await run(services, "SELECT id FROM conversations"))


async def forget(services, days=30):
    """Delete conversations as the scheduler does, ten minutes later."""
    await run(services, "UPDATE conversations SET checked_at = now() - interval '11 minutes'")
    await services.ledger[Conversations].forget(timedelta(days=days))


async def test_stored_conversation_is_returned_unchanged(storing):
    async with storing() as client:
        body = conversation(turn(await document_of(client)), turn(question="And Pay \u20ac?"))

        reply = await put(client, body)

        assert reply.status_code == 200, reply.text
        found = await listed(client)
        (item,) = found["items"]
        assert found["next_cursor"] is None
        assert (item["id"], item["name"], item["turns"]) == ("first", "Leave", body["turns"])
        assert datetime.fromisoformat(item["changed_at"]) == NOW


@guards(
    "features/conversations/ledger.sql",
    "tenant = :tenant AND owner = :owner\n\n",
    "tenant = :tenant AND :owner <> ''\n\n",
    means="keys of a tenant share their conversations",
)
@guards(
    "shared/http/access/auth.py",
    '"local" if self.digest is None else f"settings:{self.digest}"',
    '"local"',
    means="keys of the settings share the conversations of their tenant",
)
async def test_each_key_sees_only_own_conversations(settings, storing):
    another = "another-0123456789abcdef0123456789"
    keyed = (*with_keys(settings).api_keys, ApiKey.parse(f"alice:{another}"))
    async with storing(api_keys=keyed) as client:
        _, first = await key_of(client, "alice", "first")
        _, second = await key_of(client, "alice", "second")
        await client.post("/v1/documents", json=LEAVE, headers=as_tenant("bob"))
        keys = {"settings": as_tenant("alice"), "first": first, "second": second, "bob": as_tenant("bob")}
        keys["another"] = {"authorization": f"Bearer {another}"}
        for name, headers in keys.items():
            assert (await put(client, conversation(name=name), headers=headers)).status_code == 200

        assert {name: await names(client, headers) for name, headers in keys.items()} == {name: [name] for name in keys}

        assert (await client.delete("/v1/conversations/first", headers=first)).status_code == 204
        assert (await client.delete("/v1/conversations/first", headers=first)).status_code == 404
        assert (await client.delete("/v1/conversations", headers=second)).status_code == 204
        assert [await names(client, headers) for headers in keys.values()] == [
            ["settings"],
            [],
            [],
            ["bob"],
            ["another"],
        ]


async def test_key_without_ask_scope_is_refused(storing):
    async with storing() as client:
        _, reader = await key_of(client, "alice", "reader", "read")

        assert (await client.get("/v1/conversations", headers=reader)).status_code == 403
        assert (await put(client, headers=reader)).status_code == 403
        assert (await client.get("/v1/me", headers=reader)).json()["conversation_retention_days"] == 0
        assert (await client.get("/v1/me", headers=as_tenant("alice"))).json()["conversation_retention_days"] == 30


async def test_stored_owner_reveals_no_key(services, settings, storing):
    async with storing() as client:
        await put(client)
        key = as_tenant("alice")["authorization"].removeprefix("Bearer ")
        ((owner,),) = await run(services, "SELECT owner FROM conversations")

        (of_settings,) = (each for each in with_keys(settings).api_keys if each.tenant == "alice")
        assert owner.startswith("settings:")
        assert key not in owner
        assert of_settings.sha256.hex() not in owner


async def test_without_keys_there_is_one_owner(services, settings, library, provider):
    await library.add("Everybody has thirty days of leave a year.", "leave.md")
    async with calling(settings.model_copy(update={"conversation_retention_days": 1}), services) as client:
        address = "/v1/conversations/first"
        assert (await client.put(address, json=conversation())).status_code == 200
        assert [each["id"] for each in (await client.get("/v1/conversations")).json()["items"]] == ["first"]


@guards(
    "features/conversations/routes.py",
    "if not (days := days_of(caller, settings)):",
    "if (days := days_of(caller, settings)) < 0:",
    means="the server stores conversations although the operator does not allow it",
)
async def test_conversations_are_not_stored_by_default(services, settings, storing):
    async with storing() as client:
        await put(client)
    async with calling(with_keys(settings), services) as client:
        replies = [
            await put(client, conversation_id="second"),
            await client.get("/v1/conversations", headers=as_tenant("alice")),
            await client.delete("/v1/conversations/first", headers=as_tenant("alice")),
            await client.delete("/v1/conversations", headers=as_tenant("alice")),
        ]
        assert {(each.status_code, "FOREASK_CONVERSATION_RETENTION_DAYS" in each.text) for each in replies} == {
            (404, True)
        }
        assert (await client.get("/v1/me", headers=as_tenant("alice"))).json()["conversation_retention_days"] == 0

    assert services.settings.conversation_retention_days == 0
    assert await rows(services) == ["first"]
    assert await feature.forget(services.ledger[Conversations], services.settings) is False
    assert await rows(services) == []


@guards(
    "features/conversations/ledger.sql",
    "WHERE conversations.changed_at <= excluded.changed_at",
    "WHERE true",
    means="an outdated conversation replaces a later one",
)
async def test_later_change_wins_in_any_order(storing):
    async with storing() as client:
        early, late = NOW - timedelta(hours=2), NOW - timedelta(hours=1)
        await put(client, conversation(name="late", at=late))

        outdated = await put(client, conversation(name="early", at=early))

        assert outdated.status_code == 200
        assert datetime.fromisoformat(outdated.json()["changed_at"]) == late
        assert await names(client) == ["late"]
        await put(client, conversation(name="repeated", at=late))
        assert await names(client) == ["repeated"]


@guards(
    "features/conversations/ledger.sql",
    "least(CAST(:changed_at AS timestamptz), now()))",
    "CAST(:changed_at AS timestamptz))",
    means="a browser with a clock ahead changes its conversation for ever",
)
async def test_clock_ahead_does_not_win_for_ever(storing):
    async with storing() as client:
        ahead = await put(client, conversation(name="ahead", at=NOW + timedelta(days=400)))

        assert datetime.fromisoformat(ahead.json()["changed_at"]) <= datetime.now(UTC)
        await put(client, conversation(name="now", at=datetime.now(UTC) + timedelta(seconds=1)))
        assert await names(client) == ["now"]


@guards(
    "features/conversations/ledger.py",
    "await connection.execute(SQL.delete_oldest, ",
    "bool(",
    means="a key stores any number of conversations",
)
async def test_oldest_conversation_above_hundred_is_deleted(storing):
    async with storing() as client:
        _, other = await key_of(client, "alice", "other")
        await put(client, conversation_id="of-other", headers=other)
        await asyncio.gather(
            *(
                put(client, conversation(name=f"{number}", at=NOW - timedelta(minutes=number)), f"c{number}")
                for number in range(103)
            )
        )
        seen, cursor = [], None
        while cursor is not None or not seen:
            page = await listed(client, **({"cursor": cursor} if cursor else {}), limit=17)
            seen += page["items"]
            cursor = page["next_cursor"]

        assert [each["name"] for each in seen] == [f"{number}" for number in range(100)]
        assert await names(client, other) == ["Leave"]


async def test_invalid_conversation_is_rejected(services, storing):
    async with storing() as client:
        for name, body, status in (
            ("too large", conversation(turn(answer="x" * 256 * 1024)), 413),
            ("passages", conversation(turn(passages=["The text of a passage."])), 422),
            ("collection", conversation(turn(collection="No Name")), 422),
            ("NUL", conversation(turn(answer="\0")), 422),
            ("empty", conversation() | {"turns": []}, 422),
            ("no time zone", conversation() | {"changed_at": "2026-10-01T09:30:00"}, 422),
            ("too old", conversation(at=datetime(1970, 1, 1, tzinfo=UTC)), 422),
            ("overflow", conversation() | {"changed_at": "9999-12-31T23:59:59-12:00"}, 422),
        ):
            assert (await put(client, body)).status_code == status, name
        assert (await put(client, conversation_id="a%20b")).status_code == 422
        cursor = await client.get("/v1/conversations", params={"cursor": "e30"}, headers=as_tenant("alice"))
        assert cursor.status_code == 400
        assert await rows(services) == []


@guards(
    "features/conversations/ledger.sql",
    " AND stored_at > now() - CAST(:age AS interval) AND NOT",
    " AND CAST(:age AS interval) IS NOT NULL AND NOT",
    means="an expired conversation is listed until it is deleted",
)
async def test_conversation_expires_after_its_last_change(services, storing):
    async with storing() as client:
        await put(client, conversation(at=NOW - timedelta(days=90)), "moved")  # stored now
        await put(client, conversation_id="old")
        await run(services, "UPDATE conversations SET stored_at = now() - interval '31 days' WHERE id = 'old'")

        assert [each["id"] for each in (await listed(client))["items"]] == ["moved"]
        await forget(services)
        assert await rows(services) == ["moved"]


@guards(
    "features/conversations/ledger.sql",
    " AND k.revoked_at IS NULL",
    "",
    means="conversations of a revoked key stay",
    case="revoke",
)
@pytest.mark.parametrize("end", ["revoke", "expire", "remove"])
async def test_ended_key_loses_its_conversations(services, settings, end, storing):
    async with storing() as client:
        ended, first = await key_of(client, "alice", "first")
        _, second = await key_of(client, "alice", "second")
        for name, headers in {"ended": first, "valid": second, "settings": as_tenant("alice")}.items():
            await put(client, conversation_id=name, headers=headers)
        await forget(services)
        assert await rows(services) == ["ended", "settings", "valid"]

        if end == "revoke":
            await client.delete(f"/v1/keys/{ended}", headers=as_tenant("alice"))
        elif end == "expire":
            await run(services, "UPDATE api_keys SET expires_at = now() WHERE id = :id", id=UUID(ended))
        else:
            await run(services, "DELETE FROM api_keys WHERE id = :id", id=UUID(ended))

        await forget(services)
        assert await rows(services) == ["settings", "valid"]


@guards(
    "features/conversations/ledger.py",
    "if (await connection.execute(SQL.cites_erased, where)).scalar_one():",
    "if False:",
    means="a conversation that cites an erased document is stored again",
    case="source",
)
@guards(
    "features/conversations/routes.py",
    "documents.update(document_id for turn",
    "set(document_id for turn",
    means="an uncited passage does not connect a conversation to its document",
    case="passage",
)
@pytest.mark.parametrize("cited", ["source", "passage"])
async def test_erased_document_deletes_citing_conversations(services, cited, storing):
    async with storing() as client:
        other = {"text": "# Pay\n\nEverybody is paid on Friday.", "external_id": "pay.md"}
        await client.post("/v1/documents", json=other, headers=as_tenant("alice"))
        await work(services)
        page = await client.get("/v1/documents", headers=as_tenant("alice"))
        ids = {each["external_id"]: UUID(each["id"]) for each in page.json()["items"]}
        leave = ids["leave.md"]
        citing = turn(leave) if cited == "source" else turn(document_ids=[str(leave)])
        await put(client, conversation(turn(), citing), "citing")
        await put(client, conversation(turn(ids["pay.md"])), "other")

        erasure = await services.ledger[Erasures].start_document(leave)
        assert [each["id"] for each in (await listed(client))["items"]] == ["other"]
        await finished(services, erasure)

        assert await rows(services) == ["other"]
        again = await put(client, conversation(turn(), citing), "citing")
        assert (again.status_code, "was erased" in again.json()["detail"]) == (409, True)
        assert await rows(services) == ["other"]


@guards(
    "features/conversations/ledger.sql",
    "(e.scope = 'tenant' OR e.collection = ANY(c.collections))",
    "false",
    means="a new collection revives the conversations of an erased one",
)
async def test_erased_collection_deletes_its_conversations(services, storing):
    async with storing() as client:
        body = LEAVE | {"collection": "handbook"}
        await client.post("/v1/documents", json=body, headers=as_tenant("alice"))
        await work(services)
        cited = conversation(turn(), turn(await document_of(client, collection="handbook"), collection="handbook"))
        await put(client, cited, "citing")
        await put(client, conversation_id="other")
        erasure = await services.ledger[Erasures].start("alice", "handbook")
        assert (await put(client, cited, "late")).status_code == 409

        await finished(services, erasure)

        assert await rows(services) == ["other"]
        assert (await put(client, cited, "late")).status_code == 409
    async with storing() as client:  # without the cache of collections
        await client.post("/v1/documents", json=body, headers=as_tenant("alice"))  # a document with another id
        assert (await put(client, cited, "late")).status_code == 409
        fresh = conversation(turn(await document_of(client, collection="handbook"), collection="handbook"))
        assert (await put(client, fresh, "fresh")).status_code == 200


async def test_erased_tenant_loses_its_conversations(services, storing):
    async with storing() as client:
        await client.post("/v1/documents", json=LEAVE, headers=as_tenant("bob"))
        await put(client, conversation_id="of-alice")
        await put(client, conversation_id="of-bob", headers=as_tenant("bob"))
        stale = conversation(turn(await document_of(client)))

        await finished(services, await services.ledger[Erasures].start("alice"))

        assert await rows(services) == ["of-bob"]
    async with storing() as client:  # without the cache of collections
        await client.post("/v1/documents", json=LEAVE, headers=as_tenant("alice"))
        assert (await put(client)).status_code == 200
        assert (await put(client, stale, "stale")).status_code == 409


async def test_deleted_document_leaves_conversations(services, storing):
    async with storing() as client:
        leave = await document_of(client)
        await put(client, conversation(turn(leave)), "citing")
        await client.delete(f"/v1/documents/{leave}", headers=as_tenant("alice"))

        assert (await put(client, conversation(turn(leave)), "again")).status_code == 200
        await forget(services)
        assert await rows(services) == ["again", "citing"]


async def test_scheduler_deletes_conversations_that_erasure_missed(services, storing):
    """The previous release does not know the table; a conversation may be stored while its data is erased."""
    async with storing() as client:
        leave = await document_of(client)
        await finished(services, await services.ledger[Erasures].start_document(leave))
        insert = """
            INSERT INTO conversations (tenant, owner, id, name, turns, collections, document_ids, changed_at)
            VALUES ('alice', 'local', :id, 'Leave', '[]', :collections, :documents, now())
        """
        await run(services, insert, id="erased", collections=["default"], documents=[leave])
        await run(services, insert, id="missing", collections=["missing"], documents=[])
        await run(services, insert, id="valid", collections=["default"], documents=[])

        await forget(services)

        assert await rows(services) == ["valid"]
        assert [each.id for each in await services.ledger[Conversations].page(ALICE, oldest=timedelta(days=1))] == [
            "valid"
        ]
        assert client


async def test_texts_of_conversations_are_not_logged(services, capsys, caplog, storing):
    phrase = "wherefore-the-salary"
    async with storing() as client:
        for body in (
            conversation(turn(question=phrase, answer=phrase), name=phrase),
            conversation(turn(question=phrase, collection="missing"), name=phrase),
            conversation(turn(question=phrase, extra=phrase), name=phrase),
        ):
            await put(client, body)
        await forget(services, days=0)
    bad = Conversation("first", None, phrase, NOW)  # a row that PostgreSQL refuses
    with pytest.raises(Exception, match="name") as error:
        await services.ledger[Conversations].store(ALICE, bad, Citations([], []))

    written = capsys.readouterr()
    assert phrase not in written.out + written.err + caplog.text + str(error.value)
