"""Estimates: their inputs, and the estimate with which a collection's last load started."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from uuid import UUID

import orjson
from sqlalchemy import RowMapping, text

from shared.domain.chunks import ChunkContent
from shared.domain.estimates import BilledChunk, Estimate, KeptEstimate, Spent, StoredChunk
from shared.domain.states import ChunkState
from shared.domain.usage import Usage
from shared.ledger.model import states
from shared.ledger.model.collections import options_of
from shared.ledger.postgres.database import Database

_RECENT_DOCUMENTS = 500
_CHUNKS_EACH = 5

# Read chunks of the newest versions of a collection's documents in the order of external ids, after a position. Ids are
# random, so the ids below a bound are a sample.
_CHUNKS = text(f"""
    SELECT d.external_id, c.ordinal, v.filename, v.media_type, t.content,
           CASE WHEN c.ready_made THEN coalesce(cardinality(t.ready_questions), 0) END AS ready_questions,
           c.content_key, c.points_token IS NOT NULL AS stands, coalesce(q.reasons, '{{}}') AS reasons
    FROM documents d
    JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    CROSS JOIN LATERAL (
        SELECT c.id, c.version, c.ordinal, c.ready_made, c.content_key, c.points_token FROM chunks c
        WHERE c.document_id = d.id AND c.version = d.version AND (d.external_id > :after OR c.ordinal > :ordinal)
        ORDER BY c.ordinal) c
    JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
    LEFT JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
    WHERE d.collection_id = :collection AND {states.exists("d")} AND NOT ({states.is_in(states.TO_PARSE, "d")})
      AND d.external_id >= :after AND (CAST(:below AS uuid) IS NULL OR d.id < :below)
    ORDER BY d.external_id, c.ordinal LIMIT :limit
""")

# Return the number of questions of those contents that are paid.
_PAID = text("""
    SELECT content_key, cardinality(questions) FROM completions WHERE content_key = ANY(CAST(:keys AS bytea[]))
""")

# Read chunks that were paid for, of the documents of a collection, or else of a tenant, that changed last.
_BILLED = text(f"""
    SELECT d.tenant, l.options, t.content, c.content_key, c.prompt_tokens, c.completion_tokens, c.calls, o.questions,
           c.questions_passed
    FROM (SELECT * FROM documents
          WHERE tenant = :tenant AND {states.exists()}
            AND (CAST(:collection AS uuid) IS NULL OR collection_id = :collection)
          ORDER BY updated_at DESC LIMIT {_RECENT_DOCUMENTS}) d
    JOIN collections l ON l.id = d.collection_id
    CROSS JOIN LATERAL (
        SELECT * FROM chunks c
        WHERE c.document_id = d.id AND c.version = d.version AND c.calls > 0 AND c.state = '{ChunkState.INDEXED}'
        LIMIT {_CHUNKS_EACH}) c
    JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
    JOIN completions o ON o.content_key = c.content_key AND o.model = :model
    LIMIT :limit
""")

# Sum up the costs billed for a collection.
_SPENT = """
    SELECT coalesce(sum(s.calls) FILTER (WHERE s.kind = 'generate'), 0)::bigint AS calls,
           coalesce(sum(s.prompt_tokens) FILTER (WHERE s.kind = 'generate'), 0)::bigint AS prompt_tokens,
           coalesce(sum(s.completion_tokens) FILTER (WHERE s.kind = 'generate'), 0)::bigint AS completion_tokens,
           coalesce(sum(s.prompt_tokens) FILTER (WHERE s.kind = 'embed'), 0)::bigint AS embedding_tokens
    FROM (SELECT tenant, collection_id, kind, prompt_tokens, completion_tokens, calls FROM spent_changes
          UNION ALL
          SELECT tenant, collection_id, kind, prompt_tokens, completion_tokens, calls FROM spent_by_day) s
    WHERE s.tenant = l.tenant AND s.collection_id = l.id"""

# Replace the collection's last estimate, with the costs billed until now.
_KEEP = text(f"""
    INSERT INTO estimates (collection_id, estimate, spent)
    SELECT l.id, CAST(:estimate AS jsonb), to_jsonb(s) FROM collections l CROSS JOIN LATERAL ({_SPENT}) s
    WHERE l.id = :collection
    ON CONFLICT (collection_id) DO UPDATE SET estimate = excluded.estimate, spent = excluded.spent, at = now()
""")

# Read the estimates of a tenant's collections, latest first, with the costs billed since.
_KEPT = text(f"""
    SELECT l.name, e.at, e.estimate, e.spent AS before, s.* FROM estimates e
    JOIN collections l ON l.id = e.collection_id
    CROSS JOIN LATERAL ({_SPENT}) s
    WHERE l.tenant = :tenant AND e.at > now() - interval '30 days'
    ORDER BY e.at DESC LIMIT :limit
""")


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
            return [_stored(row) for row in (await connection.execute(_CHUNKS, parameters)).mappings()]

    async def paid(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Return the numbers of questions of those contents that are paid."""
        async with self._database.begin() as connection:
            found = (await connection.execute(_PAID, {"keys": list(keys)})).all()
        return {row[0]: row[1] for row in found}

    async def billed(
        self, tenant: str, model: str, collection_id: UUID | None = None, limit: int = 200
    ) -> list[BilledChunk]:
        """Return some recently paid chunks, of one collection if it is named."""
        parameters = {"tenant": tenant, "model": model, "collection": collection_id, "limit": limit}
        async with self._database.begin() as connection:
            return [_billed(row) for row in (await connection.execute(_BILLED, parameters)).mappings()]

    async def keep(self, collection_id: UUID, estimate: Estimate) -> None:
        """Replace the collection's last estimate with that of a load that starts now."""
        parameters = {
            "collection": collection_id,
            "estimate": orjson.dumps(dataclasses.asdict(estimate)).decode(),
        }
        async with self._database.begin() as connection:
            await connection.execute(_KEEP, parameters)

    async def kept(self, tenant: str, limit: int = 20) -> list[KeptEstimate]:
        """Return the estimates of a tenant's last loads, at most a month old, with the costs billed since."""
        async with self._database.begin() as connection:
            return [_kept(r) for r in (await connection.execute(_KEPT, {"tenant": tenant, "limit": limit})).mappings()]


def _stored(row: RowMapping) -> StoredChunk:
    return StoredChunk(
        document=row["external_id"],
        ordinal=row["ordinal"],
        filename=row["filename"],
        media_type=row["media_type"],
        content=ChunkContent.from_json(row["content"]),
        ready_questions=row["ready_questions"],
        content_key=row["content_key"],
        has_points=row["stands"],
        reasons=tuple(row["reasons"]),
    )


def _billed(row: RowMapping) -> BilledChunk:
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


def _kept(row: RowMapping) -> KeptEstimate:
    since = {f.name: row[f.name] - row["before"][f.name] for f in dataclasses.fields(Spent)}
    return KeptEstimate(collection=row["name"], at=row["at"], estimate=row["estimate"], since=Spent(**since))
