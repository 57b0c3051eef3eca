"""Updates of titles, metadata, readers and disabled questions in Qdrant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from shared.domain.corpus.documents import Description
from shared.domain.errors import Transient
from shared.ingest.index.finish import confirmed
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.postgres import alone
from shared.vectors.index import Index

_OTHER_PROCESS_SECONDS = 3.0  # an update takes milliseconds; a process that was killed is not waited for
_POLL_SECONDS = 0.05


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


async def update_now(descriptions: Descriptions, index: Index, documents: Sequence[UUID]) -> None:
    """Update the points of documents until no change is left, also if another process is updating them.

    The scheduler continues if Qdrant rejects the update, the other process does not finish, or the ledger does not
    answer any more.
    """
    waited = 0.0
    with suppress(Transient):
        while await descriptions.are_due(documents) and waited < _OTHER_PROCESS_SECONDS:
            if claimed := await descriptions.claim(len(documents), documents):
                if not await update_points(descriptions, index, claimed):
                    return
            else:
                await asyncio.sleep(_POLL_SECONDS)
                waited += _POLL_SECONDS
