"""Versions: submitted contents, retained for the live and the newest version of a document, and deleted for others.

A version that is neither is obsolete from the transaction that makes it so: its open chunks are deleted at once, and
workers ignore it. Its other chunks, its row and its bytes are deleted later in slices, because transactions must stay
short.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from shared.domain.corpus.documents import Version
from shared.domain.stages.sweeps import POINTS_STAY
from shared.ledger.documents import accepted_questions
from shared.ledger.model import states
from shared.ledger.model.rows.versions import version_rows
from shared.ledger.postgres import alone, statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database

_SLICE_CHUNKS = 5_000  # deleted in one transaction: a fifth of a second
_SLICE_VERSIONS = 100
_MOST_SLICES = 4  # of one purge: a second
_OTHERS_MAY_FOLLOW = timedelta(minutes=1)  # a pack of which many documents are deleted is rewritten once

# `greatest` leaves NULL out: most documents have no discarded version.
NEXT = "version = greatest(d.version, d.discarded_version) + 1"

# A document that waits for its next version, with no trace of the attempts at the last one.
DUE_AGAIN = f"due_at = now(), updated_at = now(), error = NULL, {states.UNCLAIMED}"

CONTENT = (
    "filename, title, media_type, metadata, readable_by, ready_questions, upload, size_bytes, content_hash, traceparent"
)

# The object that contains an upload: a pack contains several, whose names continue after a #.
STORED_IN = "split_part(upload, '#', 1)"

# An upload that is not stored: see `shared.storage.references`.
IS_REFERENCE = "starts_with(upload, 'ref:')"

SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    next_version=NEXT,
    due_again=DUE_AGAIN,
    content=CONTENT,
    stored_in=STORED_IN,
    is_reference=IS_REFERENCE,
)


async def restart(connection: Connection, documents: Sequence[UUID]) -> dict[UUID, int]:
    """Start the next version, with the same content, of claimed documents that already have some chunks.

    The worker that wrote the chunks died. They cannot be completed, because the options may have changed since.

    Returns:
        The new versions by document.
    """
    half_written = (await connection.execute(SQL.half_written, {"ids": list(documents)})).scalars()
    if not half_written:
        return {}
    started = (await connection.execute(SQL.restart, {"ids": half_written})).all()
    await supersede(connection, half_written)
    return {row.id: row.version for row in started}


async def reindex(connection: Connection, documents: Sequence[UUID], *, lane: int, job_id: UUID | None) -> None:
    """Start the next version, with the same content, of locked documents that are not in progress."""
    await connection.execute(SQL.reindex, {"ids": documents, "lane": lane, "job": job_id})
    await supersede(connection, documents)


async def supersede(connection: Connection, documents: Sequence[UUID], *, were_live: bool = False) -> None:
    """Make versions obsolete that are neither live nor newest, in locked documents; `purge` deletes them.

    Their points are swept: of versions that were live until now, when no search needs them any more.
    """
    parameters = {"ids": list(documents), "were_live": were_live}
    if obsolete := (await connection.execute(SQL.supersede, parameters)).all():
        after = POINTS_STAY if were_live else timedelta()
        await insert_sweeps(connection, [(row.id, row.version) for row in obsolete], after=after)


async def insert_sweeps(
    connection: Connection, versions: Sequence[Version], *, after: timedelta = timedelta()
) -> list[int]:
    """Sweep versions of documents after a time; return the sweeps."""
    inserted = await connection.execute(SQL.insert_sweeps, version_rows(versions) | {"after": after})
    return list(inserted.scalars())


async def purge(database: Database) -> list[str]:
    """Delete obsolete versions in slices, one transaction each; return the stored objects that are unreferenced now.

    They are listed in `outdated_objects` until they are deleted, and so are packs that lost a document. A call deletes
    at most 20,000 chunks; the next call continues. A version that cannot be deleted delays no other.
    """
    stored: list[str] = []

    async def delete(some: Sequence[Row]) -> None:
        these = {"ids": [row["document_id"] for row in some], "versions": [row["version"] for row in some]}
        async with database.begin() as connection:
            if locked := (await connection.execute(SQL.lock_obsolete, these)).all():
                stored.extend(await _purge_slice(connection, [d for d, _ in locked], [v for _, v in locked]))

    async with database.begin() as connection:
        await connection.execute(SQL.delete_ended_calls)
    for _ in range(_MOST_SLICES):
        obsolete = await database.rows(SQL.find_obsolete, {"limit": _SLICE_VERSIONS})
        if not obsolete:
            break
        await alone.work_on(obsolete, delete, lambda row: row["document_id"])
    return stored


async def _purge_slice(connection: Connection, documents: Sequence[UUID], versions: Sequence[int]) -> list[str]:
    these = {"ids": documents, "versions": versions}
    deleted = (await connection.execute(SQL.delete_chunks, these | {"limit": _SLICE_CHUNKS})).all()
    if len(deleted) == _SLICE_CHUNKS:
        return []
    await accepted_questions.delete_without_chunk(connection, documents)
    stored = (await connection.execute(SQL.delete, these)).all()
    await connection.execute(SQL.delete_disabled_without_text, {"ids": documents})
    in_use = await stored_in_use(connection, [row.stored for row in stored])
    outdated = [row for row in stored if row.deleted or row.stored not in in_use]
    if outdated:
        parameters = {
            "names": [row.stored for row in outdated],
            "tenants": [row.tenant for row in outdated],
            "in_use": [row.stored in in_use for row in outdated],
            "later": _OTHERS_MAY_FOLLOW,
        }
        await connection.execute(SQL.record_outdated, parameters)
    return sorted({row.stored for row in outdated} - in_use)


async def stored_in_use(connection: Connection, stored: Sequence[str]) -> set[str]:
    """Return the objects among these, at most some thousands, that a version needs, including packs."""
    return set((await connection.execute(SQL.stored_in_use, {"stored": list(stored)})).scalars())
