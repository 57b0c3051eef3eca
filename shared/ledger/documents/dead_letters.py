"""Dead letters: documents that cannot be parsed and chunks whose attempts are used up; listed, retried, or discarded.

A row changes only while its document is not being processed, and under a lock on the document: a worker that is about
to finish a document must not find a chunk reopened.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.dead_letters import Attempt, DeadLetter, DeadReason
from shared.domain.errors import NotFound
from shared.domain.states import ChunkState, DocumentState
from shared.ledger.documents import build_sync, versions
from shared.ledger.model import states
from shared.ledger.postgres.database import Database

_BATCH_SIZE = 1000  # letters of one transaction: a million of them must not hold their locks together
_MOST_REASONS = 200
# Resolves a batch of letters; returns how many they were, and whether there may be more.
Step = Callable[[AsyncConnection, dict[str, Any]], Awaitable[tuple[int, bool]]]

# The selected dead chunks, of any document; a NULL filter matches everything.
_DEAD = f"""
    c.tenant = :tenant AND c.state = '{ChunkState.DEAD}'
      AND (CAST(:letter_id AS uuid) IS NULL OR c.id = :letter_id)
      AND (CAST(:reason AS text) IS NULL OR c.error = :reason)"""

# The selected dead chunks in every build: failures in a build that is not live can be retried, too.
_CHUNKS = f"""
    FROM chunks c
    JOIN documents d ON d.id = c.document_id AND d.version = c.version
    JOIN collections l ON l.id = d.collection_id
    WHERE {_DEAD} AND NOT {states.is_dropping("l")}
      AND (CAST(:document_id AS uuid) IS NULL OR d.public_id = :document_id)
      AND (CAST(:collection AS text) IS NULL OR l.name = :collection)
"""

# The failed documents of a choice.
_DOCUMENTS = f"""
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.tenant = :tenant AND d.state = '{DocumentState.FAILED}'
      AND NOT {states.is_dropping("l")}
      AND (CAST(:document_id AS uuid) IS NULL OR d.public_id = :document_id)
      AND (CAST(:letter_id AS uuid) IS NULL OR d.public_id = :letter_id)
      AND (CAST(:reason AS text) IS NULL OR d.error = :reason)
      AND (CAST(:collection AS text) IS NULL OR l.name = :collection)
"""

# Letters that died before a call started: letters that die again meanwhile are not resolved twice.
_CHUNK_UNTIL = "(CAST(:until AS timestamptz) IS NULL OR c.settled_at <= :until)"
_DOCUMENT_UNTIL = "(CAST(:until AS timestamptz) IS NULL OR d.updated_at <= :until)"

# The failed documents of a choice, locked, the oldest first.
_FAILED = f"""
    SELECT d.id {_DOCUMENTS} AND {_DOCUMENT_UNTIL}
    ORDER BY d.updated_at, d.id LIMIT :limit FOR UPDATE OF d
"""

# The same for live builds and these builds: another build's copy of a document follows the live one.
_FAILED_LIVE = f"""
    SELECT d.id {_DOCUMENTS} AND {_DOCUMENT_UNTIL} AND {states.is_live("l")}
    ORDER BY d.updated_at, d.id LIMIT :limit FOR UPDATE OF d FOR KEY SHARE OF l
"""

# The selected dead chunks whose documents are locked.
_OF_LOCKED = f"""
    WHERE (c.id, c.version) IN (
        SELECT c.id, c.version {_CHUNKS} AND d.id = ANY(CAST(:ids AS uuid[])) AND {_CHUNK_UNTIL})
    RETURNING c.document_id
"""

# List letters of both kinds, the newest first.
_PAGE = text(f"""
    (SELECT 'chunk' AS kind, c.id, d.public_id AS document_id, d.external_id, l.name AS collection, c.ordinal,
            coalesce(c.error, '') AS reason, coalesce((c.history -> -1 ->> 'attempt')::int, 1) AS attempts,
            c.settled_at AS at, c.history
     {_CHUNKS}
       AND (CAST(:at AS timestamptz) IS NULL OR (c.settled_at, c.id) < (:at, CAST(:after AS uuid)))
     ORDER BY c.settled_at DESC, c.id DESC LIMIT :limit)
    UNION ALL
    (SELECT 'document', d.public_id, d.public_id, d.external_id, l.name, NULL,
            coalesce(d.error, ''), coalesce((d.history -> -1 ->> 'attempt')::int, 1), d.updated_at, d.history
     {_DOCUMENTS}
       AND (CAST(:at AS timestamptz) IS NULL OR (d.updated_at, d.public_id) < (:at, CAST(:after AS uuid)))
     ORDER BY d.updated_at DESC, d.public_id DESC LIMIT :limit)
    ORDER BY at DESC, id DESC LIMIT :limit
""")

# Count letters by their reason, the most frequent first. Of dead chunks there is one look for each document: for each
# chunk it took half a second at 60,000 of them, and the planner would read all documents instead.
_COUNTS = text(f"""
    SELECT reason, sum(documents)::int AS documents, sum(chunks)::int AS chunks
    FROM (SELECT c.reason, 0 AS documents, c.chunks
          FROM (SELECT c.document_id, c.version, coalesce(c.error, '') AS reason, count(*) AS chunks
                FROM chunks c WHERE {_DEAD} GROUP BY c.document_id, c.version, c.error OFFSET 0) c
          CROSS JOIN LATERAL (
              SELECT d.collection_id, d.public_id FROM documents d
              WHERE d.id = c.document_id AND d.version = c.version OFFSET 0) d
          WHERE (CAST(:document_id AS uuid) IS NULL OR d.public_id = :document_id)
            AND d.collection_id IN (
                SELECT l.id FROM collections l WHERE l.tenant = :tenant AND NOT {states.is_dropping("l")}
                  AND (CAST(:collection AS text) IS NULL OR l.name = :collection))
          UNION ALL
          SELECT coalesce(d.error, ''), 1, 0 {_DOCUMENTS}) letters
    GROUP BY reason ORDER BY sum(documents + chunks) DESC, reason LIMIT :limit
""")

# Return whether a document exists.
_DOCUMENT = text(f"""
    SELECT 1 FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.public_id = :id AND d.tenant = :tenant AND {states.exists("d")} AND {states.is_live("l")}
""")

# Read the time by the ledger's clock.
_NOW = text("SELECT now()")

# Count the selected dead chunks whose documents are being processed.
_IN_WORK = text(f"SELECT count(*) {_CHUNKS} AND d.state <> '{DocumentState.DEGRADED}' AND {_CHUNK_UNTIL}")

# Queue failed documents again.
_REVIVE_DOCUMENTS = text(f"""
    WITH failed AS ({_FAILED})
    UPDATE documents d
    SET {states.REVIVE_DOCUMENT.sets()}, error = NULL, due_at = now(), updated_at = now(), {states.UNCLAIMED}
    FROM failed WHERE d.id = failed.id
    RETURNING d.id
""")

# The live version of a document has dead chunks.
_LIVE_HAS_DEAD = f"""
    EXISTS (SELECT 1 FROM chunks c
            WHERE c.document_id = d.id AND c.version = d.live_version AND c.state = '{ChunkState.DEAD}')
"""

# The live version of a document still has chunks in progress: it was edited before its questions were generated.
_LIVE_HAS_OPEN = f"""
    EXISTS (SELECT 1 FROM chunks c
            WHERE c.document_id = d.id AND c.version = d.live_version AND {states.is_in(states.OPEN_CHUNKS, "c")})
"""

# Restore the live version of failed documents, and delete documents that never had one. Never reuse the failed number:
# a worker whose lease expired may still write under it.
_DISCARD_DOCUMENTS = text(f"""
    WITH failed AS ({_FAILED_LIVE})
    UPDATE documents d
    SET {states.DISCARD_DOCUMENT.sets("d.live_version IS NULL", _LIVE_HAS_OPEN, _LIVE_HAS_DEAD)},
        version = coalesce(d.live_version, greatest(d.version, d.discarded_version) + 1),
        discarded_version = greatest(d.version, d.discarded_version),
        error = NULL, due_at = now(), updated_at = now(), {states.UNCLAIMED}
    FROM failed WHERE d.id = failed.id
    RETURNING d.id
""")

# Find documents with dead chunks of a choice, the longest dead first.
_DEGRADED = text(f"""
    SELECT DISTINCT document_id
    FROM (SELECT c.document_id {_CHUNKS} AND d.state = '{DocumentState.DEGRADED}' AND {_CHUNK_UNTIL}
          ORDER BY c.settled_at LIMIT :limit) dead
""")

# Lock documents that are still in no worker's hands, in one order, so that two calls cannot deadlock.
_LOCK = text(f"""
    SELECT id FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = '{DocumentState.DEGRADED}'
    ORDER BY id FOR UPDATE
""")

# Reopen dead chunks at the first stage: a paid chunk finds its completion when it is claimed, so it needs no call. Its
# version is live, so its points stay visible while they are rewritten.
_REVIVE_CHUNKS = text(f"""
    UPDATE chunks c
    SET {states.REVIVE_CHUNK.sets()}, error = NULL, due_at = now(), settled_at = NULL, {states.UNCLAIMED}
    {_OF_LOCKED}
""")

# Return documents with revived chunks to processing.
_REOPEN = text(f"""
    UPDATE documents
    SET {states.REOPEN.sets()}, error = NULL, due_at = now(), updated_at = now(), {states.UNCLAIMED}
    WHERE id = ANY(CAST(:ids AS uuid[]))
""")

# Discard dead chunks permanently.
_DISCARD_CHUNKS = text(f"UPDATE chunks c SET {states.DISCARD_CHUNK.sets()} {_OF_LOCKED}")

# Make documents ready that have no dead chunk left.
_MAKE_READY = text(f"""
    UPDATE documents d SET {states.DISCARD_LAST_CHUNK.sets()}, updated_at = now()
    WHERE d.id = ANY(CAST(:ids AS uuid[]))
      AND NOT EXISTS (SELECT 1 FROM chunks c
                      WHERE c.document_id = d.id AND c.version = d.version AND c.state = '{ChunkState.DEAD}')
""")


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection of a tenant's dead letters; a field that is None matches every letter."""

    document_id: UUID | None = None
    collection: str | None = None
    reason: str | None = None
    letter_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ResolvedLetters:
    """Numbers of revived and discarded dead letters, and of those whose documents are in progress."""

    documents: int
    chunks: int
    in_work: int


class DeadLetters:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, tenant: str, choice: Choice | None = None, *, after: tuple[datetime, UUID] | None = None, limit: int = 50
    ) -> list[DeadLetter]:
        """Return dead letters without their history, newest first, after `after`."""
        at, letter_id = after or (None, None)
        parameters = _parameters(tenant, choice or Choice()) | {"at": at, "after": letter_id, "limit": limit}
        async with self._database.begin() as connection:
            return [_letter(row) for row in (await connection.execute(_PAGE, parameters)).mappings()]

    async def reasons(self, tenant: str, choice: Choice | None = None) -> list[DeadReason]:
        """Return how many documents and chunks died of each reason, the most frequent first, at most 200."""
        parameters = _parameters(tenant, choice or Choice()) | {"limit": _MOST_REASONS}
        async with self._database.begin() as connection:
            return [DeadReason(**row) for row in (await connection.execute(_COUNTS, parameters)).mappings()]

    async def get(self, tenant: str, letter_id: UUID) -> DeadLetter:
        """Return a dead letter with its history.

        Raises:
            NotFound: the tenant has no dead letter of that id.
        """
        async with self._database.begin() as connection:
            return await _get(connection, tenant, letter_id)

    async def retry(self, tenant: str, choice: Choice) -> ResolvedLetters:
        """Give dead letters another round of attempts.

        Raises:
            NotFound: the tenant has no such letter or document.
        """
        return await self._resolve(tenant, choice, revive_documents, revive_chunks)

    async def discard(self, tenant: str, choice: Choice) -> ResolvedLetters:
        """Discard dead letters permanently.

        A failed document reverts to the version that queries see, and a document without one is deleted, in every
        build; a document that failed only in a build that is not live is retained. A discarded chunk keeps its points,
        and its document is `ready` once no chunk is dead.

        Raises:
            NotFound: the tenant has no such letter or document.
        """
        return await self._resolve(tenant, choice, _discard_documents, _discard_chunks)

    async def _resolve(self, tenant: str, choice: Choice, documents: Step, chunks: Step) -> ResolvedLetters:
        async with self._database.begin() as connection:
            await _require_target(connection, tenant, choice)
            parameters = _parameters(tenant, choice) | {"until": (await connection.execute(_NOW)).scalar_one()}
        documents_resolved = await self._in_batches(documents, parameters)
        chunks_resolved = await self._in_batches(chunks, parameters)
        async with self._database.begin() as connection:
            in_work = (await connection.execute(_IN_WORK, parameters)).scalar_one()
        return ResolvedLetters(documents_resolved, chunks_resolved, in_work)

    async def _in_batches(self, step: Step, parameters: dict[str, Any]) -> int:
        total = 0
        while True:
            async with self._database.begin() as connection:
                count, more = await step(connection, parameters)
            total += count
            if not more:
                return total


def document_parameters(tenant: str, document_id: UUID) -> dict[str, Any]:
    """Return the parameters that choose every dead letter of one document, whenever it died."""
    return _parameters(tenant, Choice(document_id=document_id)) | {"until": None}


async def revive_documents(connection: AsyncConnection, parameters: dict[str, Any]) -> tuple[int, bool]:
    """Queue failed documents again; return how many, and whether there may be more."""
    count = len((await connection.execute(_REVIVE_DOCUMENTS, parameters | {"limit": _BATCH_SIZE})).all())
    return count, count == _BATCH_SIZE


async def revive_chunks(connection: AsyncConnection, parameters: dict[str, Any]) -> tuple[int, bool]:
    """Open dead chunks again; return how many, and whether there may be more."""
    return await _resolve_chunks(connection, parameters, _REVIVE_CHUNKS, _REOPEN)


async def _discard_documents(connection: AsyncConnection, parameters: dict[str, Any]) -> tuple[int, bool]:
    discarded = (await connection.execute(_DISCARD_DOCUMENTS, parameters | {"limit": _BATCH_SIZE})).scalars().all()
    await versions.supersede(connection, discarded)
    await build_sync.follow_everywhere(connection, discarded)
    return len(discarded), len(discarded) == _BATCH_SIZE


async def _discard_chunks(connection: AsyncConnection, parameters: dict[str, Any]) -> tuple[int, bool]:
    return await _resolve_chunks(connection, parameters, _DISCARD_CHUNKS, _MAKE_READY)


async def _resolve_chunks(
    connection: AsyncConnection, parameters: dict[str, Any], chunks: TextClause, documents: TextClause
) -> tuple[int, bool]:
    degraded = (await connection.execute(_DEGRADED, parameters | {"limit": _BATCH_SIZE})).scalars().all()
    if not degraded:
        return 0, False
    locked = (await connection.execute(_LOCK, {"ids": degraded})).scalars().all()
    changed = (await connection.execute(chunks, parameters | {"ids": locked})).scalars().all()
    await connection.execute(documents, {"ids": sorted(set(changed))})
    return len(changed), bool(changed)


async def _get(connection: AsyncConnection, tenant: str, letter_id: UUID) -> DeadLetter:
    parameters = _parameters(tenant, Choice(letter_id=letter_id)) | {"at": None, "after": None, "limit": 1}
    row = (await connection.execute(_PAGE, parameters)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"There is no dead letter {letter_id}. GET /v1/dead lists those that exist.")
    return dataclasses.replace(_letter(row), history=tuple(Attempt(**attempt) for attempt in row["history"]))


async def _require_target(connection: AsyncConnection, tenant: str, choice: Choice) -> None:
    if choice.letter_id is not None:
        await _get(connection, tenant, choice.letter_id)
    if choice.document_id is not None:
        parameters = {"id": choice.document_id, "tenant": tenant}
        if (await connection.execute(_DOCUMENT, parameters)).one_or_none() is None:
            raise NotFound(f"There is no document {choice.document_id}. GET /v1/documents lists those that exist.")


def _parameters(tenant: str, choice: Choice) -> dict[str, Any]:
    return {"tenant": tenant, **dataclasses.asdict(choice)}


def _letter(row: RowMapping) -> DeadLetter:
    return DeadLetter(**{name: value for name, value in row.items() if name != "history"})
