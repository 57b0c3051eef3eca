"""Sources over HTTP: a folder is added, synced, approved, hinted and removed, and the scheduler starts its syncs."""

import asyncio
import json
from base64 import b64encode
from dataclasses import replace
from datetime import timedelta
from unicodedata import normalize

import pytest
import time_machine
from pydantic import SecretStr
from structlog.testing import capture_logs

from features.sources.access import SourceAccess
from features.sources.files.folder import FolderSource
from features.sources.ledger.checks import SourceChecks
from features.sources.ledger.hints import Hints
from features.sources.ledger.sources import Sources
from features.sources.options import FileOptions
from features.sources.schemas import (
    HintReply,
    SourceCheckView,
    SourcePage,
    SourceView,
    SyncPage,
    SyncView,
    WithheldView,
)
from features.sources.services import originals_of, syncing_of
from features.sources.syncing.checks import Checking, CheckLimits
from features.sources.syncing.lookups import Lookups
from features.sources.syncing.scheduled import start_due_syncs
from shared.domain.access.keys import Scope
from shared.domain.jobs import JOBS_OF_PARSERS, JobKind
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.postgres.statements import Statement
from shared.maintenance.jobs.runner import Runner
from shared.outside import addresses
from tests.support.api import KEYS, as_tenant, calling, with_keys, work
from tests.support.planted import guards
from tests.support.sources import make_older
from tests.support.waiting import eventually

QUEUE_SYNCS = """
    WITH queued AS (
        INSERT INTO jobs (id, tenant, collection, collection_id, kind, state)
        SELECT gen_random_uuid(), 'default', 'handbook', gen_random_uuid(), 'sync', 'running'
        FROM generate_series(1, 100) RETURNING id, kind, tenant, collection)
    INSERT INTO job_claims (id, kind, tenant, collection, embeddings) SELECT *, '{}' FROM queued
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder with two documents."""
    folder = tmp_path / "wiki"
    folder.mkdir()
    write(folder, "leave.md", "Employees get thirty days of leave.")
    write(folder, "travel/expenses.md", "Expenses are paid within a week.")
    return folder


@pytest.fixture
def allowed(settings, tmp_path):
    """Return settings that allow folders of the test, and one bucket."""
    return settings.model_copy(update={"source_roots": {"*": (f"file://{tmp_path}", "s3://corpus/handbook")}})


@pytest.fixture
async def client(services, allowed, provider):
    async with calling(allowed, services) as client:
        yield client


class ParseWorker:
    """Does all due syncs and lookups, and processes documents, as the workers do."""

    def __init__(self, services, settings, web=None, packs=lambda _: None):
        access = SourceAccess(settings, services.parts.readers, web, packs)
        syncing = syncing_of(services.parts, access.open)
        self._services = services
        self._checking = Checking(services.ledger[SourceChecks], access.open, CheckLimits(entries=3, keys=2))
        self._parsing = replace(
            services, parser=replace(services.parser, originals=originals_of(services.parts, access.open))
        )
        self.syncing = replace(syncing, limits=replace(syncing.limits, timeout=timedelta(seconds=0.5)))

    async def run(self):
        lookups = Lookups(self._services.ledger[Hints], self.syncing)
        runner = Runner(
            self._services.ledger[JobClaims],
            {
                JobKind.SYNC: lambda: self.syncing,
                JobKind.LOOKUP: lambda: lookups,
                JobKind.SOURCE_CHECK: lambda: self._checking,
            },
        )
        await runner.take()
        await eventually(lambda: runner.claimed == 0)
        await runner.aclose()
        await self._services.ledger[Jobs].settle()

    async def work(self, *stages):
        """Process the documents that are due."""
        await work(self._parsing, *stages)

    async def sync(self, client, name="wiki"):
        """Sync a source to its end, and return the sync."""
        reply = await client.post(f"/v1/sources/{name}/sync")
        assert reply.status_code == 202, reply.text
        await self.run()
        return (await syncs(client, name))[0]


@pytest.fixture
def worker(services, allowed):
    return ParseWorker(services, allowed)


def write(folder, key, content):
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


async def add(client, folder, *, status=201, headers=None, **fields):
    body = {"name": "wiki", "collection": "handbook", "uri": f"file://{folder}", **fields}
    reply = await client.post("/v1/sources", json=body, headers=headers)
    assert reply.status_code == status, reply.text
    return SourceView.model_validate_json(reply.content) if status == 201 else reply.json()


async def shown(client, name="wiki"):
    reply = await client.get(f"/v1/sources/{name}")
    assert reply.status_code == 200, reply.text
    return SourceView.model_validate_json(reply.content)


async def syncs(client, name="wiki"):
    reply = await client.get(f"/v1/sources/{name}/syncs")
    assert reply.status_code == 200, reply.text
    return SyncPage.model_validate_json(reply.content).items


async def withheld(client, name="wiki"):
    return WithheldView.model_validate_json((await client.get(f"/v1/sources/{name}/withheld")).content)


async def hint(client, body, *, status=202, name="wiki"):
    reply = await client.post(f"/v1/sources/{name}/hints", json=body)
    assert reply.status_code == status, reply.text
    return HintReply.model_validate_json(reply.content) if status == 202 else reply.json()


async def names(client):
    return sorted(each["external_id"] for each in (await client.get("/v1/documents")).json()["items"])


async def checked(client, worker, uri, *, headers=None, **fields):
    """Check a source to its end, and return the check."""
    reply = await client.post("/v1/source-checks", json={"uri": uri, **fields}, headers=headers)
    assert reply.status_code == 202, reply.text
    await worker.run()
    reply = await client.get(reply.headers["location"], headers=headers)
    assert reply.status_code == 200, reply.text
    return SourceCheckView.model_validate_json(reply.content)


@guards(
    "features/sources/syncing/checks.py",
    "if found.seen == self.limits.entries:",
    "if found.seen > 10 * self.limits.entries:",
    means="a check lists a large bucket to its end",
)
async def test_check_lists_first_entries_and_stores_nothing(client, services, worker, folder):
    whole = await checked(client, worker, f"file://{folder}")
    assert (whole.state, whole.seen, whole.complete, whole.error) == ("done", 2, True, None)
    assert whole.keys == ["leave.md", "travel/expenses.md"]

    for number in range(5):
        write(folder, f"{number}.md", "Text.")
    part = await checked(client, worker, f"file://{folder}", options={"exclude": ["leave.md"]})
    assert (part.seen, part.complete, part.keys) == (3, False, ["0.md", "1.md"])

    assert await names(client) == []
    assert (await client.get("/v1/jobs")).json()["items"] == []
    assert (await client.get("/v1/collections")).json()["items"] == []


async def test_check_says_why_source_cannot_be_listed(client, worker, tmp_path):
    missing = await checked(client, worker, f"file://{tmp_path}/missing")
    assert (missing.state, missing.seen, missing.keys) == ("failed", 0, [])
    assert "missing" in missing.error


async def test_check_of_hanging_source_ends(client, services, allowed, folder):
    class Hanging(FolderSource):
        async def entries(self, after=""):
            await asyncio.Event().wait()
            yield

    def open_hanging(definition):
        return Hanging(folder, FileOptions(**definition.options))

    reply = await client.post("/v1/source-checks", json={"uri": f"file://{folder}"})
    work = Checking(services.ledger[SourceChecks], open_hanging, CheckLimits(timeout=timedelta(seconds=0.05)))
    runner = Runner(services.ledger[JobClaims], {JobKind.SOURCE_CHECK: lambda: work})
    await runner.take()
    await eventually(lambda: runner.claimed == 0)
    await runner.aclose()
    check = SourceCheckView.model_validate_json((await client.get(reply.headers["location"])).content)
    assert (check.state, check.seen) == ("failed", 0)
    assert "no entry within 0.05 seconds" in check.error


async def test_check_counts_entries_that_cannot_be_read(client, worker, folder):
    write(folder, "/".join(letter * 240 for letter in "abcde"), "Text.")
    check = await checked(client, worker, f"file://{folder}")
    assert (check.seen, check.refused, check.keys) == (3, 1, ["leave.md", "travel/expenses.md"])
    assert "1,204 bytes" in check.refusal


@guards(
    "features/sources/routes.py",
    "SourceAccess(services.settings).require(tenant, kind, body.uri, body.options, secret_name=body.secret_name)",
    "pass",
    means="a check lists folders that the operator does not allow",
)
async def test_check_is_refused_where_source_is_refused(client):
    for body, field in (
        ({"uri": "file:///etc"}, "uri"),
        ({"uri": "ftp://example.org/a"}, "uri"),
        ({"uri": "file:///etc", "kind": "git"}, "uri"),
        ({"uri": "s3://corpus/handbook", "options": {"colour": 1}}, "options.colour"),
    ):
        reply = await client.post("/v1/source-checks", json=body)
        assert (reply.status_code, reply.json()["field"]) == (422, field), reply.text


@guards(
    "features/sources/ledger/checks.sql",
    "WHERE j.tenant = :tenant AND j.id = :id",
    "WHERE :tenant = :tenant AND j.id = :id",
    means="another tenant reads the names of a checked folder's files",
)
async def test_check_of_other_tenant_is_not_found(services, allowed, provider, worker, folder):
    async with calling(with_keys(allowed), services) as client:
        check = await checked(client, worker, f"file://{folder}", headers=as_tenant("alice"))
        reply = await client.get(f"/v1/source-checks/{check.id}", headers=as_tenant("bob"))
        assert reply.status_code == 404


async def test_sixth_waiting_check_of_tenant_is_refused(client, folder):
    replies = [await client.post("/v1/source-checks", json={"uri": f"file://{folder}"}) for _ in range(6)]
    assert [reply.status_code for reply in replies] == [202] * 5 + [409]


async def remove_in_background(services):
    while await services.ledger[Sources].continue_removal():
        pass


def many(folder, count):
    for number in range(count):
        write(folder, f"old/{number:03}.md", f"Rule number {number} of the handbook.")


async def test_metadata_of_rows_match_either_unicode_form(client, worker, folder):
    field, city = "größe", "Zürich"
    for number, form in enumerate(("NFC", "NFD")):
        row = {"id": form, "text": f"The harbour opens at {number + 6}.", normalize(form, field): normalize(form, city)}
        write(folder, f"{number}.jsonl", json.dumps(row))
        path, options = folder / f"{number}.jsonl", {"metadata": [normalize(form, field)]}
        await add(client, path, name=f"rows-{number}", options=options)
        await worker.sync(client, f"rows-{number}")
    await worker.work("parse", "index")

    for form in ("NFC", "NFD"):
        body = {"question": "When does it open?", "collection": "handbook"}
        body["filter"] = {normalize(form, field): normalize(form, city)}
        found = (await client.post("/v1/retrieve", json=body)).json()
        assert {chunk["external_id"] for chunk in found["chunks"]} == {"rows-0/NFC", "rows-1/NFD"}


# --- definitions ---


async def test_added_source_is_listed_with_its_next_sync(client, folder):
    added = await add(client, folder, options={"include": ["*.md"]}, schedule="0 3 * * *", time_zone="Europe/Berlin")

    assert (added.kind, added.options, added.newest_sync, added.removing) == (
        "folder",
        {"include": ["*.md"]},
        None,
        False,
    )
    assert added.next_sync_at is not None
    page = SourcePage.model_validate_json((await client.get("/v1/sources?collection=handbook")).content)
    assert page.items == [added] == [await shown(client)]
    await client.put("/v1/collections/other", json={})
    assert (await client.get("/v1/sources?collection=other")).json()["items"] == []


async def test_list_of_sources_has_pages(client, folder):
    for name in ("c", "a", "b"):
        await add(client, folder, name=name)

    first = (await client.get("/v1/sources?limit=2")).json()
    second = (await client.get("/v1/sources", params={"limit": 2, "cursor": first["next_cursor"]})).json()

    assert [each["name"] for each in first["items"] + second["items"]] == ["a", "b", "c"]
    assert second["next_cursor"] is None


async def test_second_source_of_same_name_is_refused(client, folder):
    await add(client, folder)

    assert "another name" in (await add(client, folder, collection="other", status=409))["detail"]


async def test_unusable_definition_is_refused_by_field(client, folder):
    for fields, field, sentence in (
        ({"uri": "file:///etc"}, "uri", "FOREASK_SOURCE_ROOTS"),
        ({"uri": "s3://corpus"}, "uri", "FOREASK_SOURCE_ROOTS"),
        ({"uri": "ftp://host/folder"}, "uri", "ftp"),
        ({"kind": "carrier-pigeon"}, "kind", "carrier-pigeon"),
        ({"options": {"includes": "*.md"}}, "options.includes", "include"),
        ({"schedule": "0 0 30 2 *"}, "schedule", "0 0 30 2"),
        ({"time_zone": "Berlin"}, "time_zone", "Europe/Berlin"),
        ({"max_delete_share": 1.5}, "max_delete_share", "less than or equal to 1"),
        ({"name": "Wiki/2"}, "name", "pattern"),
    ):
        problem = await add(client, folder, status=422, **fields)

        assert (problem["field"], sentence in problem["detail"]) == (field, True), problem
        assert (await client.get("/v1/sources")).json()["items"] == [], fields


async def test_unknown_secret_is_refused_among_known_secrets(client, services, allowed, folder):
    secret = {"secret_name": "bucket"}
    assert (await add(client, folder, **secret)).secret_name == secret["secret_name"]

    known = allowed.model_copy(update={"source_secrets": {"OTHER": SecretStr('{"uri": "s3://corpus/"}')}})
    async with calling(known, services) as other:
        assert (await add(other, folder, name="b", **secret, status=422))["field"] == "secret_name"


async def test_changes_keep_absent_values_and_remove_null(client, folder):
    await add(client, folder, schedule="0 3 * * *", options={"include": ["*.md"]})

    reply = await client.patch("/v1/sources/wiki", json={"max_delete_share": 0.5})
    assert reply.status_code == 200, reply.text
    changed = await shown(client)
    assert (changed.schedule, changed.options, changed.max_delete_share) == ("0 3 * * *", {"include": ["*.md"]}, 0.5)
    assert (await client.patch("/v1/sources/wiki", json={"schedule": None})).status_code == 200
    assert ((await shown(client)).schedule, (await shown(client)).next_sync_at) == (None, None)
    for body in ({"uri": None}, {"uri": "file:///etc"}, {"schedule": "never"}, {"name": "other"}):
        assert (await client.patch("/v1/sources/wiki", json=body)).status_code == 422


async def test_filter_of_synced_source_changes_with_confirmation(client, folder, worker):
    await add(client, folder)
    change = {"options": {"exclude": ["travel/*"]}}
    await worker.sync(client)

    refused = await client.patch("/v1/sources/wiki", json=change)
    assert (refused.status_code, "confirm" in refused.json()["detail"]) == (409, True)
    assert (await client.patch("/v1/sources/wiki", json=change | {"confirm": True})).status_code == 200
    assert (await worker.sync(client)).missing == 1


# --- syncs ---


async def test_sync_follows_additions_edits_and_deletions(client, services, folder, worker):
    await add(client, folder)
    first = await worker.sync(client)
    assert (first.state, first.seen, first.created, first.error) == ("done", 2, 2, None)
    assert await names(client) == ["wiki/leave.md", "wiki/travel/expenses.md"]
    await worker.work()

    write(folder, "leave.md", "Employees get thirty-two days of leave.")
    write(folder, "parking.md", "Parking is free.")
    second = await worker.sync(client)
    assert (second.created, second.changed, second.unchanged) == (1, 1, 1)

    (folder / "parking.md").unlink()
    for deleted in (0, 0):  # a single listing deletes nothing, and neither does a second one at once
        assert ((await worker.sync(client)).missing, (await shown(client)).newest_sync.deleted) == (1, deleted)
    await make_older(services)
    assert (await worker.sync(client)).deleted == 1
    assert await names(client) == ["wiki/leave.md", "wiki/travel/expenses.md"]


async def test_job_of_sync_ends_with_its_documents(client, services, folder, worker):
    await add(client, folder)
    reply = await client.post("/v1/sources/wiki/sync")
    started = SyncView.model_validate_json(reply.content)
    assert (reply.headers["location"], started.state) == (f"/v1/jobs/{started.id}", "queued")

    second = await client.post("/v1/sources/wiki/sync")
    assert (second.status_code, second.json()["job_id"]) == (409, str(started.id))

    await worker.run()
    job = (await client.get(f"/v1/jobs/{started.id}")).json()
    assert (job["kind"], job["state"], job["collection"], job["total"]) == ("sync", "running", "handbook", 2)
    await worker.work()
    await services.ledger[Jobs].settle()
    jobs = (await client.get("/v1/jobs?kind=sync")).json()["items"]
    assert [(each["id"], each["state"], each["done"]) for each in jobs] == [(str(started.id), "done", 2)]


async def test_next_sync_starts_after_a_failure(client, folder, worker):
    await add(client, folder)
    folder.rename(folder.with_name("moved"))

    failed = await worker.sync(client)
    assert (failed.state, "cannot be read" in failed.error) == ("failed", True)

    folder.with_name("moved").rename(folder)
    assert (await worker.sync(client)).state == "done"


async def test_withheld_deletions_wait_for_approval_as_upper_bound(client, services, folder, worker):
    many(folder, 14)
    await add(client, folder)
    await worker.sync(client)
    for number in range(12):
        (folder / f"old/{number:03}.md").unlink()
    await worker.sync(client)
    await make_older(services)

    refused = await worker.sync(client)

    assert (refused.withheld, refused.deleted) == (12, 0)
    waiting = await withheld(client)
    keys = [f"old/{number:03}.md" for number in range(12)]
    assert (waiting.job_id, waiting.deletions, waiting.items, waiting.keys) == (refused.id, 12, 16, keys)
    job = (await client.get(f"/v1/jobs/{refused.id}")).json()
    assert (job["state"], job["pause_reason"]) == ("paused", "approval")
    status = (await client.get("/v1/status")).json()
    assert status["withheld"] == [
        {"source": "wiki", "collection": "handbook", "job_id": str(refused.id), "deletions": 12}
    ]

    assert (await client.post("/v1/sources/wiki/approve", json={"deletions": 0})).status_code == 422
    assert (await client.post("/v1/sources/wiki/approve", json={"deletions": 11})).status_code == 202
    await worker.run()
    assert (await withheld(client)).deletions == 12

    reply = await client.post("/v1/sources/wiki/approve", json={"deletions": 12})
    assert (reply.status_code, reply.json()["approved"]) == (202, 12)
    await worker.run()
    assert (await shown(client)).newest_sync.deleted == 12
    assert len(await names(client)) == 4
    assert (await withheld(client)).model_dump() == {"job_id": None, "deletions": 0, "items": 4, "keys": []}
    again = await client.post("/v1/sources/wiki/approve", json={"deletions": 12})
    assert (again.status_code, "wait for approval" in again.json()["detail"]) == (409, True)


async def test_withheld_deletions_send_an_event(services, allowed, folder, worker, provider):
    local = allowed.model_copy(update={"webhooks_private_networks": True})
    async with calling(local, services) as client:
        body = {"url": "http://127.0.0.1:9/", "events": ["sync.deletions_withheld"]}
        hook = (await client.post("/v1/webhooks", json=body)).json()["id"]
        many(folder, 12)
        await add(client, folder)
        for _ in range(3):
            await client.post("/v1/sources/wiki/sync")
            await worker.run()
            for path in folder.glob("old/*"):
                path.unlink()
            await make_older(services)
        (event,) = (await client.get(f"/v1/webhooks/{hook}/deliveries")).json()["items"]

        job = str((await withheld(client)).job_id)
        expected = {"source": "wiki", "collection": "handbook", "job_id": job, "deletions": 12, "items": 14}
        assert (event["type"], event["data"]) == ("sync.deletions_withheld", expected)


# --- removal ---


@pytest.mark.parametrize(("documents", "left"), [("keep", 2), ("delete", 0)])
async def test_removal_keeps_or_deletes_documents(client, services, folder, worker, documents, left):  # noqa: PLR0917
    await add(client, folder)
    await client.post("/v1/documents", json={"text": "Another document.", "external_id": "own.md"})
    await worker.sync(client)
    await hint(client, {"keys": ["leave.md"]})
    assert (await client.delete("/v1/sources/wiki")).status_code == 422

    reply = await client.delete(f"/v1/sources/wiki?documents={documents}")
    assert (reply.status_code, reply.json()["removing"]) == (202, True)
    assert (await client.post("/v1/sources/wiki/sync")).status_code == 404
    await hint(client, {"keys": ["leave.md"]}, status=404)
    await remove_in_background(services)

    assert (await client.get("/v1/sources/wiki")).status_code == 404
    assert len(await names(client)) == left + 1
    async with services.database.begin() as connection:
        for table in ("source_items", "source_hints", "syncs", "jobs WHERE kind = 'lookup'"):
            assert (await connection.execute(Statement(f"SELECT count(*) FROM {table}"))).scalar_one() == 0
    if documents == "keep":  # the documents are adopted, and not duplicated
        await add(client, folder)
        assert (await worker.sync(client)).unchanged == 2


# --- hints ---


async def test_hinted_entries_are_read_without_a_listing(client, services, folder, worker, wakes):
    await add(client, folder)
    await worker.sync(client)
    write(folder, "leave.md", "Employees get forty days of leave.")
    write(folder, "new.md", "A new rule.")
    write(folder, "unhinted.md", "Another new rule.")

    reply = await hint(client, {"keys": ["leave.md", "new.md", "travel/expenses.md", "new.md"]})

    assert (reply.accepted, reply.ignored, "syncs" in wakes) == (3, 0, True)
    await worker.run()
    assert await names(client) == ["wiki/leave.md", "wiki/new.md", "wiki/travel/expenses.md"]
    documents = (await client.get("/v1/documents")).json()["items"]
    assert {each["external_id"]: each["version"] for each in documents}["wiki/leave.md"] == 2
    assert await services.ledger[JobClaims].due() & JOBS_OF_PARSERS == set()
    (lookup,) = [each for each in await jobs_of(services) if each.kind == "lookup"]
    assert "lookup" not in {job["kind"] for job in (await client.get("/v1/jobs")).json()["items"]}
    assert (await client.get(f"/v1/jobs/{lookup.id}")).status_code == 404
    assert (await worker.sync(client)).unchanged == 3


async def jobs_of(services):
    async with services.database.begin() as connection:
        return (await connection.execute(Statement("SELECT id, kind FROM jobs"))).all()


async def test_hint_of_missing_entry_deletes_nothing(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    (folder / "leave.md").unlink()
    await make_older(services)

    for _ in range(3):
        await hint(client, {"keys": ["leave.md", "never.md"]})
        await worker.run()
        await make_older(services)
    assert await names(client) == ["wiki/leave.md", "wiki/travel/expenses.md"]

    assert (await worker.sync(client)).deleted == 0  # the first listing that lacks it
    await make_older(services)
    assert (await worker.sync(client)).deleted == 1


async def test_hint_of_restored_entry_ends_its_absence(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    (folder / "leave.md").rename(folder / ".leave")
    await worker.sync(client)
    (folder / ".leave").rename(folder / "leave.md")
    await hint(client, {"keys": ["leave.md"]})
    await worker.run()
    (folder / "leave.md").unlink()
    await make_older(services)

    assert ((await worker.sync(client)).deleted, await names(client)) == (
        0,
        ["wiki/leave.md", "wiki/travel/expenses.md"],
    )


async def test_names_outside_the_source_are_ignored_and_counted(client, folder):
    await add(client, "", name="bucket", uri="s3://corpus/handbook")
    await add(client, folder)
    records = [
        {"s3": {"bucket": {"name": bucket}, "object": {"key": key}}}
        for bucket, key in (
            ("corpus", "handbook/leave.md"),
            ("corpus", "handbook/"),
            ("corpus", "handbook2/leave.md"),
            ("other", "handbook/travel.md"),
        )
    ]

    assert (await hint(client, {"Records": records}, name="bucket")).model_dump() == {"accepted": 1, "ignored": 3}
    assert (await hint(client, {"Records": records})).model_dump() == {"accepted": 0, "ignored": 4}
    assert (await hint(client, {"keys": ["a" * 1025, "b.md"]})).model_dump() == {"accepted": 1, "ignored": 1}


async def test_too_many_or_unknown_hints_are_refused(client, services, folder):
    await add(client, folder)

    assert "1,001" in (await hint(client, {"keys": [str(n) for n in range(1001)]}, status=413))["detail"]
    assert (await hint(client, {"keys": ["é" * 510 + str(n) for n in range(1000)]})).accepted == 1000
    assert "Send" in (await hint(client, {"objects": ["leave.md"]}, status=422))["detail"]
    await hint(client, {"keys": ["leave.md"]}, status=404, name="other")
    reply = await client.post("/v1/sources/wiki/hints", content=b"{", headers={"content-type": "application/json"})
    assert reply.status_code == 400
    reply = await client.post("/v1/sources/wiki/hints", content=b"{}", headers={"content-type": "text/html"})
    assert reply.status_code == 415


async def test_key_as_basic_password_sends_hints_only(services, allowed, provider, folder):
    async with calling(with_keys(allowed), services) as client:
        await add(client, folder, headers=as_tenant("alice"))
        address, body = "/v1/sources/wiki/hints", {"keys": ["leave.md"]}

        for login in (None, ("alice", "wrong"), ("alice", ""), (KEYS["alice"], "")):
            refused = await client.post(address, json=body, auth=login)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Basic realm="foreask"')
        for header in ("Basic", "Basic %", "Basic /w==", "Basic " + b64encode(b"no colon").decode()):
            assert (await client.post(address, json=body, headers={"authorization": header})).status_code == 401
        assert (await client.post(address, json=body, auth=("any user", KEYS["alice"]))).status_code == 202
        assert (await client.post(address, json=body, auth=("", KEYS["bob"]))).status_code == 404
        assert (await client.post(address, json=body, headers=as_tenant("alice"))).status_code == 202

        other = await client.get("/v1/sources", auth=("alice", KEYS["alice"]))
        assert (other.status_code, other.headers["www-authenticate"]) == (401, 'Bearer realm="foreask"')


async def test_basic_password_needs_scope_of_hints(services, allowed, provider, folder):
    async with calling(with_keys(allowed), services) as client:
        await add(client, folder, headers=as_tenant("alice"))
        made = await client.post(
            "/v1/keys", json={"name": "reader", "scopes": [Scope.READ]}, headers=as_tenant("alice")
        )
        login = ("alice", made.json()["key"])

        assert (await client.post("/v1/sources/wiki/hints", json={"keys": []}, auth=login)).status_code == 403


async def test_subscription_without_route_to_sns_is_sent_again(client, folder, monkeypatch):
    private = [(2, 1, 6, "", ("10.0.0.1", 443))]
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, **__: private)
    await add(client, folder)
    url = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=1"

    with capture_logs() as logs:
        reply = await hint(client, {"Type": "SubscriptionConfirmation", "SubscribeURL": url}, status=503)

    assert "The subscription cannot be confirmed" in reply["detail"]
    (line,) = [each for each in logs if each["event"] == "subscription.unconfirmed"]
    assert line["url"] == "https://sns.eu-west-1.amazonaws.com/"
    assert "Token" not in str(logs)


async def test_subscription_elsewhere_is_logged_and_not_confirmed(client, folder):
    await add(client, folder)
    url = f"https://me:hidden@sns.example.org/{'a' * 10_000}?Token=1"
    body = {"Type": "SubscriptionConfirmation", "SubscribeURL": url}
    headers = {"content-type": "text/plain; charset=UTF-8"}

    with capture_logs() as logs:
        reply = await client.post("/v1/sources/wiki/hints", content=json.dumps(body), headers=headers)

    assert (reply.status_code, reply.json()) == (202, {"accepted": 0, "ignored": 0})
    (line,) = [each for each in logs if each["event"] == "subscription.unconfirmed"]
    assert (line["source"], line["url"][:27]) == ("wiki", "https://sns.example.org/aaa")
    assert len(line["url"]) <= 200
    assert not {word for word in ("Token", "hidden") if word in str(logs)}


async def test_hint_during_listing_is_looked_up_again(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    await client.post("/v1/sources/wiki/sync")
    listing = await services.ledger[JobClaims].claim({JobKind.SYNC})
    write(folder, "leave.md", "Employees get fifty days of leave.")
    await hint(client, {"keys": ["leave.md"]})
    await worker.run()

    async with services.database.begin() as connection:
        hints = await connection.execute(Statement("SELECT hinted_key, looked_up_at IS NOT NULL FROM source_hints"))
        assert hints.all() == [("leave.md", True)]
    assert not await services.ledger[Hints].reopen()
    await services.ledger[JobClaims].release(listing)
    await worker.run()
    assert await services.ledger[Hints].reopen()
    await worker.run()
    async with services.database.begin() as connection:
        assert (await connection.execute(Statement("SELECT count(*) FROM source_hints"))).scalar_one() == 0


async def test_failed_lookup_is_repeated_later(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    write(folder, "new.md", "A new rule.")
    folder.rename(folder.with_name("moved"))
    assert (await shown(client)).newest_lookup is None
    await hint(client, {"keys": ["new.md"]})
    await worker.run()
    failed = (await shown(client)).newest_lookup
    assert (failed.state, f"The folder {folder} cannot be read" in failed.error) == ("failed", True)
    folder.with_name("moved").rename(folder)
    assert not await services.ledger[Hints].reopen()  # it waits after a failure

    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE jobs SET ended_at = ended_at - interval '10 minutes'"))
    assert await services.ledger[Hints].reopen()
    assert (await shown(client)).newest_lookup.error == failed.error
    await worker.run()

    assert "wiki/new.md" in await names(client)
    done = (await shown(client)).newest_lookup
    assert (done.state, done.error) == ("done", None)


# --- schedules ---


async def due_since(services, hours):
    async with services.database.begin() as connection:
        await connection.execute(Statement(f"UPDATE sources SET next_at = now() - interval '{hours} hours'"))


async def time_of_postgresql(services):
    async with services.database.begin() as connection:
        return (await connection.execute(Statement("SELECT now()"))).scalar_one()


async def test_missed_times_start_one_sync(client, services, folder, worker):
    await add(client, folder, schedule="0 * * * *")
    await due_since(services, 50)

    assert await start_due_syncs(services.ledger, services.wakeups)
    await worker.run()
    assert not await start_due_syncs(services.ledger, services.wakeups)

    assert [each.state for each in await syncs(client)] == ["done"]
    assert (await shown(client)).next_sync_at > (await syncs(client))[0].created_at


async def test_open_sync_is_not_queued_up(client, services, folder, worker):
    await add(client, folder, schedule="0 * * * *")
    await client.post("/v1/sources/wiki/sync")
    await due_since(services, 1)

    assert await start_due_syncs(services.ledger, services.wakeups)
    assert not await start_due_syncs(services.ledger, services.wakeups)
    await worker.run()

    assert len(await syncs(client)) == 1


async def test_source_being_removed_is_not_started(client, services, folder):
    await add(client, folder, schedule="0 * * * *")
    await due_since(services, 1)
    await client.delete("/v1/sources/wiki?documents=keep")

    assert not await start_due_syncs(services.ledger, services.wakeups)


@guards(
    "features/sources/ledger/sources.py",
    "except InvalidInput as without_time:",
    "except LookupError as without_time:",
    means="a time zone that the scheduler's host lacks keeps its source due",
)
async def test_unknown_time_zone_delays_no_other_source(client, services, folder):
    for name in ("bad", "good"):
        await add(client, folder, name=name, schedule="0 3 * * *", time_zone="Europe/Berlin")
    await due_since(services, 1)
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE sources SET time_zone = 'US/Nowhere' WHERE name = 'bad'"))

    assert await start_due_syncs(services.ledger, services.wakeups)

    assert [len(await syncs(client, name)) for name in ("bad", "good")] == [1, 1]
    bad = await shown(client, "bad")
    assert "There is no time zone 'US/Nowhere'" in bad.schedule_error
    assert bad.next_sync_at > bad.newest_sync.created_at + timedelta(minutes=30)  # not a sync each minute
    assert (await shown(client, "good")).schedule_error is None
    assert not await start_due_syncs(services.ledger, services.wakeups)
    await client.patch("/v1/sources/bad", json={"time_zone": "US/Eastern"})
    assert (await shown(client, "bad")).schedule_error is None


@guards(
    "features/sources/syncing/scheduled.py",
    "except Exception as error:  # this source alone",
    "except LookupError as error:  # this source alone",
    means="a sync that cannot be started stops the syncs of other sources",
)
async def test_sync_that_fails_to_start_delays_no_other(client, services, folder):
    for name in ("bad", "good"):
        await add(client, folder, name=name, schedule="0 3 * * *")
    await due_since(services, 1)
    async with services.database.begin() as connection:
        await connection.execute(
            Statement("UPDATE sources SET next_at = next_at - interval '1 hour' WHERE name = 'bad'")
        )
        (bad,) = (await connection.execute(Statement("SELECT id FROM sources WHERE name = 'bad'"))).scalars()
        rejected = f"ALTER TABLE syncs ADD CONSTRAINT no_sync_of_bad CHECK (source_id <> '{bad}')"
        await connection.execute(Statement(rejected))
    try:
        assert await start_due_syncs(services.ledger, services.wakeups)
    finally:
        async with services.database.begin() as connection:
            await connection.execute(Statement("ALTER TABLE syncs DROP CONSTRAINT no_sync_of_bad"))

    assert [len(await syncs(client, name)) for name in ("bad", "good")] == [0, 1]
    assert (await shown(client, "bad")).schedule_error
    assert not await start_due_syncs(services.ledger, services.wakeups)  # it is repeated after a minute
    await due_since(services, 1)
    assert await start_due_syncs(services.ledger, services.wakeups)
    assert len(await syncs(client, "bad")) == 1
    assert (await shown(client, "bad")).schedule_error is None


async def test_refused_scheduled_sync_shows_reason(client, services, folder):
    await add(client, folder, schedule="0 3 * * *")
    await due_since(services, 1)
    async with services.database.begin() as connection:
        await connection.execute(Statement(QUEUE_SYNCS))

    assert await start_due_syncs(services.ledger, services.wakeups)

    assert "100 queued syncs" in (await shown(client)).schedule_error
    assert not await start_due_syncs(services.ledger, services.wakeups)


@guards(
    "features/sources/ledger/sources.py",
    "now = await _now(connection)",
    "now = datetime.now().astimezone()",
    means="a scheduler with a slow clock starts a due sync again and again",
)
@pytest.mark.parametrize("minutes", [-60, -5, 5, 60])
async def test_scheduler_with_other_clock_starts_one_sync(client, services, folder, minutes):
    await add(client, folder, schedule="* * * * *")
    await due_since(services, 1)
    before = await time_of_postgresql(services)

    with time_machine.travel(timedelta(minutes=minutes)):
        assert await start_due_syncs(services.ledger, services.wakeups)
        next_sync_at = (await shown(client)).next_sync_at

    assert before < next_sync_at <= await time_of_postgresql(services) + timedelta(minutes=1)


@guards(
    "features/sources/ledger/sources.py",
    "new.time_zone, await _now(connection))",
    "new.time_zone, datetime.now().astimezone())",
    means="the first scheduled sync follows the clock of the API's host",
)
@pytest.mark.parametrize("minutes", [-60, 60])
async def test_api_with_other_clock_schedules_next_minute(client, services, folder, minutes):
    before = await time_of_postgresql(services)

    with time_machine.travel(timedelta(minutes=minutes)):
        source = await add(client, folder, schedule="* * * * *")

    assert before < source.next_sync_at <= await time_of_postgresql(services) + timedelta(minutes=1)


# --- keys ---


async def test_tenants_cannot_see_each_others_sources(services, allowed, folder, worker, provider):
    async with calling(with_keys(allowed), services) as client:
        alice, bob = as_tenant("alice"), as_tenant("bob")
        await add(client, folder, headers=alice)
        await add(client, folder, headers=bob, name="own")
        assert [each["name"] for each in (await client.get("/v1/sources", headers=bob)).json()["items"]] == ["own"]
        for method, path, body in (
            ("GET", "", None),
            ("GET", "/syncs", None),
            ("GET", "/withheld", None),
            ("POST", "/sync", None),
            ("POST", "/approve", {"deletions": 1}),
            ("POST", "/hints", {"keys": ["leave.md"]}),
            ("PATCH", "", {"schedule": None}),
            ("DELETE", "?documents=delete", None),
        ):
            reply = await client.request(method, f"/v1/sources/wiki{path}", headers=bob, json=body)
            assert (reply.status_code, reply.json().get("detail", "").startswith("There is no source")) == (404, True)
        await client.post("/v1/sources/wiki/sync", headers=alice)
        await worker.run()
        assert (await client.get("/v1/documents", headers=bob)).json()["items"] == []
        assert len((await client.get("/v1/documents", headers=alice)).json()["items"]) == 2


async def test_roots_of_one_tenant_are_closed_to_another(services, settings, folder, provider):
    own = settings.model_copy(update={"source_roots": {"alice": (f"file://{folder}",)}})
    async with calling(with_keys(own), services) as client:
        await add(client, folder, headers=as_tenant("alice"))
        await add(client, folder, headers=as_tenant("bob"), status=422)
