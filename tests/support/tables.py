"""The tables of the ledger and their columns, as the database reports them."""

from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.statements import Statement

# List the tables and their columns, without the two tables about the schema. The rows of partitions belong to the table
# that they divide.
_COLUMNS = Statement("""
    SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position) AS columns
    FROM information_schema.columns
    WHERE table_schema = 'public' AND table_name NOT IN ('alembic_version', 'schema_compat')
      AND table_name NOT IN (SELECT relname FROM pg_class WHERE relispartition)
    GROUP BY table_name ORDER BY table_name
""")


# Name the tables that autovacuum analyses: a table with partitions is not among them.
_ANALYSED = Statement("""
    SELECT string_agg(quote_ident(relname), ', ' ORDER BY relname) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
""")


async def analyze(connection: Connection, command: str = "ANALYZE") -> None:
    """Update the planner's statistics of all tables as autovacuum does."""
    tables = (await connection.execute(_ANALYSED)).scalar_one()
    await connection.execute_sql(f"{command} {tables}")


async def columns(connection: Connection) -> dict[str, list[str]]:
    """Return the columns of each table in order, by table name."""
    return {row.table_name: list(row.columns) for row in await connection.execute(_COLUMNS)}
