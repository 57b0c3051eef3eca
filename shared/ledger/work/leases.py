"""Extension of leases, for all tables with work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import MappingProxyType

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.work import Lease, LeaseExtension
from shared.ledger.model import rows
from shared.ledger.postgres import statements

SQL = statements.load(__file__)
_EXTEND = MappingProxyType({"documents": SQL.extend_documents, "chunks": SQL.extend_chunks, "pages": SQL.extend_pages})


async def extend(connection: AsyncConnection, table: str, leases: Sequence[Lease], lease: timedelta) -> LeaseExtension:
    """Extend leases from now on. It never waits for another transaction.

    Args:
        connection: open transaction.
        table: `documents`, `chunks` or `pages`.
        leases: the leases.
        lease: time until they expire.
    """
    found = (await connection.execute(_EXTEND[table], rows.lease_rows(leases) | {"lease": lease})).all()
    return LeaseExtension(
        extended=frozenset(row.lease_token for row in found if row.is_extended),
        locked=frozenset(row.lease_token for row in found if not row.is_extended),
    )
