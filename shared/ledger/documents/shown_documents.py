"""Documents as the API shows them: with the content of their newest versions and the progress of their chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.access.persons import named_readers
from shared.domain.corpus.completeness import stored_completeness
from shared.domain.corpus.documents import Document, Progress
from shared.domain.corpus.readers import is_outdated
from shared.domain.states import DocumentState
from shared.ledger.documents import listing
from shared.ledger.model import states, tier_tokens
from shared.ledger.model.rows.attempts import usage_by_tier
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row

# The columns of a document `d` with the content `v` of its newest version.
COLUMNS = (
    "{document_columns}, v.filename, v.title, v.media_type, v.metadata, v.readable_by, v.size_bytes, v.content_hash,"
    " v.text_coverage, v.missing"
)
SQL = statements.load(__file__, states.FRAGMENTS, shown=COLUMNS, newest=listing.NEWEST, tier_tokens=tier_tokens.SUMS)


@dataclass(frozen=True, slots=True)
class Changes:
    """A snapshot of a tenant's documents.

    Args:
        at: time of the snapshot by PostgreSQL's clock.
        documents: recently changed documents with their progress, latest change first.
        more: whether more documents changed.
    """

    at: datetime
    documents: list[Document]
    more: bool


async def find(connection: Connection, tenant: str, document_id: UUID) -> Row | None:
    """Return the row of a document, or None if the tenant has no document of that id."""
    parameters = {"tenant": tenant, "id": document_id}
    return (await connection.execute(SQL.get, parameters)).one_or_none()


async def changes(connection: Connection, tenant: str, since: datetime | None, limit: int) -> Changes:
    """Return documents that may have changed since a time; see `Documents.changes`."""
    parameters: dict[str, Any] = {"tenant": tenant, "limit": limit + 1}
    at = (await connection.execute(SQL.now)).scalar_one()
    if since is None:
        wanted = listing.DocumentFilter(in_states=states.PROGRESSING_DOCUMENTS)
        in_progress = listing.parameters_of(tenant, wanted, most=limit + 1)
        found = await connection.execute(SQL.in_progress, parameters | in_progress)
    else:
        found = await connection.execute(SQL.changed, parameters | {"since": since})
    rows = found.all()
    return Changes(at, await with_progress(connection, rows[:limit]), more=len(rows) > limit)


async def with_progress(connection: Connection, rows: Sequence[Row]) -> list[Document]:
    progress = await progress_of(connection, [row["id"] for row in rows])
    return [document_of(row, row["collection"], progress.get(row["id"])) for row in rows]


async def progress_of(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Progress]:
    """Count the chunks and pages of the newest versions of documents by row id; documents without any are missing."""
    if not ids:
        return {}
    counts = await connection.execute(SQL.progress, {"ids": list(ids)})
    found = {count["id"]: _progress(count) for count in counts}
    for row in await connection.execute(SQL.pages, {"ids": list(ids)}):
        pages = {name: value for name, value in row.items() if name != "id"}
        found[row["id"]] = replace(found.get(row["id"], Progress()), **pages)
    return found


def _progress(count: Row) -> Progress:
    counts = {name: value for name, value in count.items() if name not in ("id", "tier_tokens")}
    return Progress(**counts, usage_by_tier=usage_by_tier(count))


def document_of(row: Row, collection: str, progress: Progress | None = None) -> Document:
    return Document(
        id=row["public_id"],
        external_id=row["external_id"],
        collection=collection,
        state=DocumentState(row["state"]),
        version=row["version"],
        live_version=row["live_version"],
        filename=row["filename"],
        title=row["title"],
        media_type=row["media_type"],
        metadata=row["metadata"],
        readable_by=named_readers(row["readable_by"]),
        size_bytes=row["size_bytes"],
        completeness=stored_completeness(row["text_coverage"], row["missing"]),
        outdated=is_outdated(DocumentState(row["state"]), row["reader"]),
        error=row["error"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        progress=progress or Progress(),
    )
