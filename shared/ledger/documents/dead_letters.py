"""Dead letters: documents that cannot be parsed, and pages and chunks whose attempts are used up.

A row changes only while its document is not being processed, and under a lock on the document: a worker that is about
to finish a document must not encounter a reopened chunk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.corpus.dead_letters import DeadLetter, DeadReason
from shared.domain.errors import NotFound
from shared.domain.lanes import Lane
from shared.ledger.documents import build_sync, versions
from shared.ledger.model import states
from shared.ledger.model.rows.history import attempts_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

_BATCH_SIZE = 1000  # letters of one transaction: a million of them must not hold their locks together
_MOST_REASONS = 200
# Resolves a batch of letters; returns how many they were, and whether there may be more.
Step = Callable[[Connection, dict[str, Any]], Awaitable[tuple[int, bool]]]

SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    discard_state=states.DISCARD_DOCUMENT.sets("d.live_version IS NULL", "{live_has_open}", "{live_is_incomplete}"),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection of a tenant's dead letters; None in a field matches every letter."""

    document_id: UUID | None = None
    collection: str | None = None
    reason: str | None = None
    letter_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ResolvedLetters:
    """Numbers of revived or discarded dead letters, and of dead letters whose documents are in progress."""

    documents: int
    chunks: int
    in_progress: int
    pages: int = 0


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
            return [_letter(row) for row in (await connection.execute(SQL.page, parameters))]

    async def reasons(self, tenant: str, choice: Choice | None = None) -> list[DeadReason]:
        """Count dead letters of each kind by reason, at most 200 reasons, the most frequent first."""
        parameters = _parameters(tenant, choice or Choice()) | {"limit": _MOST_REASONS}
        async with self._database.begin() as connection:
            return [DeadReason(**row) for row in (await connection.execute(SQL.count_by_reason, parameters))]

    async def get(self, tenant: str, letter_id: UUID) -> DeadLetter:
        """Return a dead letter with its history.

        Raises:
            NotFound: the tenant has no dead letter of that id.
        """
        async with self._database.begin() as connection:
            return await _get(connection, tenant, letter_id)

    async def retry(self, tenant: str, choice: Choice) -> ResolvedLetters:
        """Give dead letters another round of attempts.

        A dead page starts the next version of its document, with the same content: all its dead pages are read again,
        and only they.

        Raises:
            NotFound: the tenant has no such letter or document.
        """
        return await self._resolve(tenant, choice, revive_documents, revive_pages, revive_chunks)

    async def discard(self, tenant: str, choice: Choice) -> ResolvedLetters:
        """Discard dead letters permanently.

        A failed document reverts to the version that queries see, and a document without one is deleted, in every
        build; a document that failed only in a build that is not live is retained. A discarded chunk keeps its points,
        and its document is `ready` once no chunk and no page is dead.

        Raises:
            NotFound: the tenant has no such letter or document.
        """
        return await self._resolve(tenant, choice, _discard_documents, _discard_pages, _discard_chunks)

    async def _resolve(
        self, tenant: str, choice: Choice, documents: Step, pages: Step, chunks: Step
    ) -> ResolvedLetters:
        async with self._database.begin() as connection:
            await _require_target(connection, tenant, choice)
            parameters = _parameters(tenant, choice) | {"until": (await connection.execute(SQL.now)).scalar_one()}
        documents_resolved = await self._in_batches(documents, parameters)
        pages_resolved = await self._in_batches(pages, parameters)
        chunks_resolved = await self._in_batches(chunks, parameters)
        async with self._database.begin() as connection:
            in_progress = (await connection.execute(SQL.count_in_progress, parameters)).scalar_one()
        return ResolvedLetters(documents_resolved, chunks_resolved, in_progress, pages_resolved)

    async def _in_batches(self, step: Step, parameters: dict[str, Any]) -> int:
        total = 0
        while True:
            async with self._database.begin() as connection:
                count, more = await step(connection, parameters)
            total += count
            if not more:
                return total


def document_parameters(tenant: str, document_id: UUID) -> dict[str, Any]:
    """Return the parameters that select all dead letters of one document."""
    return _parameters(tenant, Choice(document_id=document_id)) | {"until": None}


async def revive_documents(connection: Connection, parameters: dict[str, Any]) -> tuple[int, bool]:
    """Queue failed documents again; return their number, and whether there may be more."""
    count = len((await connection.execute(SQL.revive_documents, parameters | {"limit": _BATCH_SIZE})).all())
    return count, count == _BATCH_SIZE


async def revive_pages(connection: Connection, parameters: dict[str, Any]) -> tuple[int, bool]:
    """Start the next versions of degraded documents with dead pages; return the number of these pages.

    The second value is whether there may be more. Documents with dead pages need no revival of their chunks.
    """
    locked = await _lock_unread(connection, parameters)
    if not locked:
        return 0, False
    pages = (await connection.execute(SQL.count_pages, parameters | {"ids": locked})).scalar_one()
    await versions.reindex(connection, locked, lane=Lane.INTERACTIVE, job_id=None)
    return pages, True


async def revive_chunks(connection: Connection, parameters: dict[str, Any]) -> tuple[int, bool]:
    """Reopen dead chunks; return their number, and whether there may be more."""
    return await _resolve_chunks(connection, parameters, SQL.revive_chunks, SQL.reopen)


async def _discard_documents(connection: Connection, parameters: dict[str, Any]) -> tuple[int, bool]:
    return await _discard(connection, SQL.discard_documents, parameters)


async def discard_queued(connection: Connection, job_id: UUID) -> tuple[int, bool]:
    """Discard queued documents of a job; return their number, and whether there may be more.

    A document reverts to the version that queries see, and a document without one is deleted, in every build.
    """
    return await _discard(connection, SQL.discard_queued, {"job": job_id})


async def _discard(connection: Connection, statement: Statement, parameters: dict[str, Any]) -> tuple[int, bool]:
    discarded = (await connection.execute(statement, parameters | {"limit": _BATCH_SIZE})).scalars()
    await versions.supersede(connection, discarded)
    await build_sync.follow_everywhere(connection, discarded)
    return len(discarded), len(discarded) == _BATCH_SIZE


async def _discard_pages(connection: Connection, parameters: dict[str, Any]) -> tuple[int, bool]:
    locked = await _lock_unread(connection, parameters)
    changed = (await connection.execute(SQL.discard_pages, parameters | {"ids": locked})).scalars()
    await connection.execute(SQL.make_ready, {"ids": sorted(set(changed))})
    return len(changed), bool(changed)


async def _lock_unread(connection: Connection, parameters: dict[str, Any]) -> Sequence[UUID]:
    """Lock some degraded documents with dead pages of a choice; return them."""
    found = (await connection.execute(SQL.unread_documents, parameters | {"limit": _BATCH_SIZE})).scalars()
    return (await connection.execute(SQL.lock, {"ids": found})).scalars()


async def _discard_chunks(connection: Connection, parameters: dict[str, Any]) -> tuple[int, bool]:
    return await _resolve_chunks(connection, parameters, SQL.discard_chunks, SQL.make_ready)


async def _resolve_chunks(
    connection: Connection, parameters: dict[str, Any], chunks: Statement, documents: Statement
) -> tuple[int, bool]:
    degraded = (await connection.execute(SQL.degraded_documents, parameters | {"limit": _BATCH_SIZE})).scalars()
    if not degraded:
        return 0, False
    locked = (await connection.execute(SQL.lock, {"ids": degraded})).scalars()
    changed = (await connection.execute(chunks, parameters | {"ids": locked})).scalars()
    await connection.execute(documents, {"ids": sorted(set(changed))})
    return len(changed), bool(changed)


async def _get(connection: Connection, tenant: str, letter_id: UUID) -> DeadLetter:
    parameters = _parameters(tenant, Choice(letter_id=letter_id)) | {"at": None, "after": None, "limit": 1}
    row = (await connection.execute(SQL.page, parameters)).one_or_none()
    if row is None:
        raise NotFound(f"There is no dead letter {letter_id}. GET /v1/dead-letters lists the dead letters.")
    return dataclasses.replace(_letter(row), history=attempts_of(row["history"]))


async def _require_target(connection: Connection, tenant: str, choice: Choice) -> None:
    if choice.letter_id is not None:
        await _get(connection, tenant, choice.letter_id)
    if choice.document_id is not None:
        parameters = {"id": choice.document_id, "tenant": tenant}
        if (await connection.execute(SQL.find_document, parameters)).one_or_none() is None:
            raise NotFound(f"There is no document {choice.document_id}. GET /v1/documents lists the documents.")


def _parameters(tenant: str, choice: Choice) -> dict[str, Any]:
    return {"tenant": tenant, **dataclasses.asdict(choice)}


def _letter(row: Row) -> DeadLetter:
    return DeadLetter(**{name: value for name, value in row.items() if name != "history"})
