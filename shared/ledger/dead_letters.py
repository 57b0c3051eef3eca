"""Dead letters: documents that cannot be parsed and chunks that were given up; listed, tried again, or discarded.

Only a document that is not in work is touched, under a lock on its row: a worker who is about to finish a document
must not find that one of its chunks is open again.
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

from shared.domain.errors import NotFound
from shared.domain.records import Attempt, DeadLetter, DeadReason
from shared.ledger.database import Database

_AT_ONCE = 1000  # letters of one transaction: a million of them must not hold their locks together
_REASONS = 200
# Settles a group of letters; returns how many they were, and whether there may be more.
Step = Callable[[AsyncConnection, dict[str, Any]], Awaitable[tuple[int, bool]]]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of a tenant's dead letters; what is None does not matter."""

    document_id: UUID | None = None
    collection: str | None = None
    reason: str | None = None
    letter_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ResolvedLetters:
    """How many dead letters were revived or discarded; `in_work` were left alone, for their documents are in work."""

    documents: int
    chunks: int
    in_work: int = 0


class DeadLetters:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, tenant: str, choice: Choice | None = None, *, after: tuple[datetime, UUID] | None = None, limit: int = 50
    ) -> list[DeadLetter]:
        """Return dead letters without their history, the newest first, from behind `after` on."""
        at, letter_id = after or (None, None)
        parameters = _chosen(tenant, choice or Choice()) | {"at": at, "after": letter_id, "limit": limit}
        async with self._database.begin() as connection:
            return [_letter(row) for row in (await connection.execute(_PAGE, parameters)).mappings()]

    async def reasons(self, tenant: str, choice: Choice | None = None) -> list[DeadReason]:
        """Return how many documents and chunks died of each reason, the most frequent first, at most 200."""
        parameters = _chosen(tenant, choice or Choice()) | {"limit": _REASONS}
        async with self._database.begin() as connection:
            return [DeadReason(**row) for row in (await connection.execute(_COUNTS, parameters)).mappings()]

    async def get(self, tenant: str, letter_id: UUID) -> DeadLetter:
        """Return a dead letter with its history.

        Raises:
            NotFound: this tenant has none of that id.
        """
        async with self._database.begin() as connection:
            return await _get(connection, tenant, letter_id)

    async def retry(self, tenant: str, choice: Choice) -> ResolvedLetters:
        """Give dead letters another round of attempts.

        Raises:
            NotFound: this tenant has no such letter or document.
        """
        return await self._settle(tenant, choice, revive_documents, revive_chunks)

    async def discard(self, tenant: str, choice: Choice) -> ResolvedLetters:
        """Give dead letters up, for good.

        A document that queries have an older version of goes back to that; one that they never saw is deleted. A
        chunk stays found by its text if it was, and its document is `ready` once none of its chunks is dead.

        Raises:
            NotFound: this tenant has no such letter or document.
        """
        return await self._settle(tenant, choice, _discard_documents, _discard_chunks)

    async def _settle(self, tenant: str, choice: Choice, documents: Step, chunks: Step) -> ResolvedLetters:
        async with self._database.begin() as connection:
            await _require_there(connection, tenant, choice)
            # What dies again meanwhile is not taken up again.
            parameters = _chosen(tenant, choice) | {"until": (await connection.execute(text("SELECT now()"))).scalar()}
        settled = ResolvedLetters(
            await self._in_groups(documents, parameters), await self._in_groups(chunks, parameters)
        )
        async with self._database.begin() as connection:
            left = (await connection.execute(_IN_WORK, parameters)).scalar_one()
        return dataclasses.replace(settled, in_work=left)

    async def _in_groups(self, step: Step, parameters: dict[str, Any]) -> int:
        total = 0
        while True:
            async with self._database.begin() as connection:
                count, more = await step(connection, parameters)
            total += count
            if not more:
                return total


def chosen_document(tenant: str, document_id: UUID) -> dict[str, Any]:
    """The parameters that choose whatever is dead of one document, whenever it died."""
    return _chosen(tenant, Choice(document_id=document_id)) | {"until": None}


async def revive_documents(connection: AsyncConnection, parameters: dict[str, Any]) -> tuple[int, bool]:
    """Queue failed documents again; return how many, and whether there may be more."""
    count = len((await connection.execute(_REVIVE_DOCUMENTS, parameters | {"limit": _AT_ONCE})).all())
    return count, count == _AT_ONCE


async def revive_chunks(connection: AsyncConnection, parameters: dict[str, Any]) -> tuple[int, bool]:
    """Open dead chunks again; return how many, and whether there may be more."""
    return await _settle_chunks(connection, parameters, _REVIVE_CHUNKS, _REOPEN)


async def _discard_documents(connection: AsyncConnection, parameters: dict[str, Any]) -> tuple[int, bool]:
    count = len((await connection.execute(_DISCARD_DOCUMENTS, parameters | {"limit": _AT_ONCE})).all())
    return count, count == _AT_ONCE


async def _discard_chunks(connection: AsyncConnection, parameters: dict[str, Any]) -> tuple[int, bool]:
    return await _settle_chunks(connection, parameters, _DISCARD_CHUNKS, _MADE_READY)


async def _settle_chunks(
    connection: AsyncConnection, parameters: dict[str, Any], chunks: TextClause, documents: TextClause
) -> tuple[int, bool]:
    found = (await connection.execute(_DEGRADED, parameters | {"limit": _AT_ONCE})).scalars().all()
    if not found:
        return 0, False
    locked = (await connection.execute(_LOCK, {"ids": found})).scalars().all()
    touched = (await connection.execute(chunks, parameters | {"ids": locked})).scalars().all()
    await connection.execute(documents, {"ids": sorted(set(touched))})
    return len(touched), bool(touched)


async def _get(connection: AsyncConnection, tenant: str, letter_id: UUID) -> DeadLetter:
    parameters = _chosen(tenant, Choice(letter_id=letter_id)) | {"at": None, "after": None, "limit": 1}
    row = (await connection.execute(_PAGE, parameters)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"There is no dead letter {letter_id}. GET /v1/dead lists those that exist.")
    return dataclasses.replace(_letter(row), history=tuple(Attempt(**attempt) for attempt in row["history"]))


async def _require_there(connection: AsyncConnection, tenant: str, choice: Choice) -> None:
    if choice.letter_id is not None:
        await _get(connection, tenant, choice.letter_id)
    if choice.document_id is not None:
        parameters = {"id": choice.document_id, "tenant": tenant}
        if (await connection.execute(_DOCUMENT, parameters)).one_or_none() is None:
            raise NotFound(f"There is no document {choice.document_id}. GET /v1/documents lists those that exist.")


def _chosen(tenant: str, choice: Choice) -> dict[str, Any]:
    return {"tenant": tenant, **dataclasses.asdict(choice)}


def _letter(row: RowMapping) -> DeadLetter:
    return DeadLetter(**{name: value for name, value in row.items() if name != "history"})


_UNCLAIMED = "attempts = 0, lost_leases = 0, lease_token = NULL, leased_by = NULL"

_CHUNKS = """
    FROM chunks c
    JOIN documents d ON d.id = c.document_id AND d.version = c.version
    JOIN collections l ON l.id = d.collection_id
    WHERE c.tenant = :tenant AND c.state = 'dead'
      AND (CAST(:document_id AS uuid) IS NULL OR c.document_id = :document_id)
      AND (CAST(:letter_id AS uuid) IS NULL OR c.id = :letter_id)
      AND (CAST(:reason AS text) IS NULL OR c.error = :reason)
      AND (CAST(:collection AS text) IS NULL OR l.name = :collection)
"""

_DOCUMENTS = """
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.tenant = :tenant AND d.state = 'failed'
      AND (CAST(:document_id AS uuid) IS NULL OR d.id = :document_id)
      AND (CAST(:letter_id AS uuid) IS NULL OR d.id = :letter_id)
      AND (CAST(:reason AS text) IS NULL OR d.error = :reason)
      AND (CAST(:collection AS text) IS NULL OR l.name = :collection)
"""

_PAGE = text(f"""
    (SELECT 'chunk' AS kind, c.id, c.document_id, d.external_id, l.name AS collection, c.ordinal,
            coalesce(c.error, '') AS reason, coalesce((c.history -> -1 ->> 'attempt')::int, 1) AS attempts,
            c.settled_at AS at, c.history
     {_CHUNKS}
       AND (CAST(:at AS timestamptz) IS NULL OR (c.settled_at, c.id) < (:at, CAST(:after AS uuid)))
     ORDER BY c.settled_at DESC, c.id DESC LIMIT :limit)
    UNION ALL
    (SELECT 'document', d.id, d.id, d.external_id, l.name, NULL,
            coalesce(d.error, ''), coalesce((d.history -> -1 ->> 'attempt')::int, 1), d.updated_at, d.history
     {_DOCUMENTS}
       AND (CAST(:at AS timestamptz) IS NULL OR (d.updated_at, d.id) < (:at, CAST(:after AS uuid)))
     ORDER BY d.updated_at DESC, d.id DESC LIMIT :limit)
    ORDER BY at DESC, id DESC LIMIT :limit
""")

_COUNTS = text(f"""
    SELECT reason, sum(documents)::int AS documents, sum(chunks)::int AS chunks
    FROM (SELECT coalesce(c.error, '') AS reason, 0 AS documents, 1 AS chunks {_CHUNKS}
          UNION ALL
          SELECT coalesce(d.error, ''), 1, 0 {_DOCUMENTS}) letters
    GROUP BY reason ORDER BY count(*) DESC, reason LIMIT :limit
""")

_DOCUMENT = text("SELECT 1 FROM documents WHERE id = :id AND tenant = :tenant AND state <> 'deleting'")

_UNTIL = "(CAST(:until AS timestamptz) IS NULL OR {time} <= :until)"

_IN_WORK = text(f"SELECT count(*) {_CHUNKS} AND d.state <> 'degraded' AND {_UNTIL.format(time='c.settled_at')}")

_FAILED = f"""
    SELECT d.id {_DOCUMENTS} AND {_UNTIL.format(time="d.updated_at")}
    ORDER BY d.updated_at, d.id LIMIT :limit FOR UPDATE OF d
"""

_REVIVE_DOCUMENTS = text(f"""
    WITH failed AS ({_FAILED})
    UPDATE documents d
    SET state = 'queued', error = NULL, due_at = now(), updated_at = now(), {_UNCLAIMED}
    FROM failed WHERE d.id = failed.id
    RETURNING d.id
""")

# A document goes back to what queries see of it. The content that failed is not that, so it is no longer known by its
# hash; and its version's number is not given again, for a late writer may still hold it. The parse failed, so there
# are no chunks of it.
_DISCARD_DOCUMENTS = text(f"""
    WITH failed AS ({_FAILED})
    UPDATE documents d
    SET state = CASE
            WHEN d.live_version IS NULL THEN 'deleting'
            WHEN EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.live_version
                                                  AND c.state = 'dead') THEN 'degraded'
            ELSE 'ready' END,
        version = coalesce(d.live_version, greatest(d.version, d.discarded_version) + 1),
        discarded_version = greatest(d.version, d.discarded_version),
        content_hash = '', error = NULL, due_at = now(), updated_at = now(), {_UNCLAIMED}
    FROM failed WHERE d.id = failed.id
    RETURNING d.id
""")

_DEGRADED = text(f"""
    SELECT DISTINCT document_id
    FROM (SELECT c.document_id {_CHUNKS} AND d.state = 'degraded' AND {_UNTIL.format(time="c.settled_at")}
          ORDER BY c.settled_at LIMIT :limit) dead
""")

_LOCK = text("""
    SELECT id FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = 'degraded' ORDER BY id FOR UPDATE
""")

_LOCKED = f"""
    WHERE (c.id, c.version) IN (
        SELECT c.id, c.version {_CHUNKS} AND d.id = ANY(CAST(:ids AS uuid[]))
           AND {_UNTIL.format(time="c.settled_at")})
    RETURNING c.document_id
"""

# A chunk that is paid for finds its completion when it is claimed, so it needs no call to start again from the front.
# Its version is live, so that what it is found by stays in sight while it is written again.
_REVIVE_CHUNKS = text(f"""
    UPDATE chunks c
    SET state = CASE WHEN ready_questions IS NULL THEN 'generating' ELSE 'generated' END, error = NULL, hidden = false,
        due_at = now(), settled_at = NULL, {_UNCLAIMED}
    {_LOCKED}
""")

_REOPEN = text(f"""
    UPDATE documents SET state = 'generating', error = NULL, due_at = now(), updated_at = now(), {_UNCLAIMED}
    WHERE id = ANY(CAST(:ids AS uuid[]))
""")

_DISCARD_CHUNKS = text(f"UPDATE chunks c SET state = 'discarded' {_LOCKED}")

_MADE_READY = text("""
    UPDATE documents d SET state = 'ready', updated_at = now()
    WHERE d.id = ANY(CAST(:ids AS uuid[]))
      AND NOT EXISTS (SELECT 1 FROM chunks c
                      WHERE c.document_id = d.id AND c.version = d.version AND c.state = 'dead')
""")
