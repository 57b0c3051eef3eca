"""Costs of attempts: they are recorded by the settlement of the attempt, whatever its outcome is."""

from __future__ import annotations

from collections.abc import Iterable

from shared.domain.spending.usage import Cost
from shared.ledger.model.rows.costs import cost_rows
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection

SQL = statements.load(__file__)


async def record(connection: Connection, costs: Iterable[Cost | None]) -> None:
    """Record the costs of attempts in the transaction of their settlement, even if it is rejected as late."""
    recorded = [cost for cost in costs if cost is not None]
    if recorded:
        await connection.execute(SQL.insert, cost_rows(recorded))
