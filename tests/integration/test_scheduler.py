"""The scheduler: steps run independently, continue while they are full, and run in one elected process."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import pairwise

import pytest
from redis.asyncio import Redis

from features.feedback.ledger.feedback import Feedback
from features.feedback.retraction import delete_retracted
from shared.broker.wakeups import Wakeups
from shared.domain.errors import Unavailable
from shared.domain.stages.indexing import IndexOutcome
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres import election
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.election import Election
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.indexing import IndexWork
from shared.settings import Settings
from shared.vectors.index import Index
from tests.conftest import Library
from tests.integration.test_interleavings import differences, run
from tests.integration.test_ledger import parsed
from tests.support.api import work
from tests.support.clock import in_virtual_time
from tests.support.elapsed import age_rows
from tests.support.planted import guards
from tests.support.refused import refusing
from tests.support.waiting import TIMEOUT_SECONDS, eventually
from workers import scheduler
from workers.scheduler import Step, repeat, work_while_elected

HOUR = timedelta(hours=1)
SOON = timedelta(milliseconds=10)


class Candidate(Election):
    """A candidate that counts its attempts to take or extend the lease."""

    attempts = 0

    async def take(self):
        taken = await super().take()
        self.attempts += 1
        return taken

    async def repeats(self):
        """Wait until the candidate has made two more attempts, of which the second one started after this call."""
        enough = self.attempts + 2
        await eventually(lambda: self.attempts >= enough)


@pytest.fixture
async def elections(services, monkeypatch):
    """Yield a function that makes candidates; no process is elected yet, and no lease ends by itself."""
    monkeypatch.setattr(election, "LEASE", HOUR)
    monkeypatch.setattr(scheduler, "_EXTEND_EVERY", timedelta(seconds=0.05))
    reset = "UPDATE deployment SET scheduler = NULL, scheduler_until = NULL"
    await run(services, reset)
    yield lambda: Candidate(services.database)
    await run(services, reset)


@dataclass(frozen=True)
class Elected:
    """The part of the services that an election needs."""

    election: Election
    settings: Settings | None = None
    database: Database | None = None


async def test_failing_step_does_not_block_others(elections):
    calls, stopping = [], asyncio.Event()

    async def count_wake():
        calls.append("wake")

    async def fails():
        calls.append("fail")
        raise RuntimeError("a bug")

    steps = [Step("hang", SOON, asyncio.Event().wait), Step("fail", SOON, fails), Step("wake", SOON, count_wake)]
    running = asyncio.create_task(work_while_elected(Elected(elections()), steps, stopping))
    await eventually(lambda: calls.count("wake") >= 10 and calls.count("fail") >= 3)
    stopping.set()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await running


@in_virtual_time
async def test_failing_step_backs_off():
    times, stopping = [], asyncio.Event()

    async def fails():
        times.append(asyncio.get_running_loop().time())
        if len(times) == 8:
            stopping.set()
        raise Unavailable("unavailable", component="qdrant")

    await repeat(Step("fail", timedelta(seconds=1), fails), stopping)

    assert [after - before for before, after in pairwise(times)] == [1, 2, 4, 8, 16, 30, 30]


@in_virtual_time
async def test_full_step_continues_at_once():
    calls, stopping = [], asyncio.Event()

    async def full():
        calls.append(1)
        if len(calls) == 20:
            stopping.set()
        return True

    await repeat(Step("full", HOUR, full), stopping)

    assert asyncio.get_running_loop().time() < HOUR.total_seconds()


async def test_standby_replaces_killed_scheduler_after_lease(services, elections):
    calls = []

    def start(name, candidate):
        async def work():
            calls.append(name)

        return asyncio.create_task(work_while_elected(Elected(candidate), [Step(name, SOON, work)], asyncio.Event()))

    async def release_nothing():
        """Release nothing, like a killed process."""

    first, second = elections(), elections()
    first.resign = release_nothing
    running = start("first", first)
    await eventually(lambda: "first" in calls)
    other = start("second", second)
    for _ in range(3):  # together longer than a lease, which the first scheduler extends meanwhile
        await age_rows(services.database, "deployment.scheduler_until", 0.5 * HOUR)
        await first.repeats()
        await second.repeats()
    assert "second" not in calls

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await second.repeats()
    assert "second" not in calls
    await age_rows(services.database, "deployment.scheduler_until", HOUR)
    await eventually(lambda: "second" in calls)

    third = start("third", elections())
    other.cancel()  # the process releases its lease, which would otherwise last for an hour
    await eventually(lambda: "third" in calls)
    third.cancel()
    await asyncio.gather(other, third, return_exceptions=True)


async def test_scheduler_stops_when_another_is_elected(services, elections):
    calls, stopping = [], asyncio.Event()

    async def count_wake():
        calls.append(1)

    candidate = elections()
    running = asyncio.create_task(work_while_elected(Elected(candidate), [Step("wake", SOON, count_wake)], stopping))
    await eventually(lambda: calls)
    await run(services, "UPDATE deployment SET scheduler = 'other', scheduler_until = now() + interval '1 hour'")
    await candidate.repeats()
    await candidate.repeats()  # the steps have ended before the next attempt
    calls.clear()
    await candidate.repeats()
    assert calls == []

    stopping.set()
    await running
    assert await run(services, "SELECT scheduler FROM deployment WHERE scheduler_until IS NOT NULL") == [("other",)]


async def test_concurrent_cleanup_keeps_index_consistent(services, library, provider):
    text = "A text about harbour number {}."
    documents = [await library.add(text.format(number), f"{number}.md", questions=["Where?"]) for number in range(8)]
    await work(services, "parse", "index")
    for number in range(3):
        await library.add(f"Other words about harbour number {number}.", f"{number}.md", questions=["Where?"])
    for document in documents[5:]:
        await services.ledger[Documents].delete("default", document.id)
    await work(services, "parse", "index")

    await asyncio.gather(*(services.cleaner.clean() for _ in range(4)))
    await services.cleaner.clean()

    assert await run(services, "SELECT state, count(*) FROM documents GROUP BY 1") == [("ready", 5)]
    assert await differences(services, library) == []


async def test_work_rejected_by_qdrant_is_queued_last(services, library, provider, monkeypatch):
    monkeypatch.setattr("shared.maintenance.cleanup._SLICE", 2)
    other = Library(services, "other")
    refused = [await library.add(f"Refused text {number}.", questions=[]) for number in range(4)]
    good = await other.add("A good text.", questions=[])
    await work(services, "parse", "index")
    collection = await library.collection()
    await run(services, f"UPDATE collections SET index_name = 'no/such/path' WHERE id = '{collection.id}'")
    for document in refused:
        await services.ledger[Documents].delete("default", document.id)
    await services.ledger[Documents].delete("other", good.id)
    await services.cleaner.purge_versions()

    for _ in range(3):
        await services.cleaner.delete_documents()

    assert await run(services, "SELECT tenant, count(*) FROM documents GROUP BY 1") == [("default", 4)]


async def test_sweeps_rejected_by_qdrant_are_queued_last(services, library, provider, monkeypatch):
    monkeypatch.setattr("shared.maintenance.cleanup._SLICE", 2)
    other = Library(services, "other")
    await other.add("A good text.", "a.md", questions=["Which?"])
    await work(services, "parse", "index")
    await Library(services, "failing").collection()
    await run(services, "UPDATE collections SET index_name = 'no/such/path' WHERE tenant = 'failing'")
    await run(
        services,
        """INSERT INTO sweeps (collection_id, tenant, index_name, document_id, obsolete_version, below_version, due_at)
           SELECT id, tenant, index_name, gen_random_uuid(), 1, 2, now() - interval '1 second'
           FROM collections, generate_series(1, 4) WHERE tenant = 'failing'""",
    )
    await run(
        services,
        """INSERT INTO sweeps (collection_id, tenant, index_name, document_id, obsolete_version, below_version, due_at)
           SELECT d.collection_id, d.tenant, l.index_name, d.id, 0, 1, now()
           FROM documents d JOIN collections l ON l.id = d.collection_id""",
    )

    for _ in range(3):
        await services.cleaner.sweep()

    remaining = "SELECT l.tenant, count(*) FROM sweeps s JOIN collections l ON l.id = s.collection_id GROUP BY 1"
    assert await run(services, remaining) == [("failing", 4)]


@guards(
    "shared/ledger/documents/versions.py",
    'await alone.work_on(obsolete, delete, lambda row: row["document_id"])',
    "await delete(obsolete)",
    means="a version that cannot be deleted delays the deletion of others",
)
@guards(
    "shared/maintenance/cleanup.py",
    "deleted = await alone.work_on(answered, self.leftovers.finish_deletion, lambda document: document.id)",
    "await self.leftovers.finish_deletion(deleted := answered)",
    means="a document that cannot be deleted delays the deletion of others",
)
async def test_document_that_cannot_be_deleted_delays_no_other(services, library, provider):
    bad, good = [await library.add(f"Text number {number}.", questions=[]) for number in range(2)]
    await work(services, "parse", "index")
    (row,) = await run(services, f"SELECT id FROM documents WHERE public_id = '{bad.id}'")
    for document in (bad, good):
        await services.ledger[Documents].delete("default", document.id)

    async with refusing(services.database, "document_versions", "DELETE", *row, column="document_id"):
        await services.cleaner.purge_versions()
    assert await run(services, "SELECT document_id FROM document_versions") == [row]
    await services.cleaner.purge_versions()

    async with refusing(services.database, "documents", "DELETE", *row):
        await services.cleaner.delete_documents()
    assert await run(services, "SELECT id FROM documents") == [row]

    await services.cleaner.delete_documents()
    assert await run(services, "SELECT id FROM documents") == []


@guards(
    "shared/maintenance/cleanup.py",
    "await alone.work_on(await self.finishing.find_ended(), self.finisher.finish, lambda document_id: document_id)",
    "await self.finisher.finish(await self.finishing.find_ended())",
    means="a document that cannot be finished delays others",
)
async def test_document_that_cannot_be_finished_delays_no_other(services, library):
    ledger = services.ledger
    bad, good = [await parsed(services, library, f"done {number}", ready_questions=()) for number in range(2)]
    await ledger[IndexWork].settle([IndexOutcome(chunk, [], 0) for chunk in await ledger[IndexWork].claim(10)])
    (row,) = await run(services, f"SELECT id FROM documents WHERE public_id = '{bad.id}'")

    async def states():
        return [(await ledger[Documents].get("default", document.id)).state for document in (bad, good)]

    async with refusing(services.database, "documents", "UPDATE OF live_version", *row):
        await services.cleaner.finish()
    assert await states() == [DocumentState.INDEXING, DocumentState.READY]

    await run(services, "UPDATE documents SET due_at = now()")
    await services.cleaner.finish()
    assert await states() == [DocumentState.READY, DocumentState.READY]


@guards(
    "workers/scheduler.py",
    "    found: Collection[str] = due\n",
    "    found: Collection[str] = ()\n",
    means="one condition in error stops all steps",
)
async def test_failed_poll_starts_all_steps(services, elections):
    called, stopping = set(), asyncio.Event()
    conditions = {"broken": "SELECT 1 FROM no_table", "idle": "SELECT false"}

    async def call(name):
        called.add(name)

    steps = [Step(name, SOON, partial(call, name), Statement(condition)) for name, condition in conditions.items()]
    elected = Elected(elections(), services.settings, services.database)
    running = asyncio.create_task(work_while_elected(elected, steps, stopping))
    await eventually(lambda: called == conditions.keys())
    stopping.set()
    await asyncio.wait_for(running, TIMEOUT_SECONDS)


async def test_step_without_work_is_not_called(services, elections, monkeypatch):
    called, stopping = [], asyncio.Event()

    async def call(name):
        called.append(name)

    conditions = {"idle": "SELECT false", "due": "SELECT true"}
    steps = [Step(name, SOON, partial(call, name), Statement(condition)) for name, condition in conditions.items()]
    tuning = services.settings.tuning.model_copy(update={"reconcile_interval": SOON})
    elected = Elected(elections(), services.settings.model_copy(update={"tuning": tuning}), services.database)
    running = asyncio.create_task(work_while_elected(elected, steps, stopping))
    await eventually(lambda: len(called) >= 3)
    stopping.set()
    await asyncio.wait_for(running, TIMEOUT_SECONDS)

    assert set(called) == {"due"}


@guards(
    "workers/scheduler.py",
    "services.wakeups.wake(*await services.ledger[Backlogs].due())",
    "pass",
    means="workers are not woken again for due work",
)
async def test_due_work_wakes_workers_of_its_queue(services, library):
    await library.add("A text.", "a.md")
    url = services.settings.redis_url.get_secret_value()
    wakeups = Wakeups(url)

    await scheduler.wake(replace(services, wakeups=wakeups))
    await wakeups.aclose()

    async with Redis.from_url(url) as redis:
        assert await redis.llen("foreask.parse") == 1


async def test_full_step_reports_more_work(services, library, provider, monkeypatch):
    monkeypatch.setattr("shared.maintenance.cleanup._SLICE", 2)
    documents = [await library.add(f"Text number {number}.", questions=[]) for number in range(3)]
    await work(services, "parse", "index")
    for document in documents:
        await services.ledger[Documents].delete("default", document.id)
    await services.cleaner.purge_versions()

    assert [await services.cleaner.delete_documents() for _ in range(2)] == [True, False]
    assert await run(services, "SELECT 1 FROM documents") == []


async def test_running_documents_are_checked_in_slices(services, library, monkeypatch):
    monkeypatch.setattr("shared.maintenance.cleanup._SLICE", 2)
    ledger = services.ledger
    waiting = [await parsed(services, library, f"waits {number}") for number in range(3)]
    await ledger[IndexWork].claim(10)
    done = [await parsed(services, library, f"done {number}", ready_questions=()) for number in range(3)]
    await ledger[IndexWork].settle([IndexOutcome(chunk, [], 0) for chunk in await ledger[IndexWork].claim(10)])

    await services.cleaner.finish()
    await services.cleaner.finish()

    async def states(documents):
        return {(await ledger[Documents].get("default", document.id)).state for document in documents}

    assert await states(waiting) == {DocumentState.INDEXING}
    assert await states(done) == {DocumentState.READY}


async def retract_question(services, library):
    """Index a document and retract its accepted question; the question's points are not removed yet."""
    await library.add("Everybody has thirty days of leave a year.", "l.md", questions=[])
    await work(services, "parse", "index")
    await run(
        services,
        """INSERT INTO accepted_questions (id, tenant, collection_id, document_id, chunk_id, question, state)
           SELECT gen_random_uuid(), c.tenant, d.collection_id, d.id, c.id, 'How long?', 'removing'
           FROM chunks c JOIN documents d ON d.id = c.document_id""",
    )


async def test_hanging_qdrant_locks_no_retracted_rows(services, library, provider):
    """The points wait for Qdrant, but the row is not locked, and a second scheduler skips it."""
    await retract_question(services, library)

    class Hanging(Index):
        reached = asyncio.Event()

        async def delete_by_id(self, *_):
            self.reached.set()
            await asyncio.Event().wait()

    index = Hanging("http://127.0.0.1:9")
    removing = asyncio.create_task(delete_retracted(services.ledger[Feedback], index))
    await index.reached.wait()

    locked = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
    assert await run(services, locked) == [(0,)]
    assert await run(services, "SELECT id FROM accepted_questions FOR UPDATE NOWAIT")
    assert await services.ledger[Feedback].claim_removals(10) == []

    removing.cancel()  # the process is killed
    await asyncio.gather(removing, return_exceptions=True)
    await index.aclose()
    await run(services, "UPDATE accepted_questions SET due_at = now()")  # its claim expires
    await delete_retracted(services.ledger[Feedback], services.index)
    assert await run(services, "SELECT 1 FROM accepted_questions") == []


async def test_expired_removal_claim_settles_nothing(services, library, provider):
    await retract_question(services, library)
    feedback = services.ledger[Feedback]
    late = await feedback.claim_removals(10)
    await run(services, "UPDATE accepted_questions SET due_at = now()")
    held = await feedback.claim_removals(10)

    assert await feedback.settle_removals(late, {question.id for question in late}) == 0
    assert await feedback.claim_removals(10) == []
    assert await feedback.settle_removals(held, {question.id for question in held}) == 1
