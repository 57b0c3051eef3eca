"""Cleanup: what killed workers, deletions and late writers left in Qdrant and in the upload store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from shared.domain.ids import accepted_point_id
from shared.domain.places import Place
from shared.domain.records import DeletableDocument
from shared.ingest.index.finish import Finisher, confirmed
from shared.ledger.builds import Builds
from shared.ledger.collections import Collections
from shared.ledger.feedback import Feedback, PendingRemoval
from shared.ledger.work import Work
from shared.storage.uploads import Uploads
from shared.vectors.index import Index

log = structlog.get_logger()


_SLICE = 100  # rows that one call of a step takes

Step = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Brings Qdrant and the uploads to what the ledger says. Every step may be repeated, and done by two at once.

    A step takes a slice of its work and returns whether more may wait. What Qdrant refuses goes behind all others.
    """

    work: Work
    index: Index
    uploads: Uploads
    feedback: Feedback
    collections: Collections
    builds: Builds
    finisher: Finisher

    @property
    def steps(self) -> Mapping[str, Step]:
        """The steps by name. None needs another one to be done first: the ledger holds what must wait."""
        return {
            "sweep": self.sweep,
            "finish": self.finish,
            "purge": self.purge_versions,
            "delete": self.delete_documents,
            "drop": self.drop_builds,
            "take_back": self.delete_taken_back,
        }

    async def clean(self) -> None:
        """Do each step once, one after the other.

        Raises:
            Transient: the ledger is not available.
        """
        for step in self.steps.values():
            await step()

    async def sweep(self) -> bool:
        """Show versions that a killed worker left hidden, and delete what late writers left."""
        due = await self.work.due_sweeps(_SLICE)
        swept = await self.finisher.sweep(due)
        if refused := [sweep for sweep in due if sweep not in swept]:
            await self.work.put_off_sweeps(refused)
        return bool(swept) and len(due) == _SLICE

    async def finish(self) -> bool:
        """Finish the documents that a killed worker left unfinished."""
        await self.finisher.finish(await self.work.find_ended())
        return False

    async def purge_versions(self) -> bool:
        """Delete the chunks, the rows and the uploads of versions that are neither live nor newest."""
        uploads = await self.work.purge_versions()
        await self.uploads.remove(uploads)
        return bool(uploads)

    async def delete_documents(self) -> bool:
        """Delete the points of deleted documents, then their rows."""

        async def delete(document: DeletableDocument) -> None:
            await self.index.delete_document(document.place, document.id)

        due = await self.work.deletable(_SLICE)
        deleted = await confirmed(due, delete)
        if deleted:
            await self.work.finish_deletion(deleted)
        if refused := [document for document in due if document not in deleted]:
            await self.work.put_off_deletion(refused)
        return bool(deleted) and len(due) == _SLICE

    async def drop_builds(self) -> bool:
        """Delete the documents of dropped builds, then their points and their rows."""
        more = await self.builds.delete_documents()
        for build in await self.builds.emptied(self.work.lease * 2):
            await self.index.delete_build(build.place)  # also what late writers left
            await self.builds.forget(build)
            log.info("build.dropped", tenant=build.tenant, collection=build.name, build=build.number)
        return more

    async def delete_taken_back(self) -> bool:
        """Delete the points of users' questions that were taken back, in every version that may have one."""
        claimed = await self.feedback.claim_removals(_SLICE)
        by_place: dict[Place, list[PendingRemoval]] = {}
        for question in claimed:
            by_place.setdefault(question.place, []).append(question)

        async def delete(place: Place) -> None:
            points = [accepted_point_id(q.id, version) for q in by_place[place] for version in q.versions]
            await self.index.delete_by_id(place, points)

        deleted = {question.id for place in await confirmed(list(by_place), delete) for question in by_place[place]}
        removed = await self.feedback.settle_removals(claimed, deleted) if claimed else 0
        return bool(removed) and len(claimed) == _SLICE

    async def nudge_optimizers(self) -> None:
        """Have the collections optimized whose segments wait since Qdrant's start: it begins with the next write alone.

        Raises:
            Transient: the ledger or Qdrant is not available.
        """
        for name in await self.collections.index_names():
            if await self.index.nudge(name):
                log.info("optimizer.nudged", index_name=name)
