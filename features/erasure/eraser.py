"""Deletion of the data that erasures cover, after their documents have been deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from features.erasure.ledger.erasures import Erasures
from shared.broker.tenant_keys import TenantKeys
from shared.ingest.index.finish import confirmed
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.vectors.index import Index

log = structlog.get_logger()

_RECHECKS = 100  # of one call


@dataclass(frozen=True, slots=True)
class Eraser:
    """Proceeds with erasures. Every step may be repeated and run concurrently.

    A step does a slice of its work and returns whether more may be left.

    Args:
        erasures: the erasures.
        tables: tables of features.
        tenant_keys: keys of tenants in the broker.
        index: the points.
    """

    erasures: Erasures
    tables: Sequence[ErasedTable]
    tenant_keys: TenantKeys
    index: Index

    async def erase(self) -> bool:
        """Delete some remaining rows of erased tenants, collections and documents whose documents are deleted."""
        erasure = await self.erasures.proceed(self.tenant_keys.delete, self.tables)
        if erasure is not None and erasure.finished_at is not None:
            log.info("erasure.finished", erasure_id=str(erasure.id), tenant=erasure.tenant, deleted=erasure.deleted)
        return erasure is not None

    async def recheck(self) -> bool:
        """Delete points that late writers have written for erased collections and documents since the erasure's end.

        Qdrant cannot reject a write of a late writer. A writer that survives has its points swept, but it may be killed
        after its write, for example after its machine was suspended for an hour.
        """
        due = await self.erasures.due_rechecks(_RECHECKS)
        if not due:
            return False
        collections = [each for erasure in due for each in erasure.collection_ids]
        documents = [each for erasure in due for each in erasure.document_ids]

        async def delete(name: str) -> None:
            if late := await self.index.delete_all_of(name, collections, documents):
                log.warning("erasure.late_points", index_name=name, points=late)

        names = await self.index.names()
        done = len(await confirmed(names, delete)) == len(names)
        await self.erasures.settle_rechecks(due, confirmed=done)
        return done and len(due) == _RECHECKS
