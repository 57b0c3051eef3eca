"""The tables of sources from which an erasure deletes rows.

PostgreSQL deletes hints and notes with their sources, and pushed keys with their syncs.
"""

from __future__ import annotations

from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.postgres import statements

SQL = statements.load(__file__)

ERASED_TABLES = (
    ErasedTable(name="source_items", of_tenant=SQL.items_of_tenant, of_part=SQL.items_of_part),
    ErasedTable(
        name="syncs", of_tenant=SQL.syncs_of_tenant, of_part=SQL.syncs_of_part, under_name=SQL.syncs_under_name
    ),
    ErasedTable(
        name="sources",
        of_tenant=SQL.sources_of_tenant,
        of_part=SQL.sources_of_part,
        under_name=SQL.sources_under_name,
    ),
)
