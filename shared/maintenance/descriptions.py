"""Updates of titles and metadata in Qdrant."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from shared.domain.corpus.documents import Description
from shared.domain.errors import Transient
from shared.ingest.index.finish import confirmed
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.postgres import alone
from shared.vectors.index import Index


async def update_now(descriptions: Descriptions, index: Index, rows: Sequence[UUID]) -> None:
    """Update the points of documents that have just changed; the scheduler does it if Qdrant is not available."""
    with suppress(Transient):
        while claimed := await descriptions.claim(len(rows), rows):  # again if one changed in the meantime
            await update_points(descriptions, index, claimed)


async def update_points(descriptions: Descriptions, index: Index, claimed: Sequence[Description]) -> bool:
    """Update the descriptions in the points of documents; return whether Qdrant accepted any.

    Rejected documents are due again.
    """
    done = await alone.work_on(
        await confirmed(claimed, index.describe), descriptions.settle, lambda description: description.document_id
    )
    if refused := [description for description in claimed if description not in done]:
        await descriptions.postpone(refused)
    return bool(done)
