"""Telling Qdrant what is said of documents now: their titles and metadata."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.documents import Description
from shared.ingest.index.finish import confirmed
from shared.ledger.documents.descriptions import Descriptions
from shared.vectors.index import Index


async def tell(descriptions: Descriptions, index: Index, claimed: Sequence[Description]) -> bool:
    """Have the points of documents say what the ledger says; return whether Qdrant took any.

    Those that it did not take are due again.
    """
    done = await confirmed(claimed, index.describe)
    if done:
        await descriptions.settle(done)
    if refused := [description for description in claimed if description not in done]:
        await descriptions.put_off(refused)
    return bool(done)
