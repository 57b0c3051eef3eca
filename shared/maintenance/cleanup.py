"""Cleanup: what killed workers, deletions and late writers left in Qdrant and in the upload store."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from shared.domain.places import Place
from shared.domain.records import DeletableDocument
from shared.ingest.index.finish import Finisher, confirmed
from shared.ledger.collections import Collections
from shared.ledger.feedback import Feedback, PendingRemoval
from shared.ledger.work import Work
from shared.storage.uploads import Uploads
from shared.vectors.index import Index
from shared.vectors.points import accepted_point_id

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Brings Qdrant and the uploads to what the ledger says; every step is safe to repeat."""

    work: Work
    index: Index
    uploads: Uploads
    feedback: Feedback
    collections: Collections
    finisher: Finisher

    async def clean(self) -> None:
        """Sweep, finish what killed workers left, delete the points of deleted documents.

        Raises:
            Transient: the ledger is not available.
        """
        await self.sweep()  # a document whose points are not what the ledger says is not finished
        await self.finisher.finish()
        await self.purge_versions()
        await self.delete_documents()
        await self.delete_taken_back()

    async def purge_versions(self) -> None:
        """Delete the chunks, the rows and the uploads of versions that are neither live nor newest."""
        await self.uploads.remove(await self.work.purge_versions())

    async def delete_documents(self) -> None:
        """Delete the points of deleted documents, then their rows."""

        async def delete(document: DeletableDocument) -> None:
            await self.index.delete_document(document.place, document.id)

        deleted = await confirmed(await self.work.deletable(), delete)
        if deleted:
            await self.work.finish_deletion(deleted)

    async def sweep(self) -> None:
        """Show versions that a killed worker left hidden, and delete what late writers left."""
        await self.finisher.sweep(await self.work.due_sweeps())

    async def nudge_optimizers(self) -> None:
        """Have the collections optimized whose segments wait since Qdrant's start: it begins with the next write alone.

        Raises:
            Transient: the ledger or Qdrant is not available.
        """
        for name in await self.collections.index_names():
            if await self.index.nudge(name):
                log.info("optimizer.nudged", index_name=name)

    async def delete_taken_back(self) -> None:
        """Delete the points of users' questions that were taken back, in every version that may have one."""
        async with self.feedback.pending_removals() as removals:
            by_place: dict[Place, list[PendingRemoval]] = {}
            for question in removals.questions:
                by_place.setdefault(question.place, []).append(question)

            async def delete(place: Place) -> None:
                points = [accepted_point_id(q.id, version) for q in by_place[place] for version in q.versions]
                await self.index.delete_by_id(place, points)

            deleted = await confirmed(list(by_place), delete)
            await removals.delete([question.id for place in deleted for question in by_place[place]])
