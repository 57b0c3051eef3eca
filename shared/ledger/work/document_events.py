"""Events of documents: changes of their chunks, for listeners, and their ends, for the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import structlog

from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row

SQL = statements.load(__file__, states.FRAGMENTS)
log = structlog.get_logger()


async def touch(connection: Connection, documents: Sequence[UUID]) -> None:
    """Mark documents whose chunks have changed, without taking locks that another transaction waits for."""
    if documents:
        await connection.execute(SQL.touch, {"ids": sorted(set(documents))})


def log_ended(documents: Iterable[Row]) -> None:
    """Log the ends of documents."""
    for row in documents:
        ids = {"document_id": str(row.id), "collection_id": str(row.collection_id), "tenant": row.tenant}
        log.info("document.ended", **ids, state=row.state)
