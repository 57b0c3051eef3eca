"""Sources set who reads their documents: permissions that change cost nothing, and hold after the next sync."""

import asyncio
import grp
import os
import pwd
from dataclasses import replace

import orjson
import pytest

from features.sources.files.folder import FolderSource
from features.sources.ledger.listings import Listings
from features.sources.syncing.merge import PartLimits
from shared.domain.jobs import JobKind
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.postgres.statements import Statement
from shared.maintenance.jobs.runner import Runner
from tests.integration.test_api_sources import ParseWorker, add, hint, syncs, write
from tests.support.api import as_tenant, calling, with_keys
from tests.support.cleaning import clean
from tests.support.planted import guards
from tests.support.waiting import eventually

KEY = as_tenant("alice")
OWNER = f"user:{pwd.getpwuid(os.getuid()).pw_name}"
GROUP = f"group:{grp.getgrgid(os.getgid()).gr_name}"
LEGAL = {"match": "legal/**", "readable_by": ["group:legal"]}
PUBLIC = {"match": "**", "readable_by": ["everyone"]}


def person(user, *groups):
    return KEY | {"x-foreask-user": user, "x-foreask-groups": ",".join(groups)}


def of_owner():
    return person(OWNER.removeprefix("user:"))


def of_group():
    return person("eve", GROUP.removeprefix("group:"))


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a public file, a file of a group and a file of its owner."""
    folder = tmp_path / "wiki"
    folder.mkdir()
    folder.chmod(0o755)
    for name, mode in (("all", 0o644), ("group", 0o640), ("owner", 0o600)):
        write(folder, f"{name}.md", f"# {name}\n\nThe harbour of {name} opens at seven.")
        change_mode(folder, name, mode)
    return folder


def change_mode(folder, name, mode):
    (folder / f"{name}.md").chmod(mode)
    os.chown(folder / f"{name}.md", os.getuid(), os.getgid())


@pytest.fixture
def allowed(settings, tmp_path):
    return with_keys(settings).model_copy(update={"source_roots": {"*": (f"file://{tmp_path}",)}})


@pytest.fixture
async def client(services, allowed, provider):
    async with calling(allowed, services) as client:
        client.headers.update(KEY)
        yield client


@pytest.fixture
def worker(services, allowed):
    return ParseWorker(services, allowed)


@pytest.fixture
def fetched(monkeypatch):
    """Return the keys of the files that were read."""
    keys, fetch = [], FolderSource.fetch

    async def counting(self, entry, *, max_bytes):
        keys.append(entry.key)
        return await fetch(self, entry, max_bytes=max_bytes)

    monkeypatch.setattr(FolderSource, "fetch", counting)
    return keys


async def found(client, headers):
    body = {"question": "When does the harbour open?", "top_k": 50, "collection": "handbook"}
    reply = await client.post("/v1/retrieve", json=body, headers=headers)
    return {chunk["external_id"].removeprefix("wiki/") for chunk in reply.raise_for_status().json()["chunks"]}


async def readers(client):
    """Return the readers and the version of each document, by its key."""
    reply = await client.get("/v1/documents")
    items = reply.raise_for_status().json()["items"]
    return {each["external_id"].removeprefix("wiki/"): (each["readable_by"], each["version"]) for each in items}


async def in_all_builds(services):
    """Return the readers of all documents in all builds."""
    statement = """SELECT l.build, d.external_id, v.readable_by FROM documents d
        JOIN collections l ON l.id = d.collection_id
        JOIN document_versions v ON v.document_id = d.id AND v.version = d.version ORDER BY 1, 2"""
    async with services.database.begin() as connection:
        return [tuple(row) for row in await connection.execute(Statement(statement))]


@guards(
    "features/sources/syncing/merge.py",
    "        (self.unread if is_fetched else self.readers).update(changed_readers(entry, item))",
    "        pass",
    means="a file that its owner closes stays readable until its content changes",
)
async def test_changed_permissions_of_files_cost_nothing(client, services, folder, worker, *, provider, fetched):
    await add(client, folder, options={"permissions": True})
    await worker.sync(client)
    await worker.work()
    assert await readers(client) == {
        "all.md": (["everyone"], 1),
        "group.md": (sorted([GROUP, OWNER]), 1),
        "owner.md": ([OWNER], 1),
    }
    assert await found(client, of_group()) == {"all.md", "group.md"}
    assert await found(client, person("eve", "others")) == {"all.md"}
    before = provider.stats()
    fetched.clear()

    for name, mode in (("all", 0o600), ("group", 0o644), ("owner", 0o640)):
        change_mode(folder, name, mode)
    done = await worker.sync(client)
    await worker.work()
    await clean(services)  # updates the points

    assert (done.seen, done.unchanged, done.changed, done.readers_changed, done.error) == (3, 3, 0, 3, None)
    assert fetched == []
    assert provider.stats() == before
    assert await readers(client) == {
        "all.md": ([OWNER], 1),
        "group.md": (["everyone"], 1),
        "owner.md": (sorted([GROUP, OWNER]), 1),
    }
    assert await found(client, of_owner()) == {"all.md", "group.md", "owner.md"}
    assert await found(client, of_group()) == {"group.md", "owner.md"}
    assert await found(client, person("eve", "others")) == {"group.md"}


async def test_restriction_holds_for_query_after_sync(client, folder, worker, monkeypatch):
    await add(client, folder, options={"permissions": True})
    await worker.sync(client)
    await worker.work()
    assert await found(client, person("eve")) == {"all.md"}

    async def nothing(*_):
        return []

    monkeypatch.setattr(Descriptions, "claim", nothing)  # Qdrant is not updated
    change_mode(folder, "all", 0o600)
    await worker.sync(client)

    assert await found(client, person("eve")) == set()
    assert await found(client, of_owner()) >= {"group.md", "owner.md"}


@guards(
    "features/sources/ledger/listings.py",
    "            await change_readers(connection, source, part.readers)\n",
    "",
    means="a part of a listing is saved without the readers of its documents",
)
async def test_interrupted_sync_continues_with_readers(client, services, folder, worker, *, provider, monkeypatch):
    for number in range(8):
        write(folder, f"more/{number}.md", f"The keeper of {number} is Ada.")
    await add(client, folder, options={"permissions": True})
    await worker.sync(client)
    await worker.work()
    before = provider.stats()
    for path in (folder / "more").iterdir():
        path.chmod(0o600)

    limits = replace(worker.syncing.limits, part=PartLimits(readers=2), page=3)
    for stops_at in (1, 2):
        await stopped_at_part(services, client, replace(worker.syncing, limits=limits), monkeypatch, stops_at)
    await worker.run()
    await worker.work()

    (done, *_) = await syncs(client)
    assert (done.state, done.error, done.seen, done.unchanged, done.readers_changed) == ("done", None, 11, 11, 8)
    assert provider.stats() == before
    assert await readers(client) == {
        "all.md": (["everyone"], 1),
        "group.md": (sorted([GROUP, OWNER]), 1),
        "owner.md": ([OWNER], 1),
        **{f"more/{number}.md": ([OWNER], 1) for number in range(8)},
    }


@guards(
    "shared/ledger/documents/document_readers.py",
    "descriptions.restrict(connection, documents + copies, names, newest=True)",
    "descriptions.restrict(connection, documents, names, newest=True)",
    means="a build in progress keeps the old readers, and shows them when it is live",
)
async def test_build_in_progress_gets_changed_readers(client, services, folder, worker, provider):
    await add(client, folder, options={"permissions": True})
    await worker.sync(client)
    await worker.work()
    started = await client.post("/v1/collections/handbook/builds", json={})
    assert started.status_code == 201, started.text
    while await services.ledger[Builds].fill():
        pass
    await worker.work("parse")  # the copies are parsed, and not indexed yet
    before = provider.stats()

    change_mode(folder, "all", 0o600)
    change_mode(folder, "owner", 0o644)
    await worker.sync(client)

    expected = [("wiki/all.md", [OWNER]), ("wiki/group.md", sorted([GROUP, OWNER])), ("wiki/owner.md", ["everyone"])]
    assert await in_all_builds(services) == [(build, *each) for build in (1, 2) for each in expected]
    assert provider.stats() == before
    await worker.work()
    await clean(services)
    switched = await client.post("/v1/collections/handbook/builds/2/switch", json={"force": True})
    assert switched.status_code == 200, switched.text
    assert await found(client, person("eve")) == {"owner.md"}
    assert await found(client, of_owner()) == {"all.md", "group.md", "owner.md"}


async def test_changed_rules_hold_after_sync_without_confirmation(
    client, services, folder, worker, *, provider, fetched
):
    write(folder, "legal/lease.md", "# Lease\n\nThe harbour of the lease opens at seven.")
    await add(client, folder, options={"readers": [LEGAL, PUBLIC]})
    await worker.sync(client)
    await worker.work()
    assert await found(client, person("eve")) == {"all.md", "group.md", "owner.md"}
    assert await found(client, person("eve", "legal")) == {"all.md", "group.md", "owner.md", "legal/lease.md"}
    before = provider.stats()
    fetched.clear()

    rules = "legal/** = group:legal, group:board\nall.md = everyone"
    changed = await client.patch("/v1/sources/wiki", json={"options": {"readers": rules}})
    assert changed.status_code == 200, changed.text
    await worker.sync(client)
    await worker.work()
    await clean(services)

    assert (fetched, provider.stats()) == ([], before)
    assert await readers(client) == {
        "all.md": (["everyone"], 1),
        "group.md": ([], 1),
        "legal/lease.md": (["group:board", "group:legal"], 1),
        "owner.md": ([], 1),
    }
    assert await found(client, person("eve", "board")) == {"all.md", "legal/lease.md"}


@guards(
    "features/sources/syncing/merge.py",
    "        return self.readers | {key: readers for key, readers in self.unread.items() if key not in done}",
    "        return self.readers",
    means="a closed file that has become too large stays readable in its old version",
)
async def test_file_that_cannot_be_read_gets_its_readers(client, services, folder, worker):
    await add(client, folder, options={"permissions": True})
    await worker.sync(client)
    worker.syncing = replace(worker.syncing, limits=replace(worker.syncing.limits, max_bytes=1_000))

    for name in ("all", "group"):
        write(folder, f"{name}.md", "The harbour opens at nine. " * 100)
        change_mode(folder, name, 0o600)
    done = await worker.sync(client)
    assert (done.refused, done.readers_changed, done.deleted) == (2, 2, 0)
    assert {key: own for key, (own, _) in (await readers(client)).items()} == {
        "all.md": [OWNER], "group.md": [OWNER], "owner.md": [OWNER]
    }  # fmt: skip
    change_mode(folder, "all", 0o640)
    await hint(client, {"keys": ["all.md"]})
    await worker.run()
    assert (await readers(client))["all.md"] == (sorted([GROUP, OWNER]), 1)


@guards(
    "shared/ledger/documents/document_readers.py",
    "descriptions.restrict(connection, documents + copies, names, newest=True)",
    "descriptions.change(connection, documents + copies, readable_by=names)",
    means="persons read a text that was replaced before the file was opened to them",
)
async def test_opened_file_shows_only_its_new_text(client, services, folder, worker):
    await add(client, folder, options={"permissions": True})
    await worker.sync(client)
    await worker.work()
    write(folder, "owner.md", "The harbour of the public opens at nine.")
    await worker.sync(client)

    change_mode(folder, "owner", 0o644)
    await worker.sync(client)
    await clean(services)

    assert await found(client, person("eve")) == {"all.md"}
    await worker.work()
    await clean(services)
    assert await found(client, person("eve")) == {"all.md", "owner.md"}


async def test_source_without_readers_keeps_those_of_documents(client, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    page = (await client.get("/v1/documents")).json()["items"]
    changed = await client.patch(f"/v1/documents/{page[0]['id']}", json={"readable_by": ["group:legal"]})
    assert changed.status_code == 200, changed.text

    await worker.sync(client)
    write(folder, "owner.md", "The harbour opens at nine.")
    await worker.sync(client)

    own = await readers(client)
    assert sorted(map(str, (each for each, _ in own.values()))) == ["None", "None", "['group:legal']"]


@guards(
    "features/sources/syncing/lookups.py",
    "        self.readers.update(changed_readers(entry, hint.item))",
    "        pass",
    means="a hint about a closed file changes nothing, because its content is the same",
)
async def test_hint_changes_readers_of_unchanged_file(client, folder, worker, fetched):
    await add(client, folder, options={"permissions": True})
    await worker.sync(client)
    fetched.clear()
    change_mode(folder, "all", 0o600)

    await hint(client, {"keys": ["all.md"]})
    await worker.run()

    assert fetched == []
    assert (await readers(client))["all.md"] == ([OWNER], 1)


async def stopped_at_part(services, client, syncing, monkeypatch, number):
    """Start a sync, or continue it, and stop its worker while it saves a part."""
    save, seen, reached = Listings.save, [], asyncio.Event()

    async def hanging(*arguments):
        seen.append(arguments)
        if len(seen) == number:
            reached.set()
            await asyncio.Event().wait()
        return await save(*arguments)

    reply = await client.post("/v1/sources/wiki/sync")
    assert reply.status_code in {202, 409}, reply.text
    runner = Runner(services.ledger[JobClaims], {JobKind.SYNC: lambda: syncing})
    with monkeypatch.context() as patched:
        patched.setattr(Listings, "save", hanging)
        await runner.take()
        await eventually(reached.is_set)
        await runner.aclose()


def table(folder, **rows):
    lines = [orjson.dumps({"id": name, "text": f"The harbour of {name}."} | row) for name, row in rows.items()]
    (folder / "a.jsonl").write_bytes(b"\n".join(lines))


@guards(
    "features/sources/syncing/watched_source.py",
    "        if entry.refused is not None and self._options.entries_name_readers:",
    "        if False:",
    means="a malformed reader of a row closes its document for all persons",
)
@guards(
    "features/sources/named_readers.py",
    "    readers = readers_of(names)",
    "    readers = tuple(names)",
    means="a row with a malformed reader is accepted",
)
async def test_malformed_column_neither_deletes_nor_publishes(client, services, folder, worker, provider):
    table(folder, a={"acl": "group:legal"}, b={"acl": ["user:ada"]}, c={"acl": ""}, d={})
    await add(client, folder / "a.jsonl", options={"readers_column": "acl"})
    await worker.sync(client)
    await worker.work()
    assert {key: own for key, (own, _) in (await readers(client)).items()} == {
        "a": ["group:legal"], "b": ["user:ada"], "c": [], "d": []
    }  # fmt: skip
    before = provider.stats()

    table(folder, a={"acl": "legal"}, b={"acl": 7}, c={"acl": '["everyone"]'}, d={"acl": "[broken"}, e={"acl": "x"})
    done = await worker.sync(client)
    await worker.work()
    await clean(services)

    reasons = {each.key: each.reason for each in done.refused_entries}
    assert (done.refused, sorted(reasons), done.missing, done.deleted) == (4, ["a", "b", "d", "e"], 0, 0)
    assert "The column acl does not name readers: A reader is `everyone`" in reasons["a"]
    assert "The column acl does not name readers: Readers are a list" in reasons["b"]
    assert provider.stats() == before
    assert await readers(client) == {
        "a": (["group:legal"], 1), "b": (["user:ada"], 1), "c": (["everyone"], 1), "d": ([], 1)
    }  # fmt: skip
    assert await found(client, person("eve")) == {"c"}


async def test_source_that_lacks_column_changes_nothing(client, folder, worker):
    table(folder, a={"acl": "group:legal"})
    await add(client, folder / "a.jsonl", options={"readers_column": "acl"})
    await worker.sync(client)

    table(folder, a={"other": "everyone"})
    done = await worker.sync(client)

    assert "has no column acl" in done.error
    assert await readers(client) == {"a": (["group:legal"], 1)}


async def test_form_names_readers(client):
    async def sent(**fields):
        return await client.post("/v1/documents", files={"file": ("a.md", b"The harbour.")}, data=fields)

    made = await sent(readable_by='["group:legal", "user:ada"]')
    assert made.json()["readable_by"] == ["group:legal", "user:ada"]
    assert (await sent(readable_by='["legal"]')).status_code == 422
    assert (await sent(readable_by="group:legal")).status_code == 400


async def test_lines_of_batch_name_readers(client):
    lines = [{"external_id": n, "text": "The harbour.", "readable_by": [f"group:{n}"]} for n in "ab"]
    lines.append({"external_id": "c", "text": "The harbour.", "readable_by": ["b"]})
    body = b"\n".join(map(orjson.dumps, lines))

    reply = await client.post("/v1/documents:batch", content=body, headers={"content-type": "application/x-ndjson"})

    results = [orjson.loads(line) for line in reply.content.splitlines() if line]
    assert [each["status"] for each in results] == [202, 202, 422]
    assert {key: own for key, (own, _) in (await readers(client)).items()} == {"a": ["group:a"], "b": ["group:b"]}
