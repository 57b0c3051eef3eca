"""Cleanup: leftovers of killed workers, deletions and late writers in Qdrant and in the upload store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from shared.domain.corpus.builds import Build
from shared.domain.corpus.documents import DeletableDocument
from shared.domain.errors import ForeaskError, Unavailable, Unreadable
from shared.domain.stages.sweeps import Sweep
from shared.ingest.index.finish import Finisher, confirmed
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.documents.unreferenced_objects import OutdatedObjects
from shared.ledger.model.collections import Collections
from shared.ledger.postgres import alone
from shared.ledger.work.finishing import Finishing
from shared.ledger.work.leftovers import Leftovers
from shared.maintenance.descriptions import update_points
from shared.storage.uploads import Uploads, stored_in
from shared.vectors.index import Index

log = structlog.get_logger()


_SLICE = 100  # rows that one call of a step takes
_PACKS = 10  # packs rewritten by one call

Step = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Makes Qdrant and the upload store agree with the ledger. Every step may be repeated and run concurrently.

    A step does a slice of its work and returns whether more may be left. Work that Qdrant rejects is postponed.
    """

    leftovers: Leftovers
    finishing: Finishing
    index: Index
    uploads: Uploads
    collections: Collections
    builds: Builds
    outdated: OutdatedObjects
    finisher: Finisher
    descriptions: Descriptions

    @property
    def steps(self) -> Mapping[str, Step]:
        """The steps by name. Their order does not matter, because the ledger defers dependent work."""
        return {
            "sweep": self.sweep,
            "finish": self.finish,
            "describe": self.describe,
            "purge": self.purge_versions,
            "delete": self.delete_documents,
            "drop": self.drop_builds,
            "outdate": self.remove_outdated,
        }

    async def clean(self) -> None:
        """Do each step once, one after the other.

        Raises:
            Transient: the ledger is not available.
        """
        for step in self.steps.values():
            await step()

    async def sweep(self) -> bool:
        """Show versions that a killed worker left hidden, and delete points of late writers."""
        due, swept = await self.leftovers.due_sweeps(_SLICE), list[Sweep]()

        async def sweep(some: Sequence[Sweep]) -> None:
            swept.extend(await self.finisher.sweep(some))

        await alone.work_on(due, sweep, lambda each: each.document_id)
        if refused := [sweep for sweep in due if sweep not in swept]:
            await self.leftovers.postpone_sweeps(refused)
        return bool(swept) and len(due) == _SLICE

    async def finish(self) -> bool:
        """Finish the documents of killed workers."""
        await alone.work_on(await self.finishing.find_ended(), self.finisher.finish, lambda document_id: document_id)
        return False

    async def describe(self) -> bool:
        """Update the descriptions of points that no other process has updated."""
        claimed = await self.descriptions.claim(_SLICE)
        return await update_points(self.descriptions, self.index, claimed) and len(claimed) == _SLICE

    async def purge_versions(self) -> bool:
        """Delete the chunks, the rows and the uploads of versions that are neither live nor newest."""
        uploads = await self.leftovers.purge_versions()
        await self._remove(uploads)
        return bool(uploads)

    async def remove_outdated(self) -> bool:
        """Delete unreferenced objects, and rewrite packs with bytes of deleted documents."""
        due = await self.outdated.due(_PACKS)
        for name in due:
            try:
                await self._repack_or_remove(name)
            except Unavailable as error:  # it may be this object alone, and must not delay others
                if error.component != "uploads":
                    raise
                log.warning("object.postponed", object=name, reason=error.message)
                await self.outdated.postpone(name)
            except Exception:  # a damaged file, or a name that no release writes, must not delay others either
                log.exception("object.raised", object=name)
                await self.outdated.postpone(name)
        return len(due) == _PACKS

    async def _repack_or_remove(self, name: str) -> None:
        parts = await self.outdated.parts(name)
        if parts:
            await self._repack(name, parts)
        else:
            await self._remove([name])

    async def _remove(self, names: Sequence[str]) -> None:
        kept = await self.uploads.remove(names)
        if removed := [name for name in names if name not in kept]:
            await self.outdated.forget(removed)
        for name in kept:
            await self.outdated.postpone(name)

    async def _repack(self, name: str, parts: Sequence[str]) -> None:
        try:
            renamed = await self.uploads.repack(parts) if await self.uploads.foreign_bytes(parts) else {}
        except Unreadable as error:
            log.warning("pack.unreadable", pack=name, reason=str(error))
            renamed = {}
        if not renamed:
            await self.outdated.forget_used(name, parts)
        elif not await self.outdated.rename(name, renamed):
            await self.uploads.remove([stored_in(renamed[parts[0]])])

    async def delete_documents(self) -> bool:
        """Delete the points of deleted documents, then their rows."""

        async def delete(document: DeletableDocument) -> None:
            await self.index.delete_document(document.location, document.id)

        due = await self.leftovers.deletable(_SLICE)
        answered = await confirmed(due, delete)
        deleted = await alone.work_on(answered, self.leftovers.finish_deletion, lambda document: document.id)
        if refused := [document for document in due if document not in deleted]:
            await self.leftovers.postpone_deletion(refused)
        return bool(deleted) and len(due) == _SLICE

    async def drop_builds(self) -> bool:
        """Delete the documents of dropped builds, then their points and their rows."""

        async def delete(build: Build) -> None:
            await self.index.delete_build(build.location)  # including points of late writers

        async def forget(builds: Sequence[Build]) -> None:
            for build in builds:
                await self.builds.forget(build)
                log.info("build.dropped", tenant=build.tenant, collection=build.name, build=build.number)

        emptied = await confirmed(await self.builds.emptied(self.leftovers.leases_expire_after), delete)
        await alone.work_on(emptied, forget, lambda build: build.id)
        return await self.builds.delete_documents()

    async def nudge_optimizers(self) -> None:
        """Start the optimization of collections whose segments have waited since Qdrant's start.

        Raises:
            Transient: the ledger is unavailable.
        """
        for name in await self.collections.index_names():
            try:
                nudged = await self.index.nudge(name)
            except Exception as error:  # a collection that Qdrant rejects must not delay others
                expected = isinstance(error, ForeaskError)
                log.warning("optimizer.unreachable", index_name=name, reason=str(error), exc_info=not expected)
            else:
                if nudged:
                    log.info("optimizer.nudged", index_name=name)
