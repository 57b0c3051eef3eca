"""Cleanup: what killed workers, deletions and late writers left in Qdrant and in the upload store."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import structlog

from shared.domain.records import FinishableDocument, Sweep
from shared.ingest.index.finish import Finisher, confirmed
from shared.ledger.collections import Collections
from shared.ledger.feedback import Feedback
from shared.ledger.work import Work
from shared.storage.uploads import Uploads
from shared.vectors.index import Index

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
        """Finish what killed workers left, delete the points of deleted documents, sweep after late writers.

        Raises:
            Transient: the ledger is not available.
        """
        await self.finisher.finish()
        await self.delete_documents()
        await self.sweep()
        await self.delete_taken_back()

    async def delete_documents(self) -> None:
        """Delete the points of deleted documents, then their rows and uploads."""

        async def delete(document: FinishableDocument) -> None:
            await self.index.delete_document(document.index_name, document.tenant, document.id)

        deleted = await confirmed(await self.work.deletable(), delete)
        if deleted:
            for upload in await self.work.finish_deletion(deleted):
                self.uploads.remove(upload)

    async def sweep(self) -> None:
        """Delete what a worker wrote after its lease had ended, below the version that queries see."""

        async def delete(due: Sweep) -> None:
            await self.index.delete_document(due.index_name, due.tenant, due.document_id, below=due.below_version)

        swept = await confirmed(await self.work.due_sweeps(), delete)
        if swept:
            await self.work.delete_sweeps(swept)

    async def nudge_optimizers(self) -> None:
        """Have the collections optimized whose segments wait since Qdrant's start: it begins with the next write alone.

        Raises:
            Transient: the ledger or Qdrant is not available.
        """
        for name in await self.collections.index_names():
            if await self.index.nudge(name):
                log.info("optimizer.nudged", index_name=name)

    async def delete_taken_back(self) -> None:
        """Delete the points of users' questions that were taken back."""
        async with self.feedback.pending_removals() as removals:
            by_index: dict[str, list[UUID]] = {}
            for question in removals.questions:
                by_index.setdefault(question.index_name, []).append(question.id)
            deleted = await confirmed(
                list(by_index), lambda name: self.index.delete_by_id(name, list(map(str, by_index[name])))
            )
            await removals.delete([question_id for name in deleted for question_id in by_index[name]])
