"""Claims of work: fair between tenants, uploads before bulk, suspects separately.

Every claim shares the free slots between the tenants with due work: the next slot is given to the tenant that holds
the fewest relative to its weight. One tenant's million chunks therefore do not delay another's ten. Within a tenant,
rows are ordered by lane, then by age. A file may take a minute, so no tenant holds the last slots of a parse worker.
No tenant holds more chunks to generate than its limits allow to start within a minute, because further chunks would
occupy slots while they wait. Chunks in the batch lane are claimed by batches, whose leases occupy no slot.

When a worker dies, its rows become due again, including the row that killed it. A row that lost two leases is a
suspect: only a drain without other work claims it. It either succeeds and is cleared, or kills only that worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from shared.domain.queues import WorkQueue
from shared.domain.stages.poison import SUSPECT_AFTER
from shared.ledger.model import states
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database
from shared.process.telemetry import metrics

FRAGMENTS = MappingProxyType({**states.FRAGMENTS, "suspect_after": str(SUSPECT_AFTER)})


class StageWork:
    """The work of one worker in a stage: claims under a lease, and settlements that a stale claim cannot make.

    All times are taken from PostgreSQL's clock, never from a worker's. Every settlement names the fencing token of its
    claim, and may be applied twice.

    Args:
        database: the ledger.
        worker: name of the process, for readers of the ledger.
        lease: duration of a claim without extension.
        weights: relative shares of tenants in the free slots; default 1.
    """

    def __init__(
        self, database: Database, *, worker: str, lease: timedelta, weights: Mapping[str, float] | None = None
    ) -> None:
        self._database = database
        self._worker = worker
        self._weights = weights or {}
        self.lease = lease

    def _claim(
        self,
        limit: int,
        *,
        suspects: bool,
        most: Mapping[str, int] = MappingProxyType({}),
        most_of_others: int | None = None,
    ) -> dict[str, Any]:
        """Return the parameters of a claim.

        Args:
            limit: maximum number of rows.
            suspects: whether to claim suspects only.
            most: maximum number of rows that these tenants may hold.
            most_of_others: maximum number of rows that every other tenant may hold; None is unlimited.
        """
        common = {"limit": limit, "worker": self._worker, "lease": self.lease}
        if suspects:
            return common
        tenants = sorted({*self._weights, *most})
        return common | {
            "tenants": tenants,
            "weights": [self._weights.get(tenant, 1) for tenant in tenants],
            "most": [most.get(tenant) for tenant in tenants],
            "most_of_others": most_of_others,
        }


def count_lost(stage: WorkQueue, claimed: Sequence[Row]) -> None:
    """Count claims of rows with lost leases; such a row stays marked until an attempt has ended."""
    if lost := sum(row["lost_leases"] > 0 for row in claimed):
        metrics.LEASES_LOST.labels(stage).inc(lost)
