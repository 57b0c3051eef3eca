"""Costs of attempts, independent of the outcome of the attempt."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.usage import Cost, CostKind, Usage
from shared.ledger.model.rows import cost_rows
from shared.ledger.postgres.database import Database

_BATCH_SIZE = 5_000  # rows of one transaction

# Record the costs of attempts until now. An attempt with several calls is recorded repeatedly, and so is a repeated
# settlement: the row has the latest sum. Costs of a tenant that was erased since the claim are not recorded.
_INSERT = text("""
    INSERT INTO spent AS s (token, tenant, collection_id, document_id, kind, model, prompt_tokens, completion_tokens,
                            calls)
    SELECT v.token, v.tenant, v.collection_id, v.document_id, v.kind, v.model, v.prompt_tokens, v.completion_tokens,
           v.calls
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
         AS v(token bigint, tenant text, collection_id uuid, document_id uuid, kind text, model text,
              prompt_tokens int, completion_tokens int, calls int)
    WHERE EXISTS (SELECT 1 FROM collections l WHERE l.id = v.collection_id OFFSET 0)
       OR NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = v.tenant AND e.last_token > v.token
                                                 AND e.collection IS NULL AND e.document_id IS NULL OFFSET 0)
    ON CONFLICT (token) DO UPDATE
    SET prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens,
        calls = excluded.calls, at = now()
    WHERE excluded.calls > s.calls
""")

# Prevent running erasures of tenants from advancing until the transaction ends. An erasure must see all rows that were
# written before it drew its token, and later writers must see that token.
_HOLD_ERASURES = text("""
    SELECT 1 FROM erasures WHERE tenant = ANY(CAST(:tenants AS text[])) AND finished_at IS NULL ORDER BY id FOR SHARE
""")

# Add changes up by day: 19,000 a second.
_FOLD = text("""
    WITH gone AS (
        DELETE FROM spent_changes WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM spent_changes LIMIT :limit FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), added AS (
        INSERT INTO spent_by_day AS d (tenant, collection_id, kind, model, day, prompt_tokens, completion_tokens, calls)
        SELECT tenant, collection_id, kind, model, day, sum(prompt_tokens), sum(completion_tokens), sum(calls)
        FROM gone GROUP BY tenant, collection_id, kind, model, day ORDER BY tenant, collection_id, kind, model, day
        ON CONFLICT (tenant, collection_id, kind, model, day) DO UPDATE
        SET prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
            completion_tokens = d.completion_tokens + excluded.completion_tokens, calls = d.calls + excluded.calls
    )
    SELECT count(*) FROM gone
""")

# Delete attempts beyond an age, among those with the smallest tokens: older attempts have smaller tokens, except long
# ones. Their costs are added up already.
_FORGET = text("""
    WITH gone AS (
        DELETE FROM spent s USING (SELECT token FROM spent ORDER BY token LIMIT :limit) o
        WHERE s.token = o.token AND s.at <= now() - CAST(:age AS interval) RETURNING 1
    )
    SELECT count(*) FROM gone
""")

# Sum up a tenant's costs.
_SUMS = text("""
    SELECT l.name AS collection, s.kind, s.model, sum(s.prompt_tokens)::bigint AS prompt_tokens,
           sum(s.completion_tokens)::bigint AS completion_tokens, sum(s.calls)::bigint AS calls
    FROM (SELECT collection_id, kind, model, prompt_tokens, completion_tokens, calls FROM spent_changes
          WHERE tenant = :tenant
          UNION ALL
          SELECT collection_id, kind, model, prompt_tokens, completion_tokens, calls FROM spent_by_day
          WHERE tenant = :tenant) s
    LEFT JOIN collections l ON l.id = s.collection_id
    GROUP BY l.name, s.kind, s.model
    ORDER BY l.name, s.kind DESC, s.model
""")

# Sum up a tenant's costs of the last days, by day in UTC.
_DAYS = text("""
    SELECT s.day, l.name AS collection, s.kind, s.model, sum(s.prompt_tokens)::bigint AS prompt_tokens,
           sum(s.completion_tokens)::bigint AS completion_tokens, sum(s.calls)::bigint AS calls
    FROM (SELECT collection_id, kind, model, day, prompt_tokens, completion_tokens, calls FROM spent_changes
          WHERE tenant = :tenant
          UNION ALL
          SELECT collection_id, kind, model, day, prompt_tokens, completion_tokens, calls FROM spent_by_day
          WHERE tenant = :tenant) s
    LEFT JOIN collections l ON l.id = s.collection_id
    WHERE s.day > (now() AT TIME ZONE 'UTC')::date - CAST(:days AS int)
    GROUP BY s.day, l.name, s.kind, s.model
    ORDER BY s.day, l.name, s.kind DESC, s.model
""")

# Sum up today's costs, of all tenants or of one.
_TODAY = text("""
    SELECT tenant, kind, model, sum(prompt_tokens)::bigint AS prompt_tokens,
           sum(completion_tokens)::bigint AS completion_tokens
    FROM (SELECT tenant, kind, model, day, prompt_tokens, completion_tokens FROM spent_changes
          UNION ALL
          SELECT tenant, kind, model, day, prompt_tokens, completion_tokens FROM spent_by_day) s
    WHERE day = (now() AT TIME ZONE 'UTC')::date AND (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
    GROUP BY tenant, kind, model
""")


@dataclass(frozen=True, slots=True)
class DayCost:
    """Today's costs of a tenant's calls of a kind to a model."""

    tenant: str
    kind: CostKind
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class CostSum:
    """Costs of all calls of a kind to a model for a collection with all its builds; None for deleted collections."""

    collection: str | None
    kind: CostKind
    model: str
    usage: Usage
    calls: int


@dataclass(frozen=True, slots=True)
class CostOfDay:
    """Costs of all calls of a kind to a model for a collection on a day in UTC; None for deleted collections."""

    day: date
    collection: str | None
    kind: CostKind
    model: str
    usage: Usage
    calls: int


class Costs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def sums(self, tenant: str) -> list[CostSum]:
        """Return a tenant's costs by collection, kind and model."""
        async with self._database.begin() as connection:
            found = (await connection.execute(_SUMS, {"tenant": tenant})).all()
        return [
            CostSum(s.collection, s.kind, s.model, Usage(s.prompt_tokens, s.completion_tokens), s.calls) for s in found
        ]

    async def by_day(self, tenant: str, days: int) -> list[CostOfDay]:
        """Return a tenant's costs of the last `days` days including today, oldest first."""
        async with self._database.begin() as connection:
            found = (await connection.execute(_DAYS, {"tenant": tenant, "days": days})).all()
        return [
            CostOfDay(s.day, s.collection, s.kind, s.model, Usage(s.prompt_tokens, s.completion_tokens), s.calls)
            for s in found
        ]

    async def today(self, tenant: str | None = None) -> list[DayCost]:
        """Return the costs since midnight in UTC, of all tenants or of one."""
        async with self._database.begin() as connection:
            found = (await connection.execute(_TODAY, {"tenant": tenant})).all()
        return [DayCost(s.tenant, s.kind, s.model, Usage(s.prompt_tokens, s.completion_tokens)) for s in found]

    async def fold(self) -> bool:
        """Add up some costs of attempts by day; return whether more may be left."""
        async with self._database.begin() as connection:
            folded: int = (await connection.execute(_FOLD, {"limit": _BATCH_SIZE})).scalar_one()
        return folded == _BATCH_SIZE

    async def forget(self, age: timedelta) -> bool:
        """Delete some older attempts, but not their costs; return whether more may be left."""
        async with self._database.begin() as connection:
            forgotten: int = (await connection.execute(_FORGET, {"age": age, "limit": _BATCH_SIZE})).scalar_one()
        return forgotten > 0


async def record(connection: AsyncConnection, costs: Iterable[Cost | None]) -> None:
    """Record the costs of attempts in the transaction of their settlement, even if it is rejected as late."""
    known = [cost for cost in costs if cost is not None]
    if known:
        await hold_erasures(connection, {cost.tenant for cost in known})
        await connection.execute(_INSERT, cost_rows(known))


async def hold_erasures(connection: AsyncConnection, tenants: Collection[str]) -> None:
    """Let running erasures of tenants go on only when this transaction has ended, before it writes paid results."""
    await connection.execute(_HOLD_ERASURES, {"tenants": sorted(tenants)})
