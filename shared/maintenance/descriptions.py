"""Updates of titles and metadata in Qdrant."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.corpus.documents import Description
from shared.ingest.index.finish import confirmed
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.postgres import alone
from shared.vectors.index import Index


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
