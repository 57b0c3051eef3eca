"""The audit: the points that Qdrant must contain according to the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.access.persons import NONE_NAMED
from shared.ledger.documents.repeated_indexing import REOPENED, index_again
from shared.ledger.model import states
from shared.ledger.model.rows.questions import disabled_of, disabled_of_chunk, has_disabled
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database

SQL = statements.load(__file__, states.FRAGMENTS, has_disabled=has_disabled, disabled_of=disabled_of)


@dataclass(frozen=True, slots=True)
class DocumentSnapshot:
    """A document's row at one moment; an equal snapshot later means that the row has not changed."""

    id: UUID
    public_id: UUID
    external_id: str
    state: str
    version: int
    live_version: int | None
    updated_at: datetime

    @property
    def is_final(self) -> bool:
        """Whether no worker will change it."""
        return self.state in states.FINAL_DOCUMENTS

    @property
    def is_reopened(self) -> bool:
        """Whether the state is one of a document that the audit has reopened."""
        return self.state in REOPENED

    def is_unchanged(self, now: DocumentSnapshot | None, *, reopened: bool = False) -> bool:
        """Return whether the row is unchanged; a document that the audit `reopened` may be in progress or finished.

        Even then, the parts that the audit has not read yet are unchanged, because it opens chunks of the live version
        only.
        """
        if not reopened or now is None:
            return self == now
        same_version = (now.version, now.live_version) == (self.version, self.live_version)
        return same_version and now.state in REOPENED


@dataclass(frozen=True, slots=True)
class AuditedChunk:
    """A chunk of a live version.

    Args:
        passed: number of its questions with points.
        required: whether the points of its questions must exist; a discarded chunk needs none.
        text_required: whether the point of its text must exist; a dead chunk may have none.
        in_progress: whether a worker may be writing its points.
        title: title in the point of its text.
        metadata: metadata in all its points; None while they are being updated.
        readable_by: readers in all its points, as long as `metadata` is not None.
        accepted: accepted questions whose points must exist.
        accepted_open: accepted questions whose points may exist.
        disabled: plain forms of disabled questions, whose points searches must not find.
    """

    document_id: UUID
    public_id: UUID
    id: UUID
    ordinal: int
    version: int
    passed: int
    required: bool
    text_required: bool
    in_progress: bool
    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    readable_by: Sequence[str] = NONE_NAMED
    accepted: Sequence[UUID] = ()
    accepted_open: Sequence[UUID] = ()
    disabled: Collection[str] = ()


class LockedDocuments:
    """Documents that no other process changes until the transaction ends; `reopened` ones may be in progress."""

    def __init__(self, connection: Connection, ids: frozenset[UUID], reopened: frozenset[UUID]) -> None:
        self._connection = connection
        self._reopened = reopened
        self.ids = ids

    async def index_again(self, chunks: Sequence[UUID]) -> set[UUID]:
        """Index chunks again; return the chunks with paid questions, which are due now."""
        return await index_again(self._connection, list(self.ids), chunks, reopened=list(self._reopened))


class Audit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, collection_id: UUID, *, after: str = "", limit: int = 100) -> list[DocumentSnapshot]:
        """Return documents of any state in the order of their external ids."""
        parameters = {"collection": collection_id, "after": after, "limit": limit}
        async with self._database.begin() as connection:
            return [DocumentSnapshot(**row) for row in (await connection.execute(SQL.page, parameters))]

    async def snapshots(self, document_ids: Sequence[UUID]) -> dict[UUID, DocumentSnapshot]:
        """Return documents by id; documents that do not exist any more are missing."""
        async with self._database.begin() as connection:
            rows = await connection.execute(SQL.snapshots, {"ids": list(document_ids)})
            return {row["id"]: DocumentSnapshot(**row) for row in rows}

    async def expected(
        self, document_ids: Sequence[UUID], *, after: tuple[UUID, int] | None = None, limit: int = 200
    ) -> list[AuditedChunk]:
        """Return the chunks of live versions in order, after (document, ordinal)."""
        document, ordinal = after or (None, None)
        parameters = {"ids": list(document_ids), "document": document, "ordinal": ordinal, "limit": limit}
        async with self._database.begin() as connection:
            return [_audited(row) for row in (await connection.execute(SQL.expected, parameters))]

    async def expected_by_id(self, chunk_ids: Sequence[UUID]) -> dict[UUID, AuditedChunk]:
        """Return chunks of live versions by id; other chunks are missing."""
        async with self._database.begin() as connection:
            rows = await connection.execute(SQL.expected_by_id, {"chunks": list(chunk_ids)})
            return {row["id"]: _audited(row) for row in rows}

    async def missing(self, documents: Collection[tuple[UUID, UUID | None]]) -> set[tuple[UUID, UUID | None]]:
        """Return the documents, each with its collection, that the ledger does not have.

        Deleted documents whose points are still to be deleted are left out.
        """
        parameters = {"documents": [document for document, _ in documents], "collections": [c for _, c in documents]}
        rows = await self._database.rows(SQL.missing, parameters)
        return {(row["document_id"], row["collection_id"]) for row in rows}

    async def swept_below(self, document_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return the versions below which sweeps will delete points, by document.

        Documents without a sweep are missing.
        """
        async with self._database.begin() as connection:
            rows = await connection.execute(SQL.swept_versions, {"ids": list(document_ids)})
            return {row.document_id: row.below for row in rows}

    @asynccontextmanager
    async def locked(
        self, snapshots: Sequence[DocumentSnapshot], *, reopened: AbstractSet[UUID] = frozenset()
    ) -> AsyncIterator[LockedDocuments]:
        """Lock documents until the block ends; documents that changed since their snapshot are left out."""
        async with self._database.begin() as connection:
            rows = await connection.execute(SQL.lock, {"ids": [s.id for s in snapshots]})
            now = {row["id"]: DocumentSnapshot(**row) for row in rows}
            held = frozenset(s.id for s in snapshots if s.is_unchanged(now.get(s.id), reopened=s.id in reopened))
            yield LockedDocuments(connection, held, held.intersection(reopened))


def _audited(row: Row) -> AuditedChunk:
    named = {name: value for name, value in row.items() if name not in ("content", "upload", "disabled")}
    return AuditedChunk(**named, disabled=disabled_of_chunk(row).keys())
