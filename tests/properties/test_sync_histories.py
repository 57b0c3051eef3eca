"""Histories of syncs: sources change, listings fail, are short, empty or late, and workers die at any step.

A model next to the ledger remembers the keys that each complete listing contained. After each step, two complete
listings must have lacked every deleted document, and no more are deleted than allowed or approved. At the end, when no
fault is left, the documents must equal the corpora.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from embedded.stack import Stack
from features.sources.domain import NewSource, SourceDefinition
from features.sources.ledger.listings import Listings, SavedPart
from features.sources.ledger.sources import Sources
from features.sources.ledger.syncs import Syncs
from features.sources.services import syncing_of
from features.sources.syncing.merge import PartLimits
from features.sources.syncing.work import SyncLimits
from shared.domain.errors import Conflict, ForeaskError, JobIsOpen, Unreadable
from shared.domain.jobs import JobClaim, JobKind
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.job_claims import JobClaims
from tests.conftest import Library
from tests.support.emptying import empty
from tests.support.histories import SharedServices, run_histories, sharing
from tests.support.planted import guards
from tests.support.sources import Corpus, make_older

KEYS = tuple("abcdefgh")
ALWAYS_ALLOWED = 2  # deletions without approval
HISTORIES = {"short": 10, "full": 500, "soak": 500}
LIMITS = SyncLimits(max_bytes=10_000, timeout=timedelta(0), pause=timedelta(0), page=3, part=PartLimits(fetched=2))
# Two sources of one collection, and a corpus in two collections.
SOURCES = {"docs": ("default", 0), "more": ("default", 1), "copy": ("other", 0)}

# Insert an item, as another writer than the listing does.
MAKE_ITEM = "INSERT INTO source_items (source_id, key, version) VALUES (:source, :key, :version)"

# Release a claim without counting its loss, after the others.
QUEUE_AGAIN = "UPDATE job_claims SET created_at = now(), token = NULL, leased_until = NULL WHERE id = :id"

EXPIRE_LEASES = (
    "UPDATE job_claims SET leased_until = now() - interval '1 second', lost_leases = 0 WHERE token IS NOT NULL"
)


class Killed(Exception):
    """The worker dies: nothing is released, and nothing else is saved."""


class Dying(Listings):
    """The ledger as a worker sees it that dies before or after a transaction.

    Args:
        steps: steps before its death; None: it does not die.
    """

    def __init__(self, listings: Listings, steps: int | None) -> None:
        super().__init__(listings._database, listings._apart)
        self._steps = steps

    def _step(self) -> None:
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0:
                raise Killed

    async def save(self, *arguments: Any) -> SavedPart:
        self._step()
        saved = await super().save(*arguments)
        self._step()
        return saved

    async def end_listing(self, *arguments: Any) -> None:
        self._step()
        await super().end_listing(*arguments)
        self._step()

    async def delete_some(self, *arguments: Any) -> bool:
        self._step()
        more = await super().delete_some(*arguments)
        self._step()
        return more

    async def finish(self, *arguments: Any) -> None:
        self._step()
        await super().finish(*arguments)


@dataclass
class CompleteListing:
    """A listing without an error: its hours of start and end, and its keys."""

    started: int
    ended: int
    keys: set[str]


@dataclass
class Synced:
    """The model of a source.

    Args:
        deleted_by_user: versions that items had when users deleted their documents, by key.
    """

    definition: SourceDefinition
    corpus: Corpus
    listings: list[CompleteListing] = field(default_factory=list)
    started: int = 0
    keys: set[str] = field(default_factory=set)
    deleted_by_user: dict[str, str] = field(default_factory=dict)

    def may_be_deleted(self, key: str) -> bool:
        """Return whether the newest listing, and one at least an hour earlier, lacked a key, and all in between."""
        newest, lacked = self.listings[-1], False
        for listing in reversed(self.listings):
            if key in listing.keys:
                break
            lacked = lacked or listing.ended + 1 <= newest.started
        return lacked and key not in newest.keys


@pytest.fixture(scope="module")
def world(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServices]:
    settings = stack.settings.model_copy(update={"data_dir": tmp_path_factory.mktemp("syncs"), "calibrate": False})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("features.sources.domain._ALWAYS_ALLOWED", ALWAYS_ALLOWED)
        patch.setattr("features.sources.ledger.listings._DELETED_AT_ONCE", 1)
        with sharing(settings) as world:
            yield world


@guards(
    "features/sources/ledger/syncs.py",
    "i.missing_from <= y.started_at -",
    "y.started_at >= y.started_at -",
    means="a document is deleted after one listing",
    histories=100,
)
def test_every_history_deletes_only_missing_documents(world, request):
    class Machine(Histories):
        def __init__(self) -> None:
            super().__init__(world)

    run_histories(Machine, request.config, HISTORIES, steps=14)


class Histories(RuleBasedStateMachine):
    """One history of three sources."""

    def __init__(self, world: SharedServices) -> None:
        super().__init__()
        self.world = world
        self.services = world.services
        self.hour = 0
        self.edits = 0
        self.sources: dict[str, Synced] = {}
        world.run(self._reset())

    async def _reset(self) -> None:
        await empty(self.services)
        corpora = [Corpus(), Corpus()]
        for name, (collection, corpus) in SOURCES.items():
            owner = await Library(self.services).collection(collection)
            added = await self.services.ledger[Sources].add(owner, NewSource(name, "scripted", "memory:"))
            self.sources[name] = Synced(added, corpora[corpus])

    # Steps of owners

    @initialize(keys=st.sets(st.sampled_from(KEYS), min_size=2))
    def start_synced(self, keys: set[str]) -> None:
        for synced in self.sources.values():
            synced.corpus.put(*keys)
            self.start(synced)

    @rule(name=st.sampled_from(list(SOURCES)), keys=st.sets(st.sampled_from(KEYS), min_size=1, max_size=3))
    def put(self, name: str, keys: set[str]) -> None:
        self.edits += 1
        self.sources[name].corpus.put(*keys, text=f"Edit {self.edits} of {{key}}.")

    @rule(name=st.sampled_from(list(SOURCES)), keys=st.sets(st.sampled_from(KEYS), min_size=1))
    def remove(self, name: str, keys: set[str]) -> None:
        corpus = self.sources[name].corpus
        corpus.remove(*keys & corpus.texts.keys())

    @rule()
    def pass_hours(self) -> None:
        self.hour += 2
        self.world.run(make_older(self.services))

    @rule(name=st.sampled_from(list(SOURCES)), key=st.sampled_from(KEYS))
    def delete_as_user(self, name: str, key: str) -> None:
        self.world.run(self._delete_as_user(self.sources[name], key))

    async def _delete_as_user(self, synced: Synced, key: str) -> None:
        found = (await self._documents(synced)).get(key)
        if found is not None:
            await self.services.ledger[Documents].delete("default", found.id)
            synced.deleted_by_user[key] = (await self._items(synced))[key]

    # Syncs with faults

    @rule(name=st.sampled_from(list(SOURCES)))
    def sync(self, name: str) -> None:
        self.start(self.sources[name])

    @rule(name=st.sampled_from(list(SOURCES)), entries=st.integers(0, 7))
    def sync_with_failing_listing(self, name: str, entries: int) -> None:
        self._with(self.sources[name], fails_after=entries)

    @rule(name=st.sampled_from(list(SOURCES)), entries=st.integers(0, 7))
    def sync_with_short_listing(self, name: str, entries: int) -> None:
        self._with(self.sources[name], ends_after=entries)

    @rule(name=st.sampled_from(list(SOURCES)), key=st.sampled_from(KEYS))
    def sync_with_unreadable_entry(self, name: str, key: str) -> None:
        self._with(self.sources[name], failing={key: Unreadable("It is damaged.")})

    @rule(name=st.sampled_from(list(SOURCES)), at=st.sampled_from(KEYS), made=st.sampled_from(KEYS))
    def sync_while_item_is_made(self, name: str, at: str, made: str) -> None:
        """Make an entry and its item, without a document, after the listing has read its snapshot of the corpus."""
        synced = self.sources[name]
        if made in synced.corpus.texts or at == made or made in self.world.run(self._items(synced)):
            return

        async def make() -> None:
            synced.corpus.put(made)
            parameters = {"source": synced.definition.id, "key": made, "version": synced.corpus.version(made)}
            await self.world.sql(MAKE_ITEM, **parameters)

        self._with(synced, at={at: make})
        marked = "SELECT key FROM source_items WHERE source_id = :id AND key = :key AND missing_in IS NOT NULL"
        assert self.world.run(self.world.sql(marked, id=synced.definition.id, key=made)) == []
        synced.deleted_by_user[made] = synced.corpus.version(made) if made in synced.corpus.texts else ""

    @rule(name=st.sampled_from(list(SOURCES)), steps=st.integers(0, 12))
    def sync_with_dying_worker(self, name: str, steps: int) -> None:
        self.start(self.sources[name], steps)

    @rule(name=st.sampled_from(list(SOURCES)), deletions=st.integers(1, 8))
    def approve(self, name: str, deletions: int) -> None:
        synced = self.sources[name]
        try:
            self.world.run(self.services.ledger[Syncs].approve("default", name, deletions=deletions))
        except Conflict:
            return
        synced.keys = set()
        synced.started = -1
        self.work(synced, None)

    def _with(self, synced: Synced, **faults: Any) -> None:
        for name, value in faults.items():
            setattr(synced.corpus, name, value)
        self.start(synced)
        synced.corpus.restore()

    def start(self, synced: Synced, steps: int | None = None) -> None:
        """Start a sync, or continue the open one, whose worker died."""
        try:
            self.world.run(self.services.ledger[Syncs].start("default", synced.definition.name))
            synced.keys, synced.started = set(), -1
        except JobIsOpen:
            pass
        self.work(synced, steps)

    def work(self, synced: Synced, steps: int | None) -> None:
        before = self.world.run(self._documents(synced))
        allowed = self.world.run(self._allowed(synced))
        is_complete = self.world.run(self._work(synced, steps))
        after = self.world.run(self._documents(synced))
        self._check_deletions(synced, before.keys() - after.keys(), allowed, is_complete=is_complete)
        for key in after.keys() & synced.deleted_by_user.keys():
            del synced.deleted_by_user[key]

    def _check_deletions(self, synced: Synced, deleted: set[str], allowed: int, *, is_complete: bool) -> None:
        assert is_complete or not deleted
        for key in deleted:
            assert synced.may_be_deleted(key), f"{key} was deleted, although two complete listings did not lack it"
        assert len(deleted) <= allowed

    async def _allowed(self, synced: Synced) -> int:
        """Return the maximum number of deletions of the next sync."""
        newest = (await self.services.ledger[Sources].get("default", synced.definition.name)).newest
        if newest is not None and newest.approved is not None and newest.ended_at is None:
            return newest.approved
        return ALWAYS_ALLOWED

    async def _work(self, synced: Synced, steps: int | None) -> bool:
        """Work on the open sync until it ends or its worker dies; return whether its listing is complete."""
        await self.world.sql(EXPIRE_LEASES)
        claim = await self._claim_of(synced)
        synced.started = self.hour if synced.started < 0 else synced.started
        synced.corpus.listed.clear()
        syncing = syncing_of(self.services.parts, synced.corpus.open)
        listings = Dying(self.services.ledger[Listings], steps)
        syncing = replace(syncing, listings=listings, limits=LIMITS)
        try:
            await syncing.work(claim)
        except Killed:
            pass
        except ForeaskError as error:
            await self.services.ledger[JobClaims].fail(claim, error.message)
        return await self._record(synced)

    async def _claim_of(self, synced: Synced) -> JobClaim:
        """Claim the run of a source; release others, whose workers died."""
        for _ in SOURCES:
            claim = await self.services.ledger[JobClaims].claim([JobKind.SYNC])
            assert claim is not None
            (row,) = await self.world.sql("SELECT source_id FROM syncs WHERE id = :id", id=claim.id)
            if row.source_id == synced.definition.id:
                return claim
            await self.world.sql(
                "UPDATE job_claims SET created_at = now(), token = NULL, leased_until = NULL WHERE id = :id",
                id=claim.id,
            )
        raise AssertionError("no run of this source may be claimed")

    async def _record(self, synced: Synced) -> bool:
        """Remember the keys of a listing; return whether it is complete."""
        state = "SELECT after, listed_at, started_at FROM syncs WHERE source_id = :id ORDER BY number DESC LIMIT 1"
        (row,) = await self.world.sql(state, id=synced.definition.id)
        if row.listed_at is None:  # another worker lists the keys after the saved position again
            synced.keys |= {key for key in synced.corpus.listed if key <= row.after}
            return False
        keys = synced.keys | set(synced.corpus.listed)
        if not synced.listings or synced.listings[-1].keys is not synced.keys:
            synced.keys = keys
            synced.listings.append(CompleteListing(synced.started, self.hour, synced.keys))
        return True

    # The ledger

    async def _documents(self, synced: Synced) -> dict[str, Any]:
        """Return the documents of a source by their keys."""
        name, prefix = synced.definition.collection, f"{synced.definition.name}/"
        page = await self.services.ledger[Documents].page("default", limit=1_000)
        return {
            each.external_id.removeprefix(prefix): each
            for each in page
            if each.collection == name and each.external_id.startswith(prefix)
        }

    async def _items(self, synced: Synced) -> dict[str, str]:
        """Return the versions of items by their keys."""
        statement = "SELECT key, version FROM source_items WHERE source_id = :id"
        return {row.key: row.version for row in await self.world.sql(statement, id=synced.definition.id)}

    # The end

    def teardown(self) -> None:
        """Sync until nothing changes, and compare the documents with the corpora."""
        for synced in self.sources.values():
            synced.corpus.restore()
            for _ in range(3):
                self.pass_hours()
                self.start(synced)
            self.approve(synced.definition.name, len(KEYS))
            self.world.run(self._check_documents(synced))

    async def _check_documents(self, synced: Synced) -> None:
        items = await self._items(synced)
        assert items == {key: synced.corpus.version(key) for key in synced.corpus.texts}
        hidden = {key for key, version in synced.deleted_by_user.items() if items.get(key) == version}
        documents = await self._documents(synced)
        assert documents.keys() == items.keys() - hidden
        for key, upload in (await self._uploads(documents)).items():
            assert upload == synced.corpus.texts[key]

    async def _uploads(self, documents: dict[str, Any]) -> dict[str, str]:
        names = await self.services.ledger[Documents].newest_uploads([each.id for each in documents.values()])
        texts = {}
        for key, document in documents.items():
            async with self.services.uploads.fetched(names[document.id]) as path:
                texts[key] = path.read_text()
        return texts
