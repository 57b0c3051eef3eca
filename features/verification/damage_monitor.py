"""The damage monitor: it detects failovers that lost commits and points that Qdrant has lost, and starts repairs.

After a failover that lost commits, Qdrant has points that the ledger does not know, and queries find them. After the
loss of Qdrant's data, queries find nothing although every document is ready. Neither fails any request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import structlog

from features.verification.comparison import Verification
from features.verification.ledger import Verifications
from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, ForeaskError, NotFound
from shared.domain.jobs import JobState
from shared.ledger.documents.audit import Audit
from shared.ledger.jobs.repairs import EndedRepair, Repairs
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.election import Election
from shared.ledger.postgres.servers import current_server
from shared.vectors.index import Index

_MOST_REPAIRS = 20  # started, or ended, in one round
_RETRY_AFTER = timedelta(seconds=30)  # pause after a repair that could not start, or failed
_CHECK_AFTER = timedelta(minutes=1)  # pause after a complete repair
_CHECK_INCOMPLETE_AFTER = timedelta(hours=1)  # pause after a repair that was cancelled, or left differences
_CHECKED_BUILDS = 20  # by one call, which takes about 7 short statements for each
_SAMPLED_DOCUMENTS = 20  # of each: as many that changed last, and as many others
log = structlog.get_logger()


@dataclass(slots=True)
class DamageMonitor:
    """Detects damaged collections, and starts their repairs.

    Args:
        late_writes_end_after: time after which no worker writes points of a claim that a failover lost.
        wake_verifiers: wakes workers for verifications.
    """

    database: Database
    election: Election
    repairs: Repairs
    verifications: Verifications
    audit: Audit
    index: Index
    late_writes_end_after: timedelta
    wake_verifiers: Callable[[], None]
    _last_checked: UUID | None = None  # last build of the previous check; None after the last of all
    _suspected: dict[UUID, Collection] = field(default_factory=dict)  # which lacked points at the last check
    _sampled_until: dict[UUID, str] = field(default_factory=dict)  # last external id that was sampled, by collection
    _has_reported_unknown_server: bool = False

    async def notice_failover(self) -> None:
        """Mark every collection as damaged if another server answers, or commits were lost."""
        server = await current_server(self.database)
        if not server.is_known and not self._has_reported_unknown_server:
            self._has_reported_unknown_server = True
            log.warning("server.unknown", reason="the role may call neither pg_control_system nor pg_walfile_name")
        lost = self.election.lost_commits
        if not lost and server == await self.repairs.noted_server():
            return
        if await self.repairs.note_server(server, lost_commits=lost, late=self.late_writes_end_after):
            log.warning("failover.noticed", system=server.system, timeline=server.timeline, lost_commits=lost)
        self.election.lost_commits = False

    async def repair(self) -> bool:
        """Start due repairs, and settle ended ones; return whether more may wait."""
        ended = await self.repairs.ended(_MOST_REPAIRS)
        for each in ended:
            await self._settle(each)
        due = await self.repairs.due(_MOST_REPAIRS)
        for collection in due:
            await self._start(collection)
        return _MOST_REPAIRS in (len(ended), len(due))

    async def _start(self, collection: Collection) -> None:
        names = {"tenant": collection.tenant, "collection": collection.name}
        try:
            verification = await self.verifications.start(collection, repair=True)
        except (Conflict, NotFound) as error:  # one without repairs is running, or too many are queued
            log.info("repair.postponed", **names, reason=error.message)
            await self.repairs.postpone(collection.id, _RETRY_AFTER)
            return
        await self.repairs.note_start(collection.id, verification.id)
        cause = collection.damage and collection.damage.cause.value
        log.info("repair.started", **names, job_id=str(verification.id), cause=cause)
        self.wake_verifiers()

    async def _settle(self, ended: EndedRepair) -> None:
        names = {"tenant": ended.tenant, "collection": ended.name, "cause": ended.damage.value}
        if ended.state is JobState.CANCELLED or (ended.state is JobState.DONE and ended.is_last):
            await self.repairs.clear(ended, _CHECK_AFTER if ended.is_complete else _CHECK_INCOMPLETE_AFTER)
            log.info("repair.ended", **names, state=ended.state.value, **ended.counts)
        elif ended.state is JobState.DONE:
            await self.repairs.postpone(ended.collection_id, ended.pause, ended.verification_id)
            log.info("repair.repeats", **names, again_in_seconds=ended.pause.total_seconds(), **ended.counts)
        else:
            await self.repairs.postpone(ended.collection_id, _RETRY_AFTER, ended.verification_id)
            log.warning("repair.failed", **names, again_in_seconds=_RETRY_AFTER.total_seconds())

    async def check(self) -> None:
        """Check some points of the next collections, and of collections that lacked points at the last check.

        Two checks must find a loss, because a restarting Qdrant may not have loaded a collection yet.
        """
        following = await self.repairs.builds_after(self._last_checked, _CHECKED_BUILDS)
        self._last_checked = following[-1].id if len(following) == _CHECKED_BUILDS else None
        suspected, self._suspected = self._suspected, {}
        for build in {each.id: each for each in [*suspected.values(), *following]}.values():
            try:
                has_lost = await self._has_lost_points(build)
            except ForeaskError as error:  # a collection that Qdrant rejects must not delay others
                log.warning("check.failed", tenant=build.tenant, collection=build.name, reason=error.message)
                continue
            if has_lost and build.id in suspected:
                await self._mark_lost(build)
            elif has_lost:
                self._suspected[build.id] = build

    async def _mark_lost(self, build: Collection) -> None:
        texts = await self.index.count_chunks(build.location)
        for tenant, name in await self.repairs.mark_lost([build.id]):
            log.warning("points.lost", tenant=tenant, collection=name, stored_texts=texts)

    async def _has_lost_points(self, build: Collection) -> bool:
        """Return whether Qdrant lacks points of a sample of documents that no worker changes.

        The sample is compared as by a verification, so that loads, edits, deletions and fills raise no alarm. It
        contains the documents that changed last, because a restored volume lacks these, and the next documents in
        order, so that each document is checked in time.
        """
        newest = await self.repairs.newest(build, _SAMPLED_DOCUMENTS)
        after = self._sampled_until.get(build.id, "")
        following = await self.audit.page(build.id, after=after, limit=_SAMPLED_DOCUMENTS)
        documents = {document.id: document for document in [*newest, *following]}
        verification = Verification(self.audit, self.index, build, repair=False)
        if await verification.has_lost(list(documents.values())):
            return True  # the next check reads the same documents
        if len(following) == _SAMPLED_DOCUMENTS:
            self._sampled_until[build.id] = following[-1].external_id
        else:
            self._sampled_until.pop(build.id, None)
        return False
