"""Writes of a batch's points, which are repeated while Qdrant accepts no writes, and divided if it rejects a point."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from shared.domain.errors import ForeaskError, Permanent, Unavailable
from shared.domain.work import ChunkToIndex, Lease
from shared.vectors.index import Index
from shared.vectors.points import Point

_HOLD = timedelta(minutes=10)  # time for which vectors are held while Qdrant accepts no writes
_HOLD_BESIDE_OTHERS = timedelta(seconds=5)  # and if other collections of the batch were written
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 3.0
_REFUSALS = 1 + 2 + 4 + 8  # of a collection that took none: it refuses all, halves, quarters and eighths

ChunkPoints = Sequence[tuple[ChunkToIndex, Sequence[Point]]]

log = structlog.get_logger()


class _PointsRefused(Permanent):
    """Qdrant rejected a request because of some points, without naming them; others may have been written."""


@dataclass(slots=True)
class PointWriter:
    """Writes the points of one batch; `written` is whether any collection of the batch took points."""

    index: Index
    dimensions: int
    require_lease: Callable[[], None]
    written: bool = False

    async def write(self, name: str, chunks: ChunkPoints) -> dict[Lease, ForeaskError]:
        """Write the points of one collection; return the errors of the chunks whose points are incomplete.

        If Qdrant rejects points, halves are written, and halves of these, until the rejected chunks are isolated: with
        n chunks this takes at most 2 log2(n) requests per rejected chunk. A collection that accepts none is abandoned
        earlier, because the chunks are not the cause.
        """
        started = time.monotonic()
        errors: dict[Lease, ForeaskError] = {}
        parts, refusals, taken = deque([chunks]), 0, False
        while parts:
            part = parts.popleft()
            error = await self._hold(name, part, started)
            if error is None:
                taken = True
                continue
            if not isinstance(error, _PointsRefused):
                return errors | _each(error, part, *parts)
            if len(part) == 1:
                errors |= _each(_refused("this chunk", error), part)
                log.warning("points.refused", index=name, **_named(part[0][0]))
            else:
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]
            refusals += 1
            if refusals >= _REFUSALS and not taken:
                return errors | _each(_refused("every chunk of the collection", error), *parts)
        self.written |= taken
        return errors

    async def _hold(self, name: str, chunks: ChunkPoints, started: float) -> ForeaskError | None:
        """Write points, and retry while Qdrant does not take them; return the last error.

        Vectors are paid, so they are kept until the lease expires. A collection that rejects points while others accept
        them is abandoned early, because it must not delay the other chunks.
        """
        pause = _FIRST_PAUSE_SECONDS
        while True:
            error = await self._try(name, chunks)
            hold = _HOLD_BESIDE_OTHERS if self.written else _HOLD
            if not isinstance(error, Unavailable) or time.monotonic() - started > hold.total_seconds():
                return error
            log.warning("upsert.delayed", index=name, chunks=len(chunks), reason=error.message)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - no secret
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _try(self, name: str, chunks: ChunkPoints) -> ForeaskError | None:
        written_again = [chunk for chunk, _ in chunks if chunk.may_have_points]
        try:
            self.require_lease()
            await self.index.ensure_collection(name, self.dimensions)
            await self._upsert(name, [point for _, points in chunks for point in points])
            if written_again:
                await self.index.delete_leftovers(name, written_again)
        except ForeaskError as error:
            return error
        return None

    async def _upsert(self, name: str, points: Sequence[Point]) -> None:
        try:
            await self.index.upsert(name, points)
        except Permanent as error:
            raise _PointsRefused(error.message) from error


def _each(error: ForeaskError, *parts: ChunkPoints) -> dict[Lease, ForeaskError]:
    return {chunk.lease: error for part in parts for chunk, _ in part}


def _refused(which: str, error: ForeaskError) -> Permanent:
    return Permanent(f"Qdrant refuses the points of {which}: {error.message}")


def _named(chunk: ChunkToIndex) -> dict[str, str]:
    return {"chunk_id": str(chunk.lease.id), "document_id": str(chunk.document_id), "tenant": chunk.tenant}
