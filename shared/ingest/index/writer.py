"""Writes of a batch's points, which are repeated while Qdrant accepts no writes.

A refused point makes its chunk a dead letter only if Qdrant takes other points of the collection. Everything else
waits: a full disk, a key without rights, a limit, a collection with another layout.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from shared.domain.errors import ForeaskError, Permanent, Transient, Unavailable
from shared.domain.stages.indexing import ChunkToIndex
from shared.domain.stages.work import Lease
from shared.vectors.index import Index
from shared.vectors.schema.points import Point
from shared.vectors.transport.errors import RETRY_AFTER, CollectionRefused

_HOLD = timedelta(minutes=10)  # time for which vectors are held while Qdrant accepts no writes
_HOLD_BESIDE_OTHERS = timedelta(seconds=5)  # and if other collections of the batch were written
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 3.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ChunkPoints:
    """The points of a chunk to be written.

    Args:
        chunk: the chunk.
        points: points to be written.
        keeps_text: whether the stored point of its text remains as it is.
    """

    chunk: ChunkToIndex
    points: Sequence[Point]
    keeps_text: bool


@dataclass(slots=True)
class PointWriter:
    """Writes the points of one batch; `written` is whether any collection of the batch took points."""

    index: Index
    dimensions: int
    require_lease: Callable[[], None]
    written: bool = False

    async def write(self, name: str, chunks: Sequence[ChunkPoints]) -> dict[Lease, ForeaskError]:
        """Write the points of one collection; return the errors of the chunks whose points are incomplete.

        Vectors are paid, so they are kept until the lease expires. A collection that rejects points while others accept
        them is abandoned early, because it must not delay the other chunks.
        """
        started, pause = time.monotonic(), _FIRST_PAUSE_SECONDS
        while True:
            try:
                errors = await self._try(name, chunks)
            except CollectionRefused as error:
                return _each(error, chunks)
            except Unavailable as error:
                hold = _HOLD_BESIDE_OTHERS if self.written else _HOLD
                wait = max(pause * random.uniform(0.5, 1), _requested(error))  # noqa: S311 - no secret
                if time.monotonic() + wait - started > hold.total_seconds():
                    return _each(error, chunks)
                log.warning("upsert.delayed", index=name, chunks=len(chunks), reason=error.message)
                await asyncio.sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            except Transient as error:  # the lease is lost
                return _each(error, chunks)
            else:
                self.written |= len(errors) < len(chunks)
                return errors

    async def _try(self, name: str, chunks: Sequence[ChunkPoints]) -> dict[Lease, ForeaskError]:
        """Write the points; return the errors of chunks of which Qdrant refuses a point.

        Raises:
            Transient: Qdrant does not take the points of the collection now, or the lease is lost.
        """
        self.require_lease()
        await self.index.ensure_collection(name, self.dimensions)
        refused = await self.index.upsert(name, [point for each in chunks for point in each.points])
        errors: dict[Lease, ForeaskError] = {}
        for each in chunks:
            if error := next((refused[point.id] for point in each.points if point.id in refused), None):
                errors[each.chunk.lease] = Permanent(f"Qdrant refuses the points of this chunk: {error.message}")
                log.warning("points.refused", index=name, **_named(each.chunk))
        written = [each for each in chunks if each.chunk.lease not in errors]
        if kept := [each.chunk for each in written if each.keeps_text]:
            await self.index.renew(name, kept)
        if rewritten := [each.chunk for each in written if each.chunk.may_have_points]:
            await self.index.delete_leftovers(name, rewritten)
        return errors


def _requested(error: Unavailable) -> float:
    """Return the seconds that Qdrant asks to wait, if it is more than our own pause of an unavailable engine."""
    after = error.retry_after or timedelta()
    return after.total_seconds() if after > RETRY_AFTER else 0.0


def _each(error: ForeaskError, chunks: Sequence[ChunkPoints]) -> dict[Lease, ForeaskError]:
    return {each.chunk.lease: error for each in chunks}


def _named(chunk: ChunkToIndex) -> dict[str, str]:
    return {"chunk_id": str(chunk.lease.id), "document_id": str(chunk.document_id), "tenant": chunk.tenant}
