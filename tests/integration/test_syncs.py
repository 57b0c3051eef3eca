"""Syncs bring the documents of a source up to date, and delete only documents that two complete listings lacked."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from features.sources.domain import NewSource, SourceChanges, SyncState
from features.sources.ledger.hints import Hints
from features.sources.ledger.notes import SourceNotes
from features.sources.ledger.sources import Sources
from features.sources.ledger.syncs import Syncs
from features.sources.syncing.lookups import Lookups
from features.sources.syncing.merge import PartLimits
from features.sources.syncing.merge import shown as shown_key
from features.sources.syncing.quota import UploadLimits
from features.sources.web.options import CrawlOptions
from features.sources.web.source import Web, open_pages
from features.sources.web.visitor import Politeness
from shared.domain.errors import Conflict, InvalidInput, JobIsOpen, LeaseLost, NotFound, TooLarge, Unreadable
from shared.domain.jobs import JobKind, JobState, PauseReason
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.postgres.statements import Statement
from shared.maintenance.jobs.runner import JobWork, Runner
from tests.support.api import work
from tests.support.planted import guards
from tests.support.site import Site, html, serving_site
from tests.support.sources import LIMITS, Corpus, SyncedCorpus, make_older
from tests.support.waiting import eventually

PATIENT = Politeness(private=True, pause=timedelta())


@pytest.fixture
def corpus():
    return Corpus()


@pytest.fixture
async def synced(services, corpus):
    """Return a source of the collection `default`."""
    synced = SyncedCorpus(services, corpus)
    await synced.add()
    return synced


async def execute(services, statement, **parameters):
    async with services.database.begin() as connection:
        return await connection.execute(Statement(statement), parameters)


async def job_of(services, sync):
    await services.ledger[Jobs].settle()
    return await services.ledger[Jobs].get("default", sync.id)


# --- turns ---


@guards(
    "features/sources/syncing/work.py",
    "            await self._turn.offer()",
    "            pass",
    means="a long listing delays the syncs of another tenant until its end",
)
async def test_long_listing_gives_way_to_another_tenant(services):
    corpora = {tenant: Corpus() for tenant in ("bob", "carol", "dave", "alice", "eve")}
    syncs = dict[str, SyncState]()
    limits = replace(LIMITS, turn=timedelta(0))
    synced = {name: SyncedCorpus(services, each, tenant=name, limits=limits) for name, each in corpora.items()}
    for tenant, corpus in corpora.items():
        corpus.put(*"abcdefghijkl")
        await synced[tenant].add()

    async def start(tenant):
        syncs[tenant] = await services.ledger[Syncs].start(tenant, "docs")

    for tenant in ("bob", "carol", "dave"):
        await start(tenant)
        assert (await services.ledger[JobClaims].claim([JobKind.SYNC])).tenant == tenant
    await start("alice")
    corpora["alice"].at["b"] = lambda: start("eve")
    corpora["eve"].at["e"] = lambda: synced["alice"].require_waiting(syncs["alice"], "Other syncs waited")
    syncing = replace(synced["alice"].syncing(), open_source=lambda source: corpora[source.tenant].open(source))
    turns = list[str]()

    class Counted(JobWork):
        async def work(self, claim):
            turns.append(claim.tenant)
            await syncing.work(claim)

    runner = Runner(services.ledger[JobClaims], {JobKind.SYNC: Counted})
    await runner.take()
    await eventually(lambda: runner.claimed == 0)

    assert len(turns) < 2 * len("abcdefghijkl")  # each turn makes progress
    alice, eve = [await services.ledger[Syncs].get(tenant, syncs[tenant].id) for tenant in ("alice", "eve")]
    assert (alice.state, eve.state, alice.error, eve.error) == (JobState.DONE, JobState.DONE, None, None)
    assert (alice.waiting, eve.waiting) == (None, None)
    assert corpora["alice"].fetched == corpora["eve"].fetched == list("abcdefghijkl")


@guards(
    "features/sources/web/visitor.py",
    "return max(0.0, min(self._sleeping.values()) - time.monotonic())",
    "return 0.0",
    means="two tenants with slow sites stop the syncs of all tenants",
)
async def test_waiting_crawls_give_way_to_third_tenant(services, extractor, reader, monkeypatch):
    monkeypatch.setattr("shared.maintenance.jobs.progress._NEXT_OFFER_SECONDS", 0.05)
    corpus = Corpus()
    corpus.put("a", "b")
    carol = SyncedCorpus(services, corpus, tenant="carol")
    await carol.add()
    slow = Site(robots="User-agent: *\nCrawl-delay: 300\n", missing_status=404)
    slow.replies = {f"/docs/{name}": html(f'<a href="{name}more">{name}</a>') for name in "abcd"}
    async with serving_site(slow) as site:

        def open_source(source):
            if source.tenant == "carol":
                return corpus.open(source)
            return open_pages(
                f"{site.url}/docs/{source.name}", CrawlOptions(), Web(extractor, reader, politeness=PATIENT)
            )

        syncing = replace(carol.syncing(), open_source=open_source)
        runner = Runner(services.ledger[JobClaims], {JobKind.SYNC: lambda: syncing})
        waiting = []
        for tenant, name in (("alice", "a"), ("alice", "b"), ("bob", "c"), ("bob", "d")):
            await SyncedCorpus(services, Corpus(), tenant=tenant, name=name).add()
            waiting.append((tenant, await services.ledger[Syncs].start(tenant, name)))
        await runner.take()
        await eventually(lambda: {f"/docs/{name}" for name in "abcd"} <= set(site.requests))
        assert runner.claimed == 4

        third = await services.ledger[Syncs].start("carol", "docs")
        await eventually(lambda: is_done(services, "carol", third))

        states = Counter([(await services.ledger[Syncs].get(tenant, each.id)).state for tenant, each in waiting])
        assert states == {JobState.RUNNING: 3, JobState.QUEUED: 1}
        assert Counter(site.requests) == {"/robots.txt": 4, **{f"/docs/{name}": 1 for name in "abcd"}}
        await runner.aclose()
        await syncing.parked.aclose()


async def is_done(services, tenant, sync):
    return (await services.ledger[Syncs].get(tenant, sync.id)).state is JobState.DONE


@guards(
    "features/sources/syncing/work.py",
    "async with watched(self.limits.stalled)",
    "async with watched(self.limits.stalled * 1_000_000)",
    means="a listing that hangs keeps its place for ever",
)
async def test_hung_listing_fails_with_reason(services, synced, corpus):
    corpus.put("a", "b", "c")
    corpus.at["b"] = lambda: asyncio.sleep(3_600)
    synced.limits = replace(LIMITS, stalled=timedelta(seconds=0.3))

    sync = await synced.sync()

    assert (sync.state, sync.error) == (JobState.FAILED, "It made no progress for 0.3 seconds, so it was stopped.")
    corpus.restore()
    synced.limits = LIMITS
    assert (await synced.sync()).state == JobState.DONE


@guards(
    "features/sources/syncing/lookups.py",
    "watched(services.limits.stalled) as progressed",
    "watched(services.limits.stalled * 1_000_000) as progressed",
    means="a hint whose entry is never found keeps its slot for ever",
)
async def test_hung_look_fails_with_reason(services, synced, corpus):
    corpus.put("a")
    corpus.at["a"] = lambda: asyncio.sleep(3_600)
    synced.limits = replace(LIMITS, stalled=timedelta(seconds=0.3))
    await services.ledger[Hints].add("default", "docs", ["a"])
    runner = Runner(
        services.ledger[JobClaims], {JobKind.LOOKUP: lambda: Lookups(services.ledger[Hints], synced.syncing())}
    )

    await runner.take()
    await eventually(lambda: runner.claimed == 0)

    lookup = (await services.ledger[Sources].get("default", "docs")).lookup
    assert (lookup.state, lookup.error) == (JobState.FAILED, "It made no progress for 0.3 seconds, so it was stopped.")


@guards(
    "features/sources/syncing/lookups.py",
    "until if looked.hints else None",
    "None",
    means="one entry that cannot be found delays the other hints of its source for ever",
)
async def test_slow_hint_delays_no_earlier_one(services, synced, corpus, monkeypatch):
    monkeypatch.setattr("features.sources.syncing.lookups._PART_SECONDS", 0.1)
    corpus.put("a", "b")
    corpus.at["b"] = lambda: asyncio.sleep(3_600)
    synced.limits = replace(LIMITS, stalled=timedelta(seconds=1))
    await services.ledger[Hints].add("default", "docs", ["a", "b"])
    runner = Runner(
        services.ledger[JobClaims], {JobKind.LOOKUP: lambda: Lookups(services.ledger[Hints], synced.syncing())}
    )

    await runner.take()
    await eventually(lambda: runner.claimed == 0)

    assert await synced.documents() == {"a"}


# --- listing ---


async def test_new_entries_become_documents(services, synced, corpus):
    corpus.put("a.txt", "b/c.txt")

    sync = await synced.sync()

    assert sync.state == JobState.DONE, sync.error
    assert (sync.counts.seen, sync.counts.created) == (2, 2)
    assert await synced.documents() == {"a.txt", "b/c.txt"}
    await work(services)
    assert (await job_of(services, sync)).state == JobState.DONE


async def test_unchanged_entries_write_no_row(services, synced, corpus):
    corpus.put(*map(str, range(5)))
    await synced.sync()
    written = (await execute(services, "SELECT key, xmin::text FROM source_items ORDER BY key")).all()
    corpus.fetched.clear()

    sync = await synced.sync()

    assert sync.counts.unchanged == sync.counts.seen == 5
    assert (await execute(services, "SELECT key, xmin::text FROM source_items ORDER BY key")).all() == written
    assert corpus.fetched == []


@guards(
    "shared/ledger/jobs/job_claims.sql",
    ", ended_at = now(), after = ''",
    ", ended_at = now()",
    means="the name of an erased document stays in the last syncs of its source",
)
async def test_ended_syncs_name_no_entry(services, synced, corpus):
    corpus.put("a.txt", "b.txt")
    await synced.sync()
    corpus.fails_after = 1
    synced.limits = WITHOUT_RETRIES
    await synced.sync()

    found = (await execute(services, "SELECT state, after FROM syncs ORDER BY number")).all()
    assert [after for _, after in found] == ["", ""]


async def test_changed_entry_starts_next_version(services, synced, corpus):
    corpus.put("a.txt", "b.txt")
    await synced.sync()
    corpus.put("b.txt", text="The harbour opens at seven.")
    corpus.fetched.clear()

    sync = await synced.sync()

    assert (sync.counts.changed, sync.counts.unchanged, corpus.fetched) == (1, 1, ["b.txt"])
    page = await services.ledger[Documents].page("default")
    assert {each.external_id: each.version for each in page} == {"docs/a.txt": 1, "docs/b.txt": 2}


async def test_touched_entry_with_same_content_is_unchanged(services, synced, corpus):
    corpus.put("a.txt")
    await synced.sync()
    corpus.versions["a.txt"] = "touched"

    assert (await synced.sync()).counts.unchanged == 1
    corpus.fetched.clear()
    await synced.sync()

    assert corpus.fetched == []
    (document,) = await services.ledger[Documents].page("default")
    assert document.version == 1


async def test_entry_that_vanishes_before_fetch_is_left_out(synced, corpus):
    async def vanish():
        corpus.remove("a.txt")

    corpus.put("a.txt", "b.txt")
    corpus.at["b.txt"] = vanish

    assert (await synced.sync()).counts.created == 1
    assert await synced.documents() == {"b.txt"}


@guards(
    "features/sources/syncing/work.py",
    "await self._list(claim, sync)",
    'await __import__("asyncio").gather(self._list(claim, sync), return_exceptions=True)',
    means="documents are deleted after a failed listing",
)
async def test_listing_out_of_order_fails_and_deletes_nothing(synced, corpus):
    corpus.put("a", "b", "c")
    await synced.sync()
    corpus.is_reversed = True

    sync = await synced.sync()

    assert sync.state == JobState.FAILED
    assert sync.error == "The listing of the source is not in order: 'b' follows 'c'. Nothing was deleted."


REFUSED = {
    "nul\0": "Its name contains the character NUL: rename it.",
    "surrogate\ud800": "Its name is not UTF-8: rename it.",
    "ü" * 600: "Its name has 1,200 bytes, and a name may have 1,024: shorten it.",
    "denied": "It is locked.",
    "empty": "It is empty.",
    "large": "It has 20,000 bytes; a document has at most 10,000.",
    "broken": "It is damaged.",
    "huge": "It is huge.",
}


async def test_refused_entries_are_listed_and_others_continue(services, synced, corpus):
    corpus.put("a", *REFUSED, "z", text="The harbour opens at six.")
    corpus.refused["denied"] = "It is locked."
    corpus.failing = {"broken": Unreadable("It is damaged."), "huge": TooLarge("It is huge.")}
    corpus.texts |= {"empty": "", "large": "x" * 20_000}

    sync = await synced.sync()

    assert {entry.key: entry.reason for entry in sync.refused} == {
        shown_key(key): reason for key, reason in REFUSED.items()
    }
    assert (sync.counts.refused, sync.counts.created) == (len(REFUSED), 2)
    assert await synced.documents() == {"a", "z"}
    await work(services)
    assert (await job_of(services, sync)).state == JobState.DONE_WITH_ERRORS


async def test_refused_entry_keeps_its_document(services, synced, corpus):
    corpus.put("a", "b")
    await synced.sync()
    corpus.put("a", text="Changed.")
    corpus.failing["a"] = Unreadable("It is damaged.")
    for _ in range(2):
        assert (await synced.sync()).counts.refused == 1
        await make_older(services)

    assert await synced.documents() == {"a", "b"}
    corpus.restore()
    assert (await synced.sync()).counts.changed == 1


# --- failures ---


async def test_failing_source_is_retried(synced, corpus):
    corpus.put(*map(str, range(10)))
    corpus.fails_after = 5

    async def recover():
        corpus.fails_after = None

    corpus.at["9"] = recover
    corpus.at["8"] = recover

    sync = await synced.sync()

    assert sync.state == JobState.DONE
    assert sync.counts.created == sync.counts.seen == 10


WITHOUT_RETRIES = replace(LIMITS, timeout=timedelta(0))


async def test_failed_listing_fails_job_and_next_sync_starts(services, synced, corpus):
    corpus.put("a")
    corpus.fails_after = 0
    synced.limits = WITHOUT_RETRIES

    failed = await synced.sync()

    assert (failed.state, failed.error) == (JobState.FAILED, "the corpus does not answer")
    job = await job_of(services, failed)
    assert (job.state, job.error) == (JobState.FAILED, "the corpus does not answer")
    corpus.restore()
    assert (await synced.sync()).counts.created == 1
    assert corpus.closed == 2


async def test_sync_starts_while_earlier_documents_are_processed(services, synced, corpus):
    corpus.put("a")
    corpus.fails_after = 1
    synced.limits = WITHOUT_RETRIES
    failed = await synced.sync()
    assert failed.state == JobState.FAILED
    corpus.restore()

    assert (await synced.sync()).state == JobState.DONE


async def test_second_sync_of_a_source_conflicts(services, synced):
    sync = await services.ledger[Syncs].start("default", "docs")
    with pytest.raises(JobIsOpen) as raised:
        await services.ledger[Syncs].start("default", "docs")
    assert raised.value.job_id == sync.id


@guards(
    "features/sources/ledger/listings.sql",
    "lost_leases = 0 WHERE id = :id AND token = :token",
    "lost_leases = 0 WHERE id = :id",
    means="a worker that lost its lease saves a part of a listing",
)
async def test_worker_without_lease_saves_nothing(services, synced, corpus):
    """Two workers read the same part; the first one, whose lease has expired, reaches its end first."""
    corpus.put(*"abcdefgh")
    reached, released = [asyncio.Event(), asyncio.Event()], [asyncio.Event(), asyncio.Event()]
    visits = iter((0, 1))

    async def wait():
        visit = next(visits)
        reached[visit].set()
        await released[visit].wait()

    async def worker():
        return asyncio.create_task(synced.syncing().work(await services.ledger[JobClaims].claim([JobKind.SYNC])))

    corpus.at["g"] = wait
    sync = await services.ledger[Syncs].start("default", "docs")
    first = await worker()
    await reached[0].wait()
    await execute(services, "UPDATE job_claims SET leased_until = now() - interval '1 second'")
    second = await worker()
    await reached[1].wait()
    released[0].set()
    with pytest.raises(LeaseLost):
        await first
    released[1].set()
    await second

    done = await services.ledger[Syncs].get("default", sync.id)
    assert (done.state, done.counts.seen, done.counts.created) == (JobState.DONE, 8, 8)
    documents = await services.ledger[Documents].page("default")
    assert (len(documents), {each.version for each in documents}) == (8, {1})
    assert corpus.fetched.count("a") == 1


async def test_stopped_worker_releases_sync_which_continues(services, synced, corpus):
    corpus.put(*"abcdefgh")
    reached = asyncio.Event()

    async def wait():
        if not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    corpus.at["g"] = wait
    sync = await services.ledger[Syncs].start("default", "docs")
    async with synced.running():
        await reached.wait()
    assert (await synced.work(sync)).counts.created == 8
    assert corpus.fetched.count("a") == 1


@guards(
    "features/sources/ledger/notes.sql",
    "SET lost_leases = 0",
    "SET lost_leases = lost_leases",
    means="a crawl whose workers die fails although it stores notes",
)
async def test_crawl_that_stores_notes_survives_many_deaths(services, synced):
    await services.ledger[Syncs].start("default", "docs")
    source, lost = (await execute(services, "SELECT id FROM sources")).scalar_one(), []
    for number in range(4):
        claim = await services.ledger[JobClaims].claim([JobKind.SYNC])
        lost.append(claim.lost_leases)
        await services.ledger[SourceNotes].write(source, {f"https://example.org/{number}": b"{}"})
        await execute(services, "UPDATE job_claims SET leased_until = now() - interval '1 second'")

    assert lost == [0, 1, 1, 1]


# --- pause, resume, cancel, intake ---


async def test_paused_job_stops_between_parts_and_continues(services, synced, corpus):
    corpus.put(*"abcdefghijkl")
    sync = await services.ledger[Syncs].start("default", "docs")

    async def pause():
        await services.ledger[Jobs].pause("default", sync.id, PauseReason.USER)

    corpus.at["f"] = pause
    paused = await synced.work(sync)
    assert (paused.state, 0 < paused.counts.seen < 12) == (JobState.QUEUED, True)
    assert not await services.ledger[JobClaims].due()

    corpus.restore()
    await services.ledger[Jobs].resume("default", sync.id)
    done = await synced.work(sync)
    assert (done.state, done.counts.seen, done.counts.created) == (JobState.DONE, 12, 12)


async def test_cancelled_job_stops_its_listing(services, synced, corpus):
    corpus.put(*"abcdefghijkl")
    sync = await services.ledger[Syncs].start("default", "docs")

    async def cancel():
        await services.ledger[Jobs].cancel("default", sync.id)

    corpus.at["f"] = cancel
    cancelled = await synced.work(sync)

    assert cancelled.state == JobState.CANCELLED
    await work(services)
    assert (await job_of(services, sync)).state == JobState.CANCELLED
    corpus.restore()
    assert (await synced.sync()).state == JobState.DONE


async def test_closed_intake_delays_sync(services, synced, corpus):
    corpus.put(*"abcdefgh")
    synced.most_open = -1
    sync = await services.ledger[Syncs].start("default", "docs")
    async with synced.running():
        await eventually(lambda: shown(services, sync.id))
    assert corpus.fetched == []

    synced.most_open = 0
    await eventually(synced.due)
    assert (await synced.work(sync)).counts.created == 8


async def shown(services, sync_id, reason="0 chunks wait for workers, and syncs continue below -1."):
    return (await services.ledger[Syncs].get("default", sync_id)).waiting == reason


# --- limits of the tenant ---


@guards(
    "features/sources/syncing/quota.py",
    " if state is not DocumentState.DELETING)",
    ")",
    means="a tenant cannot add a document instead of a deleted one",
)
async def test_new_entries_above_documents_limit_are_refused(services, library, synced, corpus):
    corpus.put("a", "b", "c")
    await synced.sync()
    corpus.put("d", "e", text="The harbour opens at six.")
    corpus.put("a", text="The harbour of {key} opens at seven.")
    synced.upload_limits = UploadLimits(documents=4)

    sync = await synced.sync()

    assert (sync.counts.changed, sync.counts.created, sync.counts.refused) == (1, 1, 1)
    (refused,) = sync.refused
    assert (refused.key, refused.reason) == (
        "e",
        "This tenant may have 4 documents, and has them: delete some, or ask the operator for more.",
    )
    assert "e" not in corpus.fetched
    await services.ledger[Documents].delete("default", (await library.add("Not from the source.")).id)
    synced.upload_limits = UploadLimits(documents=5)
    assert (await synced.sync()).counts.created == 1


async def test_used_up_bytes_delay_sync(services, synced, corpus):
    corpus.put(*"abcdefgh", text="x" * 10)
    synced.upload_limits = UploadLimits(bytes_per_day=30)
    sync = await services.ledger[Syncs].start("default", "docs")
    reason = "This tenant may upload 30 bytes per day, and has used them: syncs continue after midnight UTC."
    async with synced.running():
        await eventually(lambda: shown(services, sync.id, reason))
    assert len(corpus.fetched) == 3  # one part

    synced.upload_limits = UploadLimits(bytes_per_day=1_000)
    await eventually(synced.due)
    assert (await synced.work(sync)).counts.created == 8


async def test_entry_larger_than_a_day_is_refused(synced, corpus):
    corpus.put("a", text="x" * 31)
    corpus.put("b", text="x" * 3)
    synced.upload_limits = UploadLimits(bytes_per_day=30)

    sync = await synced.sync()

    assert [each.reason for each in sync.refused] == ["It has 31 bytes, and this tenant may upload 30 bytes per day."]
    assert sync.counts.created == 1


# --- deletion ---


def numbered(count):
    return [f"{number:03}" for number in range(count)]


async def list_twice(services, number, total, limits, share):
    """Sync a source, remove some entries, and sync it again, with hours between and afterwards."""
    synced = SyncedCorpus(services, Corpus(), limits=limits)
    await synced.add(max_delete_share=share)
    synced.corpus.put(*numbered(total))
    await synced.sync()
    await make_older(services)
    synced.corpus.remove(*numbered(number))
    assert (await synced.sync()).counts.deleted == 0
    await make_older(services)


IN_ONE_PART = replace(LIMITS, page=100, part=PartLimits())


@pytest.fixture
def lacking(services, corpus, once):
    """Return a function that returns a source whose last listing lacked its first entries, as the next one will.

    Ten deletions, or a tenth, need no approval.
    """

    async def lacking_(number, *, total=12, limits=IN_ONE_PART, share=0.1):
        await once(list_twice, number, total, limits, share)
        corpus.put(*numbered(total)[number:])
        return SyncedCorpus(services, corpus, limits=limits)

    return lacking_


async def test_entry_lacking_in_two_listings_is_deleted(services, lacking):
    synced = await lacking(3, limits=LIMITS)

    sync = await synced.sync()

    assert (sync.counts.missing, sync.counts.deleted, sync.counts.withheld) == (3, 3, 0)
    assert len(await synced.documents()) == 9
    (items,) = (await execute(services, "SELECT count(*) FROM source_items")).one()
    assert items == 9


async def test_entry_lacking_in_close_listings_is_kept(services, synced, corpus):
    corpus.put("a", "b")
    await synced.sync()
    await make_older(services)
    corpus.remove("a")
    for _ in range(2):
        assert (await synced.sync()).counts.deleted == 0
    assert await synced.documents() == {"a", "b"}


@guards(
    "features/sources/ledger/listings.sql",
    "SELECT e.listed_at FROM",
    "SELECT coalesce(e.listed_at, e.ended_at) FROM",
    means="a failed listing counts as the first complete one",
)
async def test_failed_listing_does_not_count_as_complete(services, synced, corpus):
    corpus.put(*"abcdefgh")
    await synced.sync()
    await make_older(services)
    corpus.remove("a")
    corpus.fails_after = 6
    synced.limits = WITHOUT_RETRIES
    failed = await synced.sync()
    assert (failed.state, failed.counts.missing) == (JobState.FAILED, 1)
    await make_older(services)
    corpus.restore()

    assert (await synced.sync()).counts.deleted == 0
    await make_older(services)
    assert (await synced.sync()).counts.deleted == 1


async def test_entry_that_returns_is_forgotten_as_missing(services, synced, corpus):
    corpus.put("a", "z")
    await synced.sync()
    for _ in range(2):
        await make_older(services)
        corpus.remove("a")
        assert (await synced.sync()).counts.missing == 1
        await make_older(services)
        corpus.put("a")
        assert (await synced.sync()).counts.missing == 0
    assert await synced.documents() == {"a", "z"}


@guards(
    "features/sources/ledger/listings.sql",
    " AND i.created_at < y.started_at",
    "",
    means="an item that is made during a listing is missing in it",
    case="g2",
)
@pytest.mark.parametrize("key", ["b2", "g2"])  # in the page that is being read, and in a later one
async def test_item_made_during_listing_is_not_missing(services, synced, corpus, key):
    corpus.put(*"abcdefgh")
    await synced.sync()
    await make_older(services)

    async def make():
        made = "INSERT INTO source_items (source_id, key, version) SELECT id, :key, '1' FROM sources"
        await execute(services, made, key=key)

    corpus.at["c"] = make
    await synced.sync()
    marked = await execute(services, "SELECT key FROM source_items WHERE missing_in IS NOT NULL")
    assert marked.all() == []


@guards(
    "features/sources/ledger/listings.py",
    "deletes = found.deletable <= allowed",
    "deletes = True",
    means="deletions have no bound",
)
async def test_many_deletions_wait_for_approval(services, corpus, lacking):
    synced = await lacking(11)
    corpus.put("new")

    sync = await synced.sync()

    assert (sync.counts.deleted, sync.counts.withheld) == (0, 11)
    job = await job_of(services, sync)
    assert (job.state, job.pause_reason) == (JobState.PAUSED, PauseReason.APPROVAL)
    withheld = await services.ledger[Syncs].withheld("default", "docs")
    assert (withheld.job_id, withheld.deletions, withheld.items) == (sync.id, 11, 13)
    assert list(withheld.keys) == [f"{n:03}" for n in range(11)]


async def test_documents_are_processed_while_deletions_wait(services, corpus, lacking):
    synced = await lacking(11)
    corpus.put("new")
    sync = await synced.sync()
    await work(services)

    job = await job_of(services, sync)

    assert (job.state, job.done, job.total) == (JobState.PAUSED, 1, 1)


async def test_approved_deletions_are_carried_out(services, lacking):
    synced = await lacking(11)
    sync = await synced.sync()

    again = await services.ledger[Syncs].approve("default", "docs", deletions=11)
    done = await synced.work(again)

    assert (again.id, done.counts.deleted, done.counts.withheld) == (sync.id, 11, 0)
    assert len(await synced.documents()) == 1
    assert (await job_of(services, sync)).state == JobState.DONE
    with pytest.raises(Conflict, match="No deletions of the source 'docs' wait for approval"):
        await services.ledger[Syncs].approve("default", "docs", deletions=11)


async def test_more_deletions_than_approved_wait_again(services, lacking):
    synced = await lacking(11)
    await synced.sync()

    done = await synced.work(await services.ledger[Syncs].approve("default", "docs", deletions=10))

    assert (done.counts.deleted, done.counts.withheld) == (0, 11)
    assert (await services.ledger[Syncs].withheld("default", "docs")).deletions == 11


async def test_entry_that_returns_before_approval_is_kept(services, corpus, lacking):
    synced = await lacking(11)
    await synced.sync()
    corpus.put("000")

    done = await synced.work(await services.ledger[Syncs].approve("default", "docs", deletions=11))

    assert done.counts.deleted == 10
    assert "000" in await synced.documents()


async def test_resumed_job_ends_without_deletions(services, lacking):
    synced = await lacking(11)
    sync = await synced.sync()
    await services.ledger[Jobs].resume("default", sync.id)

    assert (await job_of(services, sync)).state == JobState.DONE
    assert len(await synced.documents()) == 12


async def test_next_sync_replaces_job_that_waits_for_approval(services, lacking):
    synced = await lacking(11)
    sync = await synced.sync()

    following = await synced.sync()

    assert (await job_of(services, sync)).state == JobState.DONE
    assert (await services.ledger[Syncs].withheld("default", "docs")).job_id == following.id != sync.id


@guards(
    "features/sources/ledger/listings.py",
    "if listed.seen else 0",
    "if listed.seen >= 0 else 0",
    means="an empty listing deletes without approval",
    case="3",
)
@pytest.mark.parametrize("size", [1, 3])
async def test_empty_listing_always_needs_approval(services, lacking, size):
    synced = await lacking(size, total=size)
    sync = await synced.sync()

    assert (sync.counts.deleted, sync.counts.withheld) == (0, size)
    done = await synced.work(await services.ledger[Syncs].approve("default", "docs", deletions=size))
    assert done.counts.deleted == size


async def test_share_of_source_bounds_deletions(lacking):
    synced = await lacking(11, total=22, share=0.5)

    assert (await synced.sync()).counts.deleted == 11


async def test_deletion_in_slices_continues_after_lost_worker(lacking, monkeypatch):
    synced = await lacking(9)
    monkeypatch.setattr("features.sources.ledger.listings._DELETED_AT_ONCE", 2)

    assert (await synced.sync()).counts.deleted == 9


async def test_approval_of_nothing_is_rejected(services, synced):
    with pytest.raises(InvalidInput, match="Approve at least one deletion"):
        await services.ledger[Syncs].approve("default", "docs", deletions=0)


# --- changes by users ---


async def document(services, external_id):
    page = await services.ledger[Documents].page("default")
    return next((each for each in page if each.external_id == external_id), None)


async def test_deleted_document_returns_with_next_version(services, synced, corpus):
    corpus.put("a", "b")
    await synced.sync()
    await services.ledger[Documents].delete("default", (await document(services, "docs/a")).id)

    await synced.sync()
    assert await synced.documents() == {"b"}
    corpus.put("a", text="Changed.")
    await synced.sync()
    assert await synced.documents() == {"a", "b"}


async def test_edited_document_stays_until_source_changes(services, synced, corpus, library):
    corpus.put("a", "b")
    await synced.sync()
    edited = await library.add("Edited by a user.", "docs/a")

    assert (await synced.sync()).counts.unchanged == 2
    assert (await document(services, "docs/a")).version == edited.version
    corpus.put("a", text="Changed.")
    assert (await synced.sync()).counts.changed == 1
    assert (await document(services, "docs/a")).version == edited.version + 1


async def test_edited_document_is_deleted_with_its_entry(services, synced, corpus, library):
    corpus.put("a", "b")
    await synced.sync()
    await library.add("Edited by a user.", "docs/a")

    corpus.remove("a")
    for _ in range(2):
        await make_older(services)
        sync = await synced.sync()

    assert sync.counts.deleted == 1
    assert await document(services, "docs/a") is None


# --- sources ---


async def removed(services):
    while await services.ledger[Sources].continue_removal():
        pass


async def test_two_sources_in_a_collection_do_not_collide(services, synced, corpus):
    other = SyncedCorpus(services, Corpus(), "others")
    await other.add()
    corpus.put("a", "b")
    other.corpus.put("a", text="Another text.")

    await synced.sync()
    await other.sync()

    assert (await synced.documents(), await other.documents()) == ({"a", "b"}, {"a"})
    await services.ledger[Sources].remove("default", "docs", with_documents=True)
    await removed(services)
    assert (await synced.documents(), await other.documents()) == (set(), {"a"})


async def test_corpus_in_two_collections_has_two_sources(services, synced, corpus):
    other = SyncedCorpus(services, corpus, "copies", collection="other")
    await other.add()
    corpus.put("a", "b")
    await synced.sync()
    await other.sync()
    corpus.put("b", text="The harbour opens at seven.")

    assert (await synced.sync()).counts.changed == 1
    page = await services.ledger[Documents].page("default")
    assert {(each.collection, each.external_id): each.version for each in page} == {
        ("default", "docs/a"): 1,
        ("default", "docs/b"): 2,
        ("other", "copies/a"): 1,
        ("other", "copies/b"): 1,
    }
    await services.ledger[Sources].remove("default", "docs", with_documents=True)
    await removed(services)
    assert (await synced.documents(), await other.documents()) == (set(), {"a", "b"})


@guards(
    "features/sources/syncing/quota.py",
    "added = [name for name in external_ids if name not in existing]",
    "added = list(external_ids)",
    means="a source that is added again needs room for documents that exist",
)
async def test_source_removed_without_documents_is_adopted(services, synced, corpus):
    corpus.put("a", "b")
    await synced.sync()
    await services.ledger[Sources].remove("default", "docs", with_documents=False)
    with pytest.raises(Conflict, match="is being removed"):
        await synced.add()
    await removed(services)
    assert await synced.documents() == {"a", "b"}
    with pytest.raises(NotFound):
        await services.ledger[Sources].get("default", "docs")

    await synced.add()
    synced.upload_limits = UploadLimits(documents=2)
    assert (await synced.sync()).counts.unchanged == 2


async def test_removed_source_stops_its_sync(services, synced, corpus):
    corpus.put(*"abcdefghij")

    async def remove():
        await services.ledger[Sources].remove("default", "docs", with_documents=True)

    corpus.at["f"] = remove
    sync = await services.ledger[Syncs].start("default", "docs")
    assert (await synced.work(sync)).state == JobState.CANCELLED
    await removed(services)

    assert await synced.documents() == set()
    assert (await job_of(services, sync)).state == JobState.DONE


async def test_removed_source_stops_run_of_its_hints(services, synced):
    await services.ledger[Hints].add("default", "docs", ["a"])
    assert await services.ledger[JobClaims].due() == {JobKind.LOOKUP}

    await services.ledger[Sources].remove("default", "docs", with_documents=False)
    await removed(services)

    assert await services.ledger[JobClaims].due() == set()


async def test_sources_are_listed_with_their_newest_sync(services, synced, corpus):
    corpus.put("a")
    sync = await synced.sync()
    await SyncedCorpus(services, Corpus(), "others").add(schedule="0 * * * *", time_zone="Europe/Berlin")

    docs, others = await services.ledger[Sources].page("default")

    assert (docs.definition.name, docs.newest, docs.next_at) == ("docs", sync, None)
    assert (others.definition.name, others.newest, others.next_at is None) == ("others", None, False)
    assert [each.id for each in await services.ledger[Syncs].page("default", "docs")] == [sync.id]
    assert await services.ledger[Sources].page("default", after="docs") == [others]
    assert await services.ledger[Sources].page("other") == []


async def test_changed_options_of_filled_source_need_confirmation(services, synced, corpus):
    sources = services.ledger[Sources]
    changes = SourceChanges(options={"include": "*.md"}, max_delete_share=0.2, schedule="0 5 * * *")
    await sources.change("default", "docs", SourceChanges(uri="memory:b"))
    corpus.put("a")
    await synced.sync()

    with pytest.raises(Conflict, match="may list other entries"):
        await sources.change("default", "docs", changes)
    changed = await sources.change("default", "docs", changes, confirmed=True)
    assert (changed.options, changed.max_delete_share, changed.uri) == ({"include": "*.md"}, 0.2, "memory:b")
    assert (await sources.change("default", "docs", SourceChanges(schedule=""))).schedule is None


async def test_invalid_source_is_rejected(subtests, services, library):
    collection = await library.collection()

    async def add(**values):
        new = NewSource(**{"name": "docs", "kind": "folder", "uri": "/docs", **values})
        await services.ledger[Sources].add(collection, new)

    for values, sentence in (
        ({"name": "A/b"}, "The name of a source has"),
        ({"uri": " "}, "The address of a source has"),
        ({"max_delete_share": 2.0}, "The share of deletions"),
        ({"schedule": "often"}, "is not a cron expression"),
        ({"schedule": "0 0 31 2 *"}, "Bad day-of-month"),
        ({"time_zone": "Mars/Base"}, "There is no time zone 'Mars/Base'"),
    ):
        with subtests.test(sentence), pytest.raises(InvalidInput, match=sentence):
            await add(**values)


async def test_second_source_of_a_name_conflicts(services, synced):
    with pytest.raises(Conflict, match="There is a source 'docs' already"):
        await synced.add()


async def test_missed_times_lead_to_one_sync(services, synced):
    await services.ledger[Sources].change("default", "docs", SourceChanges(schedule="0 * * * *"))
    assert await services.ledger[Sources].due() == []
    await execute(services, "UPDATE sources SET next_at = now() - interval '5 hours'")

    (due,) = await services.ledger[Sources].due()
    await services.ledger[Sources].schedule_next(due)

    assert await services.ledger[Sources].due() == []
    assert (await services.ledger[Sources].get("default", "docs")).next_at is not None
