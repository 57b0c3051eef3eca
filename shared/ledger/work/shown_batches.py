"""Batches as the API shows them to their tenant, and their cancellation by a client."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from shared.domain.errors import Conflict, NotFound
from shared.domain.spending.usage import Usage
from shared.domain.stages.batches import ShownBatch, Unanswered
from shared.domain.states import BatchState
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.records import record

SQL = statements.load(__file__, states.FRAGMENTS)


class ShownBatches:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        tenant: str,
        *,
        state: BatchState | None = None,
        job_id: UUID | None = None,
        after: tuple[datetime, UUID] | None = None,
        limit: int = 50,
    ) -> list[ShownBatch]:
        """Return a tenant's batches, newest first, after `after`.

        Args:
            tenant: the tenant.
            state: only batches in this state; None: in any.
            job_id: only batches with chunks of this job; None: of any.
            after: time and id of the last batch of the page before.
            limit: maximum number of batches.
        """
        at, batch_id = after or (None, None)
        chosen = {"state": state, "job": job_id, "at": at, "after": batch_id, "limit": limit}
        return [_shown(row) for row in await self._database.rows(SQL.page, {"tenant": tenant} | chosen)]

    async def get(self, tenant: str, batch_id: UUID) -> ShownBatch:
        """Return a batch.

        Raises:
            NotFound: the tenant has no batch of that id.
        """
        found = await self._database.rows(SQL.get, {"tenant": tenant, "id": batch_id})
        if not found:
            raise NotFound(f"There is no batch {batch_id}. GET /v1/batches lists the batches of the last 30 days.")
        return _shown(found[0])

    async def cancel(self, tenant: str, batch_id: UUID, unanswered: Unanswered) -> ShownBatch:
        """Cancel a batch: the provider ends it, finished results are used, and other lines take their next step.

        Args:
            tenant: the tenant.
            batch_id: id of the batch.
            unanswered: next step of lines without a result.

        Raises:
            NotFound: the tenant has no batch of that id.
            Conflict: the batch has ended.
        """
        parameters = {"tenant": tenant, "id": batch_id, "unanswered": unanswered.value}
        async with self._database.begin() as connection:
            cancelled = (await connection.execute(SQL.cancel, parameters)).one_or_none()
        batch = await self.get(tenant, batch_id)
        if cancelled is None:
            raise Conflict(_HAS_ENDED[batch.state is BatchState.COLLECTING].format(id=batch_id))
        return batch


_HAS_ENDED = {
    True: "The batch {id} has ended already: its results are being stored.",
    False: "The batch {id} has ended already.",
}


def _shown(row: Row) -> ShownBatch:
    usage = Usage(
        row["billed_prompt_tokens"],
        row["billed_completion_tokens"],
        row["billed_cached_tokens"],
        row["billed_cache_write_tokens"],
    )
    return record(ShownBatch, row, usage=usage)
