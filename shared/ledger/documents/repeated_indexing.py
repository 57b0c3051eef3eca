"""Repeated indexing of chunks of live versions, whose points are missing or must change."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection

# States of a document whose live version is being rewritten, or was rewritten.
REOPENED = tuple(state for state in (*states.INDEX_AGAIN.sources, *states.INDEX_AGAIN.targets) if state)

SQL = statements.load(__file__, states.FRAGMENTS, is_reopened=states.is_in(REOPENED))


async def index_again(
    connection: Connection, documents: Sequence[UUID], chunks: Sequence[UUID], *, reopened: Sequence[UUID] = ()
) -> set[UUID]:
    """Index chunks of locked documents again; return the chunks that are due now.

    Documents in progress are skipped unless they are `reopened`. Chunks without paid questions are skipped, because
    they would need a call.
    """
    parameters = {"ids": list(documents), "chunks": list(chunks), "reopened": list(reopened)}
    due = (await connection.execute(SQL.index_chunks_again, parameters)).all()
    await connection.execute(SQL.index_documents_again, {"ids": sorted({row.document_id for row in due})})
    return {row.id for row in due}
