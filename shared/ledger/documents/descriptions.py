"""Descriptions: changes of a document's title and metadata without its content.

The change applies to the live and the newest version in each build, and a mark records that the points are outdated. A
process that claims the mark updates Qdrant and removes the mark. Only one process updates a document's points at a
time, because the slower of two might write outdated values. A worker that has claimed chunks of the document has read
the old description: its claims end, so that the next claim writes the new one. Points that it writes anyway are
replaced like those of any late writer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.documents import DescribedVersion, Description
from shared.ledger.model import states
from shared.ledger.model.collections import options_of
from shared.ledger.model.rows import as_json
from shared.ledger.postgres.database import Database

_AGAIN_AFTER = timedelta(seconds=10)
_CLAIM = timedelta(seconds=90)  # longer than any request to Qdrant takes

# Change the description of the live and the newest versions of locked documents. Their contents no longer equal a
# submission: submitting the same one again starts a version with its description.
_DESCRIBE = text("""
    UPDATE document_versions
    SET title = coalesce(CAST(:title AS text), title),
        metadata = coalesce(CAST(CAST(:metadata AS text) AS jsonb), metadata),
        content_hash = sha256(content_hash || convert_to(concat(CAST(:title AS text), CAST(:metadata AS text)), 'UTF8'))
    WHERE document_id = ANY(CAST(:ids AS uuid[])) AND NOT obsolete
""")

# Mark locked documents; a process that is updating their points repeats the update.
_MARK = text("""
    UPDATE documents
    SET description_changes = description_changes + 1, updated_at = now(),
        description_due_at = CASE WHEN description_due_at > now() THEN description_due_at ELSE now() END
    WHERE id = ANY(CAST(:ids AS uuid[]))
""")

# Change the title in the contents of chunks.
_RETITLE_CHUNKS = text("""
    UPDATE chunk_contents t SET content = jsonb_set(t.content, '{title}', to_jsonb(CAST(:title AS text)))
    FROM chunks c
    WHERE c.document_id = ANY(CAST(:ids AS uuid[])) AND t.chunk_id = c.id AND t.version = c.version
""")

# End the claims of index workers on chunks of documents.
_END_INDEXING = text(f"""
    UPDATE chunks SET lease_token = NULL, leased_by = NULL, due_at = now()
    WHERE document_id = ANY(CAST(:ids AS uuid[])) AND leased_by IS NOT NULL AND {states.is_in(states.TO_INDEX)}
""")

# End the claims of parse workers on documents: they read the title with it.
_END_PARSING = text(f"""
    UPDATE documents SET lease_token = NULL, leased_by = NULL, due_at = now()
    WHERE id = ANY(CAST(:ids AS uuid[])) AND leased_by IS NOT NULL AND {states.is_in(states.TO_PARSE)}
""")

# Claim marked documents, longest due first, and read the description for their points.
_CLAIM_DUE = text(f"""
    WITH due AS (
        SELECT id FROM documents
        WHERE description_due_at <= clock_timestamp() AND {states.exists()}
          AND (CAST(:ids AS uuid[]) IS NULL OR id = ANY(CAST(:ids AS uuid[])))
        ORDER BY description_due_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE documents d SET description_due_at = clock_timestamp() + CAST(:claim AS interval)
        FROM due WHERE d.id = due.id RETURNING d.*
    )
    SELECT d.id, d.tenant, d.collection_id, d.description_changes, l.index_name, l.options, v.version, v.title,
           v.metadata
    FROM claimed d JOIN collections l ON l.id = d.collection_id
    JOIN document_versions v ON v.document_id = d.id AND NOT v.obsolete
    ORDER BY d.id, v.version
""")

# Remove the mark; a document that changed again is due at once.
_SETTLE = text("""
    UPDATE documents d
    SET description_due_at = CASE WHEN d.description_changes = s.changes THEN NULL ELSE now() END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:changes AS int[])) AS s(id, changes) WHERE d.id = s.id
""")

# Postpone documents whose points Qdrant did not update.
_PUT_OFF = text("""
    UPDATE documents SET description_due_at = now() + CAST(:after AS interval) WHERE id = ANY(CAST(:ids AS uuid[]))
""")


async def change(
    connection: AsyncConnection, documents: Sequence[UUID], *, title: str | None, metadata: Mapping[str, Any] | None
) -> None:
    """Change the description of locked documents; None leaves a field unchanged."""
    parameters = {"ids": list(documents), "title": title, "metadata": None if metadata is None else as_json(metadata)}
    await connection.execute(_DESCRIBE, parameters)
    await connection.execute(_MARK, parameters)
    await connection.execute(_END_INDEXING, parameters)
    if title is not None:
        await connection.execute(_END_PARSING, parameters)
        await connection.execute(_RETITLE_CHUNKS, parameters)


class Descriptions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, limit: int, documents: Sequence[UUID] | None = None) -> list[Description]:
        """Claim documents with outdated points, from all documents or from these."""
        ids = None if documents is None else list(documents)
        found: dict[UUID, Description] = {}
        async with self._database.begin() as connection:
            for row in await connection.execute(_CLAIM_DUE, {"limit": limit, "ids": ids, "claim": _CLAIM}):
                said = DescribedVersion(row.version, row.title, row.metadata)
                before = found.get(row.id)
                found[row.id] = Description(
                    document_id=row.id,
                    tenant=row.tenant,
                    collection_id=row.collection_id,
                    index_name=row.index_name,
                    changes=row.description_changes,
                    filterable=options_of(row.options).filterable,
                    versions=(*before.versions, said) if before else (said,),
                )
        return list(found.values())

    async def settle(self, done: Sequence[Description]) -> None:
        """Record that points are up to date; documents that changed again are due."""
        parameters = {"ids": [d.document_id for d in done], "changes": [d.changes for d in done]}
        async with self._database.begin() as connection:
            await connection.execute(_SETTLE, parameters)

    async def put_off(self, refused: Sequence[Description]) -> None:
        """Postpone documents."""
        parameters = {"ids": [d.document_id for d in refused], "after": _AGAIN_AFTER}
        async with self._database.begin() as connection:
            await connection.execute(_PUT_OFF, parameters)
