"""Extension and release of leases, for all tables with work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Literal

from shared.domain.stages.work import Lease, LeaseExtension
from shared.ledger.model import columns, states
from shared.ledger.model.rows.attempts import lease_rows
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection


def extended(table: str) -> str:
    """Return the statement that extends the leases on rows of a table."""
    given = columns.is_given("t")
    held = "t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL"
    return f"""
        WITH valid AS MATERIALIZED (
            SELECT t.id, t.version, v.token
            FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
            JOIN {table} t ON t.id = v.id AND {held}
            WHERE {given}
        ), free AS MATERIALIZED (
            SELECT t.id, t.version FROM valid v JOIN {table} t ON t.id = v.id AND {held}
            WHERE {given}
            FOR NO KEY UPDATE OF t SKIP LOCKED
        ), extended AS (
            UPDATE {table} t SET due_at = now() + :lease FROM free f
            WHERE {given} AND t.id = f.id AND t.version = f.version
        )
        SELECT v.token AS lease_token, f.id IS NOT NULL AS is_extended FROM valid v LEFT JOIN free f USING (id, version)
    """


SQL = statements.load(__file__, states.FRAGMENTS, extended=extended)
_EXTEND = MappingProxyType({"documents": SQL.extend_documents, "chunks": SQL.extend_chunks, "pages": SQL.extend_pages})
_RELEASE = MappingProxyType({"documents": SQL.release_documents, "chunks": SQL.release_chunks})
_EXPIRE = MappingProxyType({"documents": SQL.expire_documents, "chunks": SQL.expire_chunks})


async def extend(connection: Connection, table: str, leases: Sequence[Lease], lease: timedelta) -> LeaseExtension:
    """Extend leases from now on. It never waits for another transaction.

    Args:
        connection: open transaction.
        table: `documents`, `chunks` or `pages`.
        leases: the leases.
        lease: time until they expire.
    """
    found = (await connection.execute(_EXTEND[table], lease_rows(leases) | {"lease": lease})).all()
    return LeaseExtension(
        extended=frozenset(row.lease_token for row in found if row.is_extended),
        locked=frozenset(row.lease_token for row in found if not row.is_extended),
    )


async def release(
    connection: Connection, table: Literal["documents", "chunks"], leases: Sequence[Lease], *, lost: bool
) -> None:
    """Release claims without an attempt: the rows are due at once. The next claim counts `lost` ones as lost."""
    await connection.execute((_EXPIRE if lost else _RELEASE)[table], lease_rows(leases))


def all_expired_after(lease: timedelta) -> timedelta:
    """Return the time after which every lease that is valid now has certainly expired."""
    return lease * 2
