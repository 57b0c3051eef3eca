"""Estimates: their inputs, and the estimate with which a collection's last load started."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from uuid import UUID

import orjson

from features.estimates.domain import BilledChunk, Estimate, Spent, StoredChunk, StoredEstimate
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.spending.usage import Usage
from shared.ledger.model import states
from shared.ledger.model.collection_options import options_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database

_RECENT_DOCUMENTS = 500
_CHUNKS_EACH = 5

SQL = statements.load(
    __file__, states.FRAGMENTS, recent_documents=str(_RECENT_DOCUMENTS), chunks_each=str(_CHUNKS_EACH)
)


class Estimates:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def chunks(
        self, collection_id: UUID, after: StoredChunk | None, *, below: UUID | None = None, limit: int = 1_000
    ) -> list[StoredChunk]:
        """Return the next chunks of a collection, ordered by document and ordinal.

        Args:
            collection_id: the collection.
            after: last chunk of the previous page; None for the first page.
            below: exclusive upper bound of the document ids.
            limit: maximum number of chunks.
        """
        parameters = {
            "collection": collection_id,
            "after": after.document if after else "",
            "ordinal": after.ordinal if after else -1,
            "below": below,
            "limit": limit,
        }
        async with self._database.begin() as connection:
            return [_stored(row) for row in (await connection.execute(SQL.chunks, parameters))]

    async def pages(self, collection_id: UUID) -> int:
        """Return the number of pages without a text layer in a collection."""
        async with self._database.begin() as connection:
            count: int = (await connection.execute(SQL.pages, {"collection": collection_id})).scalar_one()
        return count

    async def paid(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return the number of questions of each paid content among these content keys."""
        async with self._database.begin() as connection:
            found = (await connection.execute(SQL.paid_questions, {"keys": list(keys)})).all()
        return {row[0]: row[1] for row in found}

    async def billed(
        self, tenant: str, model: str, collection_id: UUID | None = None, limit: int = 200
    ) -> list[BilledChunk]:
        """Return some recently paid chunks of the tenant, or of one of its collections."""
        parameters = {"tenant": tenant, "model": model, "collection": collection_id, "limit": limit}
        async with self._database.begin() as connection:
            return [_billed(row) for row in (await connection.execute(SQL.billed, parameters))]

    async def store(self, collection_id: UUID, estimate: Estimate) -> None:
        """Replace the collection's last estimate with the estimate of a load that starts now."""
        parameters = {
            "collection": collection_id,
            "estimate": orjson.dumps(dataclasses.asdict(estimate)).decode(),
        }
        async with self._database.begin() as connection:
            await connection.execute(SQL.save, parameters)

    async def latest(self, tenant: str, limit: int = 20) -> list[StoredEstimate]:
        """Return the estimates of a tenant's last loads, at most a month old, with the costs billed since."""
        rows = await self._database.rows(SQL.saved, {"tenant": tenant, "limit": limit})
        return [_stored_estimate(row) for row in rows]


def _stored(row: Row) -> StoredChunk:
    return StoredChunk(
        document=row["external_id"],
        ordinal=row["ordinal"],
        filename=row["filename"],
        media_type=row["media_type"],
        content=ChunkContent.from_json(row["content"]),
        ready_questions=row["ready_questions"],
        content_key=row["content_key"],
        has_points=row["has_points"],
        reasons=tuple(row["reasons"]),
    )


def _billed(row: Row) -> BilledChunk:
    return BilledChunk(
        tenant=row["tenant"],
        options=options_of(row["options"]),
        content=ChunkContent.from_json(row["content"]),
        content_key=row["content_key"],
        usage=Usage(row["prompt_tokens"], row["completion_tokens"]),
        calls=row["calls"],
        questions=tuple(row["questions"]),
        passed=row["questions_passed"],
    )


def _stored_estimate(row: Row) -> StoredEstimate:
    since = {f.name: row[f.name] - row["before"][f.name] for f in dataclasses.fields(Spent)}
    return StoredEstimate(collection=row["name"], at=row["at"], estimate=row["estimate"], since=Spent(**since))
