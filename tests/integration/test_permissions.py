"""Persons find only documents that they may read: by the readers of documents, in Qdrant and in the ledger."""

import asyncio
from dataclasses import replace

import pytest
import typer

from cli.commands import access
from shared.domain.access.persons import UNSET
from shared.http.access.person_log import PersonLog
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.ledger.tenants.persons import Persons
from tests.support.api import KEYS, as_tenant, calling, serving, with_keys, work
from tests.support.planted import guards
from tests.support.waiting import eventually, until_blocked

KEY = as_tenant("alice")
ADA, BOB, EVE = "ada@example.org", "bob@example.org", "eve@example.org"
QUESTION = "When does the harbour open?"


def person(user, *groups):
    return KEY | {"x-foreask-user": user, "x-foreask-groups": ",".join(groups)}


@pytest.fixture
async def client(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        yield client


async def upload(client, name, **more):
    body = {
        "text": f"# {name}\n\nThe harbour opens at seven. The keeper of {name} is Ada.",
        "external_id": name,
        **more,
    }
    reply = await client.post("/v1/documents", json=body, headers=KEY)
    return reply.raise_for_status().json()["id"]


async def found(client, headers, **more):
    body = {"question": QUESTION, "top_k": 50, **more}
    reply = await client.post("/v1/retrieve", json=body, headers=headers)
    return {chunk["external_id"] for chunk in reply.raise_for_status().json()["chunks"]}


async def listed(client, headers):
    reply = await client.get("/v1/documents", headers=headers)
    return {item["external_id"] for item in reply.raise_for_status().json()["items"]}


async def change(client, document, readers):
    reply = await client.patch(f"/v1/documents/{document}", json={"readable_by": readers}, headers=KEY)
    assert reply.raise_for_status().json()["readable_by"] == readers


@pytest.fixture
async def documents(client, services):
    ids = {
        "public": await upload(client, "public", readable_by=["everyone"]),
        "unset": await upload(client, "unset"),
        "legal": await upload(client, "legal", readable_by=["group:legal", f"user:{BOB}"]),
        "ada": await upload(client, "ada", readable_by=[f"user:{ADA}"]),
        "nobody": await upload(client, "nobody", readable_by=[]),
    }
    await work(services)
    return ids


@guards(
    "shared/ledger/documents/listing.py",
    '"principals": None if wanted.principals is None else list(wanted.principals),',
    '"principals": None,',
    means="the list of documents shows a person every document",
)
async def test_person_finds_and_lists_only_readable_documents(client, documents):
    everything = {"public", "unset", "legal", "ada", "nobody"}
    for headers, expected in [
        (KEY, everything),
        (person(EVE), {"public", "unset"}),
        (person(ADA), {"public", "unset", "ada"}),
        (person(ADA, "legal", "hr"), {"public", "unset", "ada", "legal"}),
        (person(BOB), {"public", "unset", "legal"}),
        (person("group:legal"), {"public", "unset"}),
        (person("*"), {"public", "unset"}),
        (person(UNSET, UNSET, "everyone"), {"public", "unset"}),
    ]:
        assert await found(client, headers) == await listed(client, headers) == expected


async def test_hidden_documents_do_not_shrink_the_result(client, documents, services):
    for number in range(12):
        await upload(client, f"secret {number}", readable_by=["group:board"])
    await work(services)

    assert await found(client, person(EVE), top_k=2) == {"public", "unset"}


async def test_documents_without_readers_can_be_closed(services, settings, provider):
    closed = with_keys(settings).model_copy(update={"readable_by_default": "nobody"})
    async with calling(closed, services) as client:
        await upload(client, "unset")
        await upload(client, "public", readable_by=["everyone"])
        await work(services)

        assert await found(client, person(EVE)) == await listed(client, person(EVE)) == {"public"}


@guards(
    "shared/ledger/documents/documents.py",
    "    if principals is None:\n        return True",
    "    return True",
    means="a person who knows an id reads any document",
)
async def test_hidden_document_is_answered_like_an_unknown_one(client, documents):
    secret, chunk = documents["ada"], None
    listed = await client.get(f"/v1/documents/{secret}/chunks", headers=person(ADA))
    chunk = listed.raise_for_status().json()["items"][0]["id"]
    for path in (
        "",
        "/chunks",
        f"/chunks?around={chunk}",
        "/content",
        "/content?version=live",
        "/text",
        "/pages/1/image",
    ):
        unknown = "00000000-0000-4000-8000-000000000000"
        hidden = await client.get(f"/v1/documents/{secret}{path}", headers=person(EVE))
        missing = await client.get(f"/v1/documents/{unknown}{path}", headers=person(EVE))
        assert hidden.status_code == missing.status_code == 404, path
        assert hidden.json()["detail"] == missing.json()["detail"].replace(unknown, secret)
    assert (await client.get(f"/v1/chunks/{chunk}", headers=person(EVE))).status_code == 404
    assert (await client.get(f"/v1/chunks/{chunk}", headers=person(ADA))).status_code == 200


@guards(
    "shared/query/retrieve/retriever.py",
    "self._find_shown(found, principals)",
    "self._find_shown(found, None)",
    means="until Qdrant is updated, a person finds a document whose readers were changed",
)
async def test_changed_readers_hold_for_the_next_query(client, documents, services, monkeypatch):
    monkeypatch.setattr(Descriptions, "claim", lambda *_: _nothing())  # Qdrant is not updated

    await change(client, documents["legal"], [f"user:{EVE}"])
    await change(client, documents["public"], [f"user:{ADA}"])

    assert await found(client, person(BOB, "legal")) == {"unset"}
    monkeypatch.undo()
    await change(client, documents["legal"], ["group:new", f"user:{EVE}"])
    assert await found(client, person(EVE)) == {"unset", "legal"}
    assert await found(client, person(BOB, "new")) == {"unset", "legal"}


async def _nothing():
    return []


async def test_change_of_readers_costs_nothing(client, documents, services, provider):
    before = provider.stats()

    await change(client, documents["ada"], ["group:hr"])
    await work(services)

    assert provider.stats() == before
    assert await found(client, person(EVE, "hr")) == {"public", "unset", "ada"}


async def test_same_upload_with_other_readers_only_changes_them(client, documents, services):
    before = (await client.get(f"/v1/documents/{documents['ada']}", headers=KEY)).json()

    await upload(client, "ada", readable_by=["group:hr"])
    await upload(client, "legal")  # names none: as before
    await work(services)

    after = (await client.get(f"/v1/documents/{documents['ada']}", headers=KEY)).json()
    assert (after["version"], after["readable_by"]) == (before["version"], ["group:hr"])
    assert await found(client, person(EVE, "hr")) == {"public", "unset", "ada"}
    assert "legal" in await found(client, person(BOB))


@guards(
    "shared/ledger/documents/descriptions.sql",
    "    WHEN 'everyone' = ANY(CAST(:readable_by AS text[])) THEN readable_by\n",
    "",
    means="no person finds a document from the upload of a public edit until it is complete",
)
async def test_edit_keeps_old_readers_until_it_is_live(client, documents, services):
    for name, readers in (("legal", ["everyone"]), ("public", ["group:legal"]), ("unset", ["group:legal"])):
        await upload(client, name, readable_by=readers, title="Second edition")

    assert await found(client, person(EVE)) == set()
    assert await found(client, person(BOB, "legal")) == {"legal", "public", "unset"}
    await work(services)
    assert await found(client, person(EVE)) == {"legal"}
    assert await found(client, person(BOB, "legal")) == {"legal", "public", "unset"}


@pytest.mark.parametrize(
    ("headers", "status", "detail"),
    [
        ({"x-foreask-groups": "legal"}, 422, "Send X-Foreask-User once"),
        ({"x-foreask-user": " "}, 422, "1 to 256 characters"),
        ({"x-foreask-user": "%ff"}, 422, "percent-encoded UTF-8"),
        ({"x-foreask-user": "ada", "x-foreask-groups": ",".join(map(str, range(1_001)))}, 403, "1,001 groups"),
        ({"x-foreask-user": "%0a"}, 422, "without control characters"),
    ],
)
async def test_malformed_person_is_refused(client, headers, status, detail):
    reply = await client.get("/v1/documents", headers=KEY | headers)

    assert reply.status_code == status
    assert detail in reply.json()["detail"]


async def test_person_needs_a_key_that_delegates(client, documents):
    async def made(*scopes):
        body = {"name": "-".join(scopes), "scopes": scopes}
        reply = await client.post("/v1/keys", json=body, headers=KEY)
        return {"authorization": f"Bearer {reply.raise_for_status().json()['key']}"}

    plain, delegating = await made("ask", "read"), await made("ask", "read", "delegate")
    named = {"x-foreask-user": ADA}

    refused = await client.get("/v1/documents", headers=plain | named)
    assert (refused.status_code, "scope 'delegate'" in refused.json()["detail"]) == (403, True)
    unnamed = await client.get("/v1/documents", headers=delegating)
    assert (unnamed.status_code, "name one with" in unnamed.json()["detail"]) == (403, True)
    twice = [*delegating.items(), ("x-foreask-user", ADA), ("x-foreask-user", EVE)]
    assert (await client.get("/v1/documents", headers=twice)).status_code == 422
    assert await found(client, delegating | named) == {"public", "unset", "ada"}
    assert (await client.get("/v1/jobs", headers=delegating | named)).status_code == 403


@guards(
    "shared/http/access/auth.py",
    "        await person_log.view(holder.actor, holder.tenant, person)\n",
    "        pass\n",
    means="no entry says that a manager has viewed the documents of another person",
)
async def test_view_of_manager_as_person_is_recorded(client, documents):
    for _ in range(3):
        await found(client, person(ADA, "legal"))
    await found(client, person(BOB))

    reply = await client.get("/v1/audit?object=person", headers=KEY)
    entries = reply.raise_for_status().json()["items"]
    assert [(each["action"], each["object_name"]) for each in entries] == [("view as", BOB), ("view as", ADA)]
    assert entries[1]["changes"]["groups"]["after"] == ["legal"]
    assert entries[0]["actor"]["name"].startswith("settings:")


async def test_check_says_why_a_person_reads_a_document(client, documents, services, settings):
    async def checked(document, user, *groups, client=client):
        body = {"user": user, "groups": groups, "document_id": documents[document]}
        reply = await client.post("/v1/access-checks", json=body, headers=KEY)
        result = reply.raise_for_status().json()
        assert result["readable"] == (document in await found(client, person(user, *groups)))
        return result["reason"]

    assert await checked("legal", ADA, "hr", "legal") == (
        "ada@example.org reads the document, because it names the group 'legal'."
    )
    assert await checked("legal", EVE, "hr") == (
        "eve@example.org, with the groups hr, does not read the document: it names the group 'legal', the user"
        " 'bob@example.org'."
    )
    assert await checked("public", EVE) == "eve@example.org reads the document, because it names everyone."
    assert "list of readers is empty" in await checked("nobody", EVE)
    assert "names no readers, and FOREASK_READABLE_BY_DEFAULT is everyone" in await checked("unset", EVE)
    closed = with_keys(settings).model_copy(update={"readable_by_default": "nobody"})
    async with calling(closed, services) as other:
        assert "does not read the document: it names no readers" in await checked("unset", EVE, client=other)


async def test_review_counts_readers_and_unknown_groups(client, documents):
    await upload(client, "typo", readable_by=["group:lega"])
    await found(client, person(ADA, "legal"))

    async def reviewed():
        reply = await client.get("/v1/access-review", headers=KEY)
        return {each["reader"]: each for each in reply.raise_for_status().json()["items"]}

    async def is_seen():
        return (await reviewed())["group:legal"]["seen_at"] is not None

    await eventually(is_seen)
    readers = await reviewed()
    assert {reader: each["documents"] for reader, each in readers.items()} == {
        "everyone": 1,
        "unset": 1,
        "nobody": 1,
        "group:legal": 1,
        "group:lega": 1,
        f"user:{ADA}": 1,
        f"user:{BOB}": 1,
    }
    assert readers["group:lega"]["seen_at"] is None
    for reader, expected in (
        ("unset", "unset"),
        ("nobody", "nobody"),
        ("group:legal", "legal"),
        ("everyone", "public"),
    ):
        reply = await client.get("/v1/documents", params={"readable_by": reader}, headers=KEY)
        assert [item["external_id"] for item in reply.raise_for_status().json()["items"]] == [expected]


async def test_commands_change_readers_and_say_why(client, documents, capsys, services, settings):
    async with serving(with_keys(settings), services) as served:
        document, key, url = documents["ada"], KEYS["alice"], str(served.base_url)
        await asyncio.to_thread(access.set_, document, ["group:hr"], url=url, key=key)
        await asyncio.to_thread(access.why, document, user=EVE, groups=["hr"], url=url, key=key)
        with pytest.raises(typer.Exit):
            await asyncio.to_thread(access.why, document, user=ADA, url=url, key=key)
        await asyncio.to_thread(access.review, url=url, key=key)

    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith("[info")][:3] == [
        "ada: group:hr",
        "eve@example.org reads the document, because it names the group 'hr'.",
        "ada@example.org, with no groups, does not read the document: it names the group 'hr'.",
    ]
    assert await found(client, person(EVE, "hr")) == {"public", "unset", "ada"}
    with pytest.raises(typer.BadParameter):
        access.set_(document, ["everyone"], closed=True)


async def test_person_is_in_facts_about_caller(client):
    me = (await client.get("/v1/me", headers=person(ADA, "legal", "hr"))).raise_for_status().json()

    assert me["person"] == {"user": ADA, "groups": ["hr", "legal"]}
    assert me["scopes"] == ["ask", "feedback", "read"]
    assert (await client.get("/v1/me", headers=KEY)).json()["person"] is None


@guards(
    "shared/http/access/person_log.py",
    "        await asyncio.wait({recording})",
    "        self._viewed[view] = self._now()\n        await asyncio.wait({recording})",
    means="a second request is answered before the view is in the audit log",
)
async def test_no_reply_precedes_record_of_view(client, services):
    viewing = person(ADA)
    async with services.database.begin() as connection:
        await connection.execute(Statement("LOCK TABLE audit_log IN EXCLUSIVE MODE"))
        first = asyncio.create_task(client.get("/v1/me", headers=viewing))
        await until_blocked(services.database)
        second = asyncio.create_task(client.get("/v1/me", headers=viewing))
        for _ in range(3):  # later requests, which record nothing
            assert (await client.get("/v1/me", headers=KEY)).status_code == 200
        assert not first.done()
        assert not second.done()
    assert (await first).status_code == (await second).status_code == 200
    entries = (await client.get("/v1/audit?object=person", headers=KEY)).json()["items"]
    assert [entry["object_name"] for entry in entries] == [ADA]


@guards(
    "shared/http/access/person_log.py",
    "            return error\n",
    "            return None\n",
    means="a view is answered although the ledger could not record it",
)
async def test_view_without_record_is_refused(client):
    app, dead = client._transport.app, Persons(Database("postgresql://user@127.0.0.1:1/name"))
    app.state.api = replace(app.state.api, person_log=PersonLog(dead))

    for _ in range(2):
        assert (await client.get("/v1/documents", headers=person(ADA))).status_code == 503
    await dead._database.aclose()
