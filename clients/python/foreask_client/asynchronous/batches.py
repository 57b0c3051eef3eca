"""Batches: list, read and cancel requests to the provider's batch API."""

from __future__ import annotations

from collections.abc import AsyncIterator

from foreask_client.asynchronous.connection import Connection
from foreask_client.models import Batch
from foreask_client.requests import Pages, get, given, post, segment


class BatchesApi(Connection):
    """Methods for batches."""

    def batches(self, *, state: str | None = None, job: str | None = None) -> AsyncIterator[Batch]:
        """List the batches of the last 30 days, newest first.

        Args:
            state: only batches in this state: `planning`, `planned`, `creating`, `running`, `collecting`, `done` or
                `failed`.
            job: only batches with chunks of the job with this id.
        """
        return self.items(Pages("/v1/batches", given({"state": state, "job": job}), Batch.model_validate))

    async def batch(self, batch_id: str) -> Batch:
        """Return a batch with its progress."""
        return await self.send(get(_path(batch_id), Batch))

    async def cancel_batch(self, batch_id: str, *, lane: str = "batch") -> Batch:
        """Cancel a batch. The provider ends it within minutes; results that it has by then are paid and stored.

        Args:
            batch_id: id of the batch.
            lane: lane of the requests without a result: `batch` plans them again for the next batch, `bulk` generates
                their questions now, at the usual price.
        """
        return await self.send(post(f"{_path(batch_id)}/cancel", Batch, params={"lane": lane}, repeatable=True))


def _path(batch_id: str) -> str:
    return f"/v1/batches/{segment(batch_id)}"
