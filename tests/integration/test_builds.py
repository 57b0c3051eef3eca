"""A new build of a collection is filled next to the live build, follows it, and replaces it."""

import asyncio
import dataclasses
from datetime import timedelta
from uuid import uuid4

import pytest

from features.erasure.ledger.erasures import Erasures
from features.feedback.ledger.feedback import Feedback
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.errors import Conflict, NotFound
from shared.domain.states import BuildState
from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.builds.builds import Builds
from shared.ledger.documents import build_sync
from shared.ledger.documents.accepted_questions import copy_from_live
from shared.ledger.documents.dead_letters import Choice, DeadLetters
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.listing import DocumentFilter
from shared.ledger.feedback.query_log import QueryLog, QueryLogEntry
from shared.ledger.model.collections import Collections
from shared.ledger.model.counters import Counters
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.costs import Costs
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.leftovers import Leftovers
from shared.query.retrieve import Query
from tests.conftest import Library
from tests.support.api import ready, work
from tests.support.cleaning import clean
from tests.support.counters import DIFFERENCES
from tests.support.planted import guards
from tests.support.waiting import eventually, until_blocked

NAME = ("default", "default")


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        result = await connection.execute(Statement(statement), parameters)
        return [tuple(row) for row in result]


async def started(services, **options):
    return await services.ledger[Builds].start(
        *NAME, options=CollectionOptions(**options), embedding_model=services.settings.embedding_model
    )


async def filled(services, **options):
    build = await started(services, **options)
    while await services.ledger[Builds].fill():
        pass
    return await services.ledger[Builds].get(*NAME, build.number)


async def copied(services, *documents):
    """Index documents, copy them to a second build, and return the documents and the build."""
    submitted = await ready(services, *documents)
    build = await filled(services)
    await work(services)
    return submitted, build


async def rows_of(services, build):
    """Return the external ids, ids and newest uploads of a build's documents."""
    statement = """
        SELECT d.external_id, d.public_id, v.upload
        FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
        WHERE d.collection_id = :id AND d.state <> 'deleting' ORDER BY 1"""
    return await run(services, statement, id=build.id)


async def finish_work(services):
    while await services.ledger[Backlogs].due():
        await work(services)


async def equals_live(services, build):
    """Return whether a build has the same documents as the live build."""
    live = await services.ledger[Collections].get(*NAME)
    assert (await services.ledger[Builds].differences(build)).none
    assert await run(services, DIFFERENCES) == []
    return await rows_of(services, build) == await rows_of(services, live)


# --- fill ---


async def test_build_is_filled_from_live_build(services, library, provider):
    documents = [await library.add(f"Text number {number}.", f"{number}.md") for number in range(3)]
    await work(services)
    provider.reset()

    build = await filled(services)
    await work(services)

    assert build.state == BuildState.FOLLOWING
    assert build.number == 2
    assert await equals_live(services, build)
    progress = await services.ledger[Builds].progress(build)
    assert (progress.copied, progress.source_documents, progress.documents) == (3, 3, {"ready": 3})
    assert provider.stats()["calls"] == 0
    assert {d.id for d in documents} == {row[1] for row in await rows_of(services, build)}


async def test_tenants_see_only_the_live_build(services, once):
    (document,), _ = await once(copied, ("A text.", "a.md"))
    ledger = services.ledger

    assert [d.id for d in await ledger[Documents].page("default")] == [document.id]
    assert [d.id for d in await ledger[Documents].page("default", DocumentFilter(ids=[document.id]))] == [document.id]
    assert (await ledger[Documents].get("default", document.id)).state == "ready"
    assert len(await ledger[Documents].chunks("default", document.id)) == 1
    assert [d.id for d in (await ledger[Documents].changes("default", None)).documents] == [document.id]
    assert await ledger[Documents].counts("default") == {"ready": 1}
    assert [c.name for c in await ledger[Collections].page("default")] == ["default"]
    ((copy,),) = await run(services, "SELECT id FROM documents WHERE id <> public_id")
    with pytest.raises(NotFound):
        await ledger[Documents].get("default", copy)


async def test_interrupted_build_fill_resumes(services, library, monkeypatch):
    monkeypatch.setattr("shared.ledger.builds.builds._SLICE", 2)
    for number in range(5):
        await library.add(f"Text number {number}.", f"{number}.md")
    build = await started(services)
    builds = services.ledger[Builds]

    assert await builds.fill()
    assert (await builds.progress(build)).copied == 2
    paused = await builds.pause(*NAME, build.number)
    assert paused.state == BuildState.PAUSED
    assert not await builds.fill()
    await library.add("Followed.", "9.md")
    assert (await builds.progress(build)).copied == 3
    assert (await builds.resume(*NAME, build.number)).state == BuildState.FILLING
    while await builds.fill():
        pass

    assert (await builds.get(*NAME, build.number)).state == BuildState.FOLLOWING
    assert await equals_live(services, build)


async def test_fill_waits_while_many_documents_are_processed(services, library, provider, monkeypatch):
    monkeypatch.setattr("shared.ledger.builds.builds._MOST_OPEN", 2)
    for number in range(3):
        await library.add(f"Text number {number}.", f"{number}.md")
    await work(services)
    build = await started(services)
    builds = services.ledger[Builds]

    assert await builds.fill()
    assert not await builds.fill()
    assert (await builds.progress(build)).copied == 2
    await work(services)
    assert await builds.fill()

    assert await equals_live(services, build)


async def test_second_build_is_refused_while_first_fills(services, library):
    await library.add("A text.", "a.md")
    await started(services)

    with pytest.raises(Conflict, match="The build 2 is filling"):
        await started(services)


async def test_concurrent_build_starts_create_one(services, library):
    await library.add("A text.", "a.md")

    results = await asyncio.gather(*(started(services) for _ in range(4)), return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == ["Build", "Conflict", "Conflict", "Conflict"]


@pytest.mark.parametrize("slice_", [1, 2, 1_000])
async def test_incomplete_build_reports_missing_documents(services, library, monkeypatch, slice_):
    monkeypatch.setattr("shared.ledger.builds.comparison._SLICE", slice_)
    await library.add("Missing.", "a.md")
    await library.add("Stale.", "b.md")
    await library.add("The same.", "d.md")
    build = await filled(services)
    await run(services, "DELETE FROM documents WHERE collection_id = :id AND external_id = 'a.md'", id=build.id)
    await run(
        services,
        "UPDATE document_versions SET upload = 'other' FROM documents d WHERE d.id = document_id"
        " AND d.collection_id = :id AND d.external_id = 'b.md'",
        id=build.id,
    )
    live = await services.ledger[Collections].get(*NAME)
    await run(
        services,
        "INSERT INTO documents (id, public_id, tenant, collection_id, external_id, state)"
        " SELECT gen_random_uuid(), gen_random_uuid(), tenant, :id, 'c.md', 'queued' FROM collections WHERE id = :live",
        id=build.id,
        live=live.id,
    )

    found = await services.ledger[Builds].differences(build)

    assert (found.missing, found.stale, found.orphaned) == (["a.md"], ["b.md"], ["c.md"])
    assert (await services.ledger[Builds].differences(build, limit=0)).none


# --- follow ---


async def test_build_follows_uploads_edits_and_deletions(services, library, provider):
    await library.add("First.", "a.md")
    deleted = await library.add("Second.", "b.md")
    again = await library.add("Third.", "c.md")
    build = await filled(services)
    await work(services)

    await library.add("First, edited.", "a.md")
    await services.ledger[Documents].delete("default", deleted.id)
    await services.ledger[Documents].delete("default", again.id)
    await library.add("Third, written again.", "c.md")
    await library.add("Fourth.", "d.md")
    await work(services)

    assert await equals_live(services, build)
    assert (await services.ledger[Builds].progress(build)).documents == {"ready": 3}


@guards(
    "shared/ledger/documents/build_sync.sql",
    "    FROM next n JOIN document_versions v ON v.document_id = n.source AND v.version = n.source_version\n",
    "    FROM next n\n",
    means="a copy starts a version without content, which is never claimed",
)
async def test_copy_starts_no_version_of_deleted_content(services, library, provider):
    """The version that a copy is about to start is purged in the meantime."""
    (document,), build = await copied(services, ("First.", "a.md"))
    ((copy, version),) = await run(
        services, "SELECT id, version FROM documents WHERE collection_id = :build", build=build.id
    )

    async with services.database.begin() as connection:
        purged = {"copies": [copy], "public_ids": [document.id], "sources": [document.id], "versions": [7]}
        await connection.execute(build_sync.SQL.replace_copies, purged)

    assert await run(services, "SELECT version, state FROM documents WHERE id = :id", id=copy) == [(version, "ready")]
    await library.add("Second.", "a.md")
    await work(services)
    assert await equals_live(services, build)


async def test_concurrent_upload_reaches_new_build(services, library):
    """The upload locks the live build's row until it commits; the new build starts after that."""
    await library.add("A text.", "a.md")
    new = await library.new("Late.", "b.md")

    async with services.database.begin() as connection:
        await connection.execute(
            Statement(
                "INSERT INTO documents (id, public_id, tenant, collection_id, external_id, state)"
                " VALUES ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000001', 'default',"
                " :id, 'b.md', 'queued')"
            ),
            {"id": new.collection.id},
        )
        await connection.execute(
            Statement(
                "INSERT INTO document_versions (document_id, version, upload, size_bytes, content_hash)"
                " VALUES ('00000000-0000-4000-8000-000000000001', 1, :upload, 1, '1')"
            ),
            {"upload": new.upload},
        )
        starting = asyncio.create_task(filled(services))
        await until_blocked(services.database)
        assert not starting.done()
    build = await starting

    assert await equals_live(services, build)
    assert len(await rows_of(services, build)) == 2


async def blocked(services, statement, action, sessions=1):
    """Run an action until this many of its sessions wait for the locks of a statement; return the action's result."""
    async with services.database.begin() as connection:
        await connection.execute(Statement(statement))
        task = asyncio.create_task(action())
        await until_blocked(services.database, sessions)
        assert not task.done()
    return await task


async def test_upload_waiting_for_build_start_reaches_build(services, library):
    await library.add("A text.", "a.md")
    new = await library.new("New.", "b.md")

    async def upload_during_start():
        starting = asyncio.create_task(started(services))
        await until_blocked(services.database)
        submission = await services.ledger[Documents].submit(new)
        assert submission.accepted
        return await starting

    build = await blocked(services, "SELECT 1 FROM collections FOR UPDATE", upload_during_start, sessions=2)

    assert [row[0] for row in await rows_of(services, build)] == ["b.md"]


async def test_concurrent_requests_create_one_collection(services):
    made = await asyncio.gather(
        *(services.ledger[Collections].ensure(*NAME, embedding_model="model") for _ in range(20))
    )

    assert len({collection.id for collection in made}) == 1


async def test_deletion_during_fill_removes_document_from_build(services, library):
    document = await library.add("A text.", "a.md")
    build = await started(services)

    async def fill_and_delete():
        return await asyncio.gather(
            services.ledger[Builds].fill(), services.ledger[Documents].delete("default", document.id)
        )

    await blocked(services, "SELECT 1 FROM documents FOR UPDATE", fill_and_delete, sessions=2)

    assert await equals_live(services, await services.ledger[Builds].get(*NAME, build.number))
    assert await rows_of(services, build) == []


async def test_deletion_waits_for_document_copy(services, library):
    document = await library.add("A text.", "a.md")
    build = await started(services)
    conflicting_row = (
        "INSERT INTO documents (id, public_id, tenant, collection_id, external_id, state)"
        " VALUES (gen_random_uuid(), gen_random_uuid(), 'default', :id, 'a.md', 'queued')"
    )

    async with services.database.transaction() as connection:
        await connection.execute(Statement(conflicting_row), {"id": build.id})
        filling = asyncio.create_task(services.ledger[Builds].fill())
        await until_blocked(services.database)
        deleting = asyncio.create_task(services.ledger[Documents].delete("default", document.id))
        await until_blocked(services.database, 2)
        assert not filling.done()
        assert not deleting.done()
        await connection.rollback()
    await asyncio.gather(filling, deleting)

    assert await rows_of(services, build) == []


@pytest.mark.parametrize("round_", range(5))
async def test_changes_during_fill_reach_build(services, library, monkeypatch, round_):
    monkeypatch.setattr("shared.ledger.builds.builds._SLICE", 2)
    documents = [await library.add(f"Text number {number}.", f"{number}.md") for number in range(6)]
    build = await started(services)

    async def fill():
        while await services.ledger[Builds].fill():
            await asyncio.sleep(0)

    await asyncio.gather(
        fill(),
        library.add("Edited.", f"{round_}.md"),
        services.ledger[Documents].delete("default", documents[round_ + 1].id),
        library.add("New.", f"{round_}-new.md"),
    )

    assert await equals_live(services, await services.ledger[Builds].get(*NAME, build.number))


async def test_upload_is_kept_while_any_build_uses_it(services, once):
    _, build = await once(copied, ("A text.", "a.md"))
    ((upload,),) = await run(services, "SELECT DISTINCT upload FROM document_versions")

    await run(
        services,
        "UPDATE document_versions SET obsolete = true FROM documents d WHERE d.id = document_id"
        " AND d.collection_id <> :id",
        id=build.id,
    )
    assert await services.ledger[Leftovers].purge_versions() == []
    await run(services, "UPDATE document_versions SET obsolete = true")
    assert await services.ledger[Leftovers].purge_versions() == [upload]


async def test_build_of_erased_collection_is_not_found(services, library):
    await library.add("A text.", "a.md")
    build = await services.ledger[Builds].get(*NAME, 1)
    await services.ledger[Erasures].start(*NAME)

    with pytest.raises(NotFound, match="no collection 'default'"):
        await services.ledger[Builds].progress(build)
    with pytest.raises(NotFound, match="no collection 'default'"):
        await services.ledger[Builds].differences(build)


async def test_build_does_not_affect_another_tenant(services, library):
    other = Library(services, "other")
    await library.add("A text.", "a.md")
    await other.add("A text.", "a.md")

    build = await filled(services)

    assert await run(services, "SELECT tenant, count(*) FROM documents GROUP BY 1 ORDER BY 1") == [
        ("default", 2),
        ("other", 1),
    ]
    assert build.tenant == "default"
    with pytest.raises(NotFound):
        await services.ledger[Builds].get("other", "default", 2)


# --- switch ---


async def searched(services, library, question, **more):
    collection = await library.collection()
    return (await services.retriever.retrieve(collection, Query(question, **more))).chunks


async def test_switch_keeps_document_ids(services, library, once):
    (document,) = await once(ready, ("The harbour opens at seven.", "a.md"))
    (before,) = await searched(services, library, "When does the harbour open?")
    build = await filled(services, questions_per_chunk=3)
    await work(services)

    tried = await services.retriever.retrieve(
        await services.ledger[Builds].collection(build), Query("When does the harbour open?")
    )
    assert [chunk.document_id for chunk in tried.chunks] == [str(document.id)]

    switched = await services.ledger[Builds].switch(*NAME, build.number)

    assert switched.state == BuildState.LIVE
    live = await services.ledger[Collections].get(*NAME)
    assert (live.id, live.options.questions_per_chunk) == (build.id, 3)
    (after,) = await searched(services, library, "When does the harbour open?")
    assert after.document_id == before.document_id == str(document.id)
    assert after.row_id != before.row_id
    found = await services.ledger[Documents].get("default", document.id)
    assert (found.id, found.state, found.created_at) == (document.id, "ready", document.created_at)
    assert [b.state for b in await services.ledger[Builds].list(*NAME)] == ["following", "live"]


async def test_queries_after_switch_accept_original_document_ids(services, library, provider, client):
    first = await library.add("The harbour opens at seven.", "a.md")
    await library.add("The harbour closes at nine.", "b.md")
    await work(services)
    build = await filled(services)
    await work(services)
    await services.ledger[Builds].switch(*NAME, build.number)

    reply = await client.post(
        "/v1/retrieve", json={"question": "When does the harbour open?", "document_ids": [str(first.id)]}
    )

    assert [chunk["document_id"] for chunk in reply.json()["chunks"]] == [str(first.id)]
    deleted = await client.delete(f"/v1/documents/{first.id}")
    assert deleted.status_code == 204
    assert await equals_live(services, await services.ledger[Builds].get(*NAME, 1))


async def test_rollback_contains_later_changes(services, library, provider):
    document = await library.add("The harbour opens at seven.", "a.md")
    await work(services)
    build = await filled(services)
    await work(services)
    await services.ledger[Builds].switch(*NAME, build.number)
    await library.add("The market opens at eight.", "b.md")
    await library.add("The harbour opens at nine.", "a.md")
    await work(services)

    await services.ledger[Builds].switch(*NAME, 1)

    texts = {chunk.text for chunk in await searched(services, library, "When does it open?", top_k=5)}
    assert texts == {"The market opens at eight.", "The harbour opens at nine."}
    assert (await services.ledger[Documents].get("default", document.id)).id == document.id
    assert await equals_live(services, await services.ledger[Builds].get(*NAME, 2))


@guards(
    "shared/ledger/builds/builds.py",
    "await build_sync.start_newest(connection, ",
    "(lambda *_: None)(connection, ",
    means="a switch loses an edit of the previous build",
    case="True",
)
@pytest.mark.parametrize("parsed", [True, False])
async def test_switch_to_lagging_build_loses_no_edit(services, library, parsed, once):
    """The new build must first show the visible version; only the previous build contains the edit."""
    await once(ready, ("The harbour opens at seven.", "a.md"))
    build = await filled(services)
    if parsed:
        await work(services, "parse")
    await library.add("The harbour opens at nine.", "a.md")
    assert (await services.ledger[Builds].differences(build)).stale == ["a.md"]

    await services.ledger[Builds].switch(*NAME, build.number)
    await finish_work(services)

    assert [c.text for c in await searched(services, library, "harbour")] == ["The harbour opens at nine."]
    assert await equals_live(services, await services.ledger[Builds].get(*NAME, 1))


async def test_switch_to_unfinished_or_missing_build_is_refused(services, library):
    await library.add("A text.", "a.md")
    build = await started(services)

    with pytest.raises(Conflict, match="The build 2 is filling, and not following or live"):
        await services.ledger[Builds].switch(*NAME, build.number)
    with pytest.raises(NotFound, match="no build 7"):
        await services.ledger[Builds].switch(*NAME, 7)


async def test_concurrent_switches_result_in_one_live_build(services, library):
    await library.add("A text.", "a.md")
    first = await filled(services)
    await services.ledger[Builds].switch(*NAME, first.number)
    second = await filled(services)

    await asyncio.gather(*(services.ledger[Builds].switch(*NAME, number) for number in (1, second.number, 1, 2)))

    states = [b.state for b in await services.ledger[Builds].list(*NAME)]
    assert sorted(states) == ["following", "following", "live"]


async def test_queued_switches_do_not_deadlock(services, library):
    """The first switch waited for a build that is no longer live; it must not hold a lock that the second one needs."""
    await library.add("A text.", "a.md")
    builds, switch = services.ledger[Builds], Builds.switch.__wrapped__
    await builds.switch(*NAME, (await filled(services)).number)
    await filled(services)

    async with services.database.transaction() as third, services.database.transaction() as upload:
        await third.execute(
            Statement("UPDATE collections SET build_state = 'following', live_until = now() WHERE build = 2")
        )
        await third.execute(Statement("UPDATE collections SET build_state = 'live' WHERE build = 3"))
        first = asyncio.create_task(switch(builds, *NAME, 1))
        await until_blocked(services.database)
        pid = (await upload.execute(Statement("SELECT pg_backend_pid()"))).scalar_one()
        await upload.execute(Statement("SELECT 1 FROM collections WHERE build = 1 FOR KEY SHARE"))
        await third.commit()
        waits_for_upload = f"SELECT 1 FROM pg_stat_activity WHERE {pid} = ANY(pg_blocking_pids(pid))"
        await eventually(lambda: run(services, waits_for_upload))
        second = asyncio.create_task(switch(builds, *NAME, 2))
        await until_blocked(services.database, 2)
        await upload.rollback()
    await asyncio.gather(first, second)

    states = [b.state for b in await builds.list(*NAME)]
    assert sorted(states) == ["following", "following", "live"]


@guards(
    "shared/ledger/documents/build_sync.sql",
    "AND {is_live} FOR UPDATE",
    "AND {is_live}",
    "ORDER BY build FOR UPDATE",
    "ORDER BY build",
    means="a switch waits for neither an upload nor another switch",
)
async def test_old_build_live_time_ends_after_switch_locks(services, library):
    await library.add("A text.", "a.md")
    build = await filled(services)
    async with services.database.begin() as connection:
        await connection.execute(Statement("SELECT 1 FROM collections FOR KEY SHARE"))
        switching = asyncio.create_task(services.ledger[Builds].switch(*NAME, build.number))
        await until_blocked(services.database)
        ((blocked_at,),) = await run(services, "SELECT clock_timestamp()")
    await switching

    assert (await services.ledger[Builds].get(*NAME, 1)).live_until > blocked_at


async def test_options_changed_during_switch_apply_to_live_build(services, library):
    await library.add("A text.", "a.md")
    build = await filled(services)

    async def change_during_switch():
        switching = asyncio.create_task(services.ledger[Builds].switch(*NAME, build.number))
        await until_blocked(services.database)
        changed = await services.ledger[Collections].ensure(
            *NAME, embedding_model=build.embedding_model, options=CollectionOptions(questions_per_chunk=7)
        )
        await switching
        return changed

    changed = await blocked(services, "SELECT 1 FROM collections FOR KEY SHARE", change_during_switch, sessions=2)

    assert (changed.id, changed.options.questions_per_chunk) == (build.id, 7)
    assert [b.options.questions_per_chunk for b in await services.ledger[Builds].list(*NAME)] == [None, 7]


async def test_reindex_during_switch_applies_to_live_build(services, once):
    _, build = await once(copied, ("A text.", "a.md"))
    old = await services.ledger[Collections].get(*NAME)
    await services.ledger[Builds].switch(*NAME, build.number)

    assert (await services.ledger[Documents].reindex(old)).documents == 1

    states = "SELECT collection_id, state FROM documents"
    assert set(await run(services, states)) == {(old.id, "ready"), (build.id, "queued")}


async def test_upload_to_outdated_build_reaches_both_builds(services, library, provider):
    old = await library.new("Known before.", "a.md")
    await library.add("A text.", "b.md")
    build = await filled(services)
    await services.ledger[Builds].switch(*NAME, build.number)

    submission = await services.ledger[Documents].submit(old)

    assert submission.accepted
    assert await equals_live(services, await services.ledger[Builds].get(*NAME, 1))
    again = await services.ledger[Documents].submit(old)
    assert (again.accepted, again.document.id) == (False, submission.document.id)


@pytest.mark.parametrize("round_", range(4))
async def test_uploads_around_switch_have_same_winner(services, library, round_):
    await library.add("A text.", "a.md")
    build = await filled(services)
    versions = [await library.new(f"Text number {number}.", "a.md") for number in range(6)]

    async def switch():
        await asyncio.sleep(0.002 * round_)
        await services.ledger[Builds].switch(*NAME, build.number)

    await asyncio.gather(*(services.ledger[Documents].submit(new) for new in versions), switch())

    assert await equals_live(services, await services.ledger[Builds].get(*NAME, 1))


async def test_upload_concurrent_with_switch_reaches_both_builds(services, library):
    await library.add("A text.", "a.md")
    build = await filled(services)

    async def upload_and_switch():
        return await asyncio.gather(library.add("Edited.", "a.md"), services.ledger[Builds].switch(*NAME, build.number))

    await blocked(services, "SELECT 1 FROM documents FOR UPDATE", upload_and_switch)

    assert await equals_live(services, await services.ledger[Builds].get(*NAME, 1))


# --- drop ---


async def cleaned(services):
    """Clean up until no work is left, as if every lease had expired."""
    for _ in range(20):
        await services.cleaner.clean()
        await run(services, "UPDATE sweeps SET due_at = now()")
        await run(
            services, "UPDATE collections SET emptied_at = now() - interval '1 hour' WHERE emptied_at IS NOT NULL"
        )
        dropping = await run(services, "SELECT 1 FROM collections WHERE build_state = 'dropping'")
        if not dropping and not await run(services, "SELECT 1 FROM sweeps"):
            return
    raise AssertionError("cleaning did not finish")


async def test_dropped_build_is_deleted_completely(services, library, provider):
    await library.add("A text.", "a.md")
    await library.add("Another text.", "b.md")
    await work(services)
    build = await filled(services)
    await work(services)
    assert await services.index.count_points(build.location)
    await services.ledger[Counters].fold(timedelta())

    await services.ledger[Builds].drop(*NAME, build.number)
    await cleaned(services)

    assert await services.index.count_points(build.location) == 0
    tallied = "SELECT part FROM {} WHERE counted = 'documents'"
    assert await run(services, f"{tallied.format('tallies')} UNION {tallied.format('tally_changes')}") == [
        (str((await services.ledger[Collections].get(*NAME)).id),)
    ]
    assert [b.number for b in await services.ledger[Builds].list(*NAME)] == [1]
    live = await services.ledger[Collections].get(*NAME)
    for table in ("documents", "spent_by_day"):
        assert await run(services, f"SELECT DISTINCT collection_id FROM {table}") == [(live.id,)] * (
            table == "documents"
        )
    assert await run(services, "SELECT count(*) FROM chunks WHERE document_id NOT IN (SELECT id FROM documents)") == [
        (0,)
    ]
    assert await run(services, DIFFERENCES) == []
    assert len(await rows_of(services, live)) == 2
    assert await searched(services, library, "text")


async def test_dropped_build_keeps_uploads_of_live_build(services, library, provider):
    document = await library.add("A text.", "a.md")
    (part,) = await services.uploads.store_pack([b"Another text."])
    packed = await library.new("", "b.md")
    packed = dataclasses.replace(packed, upload=part.name, size_bytes=part.size_bytes, content_hash=part.sha256)
    in_pack = (await services.ledger[Documents].submit(packed)).document
    await work(services)
    build = await filled(services)
    await work(services)

    await services.ledger[Builds].drop(*NAME, build.number)
    await cleaned(services)
    await run(services, "UPDATE outdated_objects SET due_at = now()")
    await services.cleaner.remove_outdated()

    for each, content in ((document, b"A text."), (in_pack, b"Another text.")):
        stored = await services.ledger[Documents].upload("default", each.id)
        pieces = [piece async for piece in services.uploads.pieces(stored.upload, stored.size_bytes)]
        assert b"".join(pieces) == content
    assert await run(services, "SELECT name FROM outdated_objects") == []


async def test_live_build_cannot_be_dropped(services, library):
    await library.add("A text.", "a.md")

    with pytest.raises(Conflict, match="The build 1 is live"):
        await services.ledger[Builds].drop(*NAME, 1)


async def test_former_live_build_is_dropped_after_a_minute(services, library, once):
    _, build = await once(copied, ("A text.", "a.md"))
    await services.ledger[Builds].switch(*NAME, build.number)
    before = await services.ledger[Builds].drop(*NAME, 1)

    await services.cleaner.clean()
    assert len(await rows_of(services, before)) == 1
    await library.add("Not followed.", "b.md")
    assert len(await rows_of(services, before)) == 1
    await run(
        services, "UPDATE collections SET live_until = now() - interval '61 seconds' WHERE live_until IS NOT NULL"
    )
    await cleaned(services)

    assert [b.number for b in await services.ledger[Builds].list(*NAME)] == [2]


async def test_late_points_of_dropped_build_are_deleted(services, once):
    await once(ready, ("A text.", "a.md"))
    build = await filled(services)
    await work(services, "parse")
    late = await services.ledger[IndexWork].claim(10)
    assert late
    await services.ledger[Builds].drop(*NAME, build.number)
    await cleaned(services)

    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, late)])
    assert await services.index.count_points(build.location)
    await cleaned(services)

    assert await services.index.count_points(build.location) == 0


async def test_dropped_build_costs_stay_with_collection(services, once):
    await once(ready, ("A text.", "a.md"))
    before = await services.ledger[Costs].sums("default")
    build = await filled(services, questions_per_chunk=2)
    await work(services)
    both = await services.ledger[Costs].sums("default")
    await services.ledger[Costs].fold()
    await services.ledger[Builds].drop(*NAME, build.number)
    await cleaned(services)

    after = await services.ledger[Costs].sums("default")

    assert after == both != before
    assert {cost.collection for cost in after} == {"default"}


# --- accepted questions and dead letters ---

SECTIONS = (
    "# Leave\n\n" + "Everybody has thirty days of leave. " * 30 + "\n\n# Pay\n\n" + "Salaries are paid monthly. " * 30
)
USER_QUESTION = "May somebody stay home with sick children?"


async def chunk_ids(services, build, containing=""):
    """Return the ids of chunks of a build's live versions that contain a text, in order."""
    statement = """
        SELECT c.id, t.content ->> 'text' FROM documents d
        JOIN chunks c ON c.document_id = d.id AND c.version = d.live_version
        JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
        WHERE d.collection_id = :id AND d.state <> 'deleting' ORDER BY d.external_id, c.ordinal"""
    return [chunk for chunk, words in await run(services, statement, id=build.id) if containing in words]


async def logged(services, build, chunk, question=USER_QUESTION):
    query_id = uuid4()
    await services.ledger[QueryLog].append([QueryLogEntry(query_id, "default", build.id, question, [str(chunk)])])
    return query_id


async def accepted(services, build, chunk, question=USER_QUESTION):
    query_id = await logged(services, build, chunk, question)
    return await services.ledger[Feedback].accept("default", query_id, chunk, most=20)


async def questions_of(services, build):
    statement = "SELECT chunk_id, question, state FROM accepted_questions WHERE collection_id = :id ORDER BY 2, 1"
    return await run(services, statement, id=build.id)


async def test_accepted_question_is_mirrored_and_retracted_in_both(services, provider, once):
    _, build = await once(copied, (SECTIONS, "a.md"))
    live = await services.ledger[Collections].get(*NAME)
    (chunk,) = await chunk_ids(services, live, "Everybody")
    (other,) = await chunk_ids(services, build, "Everybody")
    embedded = provider.stats()["embedded_inputs"]

    assert (await accepted(services, live, chunk)).outcome == "accepted"
    await work(services)

    assert (
        embedded < provider.stats()["embedded_inputs"] <= embedded + 2
    )  # the first build embeds it; the second one may reuse that
    assert await questions_of(services, live) == [(chunk, USER_QUESTION, "indexed")]
    assert await questions_of(services, build) == [(other, USER_QUESTION, "indexed")]
    query_id = await logged(services, live, chunk)
    assert (await services.ledger[Feedback].retract("default", query_id, chunk)).outcome == "retracted"
    await work(services)
    await clean(services)
    assert await questions_of(services, live) == await questions_of(services, build) == []


async def test_build_with_other_chunks_maps_question_by_overlap(services, provider, once):
    await once(ready, (SECTIONS, "a.md"))
    live = await services.ledger[Collections].get(*NAME)
    (chunk,) = await chunk_ids(services, live, "Everybody")
    await accepted(services, live, chunk)
    await work(services)

    build = await filled(services, chunk_max_chars=400)
    await work(services)

    ((chunk_id, question, state),) = await questions_of(services, build)
    assert (question, state) == (USER_QUESTION, "indexed")
    assert chunk_id in await chunk_ids(services, build, "Everybody")
    assert len(await chunk_ids(services, build)) > len(await chunk_ids(services, live))
    provider.reset()
    await work(services)
    assert provider.stats()["calls"] == 0


async def test_feedback_on_previous_build_reaches_live_one(services, once):
    _, build = await once(copied, (SECTIONS, "a.md"))
    before = await services.ledger[Collections].get(*NAME)
    (chunk,) = await chunk_ids(services, before, "Salaries")
    await services.ledger[Builds].switch(*NAME, build.number)

    assert (await accepted(services, before, chunk)).outcome == "accepted"
    await work(services)

    assert [q[1:] for q in await questions_of(services, build)] == [(USER_QUESTION, "indexed")]
    assert await questions_of(services, before) == [(chunk, USER_QUESTION, "indexed")]
    (shown,) = await services.ledger[Feedback].page(await services.ledger[Collections].get(*NAME))
    assert shown.document_id in [d.id for d in await services.ledger[Documents].page("default")]


async def test_accepted_questions_reach_build_created_later(services, once):
    await once(ready, (SECTIONS, "a.md"))
    before = await services.ledger[Collections].get(*NAME)
    build = await filled(services)
    (chunk,) = await chunk_ids(services, before, "Everybody")
    await accepted(services, before, chunk)
    await services.ledger[Builds].switch(*NAME, build.number)

    await work(services)
    await work(services, "index")

    (other,) = await chunk_ids(services, build, "Everybody")
    assert await questions_of(services, build) == [(other, USER_QUESTION, "indexed")]
    assert await questions_of(services, before) == [(chunk, USER_QUESTION, "indexed")]


async def test_question_rejected_by_model_is_not_retried_forever(services, once):
    await once(ready, (SECTIONS, "a.md"))
    live = await services.ledger[Collections].get(*NAME)
    (chunk,) = await chunk_ids(services, live, "Everybody")
    await accepted(services, live, chunk)
    await work(services)
    build = await filled(services)
    await work(services)
    await run(services, "UPDATE accepted_questions SET state = 'waiting' WHERE collection_id = :id", id=build.id)
    await run(services, "UPDATE accepted_questions SET state = 'refused' WHERE collection_id = :id", id=build.id)

    ((document,),) = await run(services, "SELECT id FROM documents WHERE collection_id = :id", id=build.id)
    async with services.database.begin() as connection:
        await copy_from_live(connection, [document])

    assert [q[2] for q in await questions_of(services, build)] == ["refused"]


UNREADABLE_PDF = "%PDF-1.4 cut short"


async def test_discarded_edit_is_discarded_in_every_build(services, library, provider):
    document = await library.add("A good text.", "a.md")
    failed = await library.add(UNREADABLE_PDF, "b.md")
    await finish_work(services)
    build = await filled(services)
    await finish_work(services)
    await library.add(UNREADABLE_PDF + "!", "a.md")
    await finish_work(services)
    assert (await services.ledger[Builds].progress(build)).documents == {"failed": 2}
    letters = await services.ledger[DeadLetters].page("default")
    assert {letter.document_id for letter in letters} == {document.id, failed.id}

    await services.ledger[DeadLetters].discard("default", Choice())
    await finish_work(services)

    assert (await services.ledger[Documents].get("default", document.id)).state == "ready"
    assert await equals_live(services, build)
    assert (await services.ledger[Builds].progress(build)).documents == {"ready": 1}


async def test_failures_in_build_are_retried_with_document(services, library, provider):
    document = await library.add("A good text.", "a.md")
    await work(services)
    build = await filled(services)
    await run(services, "UPDATE documents SET state = 'parsing' WHERE collection_id = :id", id=build.id)
    await run(services, "UPDATE documents SET state = 'failed', error = 'x' WHERE collection_id = :id", id=build.id)

    (letter,) = await services.ledger[DeadLetters].page("default")
    assert (letter.id, letter.document_id, letter.reason) == (document.id, document.id, "x")
    resolved = await services.ledger[DeadLetters].retry("default", Choice(document_id=document.id))
    await work(services)

    assert resolved.documents == 1
    assert (await services.ledger[Builds].progress(build)).documents == {"ready": 1}


@pytest.mark.parametrize("parsed", [True, False], ids=["before the copy", "after the copy"])
async def test_failed_edit_keeps_build_equal_to_live(services, library, parsed, once):
    (document,) = await once(ready, ("The harbour opens at seven.", "a.md"))
    await library.add(UNREADABLE_PDF, "a.md")
    if parsed:
        await finish_work(services)

    build = await filled(services)
    await finish_work(services)
    await services.ledger[Builds].switch(*NAME, build.number)

    assert [c.text for c in await searched(services, library, "harbour")] == ["The harbour opens at seven."]
    assert (await services.ledger[Documents].get("default", document.id)).state == "failed"
    assert await equals_live(services, await services.ledger[Builds].get(*NAME, 1))


async def test_switch_before_parsing_keeps_visible_version(services, library, once):
    await once(ready, ("The harbour opens at seven.", "a.md"))
    build = await filled(services)
    await library.add(UNREADABLE_PDF, "a.md")
    await finish_work(services)
    await services.ledger[Builds].switch(*NAME, build.number)

    assert [c.text for c in await searched(services, library, "harbour")] == ["The harbour opens at seven."]
    assert (await services.ledger[Builds].progress(build)).documents == {"failed": 1}


async def test_document_unreadable_in_build_reaches_final_state(services, library, monkeypatch, once):
    await once(ready, ("The harbour opens at seven.", "a.md"))
    build = await filled(services)
    await library.add(UNREADABLE_PDF, "a.md")
    await run(
        services,
        "UPDATE document_versions v SET upload = upload || '-gone' FROM documents d"
        " WHERE d.id = v.document_id AND v.version = d.live_version",
    )
    await run(services, "UPDATE documents SET state = 'parsing' WHERE collection_id = :id", id=build.id)
    await run(
        services,
        "UPDATE document_versions v SET upload = upload || '-gone' FROM documents d"
        " WHERE d.id = v.document_id AND d.collection_id = :id",
        id=build.id,
    )
    await run(services, "UPDATE documents SET state = 'queued' WHERE collection_id = :id", id=build.id)

    await finish_work(services)

    assert (await services.ledger[Builds].progress(build)).documents == {"failed": 1}
    assert (await services.ledger[Builds].differences(build)).none
