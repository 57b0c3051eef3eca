"""Programs push entries: listings survive restarts, delete only missing entries, and pay for changed bodies only."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest

from features.sources.ledger.pushes import Pushes
from features.sources.ledger.sources import Sources
from features.sources.push.schemas import EntriesReply, EntryResultView
from features.sources.schemas import SyncView
from shared.domain.errors import LeaseLost
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.postgres.statements import Statement
from tests.integration.test_api_sources import ParseWorker, shown, syncs, withheld
from tests.support.api import as_tenant, calling, with_keys
from tests.support.cleaning import clean
from tests.support.planted import guards
from tests.support.sources import make_older

KEY = as_tenant("alice")


@pytest.fixture
def allowed(settings):
    return with_keys(settings)


@pytest.fixture
async def client(services, allowed, provider):
    async with calling(allowed, services) as client:
        client.headers.update(KEY)
        await add(client)
        yield client


@pytest.fixture
def worker(services, allowed):
    return ParseWorker(services, allowed)


async def add(client, *, status=201, **fields):
    body = {"name": "crm", "collection": "handbook", "uri": "push://crm", **fields}
    reply = await client.post("/v1/sources", json=body)
    assert reply.status_code == status, reply.text
    return reply.json()


async def start(client, key="", *, status=201, source="crm"):
    reply = await client.post(f"/v1/sources/{source}/listings", json={"key": key})
    assert reply.status_code == status, reply.text
    return SyncView.model_validate_json(reply.content) if reply.is_success else reply.json()


async def push(client, *entries, listing=None, status=200, **fields):
    """Push a page; return the results by key, or the problem."""
    body = {"listing": listing and str(listing), "entries": list(entries), **fields}
    reply = await client.post("/v1/sources/crm/entries", json=body)
    assert reply.status_code == status, reply.text
    if status != 200:
        return reply.json()
    return {each.key: each.result for each in EntriesReply.model_validate_json(reply.content).results}


async def reasons(client, *entries):
    reply = await client.post("/v1/sources/crm/entries", json={"entries": list(entries)})
    return {each["key"]: each["reason"] for each in reply.raise_for_status().json()["results"]}


async def end(client, listing, *, status=202):
    reply = await client.post(f"/v1/sources/crm/listings/{listing}/end")
    assert reply.status_code == status, reply.text
    return reply.json()


async def ended(client, worker, listing):
    """End a listing, let the worker finish it, and return it."""
    await end(client, listing)
    await worker.run()
    return (await syncs(client, "crm"))[0]


async def listed(client, worker, *entries):
    """Push a complete listing, and return its sync."""
    listing = (await start(client)).id
    await push(client, *entries, listing=listing)
    return await ended(client, worker, listing)


def entry(key, version="1", *, text=None, **fields):
    text = f"# {key}\n\nThe harbour of {key} opens at {version}." if text is None else text
    return {"key": key, "version": version, "text": text, **fields}


def known(key, version="1", **fields):
    """Return an entry without a body."""
    return {"key": key, "version": version, **fields}


async def documents(client):
    reply = await client.get("/v1/documents", params={"limit": 200})
    items = reply.raise_for_status().json()["items"]
    return {each["external_id"].removeprefix("crm/"): each for each in items if each["state"] != "deleting"}


async def found(client, **headers):
    body = {"question": "When does the harbour open?", "top_k": 50, "collection": "handbook"}
    reply = await client.post("/v1/retrieve", json=body, headers=headers)
    return {chunk["external_id"].removeprefix("crm/") for chunk in reply.raise_for_status().json()["chunks"]}


def calls(stats):
    return stats["calls"]


# --- pages ---


async def test_page_names_bodies_that_it_needs(client, worker, provider):
    listing = (await start(client)).id
    results = await push(client, known("a"), known("b"), entry("c"), listing=listing)
    assert results == {"a": "body_needed", "b": "body_needed", "c": "created"}
    assert await push(client, entry("a"), entry("b"), listing=listing) == {"a": "created", "b": "created"}

    done = await ended(client, worker, listing)
    assert (done.state, done.seen, done.created, done.unchanged, done.refused) == ("done", 3, 3, 0, 0)
    await worker.work()
    assert await found(client) == {"a", "b", "c"}

    paid = provider.stats()
    listing = (await start(client)).id
    results = await push(client, known("a"), known("b", "2"), known("c"), listing=listing)
    assert results == {"a": "unchanged", "b": "body_needed", "c": "unchanged"}
    assert await push(client, entry("b", "2"), listing=listing) == {"b": "changed"}
    done = await ended(client, worker, listing)
    await worker.work()
    assert (done.seen, done.created, done.changed, done.unchanged) == (3, 0, 1, 2)
    assert calls(provider.stats()) - calls(paid) == 1
    assert {key: each["version"] for key, each in (await documents(client)).items()} == {"a": 1, "b": 2, "c": 1}


@guards(
    "features/sources/ledger/pushes.sql",
    "FROM n WHERE n.key NOT IN (SELECT key FROM before)",
    "FROM n",
    means="a page that a program sends again is counted twice",
)
async def test_repeated_page_has_no_further_effect(client, worker):
    listing = (await start(client)).id
    page = [entry("a"), known("b"), {"key": "c", "version": "1", "text": " "}]
    first = await push(client, *page, listing=listing)
    second = await push(client, *page, listing=listing)
    assert first == {"a": "created", "b": "body_needed", "c": "refused"}
    assert second == {"a": "unchanged", "b": "body_needed", "c": "refused"}

    done = await ended(client, worker, listing)
    assert (done.seen, done.created, done.unchanged, done.refused) == (3, 1, 0, 2)
    assert {each.key: each.reason for each in done.refused_entries} == {
        "b": "Its body was asked for, and was not pushed.",
        "c": "It is empty.",
    }
    assert {key: each["version"] for key, each in (await documents(client)).items()} == {"a": 1}


async def test_invalid_entry_stops_no_other(client):
    problems = await reasons(
        client,
        entry("good"),
        entry("nul", text="a\0b"),
        entry("x" * 1_100),
        entry("typo", titel="Leave"),
        entry("reader", readable_by=["everybody"]),
        {"key": "nothing"},
        entry("deep", metadata={"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}),
    )
    assert problems.pop("good") is None
    assert {key: reason.split(",")[0][:35] for key, reason in problems.items() if len(key) < 100} == {
        "nul": "A text of it has a NUL character (\\",
        "typo": "titel: This field is unknown.",
        "reader": "A reader is `everyone`",
        "nothing": "It has neither a version nor a body",
        "deep": "Metadata may be nested at most 8 de",
    }
    assert "1,100 bytes" in problems["x" * 1_100]
    assert list(await documents(client)) == ["good"]


async def test_malformed_page_saves_nothing(client):
    for page in ({"checkpoint": "1"}, {"listing": "nightly"}, {"entries": [entry("a"), {"version": "1"}]}):
        reply = await client.post("/v1/sources/crm/entries", json={"entries": [entry("a")]} | page)
        assert reply.status_code == 422, reply.text
    assert await push(client, *(entry(str(number)) for number in range(1_001)), status=422)
    reply = await client.post("/v1/sources/crm/files", files={"file": b"a"}, data={"entry": '{"version": "1"}'})
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "key")
    assert await documents(client) == {}


async def test_last_entry_of_same_key_counts(client):
    assert await push(client, entry("a"), {"key": "a", "deleted": True}) == {"a": "deleted"}
    assert await documents(client) == {}
    assert await push(client, {"key": "a", "deleted": True}, entry("a", "2")) == {"a": "created"}
    assert list(await documents(client)) == ["a"]


async def test_file_is_body_of_entry(client, services, worker):
    async def send(name, content, entry_json):
        files = {"file": (name, content)}
        reply = await client.post("/v1/sources/crm/files", files=files, data={"entry": entry_json})
        assert reply.status_code == 200, reply.text
        return EntryResultView.model_validate_json(reply.content)

    page = b"<html><title>Leave</title><body><p>The harbour of leave opens at nine.</p></body></html>"
    sent = '{"key": "leave", "version": "1", "url": "https://crm.example.com/leave"}'
    assert (await send("leave.html", page, sent)).result == "created"
    assert (await send("leave.html", page, sent)).result == "unchanged"
    by_hash = sent.replace('"version": "1", ', "")  # another version of the same bytes
    assert (await send("leave.html", page, by_hash)).result == "unchanged"
    assert (await send("leave.html", b"", '{"key": "empty"}')).reason == "It is empty."
    await worker.work()

    (document,) = (await documents(client)).values()
    assert (document["filename"], document["metadata"]) == ("leave.html", {"url": "https://crm.example.com/leave"})
    assert await found(client) == {"leave"}
    stored = [name async for page in services.uploads.pages() for name in page]
    assert len(stored) == 1  # bytes that no document needs are removed at once


# --- readers and descriptions ---


@guards(
    "features/sources/push/pushing.py",
    "            await services.update_points(outdated)",
    "            pass",
    means="a query after the reply still uses the old metadata, until the scheduler updates the points",
)
async def test_readers_and_metadata_cost_nothing_and_hold(client, services, worker, provider):
    shared = {"title": "Old", "metadata": {"team": "red"}}
    entries = [entry(key, readable_by=["group:red"], **shared) for key in ("a", "b", "c")]
    await listed(client, worker, *entries)
    await worker.work()
    await clean(services)
    red, blue = [KEY | {"x-foreask-user": "eve", "x-foreask-groups": group} for group in ("red", "blue")]
    assert (await found(client, **red), await found(client, **blue)) == ({"a", "b", "c"}, set())
    paid = provider.stats()

    listing = (await start(client)).id
    results = await push(
        client,
        known("a", readable_by=["group:blue"]),
        known("b", title="New", metadata={"team": "blue"}),
        known("c", readable_by=["group:red"], **shared),
        listing=listing,
    )
    assert results == {"a": "described", "b": "described", "c": "unchanged"}
    assert provider.stats() == paid

    assert (await found(client, **red), await found(client, **blue)) == ({"b", "c"}, {"a"})
    body = {"question": "When does the harbour open?", "collection": "handbook", "filter": {"team": "blue"}}
    reply = (await client.post("/v1/retrieve", json=body)).raise_for_status().json()
    assert {(chunk["external_id"], chunk["title"]) for chunk in reply["chunks"]} == {("crm/b", "New")}
    done = await ended(client, worker, listing)
    await worker.work()
    assert (done.seen, done.unchanged, done.readers_changed, done.changed) == (3, 3, 1, 0)
    assert calls(provider.stats()) == calls(paid)
    assert {each["version"] for each in (await documents(client)).values()} == {1}


async def test_narrowed_readers_hold_without_body(client, worker, monkeypatch):
    await listed(client, worker, entry("a", readable_by=["everyone"]))
    await worker.work()

    async def nothing(*_):
        return []

    monkeypatch.setattr(Descriptions, "claim", nothing)  # Qdrant is not updated
    monkeypatch.setattr("shared.maintenance.descriptions._OTHER_PROCESS_SECONDS", 0.1)
    eve = KEY | {"x-foreask-user": "eve"}
    assert await found(client, **eve) == {"a"}
    assert await push(client, known("a", "2", readable_by=["group:legal"])) == {"a": "body_needed"}
    assert await found(client, **eve) == set()


async def test_rules_of_source_decide_about_readers(client, worker):
    rules = [{"match": "open/*", "readable_by": ["everyone"]}]
    await client.patch("/v1/sources/crm", json={"options": {"readers": rules}})
    await push(client, entry("open/a", readable_by=["user:ada"]), entry("b", readable_by=["user:ada"]))
    assert {key: each["readable_by"] for key, each in (await documents(client)).items()} == {
        "open/a": ["everyone"],
        "b": [],
    }


async def test_changed_version_with_same_body_costs_no_call(client, worker, provider):
    body = "# Leave\n\nThe harbour opens at nine."
    await listed(client, worker, entry("a", text=body, metadata={"team": "red"}))
    await worker.work()
    paid = provider.stats()
    results = await push(client, entry("a", "2", text=body, metadata={"team": "blue"}))
    await worker.work()
    assert results == {"a": "changed"}
    assert provider.stats() == paid
    assert (await documents(client))["a"]["metadata"] == {"team": "blue"}


# --- deletions ---


async def test_missing_entries_need_two_listings(client, services, worker):
    await listed(client, worker, *map(entry, "abc"))
    done = await listed(client, worker, known("a"))
    assert (done.missing, done.deleted) == (2, 0)
    await make_older(services)
    assert sorted(await documents(client)) == ["a", "b", "c"]
    assert (await push(client, known("b"))) == {"b": "unchanged"}  # it exists after all

    done = await listed(client, worker, known("a"))
    assert (done.missing, done.deleted, done.withheld, done.error) == (2, 1, 0, None)
    assert sorted(await documents(client)) == ["a", "b"]


@guards(
    "features/sources/push/ending.py",
    "    if not sync.is_closed:\n        raise Permanent(_EXPIRED)\n",
    "",
    means="a listing whose program died deletes the documents that it had not listed yet",
)
async def test_listing_that_stops_halfway_deletes_nothing(client, services, worker):
    await listed(client, worker, *map(entry, "abcd"))
    await listed(client, worker, known("a"))
    await make_older(services)
    listing = (await start(client, "nightly")).id
    await push(client, known("a"), known("b"), listing=listing)
    await worker.run()
    (open_, *_) = await syncs(client, "crm")
    assert (open_.state, open_.waiting) == ("running", "Its program has not ended the listing yet.")
    assert open_.expires_at - open_.created_at > timedelta(hours=23)

    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE job_claims SET leased_until = now() - interval '1 second'"))
    await worker.run()

    (expired, *_) = await syncs(client, "crm")
    assert (expired.state, expired.deleted, expired.expires_at) == ("failed", 0, None)
    assert expired.error.startswith("Its program did not end the listing")
    assert sorted(await documents(client)) == ["a", "b", "c", "d"]
    assert "failed" in (await push(client, known("a"), listing=listing, status=409))["detail"]
    assert (await listed(client, worker, *map(known, "abcd"))).missing == 0


async def test_interrupted_end_continues_where_it_was(client, services, worker, monkeypatch):
    monkeypatch.setattr("features.sources.push.ending._PAGE", 2)
    await listed(client, worker, *map(entry, "abcdefgh"))
    listing = (await start(client)).id
    await push(client, known("a"), known("c", "2"), known("h"), listing=listing)
    await end(client, listing)
    pages, unlisted = list[str](), Pushes.unlisted

    async def dying(self, claim, *, after, limit):
        pages.append(after)
        if len(pages) == 3:
            raise LeaseLost
        return await unlisted(self, claim, after=after, limit=limit)

    monkeypatch.setattr(Pushes, "unlisted", dying)
    await worker.run()
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE job_claims SET leased_until = now() - interval '1 second'"))
    await worker.run()

    (done, *_) = await syncs(client, "crm")
    assert pages == ["", "c", "e", "e", "g"]
    assert (done.state, done.seen, done.missing, done.refused) == ("done", 3, 5, 1)
    assert [each.key for each in done.refused_entries] == ["c"]


async def test_empty_listing_and_large_share_are_withheld(client, services, worker):
    keys = [f"{number:02}" for number in range(30)]
    await listed(client, worker, *map(entry, keys))
    for lacking in (keys[:11], keys):
        await listed(client, worker, *(known(key) for key in keys if key not in lacking))
        await make_older(services)
        done = await listed(client, worker, *(known(key) for key in keys if key not in lacking))
        assert (done.state, done.deleted, done.withheld) == ("done", 0, len(lacking))
        assert len(await documents(client)) == 30

    assert (await withheld(client, "crm")).deletions == 30
    await push(client, known("29"))
    reply = await client.post("/v1/sources/crm/approve", json={"deletions": 28})
    assert (reply.status_code, "29 deletions" in reply.json()["detail"]) == (409, True)
    assert (await client.post("/v1/sources/crm/approve", json={"deletions": 29})).status_code == 202
    await worker.run()
    (done, *_) = await syncs(client, "crm")
    assert (done.state, done.deleted, done.approved, done.error) == ("done", 29, 29, None)
    assert list(await documents(client)) == ["29"]


async def test_deleted_entries_of_change_feed_are_deleted(client, services, worker):
    await listed(client, worker, *map(entry, "abc"))
    await worker.work()
    results = await push(client, {"key": "a", "deleted": True}, {"key": "x", "deleted": True}, entry("b", "2"))
    assert results == {"a": "deleted", "x": "deleted", "b": "changed"}
    await worker.work()
    assert sorted(await documents(client)) == ["b", "c"]
    assert await found(client) == {"b", "c"}


@guards(
    "features/sources/ledger/pushes.py",
    "        noted = found.scalar_one_or_none()",
    "",
    means="an entry that a change feed pushed during a listing counts as missing in it",
)
async def test_change_feed_during_listing_is_not_missing(client, services, worker):
    await listed(client, worker, *map(entry, "abc"))
    await listed(client, worker, known("a"))
    await make_older(services)
    listing = (await start(client)).id
    await push(client, known("b", "2"), entry("new"))
    await push(client, known("a"), listing=listing)
    done = await ended(client, worker, listing)
    assert (done.seen, done.missing, done.deleted) == (1, 1, 1)
    assert sorted(await documents(client)) == ["a", "b", "new"]


# --- listings ---


async def test_open_listing_is_found_after_restart(client, services, allowed, worker):
    listing = await start(client, "nightly")
    await push(client, entry("a"), listing=listing.id, checkpoint="page 2")
    async with calling(allowed, services) as restarted:
        restarted.headers.update(KEY)
        found_again = await start(restarted, "nightly", status=200)
        assert (found_again.id, found_again.checkpoint, found_again.seen) == (listing.id, "page 2", 1)
        await push(restarted, entry("b"), listing=listing.id)
        done = await ended(restarted, worker, listing.id)
    assert (done.state, done.seen, done.created) == ("done", 2, 2)


async def test_second_listing_waits_for_open_one(client, worker):
    first = await start(client, "one")
    problem = await start(client, "two", status=409)
    assert problem["job_id"] == str(first.id)
    both = await asyncio.gather(*(start(client, "one", status=200) for _ in range(3)))
    assert {each.id for each in both} == {first.id}
    await end(client, first.id)
    await end(client, first.id)  # its first reply may have been lost
    assert "ended" in (await push(client, entry("a"), listing=first.id, status=409))["detail"]
    assert (await start(client, "one", status=409))["job_id"] == str(first.id)  # a worker carries out its deletions
    await worker.run()
    assert (await start(client, "two")).id != first.id


async def test_concurrent_starts_open_single_listing(client):
    replies = await asyncio.gather(*(client.post("/v1/sources/crm/listings", json={"key": "one"}) for _ in range(4)))
    assert sorted(reply.status_code for reply in replies) == [200, 200, 200, 201]
    assert len({reply.json()["id"] for reply in replies}) == 1


async def test_concurrent_pages_save_every_entry(client, worker):
    listing = (await start(client)).id
    pages = [[entry(f"{page}-{number}") for number in range(10)] + [entry("same")] for page in range(6)]
    results = await asyncio.gather(*(push(client, *page, listing=listing) for page in pages))
    assert [each["same"] for each in results].count("created") == 1
    done = await ended(client, worker, listing)
    assert (done.created, len(await documents(client))) == (61, 61)


async def test_cancelled_listing_accepts_no_page(client, services, worker):
    listing = (await start(client)).id
    await push(client, entry("a"), listing=listing)
    assert (await client.post(f"/v1/jobs/{listing}/cancel")).status_code == 202
    assert "cancel" in (await push(client, entry("b"), listing=listing, status=409))["detail"]
    await end(client, listing, status=409)
    await services.ledger[Jobs].settle()
    done = await listed(client, worker, entry("b"))
    assert done.state == "done"
    async with services.database.begin() as connection:
        kept = await connection.execute(Statement("SELECT count(*) FROM pushed_keys"))
        assert kept.scalar_one() == 0  # also of the cancelled listing


async def test_listing_is_shown_as_sync_and_job(client, worker):
    listing = await start(client)
    await push(client, entry("a"), listing=listing.id)
    newest = (await shown(client, "crm")).newest_sync
    assert (newest.id, newest.state, newest.seen) == (listing.id, "running", 1)
    job = (await client.get(f"/v1/jobs/{listing.id}")).json()
    assert (job["kind"], job["state"], job["documents"]["queued"]) == ("sync", "running", 1)
    await ended(client, worker, listing.id)
    await worker.work()
    await worker.run()
    assert (await client.get(f"/v1/jobs/{listing.id}")).json()["state"] == "done"


# --- limits and rights ---


async def test_bodies_wait_while_much_work_is_open(services, settings, provider):
    tuning = settings.tuning.model_copy(update={"sync_open_chunks": 1, "sync_pause": timedelta(seconds=7)})
    busy = with_keys(settings).model_copy(update={"tuning": tuning})
    async with calling(busy, services) as client:
        client.headers.update(KEY)
        await add(client)
        await push(client, entry("a"), entry("b"), entry("c"))
        await ParseWorker(services, busy).work("parse")
        reply = await client.post("/v1/sources/crm/entries", json={"entries": [entry("d")]})
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "7")
        assert "chunks wait for workers" in reply.json()["detail"]
        assert await push(client, known("a"), known("d")) == {"a": "unchanged", "d": "body_needed"}


async def test_document_above_limit_is_refused_alone(client, services, allowed):
    small = allowed.model_copy(update={"max_upload_bytes": 100})
    async with calling(small, services) as limited:
        limited.headers.update(KEY)
        results = await push(limited, entry("a"), entry("b", text="x" * 200))
        assert results == {"a": "created", "b": "refused"}


async def test_other_tenant_finds_neither_source_nor_listing(client, services, allowed):
    listing = (await start(client)).id
    await push(client, entry("a"), listing=listing)
    async with calling(allowed, services) as other:
        other.headers.update(as_tenant("bob"))
        await start(other, status=404)
        await push(other, entry("a"), status=404)
        await end(other, listing, status=404)
        assert (await other.post("/v1/sources/crm/files", files={"file": b"a"})).status_code == 404
        await add(other)
        await push(other, entry("b"), listing=listing, status=404)
        await end(other, listing, status=404)
        assert await documents(other) == {}
    assert list(await documents(client)) == ["a"]


async def test_push_needs_key_that_writes(client):
    made = await client.post("/v1/keys", json={"name": "reader", "scopes": ["read", "ask"]})
    client.headers["authorization"] = f"Bearer {made.json()['key']}"
    await start(client, status=403)
    await push(client, entry("a"), status=403)
    await end(client, uuid4(), status=403)
    assert (await client.post("/v1/sources/crm/files", files={"file": b"a"})).status_code == 403


async def test_foreask_reads_no_pushed_source(client, worker):
    assert (await client.post("/v1/sources/crm/sync")).status_code == 409
    assert (await client.post("/v1/sources/crm/hints", json={"keys": ["a"]})).status_code == 409
    assert "schedule" in (await client.patch("/v1/sources/crm", json={"schedule": "0 3 * * *"})).json()["detail"]
    assert (await add(client, name="timed", schedule="0 3 * * *", status=422))["detail"]
    reply = await client.post("/v1/source-checks", json={"uri": "push://crm"})
    await worker.run()
    assert "A program pushes" in (await client.get(reply.headers["location"])).json()["error"]


async def test_removed_source_takes_no_page(client, services, worker):
    listing = (await start(client)).id
    await push(client, entry("a"), listing=listing)
    assert (await client.delete("/v1/sources/crm", params={"documents": "delete"})).status_code == 202
    await push(client, entry("b"), listing=listing, status=404)
    await push(client, entry("b"), status=404)
    while await services.ledger[Sources].continue_removal():
        pass
    assert await documents(client) == {}
