"""Finishing: a document whose chunks have all ended shows its new version, and the older version's points go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import structlog

from shared.domain.errors import ForeaskError
from shared.domain.records import ChunkToIndex
from shared.ledger.work import Work
from shared.vectors.index import Index

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Finisher:
    """Finishes documents in Qdrant and in the ledger."""

    work: Work
    index: Index

    async def finish(self, document_ids: Sequence[UUID] | None = None) -> None:
        """Finish documents whose chunks have all ended, among `document_ids` or of all; safe to do twice.

        The old version's points go only now, when Qdrant has confirmed every point of the new version.

        Raises:
            Transient: the ledger is not available.
        """
        documents = await self.work.finishable(document_ids)
        replacing = [d for d in documents if d.version > 1]
        replaced = await confirmed(
            replacing, lambda d: self.index.switch_version(d.index_name, d.tenant, d.id, d.version)
        )
        whole = [d for d in documents if d not in replacing or d in replaced]
        if whole:
            await self.work.finish(whole)

    async def take_back(self, stale: Sequence[ChunkToIndex]) -> None:
        """Delete what a worker wrote after its claim had ended, where queries see a newer version or none."""
        if not stale:
            return
        visible = await self.work.stale_below([chunk.document_id for chunk in stale])
        for chunk in {chunk.document_id: chunk for chunk in stale}.values():
            below = visible.get(chunk.document_id)
            if below is None or below > chunk.lease.version:
                await self.index.delete_document(chunk.index_name, chunk.tenant, chunk.document_id, below=below)

    async def delete_points(self, chunks: Sequence[ChunkToIndex]) -> None:
        """Delete the points of chunks in their versions."""
        of_documents: dict[tuple[str, str, UUID, int], list[UUID]] = {}
        for chunk in chunks:
            key = (chunk.index_name, chunk.tenant, chunk.document_id, chunk.lease.version)
            of_documents.setdefault(key, []).append(chunk.lease.id)
        await asyncio.gather(*(self.index.delete_chunks(*key, ids) for key, ids in of_documents.items()))


async def confirmed(items: Sequence[T], request: Callable[[T], Awaitable[None]]) -> list[T]:
    """Send a request to Qdrant for each item and return the items that it confirmed.

    The scheduler's next pass repeats the others: a collection that Qdrant refuses must hold up no other.
    """
    errors = await asyncio.gather(*(_error_of(request(item)) for item in items))
    refused = [error for error in errors if error is not None]
    if refused:
        log.warning("qdrant.refused", requests=len(refused), reason=refused[0].message)
    return [item for item, error in zip(items, errors, strict=True) if error is None]


async def _error_of(request: Awaitable[None]) -> ForeaskError | None:
    try:
        await request
    except ForeaskError as error:
        return error
    return None
