"""Finishing of documents whose chunks are all final: the new version becomes visible, and older points are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import structlog

from shared.domain.errors import ForeaskError
from shared.domain.stages.indexing import ChunkToIndex
from shared.domain.stages.sweeps import Sweep
from shared.ledger.work.finishing import Finishing
from shared.ledger.work.leftovers import Leftovers
from shared.vectors.index import Index

T = TypeVar("T")
_GROUP = 100  # documents of one transaction
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Finisher:
    """Finishes documents in the ledger and in Qdrant."""

    finishing: Finishing
    leftovers: Leftovers
    index: Index

    async def finish(self, document_ids: Sequence[UUID]) -> bool:
        """Finish the documents whose chunks are all final; safe to repeat.

        Qdrant shows the points of a next version, then the ledger makes it live. After a kill or an edit in between,
        queries see the version before, and the scheduler finishes the document.

        Returns:
            Whether another version of a document became live: its questions are due now.

        Raises:
            Transient: the ledger is unavailable.
        """
        is_replaced = False
        for start in range(0, len(document_ids), _GROUP):
            hidden = await self.finishing.finish(document_ids[start : start + _GROUP])
            shown = await confirmed(hidden, self.index.show_version)
            if shown:
                await self.finishing.finish([each.document_id for each in shown], shown)
            is_replaced |= bool(shown)
        return is_replaced

    async def sweep(self, sweeps: Sequence[Sweep]) -> list[Sweep]:
        """Update the points of documents to the ledger's state.

        Returns:
            The sweeps that Qdrant confirmed.

        Raises:
            Transient: the ledger is unavailable.
        """
        swept = await confirmed(sweeps, self.index.sweep)
        if swept:
            await self.leftovers.settle_sweeps(swept)
        return swept

    async def delete_unrecorded(self, chunks: Sequence[ChunkToIndex]) -> None:
        """Delete the points of chunks in their versions that the ledger has not recorded."""
        of_collections: dict[str, list[ChunkToIndex]] = {}
        for chunk in chunks:
            of_collections.setdefault(chunk.index_name, []).append(chunk)
        await asyncio.gather(*(self.index.delete_unrecorded(name, same) for name, same in of_collections.items()))


async def confirmed(items: Sequence[T], request: Callable[[T], Awaitable[None]]) -> list[T]:
    """Send a request to Qdrant for each item and return the items that it confirmed.

    The scheduler repeats the other requests later, so that a collection rejected by Qdrant does not delay others.
    """
    errors = await asyncio.gather(*(_error_of(request(item)) for item in items))
    refused = [error for error in errors if error is not None]
    if refused:
        log.warning("qdrant.refused", requests=len(refused), reason=str(refused[0]))
    return [item for item, error in zip(items, errors, strict=True) if error is None]


async def _error_of(request: Awaitable[None]) -> Exception | None:
    try:
        await request
    except ForeaskError as error:
        return error
    except Exception as error:  # one item must not stop the items of other tenants
        log.exception("request.raised")
        return error
    return None
