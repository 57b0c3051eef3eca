"""Versions: submitted contents, retained for the live and the newest version of a document, and deleted for others.

A version that is neither is obsolete from the transaction that makes it so: its open chunks are deleted at once, and
workers ignore it. Its other chunks, its row and its bytes are deleted later in slices, because transactions must stay
short.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.documents import acceptance
from shared.ledger.model import states
from shared.ledger.model.rows import version_rows
from shared.ledger.postgres.database import Database

_SLICE_CHUNKS = 5_000  # deleted in one transaction: a fifth of a second
_SLICE_VERSIONS = 100
_MOST_SLICES = 4  # of one purge: a second
_OTHERS_MAY_FOLLOW = timedelta(minutes=1)  # a pack of which many documents are deleted is rewritten once

# `greatest` leaves NULL out: most documents have no discarded version.
NEXT = "version = greatest(d.version, d.discarded_version) + 1"

# A document that waits for its next version, with no trace of the attempts at the last one.
DUE_AGAIN = f"due_at = now(), updated_at = now(), error = NULL, {states.UNCLAIMED}"

CONTENT = "filename, title, media_type, metadata, ready_questions, upload, size_bytes, content_hash, traceparent"

# The submitted documents in the lock order of all writers.
SUBMITTED = """
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS n(
        position int, id uuid, external_id text, lane smallint, filename text, title text, media_type text,
        metadata jsonb, ready_questions jsonb, upload text, size_bytes bigint, content_hash bytea, traceparent text)
    ORDER BY external_id, position
"""

# The content of versions that start, for `d`: documents that the same statement writes from `n`, the submitted ones.
INSERT_CONTENT = f"""
    INSERT INTO document_versions (document_id, version, {CONTENT})
    SELECT d.id, d.version, n.filename, n.title, n.media_type, n.metadata, n.ready_questions, n.upload, n.size_bytes,
           n.content_hash, n.traceparent
    FROM d JOIN n ON n.id = d.id RETURNING *
"""

# The object that contains an upload: a pack contains several, whose names continue after a #.
STORED_IN = "split_part(upload, '#', 1)"


_DOCUMENTS = "jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int)"

# Sweep documents now, and again when all leases on lower versions have expired. This replaces earlier sweeps of these
# documents.
_INSERT_SWEEPS = text(f"""
    WITH earlier AS (
        DELETE FROM sweeps s USING {_DOCUMENTS} WHERE s.document_id = v.id AND s.chunk_id IS NULL
    )
    INSERT INTO sweeps (collection_id, tenant, index_name, document_id, below_version, again, due_at)
    SELECT d.collection_id, d.tenant, l.index_name, d.id, v.version, true, now()
    FROM {_DOCUMENTS} JOIN documents d ON d.id = v.id JOIN collections l ON l.id = d.collection_id
    RETURNING document_id, id
""")


def _delete_contents(chunks: str) -> str:
    """Return the common table expressions that delete the contents and questions of deleted chunks."""
    return f"""
    contents AS (
        DELETE FROM chunk_contents t USING {chunks} c WHERE t.chunk_id = c.id AND t.version = c.version
    ), questions AS (
        DELETE FROM chunk_questions t USING {chunks} c WHERE t.chunk_id = c.id AND t.version = c.version
    )"""


# Mark versions that are neither live nor newest, delete their open chunks, record their calls in flight, and return the
# documents that may have points of such a version.
_SUPERSEDE = text(f"""
    WITH obsolete AS (
        UPDATE document_versions v SET obsolete = true
        FROM documents d
        WHERE d.id = v.document_id AND d.id = ANY(CAST(:ids AS uuid[])) AND NOT v.obsolete AND v.version <> d.version
          AND (v.version IS DISTINCT FROM d.live_version OR NOT ({states.exists("d")}))
        RETURNING v.document_id, v.version
    ), open AS (
        DELETE FROM chunks c USING obsolete o
        WHERE c.document_id = o.document_id AND c.version = o.version AND {states.is_in(states.OPEN_CHUNKS, "c")}
        RETURNING c.id, c.version, c.state, c.tenant, c.content_key, c.lease_token, c.leased_by, c.due_at
    ), {_delete_contents("open")},
    called AS (
        INSERT INTO abandoned_calls (lease_token, tenant, content_key, due_at)
        SELECT lease_token, tenant, content_key, due_at FROM open
        WHERE {states.is_in(states.TO_GENERATE)} AND leased_by IS NOT NULL AND due_at > now()
        ON CONFLICT DO NOTHING
    )
    SELECT d.id, d.version FROM documents d
    WHERE {states.exists("d")} AND EXISTS (
        SELECT 1 FROM obsolete o JOIN chunks c ON c.document_id = o.document_id AND c.version = o.version
        WHERE o.document_id = d.id)
""")

# Lock obsolete versions that no other process is deleting.
_OBSOLETE = text("""
    SELECT document_id, version FROM document_versions WHERE obsolete LIMIT :limit FOR UPDATE SKIP LOCKED
""")

_THESE = "unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[])) AS o(document_id, version)"

# Delete chunks of these versions, up to a number of them.
_DELETE_CHUNKS = text(f"""
    WITH deleted AS (
        DELETE FROM chunks WHERE (id, version) IN (
            SELECT c.id, c.version FROM {_THESE} CROSS JOIN LATERAL (
                SELECT c.id, c.version FROM chunks c
                WHERE c.document_id = o.document_id AND c.version = o.version LIMIT :limit) c
            LIMIT :limit)
        RETURNING id, version
    ), {_delete_contents("deleted")}
    SELECT 1 FROM deleted
""")

# Forget calls whose workers must be dead.
_FORGET_CALLS = text("DELETE FROM abandoned_calls WHERE due_at <= now()")

# Delete the rows of these versions, and list the objects of their bytes, with their tenants and whether a document was
# deleted permanently.
_DELETE = text(f"""
    WITH gone AS (
        DELETE FROM document_versions v USING {_THESE}
        WHERE v.document_id = o.document_id AND v.version = o.version RETURNING v.document_id, {STORED_IN} AS stored
    )
    SELECT g.stored, d.tenant, bool_or(NOT ({states.exists("d")})) AS deleted
    FROM gone g JOIN documents d ON d.id = g.document_id GROUP BY g.stored, d.tenant
""")

# Record objects that are to be deleted or, a little later, to be rewritten without some bytes.
_OUTDATE = text("""
    INSERT INTO outdated_objects (name, tenant, due_at)
    SELECT v.name, v.tenant, now() + CASE WHEN v.in_use THEN CAST(:later AS interval) ELSE interval '0' END
    FROM unnest(CAST(:names AS text[]), CAST(:tenants AS text[]), CAST(:in_use AS boolean[])) AS v(name, tenant, in_use)
    ORDER BY v.name
    ON CONFLICT (name) DO UPDATE SET due_at = least(outdated_objects.due_at, excluded.due_at)
""")

# Return those objects of which a version uses a part or the whole.
_STORED_IN_USE = text(f"""
    SELECT DISTINCT {STORED_IN} FROM document_versions WHERE {STORED_IN} = ANY(CAST(:stored AS text[]))
""")


def next_of_same_content(sets: str = "") -> TextClause:
    """Return the statement that starts the next version of locked documents with the content of their newest one.

    Args:
        sets: further assignments to the documents' rows, ending with a comma.
    """
    return text(f"""
        WITH newest AS (
            SELECT id, version FROM documents WHERE id = ANY(CAST(:ids AS uuid[]))
        ), begun AS (
            UPDATE documents d SET {sets} {NEXT} FROM newest n WHERE d.id = n.id
            RETURNING d.*, n.version AS newest
        ), copied AS (
            INSERT INTO document_versions (document_id, version, {CONTENT})
            SELECT b.id, b.version, {CONTENT}
            FROM begun b JOIN document_versions v ON v.document_id = b.id AND v.version = b.newest
        )
        SELECT id, version FROM begun
    """)


# Find documents whose newest version has some chunks.
_HALF_WRITTEN = text("""
    SELECT d.id FROM documents d
    WHERE d.id = ANY(CAST(:ids AS uuid[]))
      AND EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version)
""")

# Start the next version of these documents.
_RESTART = next_of_same_content()


async def restart(connection: AsyncConnection, documents: Sequence[UUID]) -> dict[UUID, int]:
    """Start the next version, with the same content, of claimed documents that already have some chunks.

    The worker that wrote the chunks died. They belong to another parse, because the options may have changed since.

    Returns:
        The new versions by document.
    """
    half_written = (await connection.execute(_HALF_WRITTEN, {"ids": list(documents)})).scalars().all()
    if not half_written:
        return {}
    begun = (await connection.execute(_RESTART, {"ids": half_written})).all()
    await supersede(connection, half_written)
    return {row.id: row.version for row in begun}


async def supersede(connection: AsyncConnection, documents: Sequence[UUID]) -> dict[UUID, int]:
    """Make versions obsolete that are neither live nor newest, in locked documents; `purge` deletes them.

    Their points are swept.

    Returns:
        The sweeps by document; documents without such points are missing.
    """
    written = (await connection.execute(_SUPERSEDE, {"ids": list(documents)})).all()
    return await insert_sweeps(connection, [(row.id, row.version) for row in written]) if written else {}


async def insert_sweeps(connection: AsyncConnection, below: Sequence[tuple[UUID, int]]) -> dict[UUID, int]:
    """Sweep documents below a version; return the sweeps by document."""
    inserted = await connection.execute(_INSERT_SWEEPS, version_rows(below))
    return {row.document_id: row.id for row in inserted}


async def purge(database: Database) -> list[str]:
    """Delete obsolete versions in slices, one transaction each; return the stored objects that are unreferenced now.

    They are listed in `outdated_objects` until they are deleted, and so are packs that lost a document. A call deletes
    at most 20,000 chunks; the next call continues.
    """
    stored: list[str] = []
    async with database.begin() as connection:
        await connection.execute(_FORGET_CALLS)
    for _ in range(_MOST_SLICES):
        async with database.begin() as connection:
            obsolete = (await connection.execute(_OBSOLETE, {"limit": _SLICE_VERSIONS})).all()
            if not obsolete:
                break
            stored += await _purge_slice(
                connection, [row.document_id for row in obsolete], [r.version for r in obsolete]
            )
    return stored


async def _purge_slice(connection: AsyncConnection, documents: Sequence[UUID], versions: Sequence[int]) -> list[str]:
    these = {"ids": documents, "versions": versions}
    deleted = (await connection.execute(_DELETE_CHUNKS, these | {"limit": _SLICE_CHUNKS})).all()
    if len(deleted) == _SLICE_CHUNKS:
        return []
    await acceptance.delete_without_chunk(connection, documents)
    stored = (await connection.execute(_DELETE, these)).all()
    in_use = await stored_in_use(connection, [row.stored for row in stored])
    outdated = [row for row in stored if row.deleted or row.stored not in in_use]
    if outdated:
        parameters = {
            "names": [row.stored for row in outdated],
            "tenants": [row.tenant for row in outdated],
            "in_use": [row.stored in in_use for row in outdated],
            "later": _OTHERS_MAY_FOLLOW,
        }
        await connection.execute(_OUTDATE, parameters)
    return sorted({row.stored for row in outdated} - in_use)


async def stored_in_use(connection: AsyncConnection, stored: Sequence[str]) -> set[str]:
    """Return the objects of the store, of some thousands at most, that a version needs: a pack for any part of it."""
    return set((await connection.execute(_STORED_IN_USE, {"stored": list(stored)})).scalars())
