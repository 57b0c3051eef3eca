"""The roles in PostgreSQL of those who serve and work: neither owns a table, makes one, or is a superuser.

Whoever takes the API or a worker over has what its role has: no programs and files of PostgreSQL's machine, no other
role, no tables to drop. A parse worker handles files of strangers, so its role has less: by it nobody finds texts or
questions or queries in the ledger, and nobody deletes a document.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.domain.database_roles import APP_ROLE, PARSE_ROLE
from shared.ledger.postgres.database import AdvisoryLock, lock

# What a parse worker does with each table. Of a text it has to find the row again, by its key.
_GRANTS = {
    "alembic_version": "SELECT",
    "deployment": "SELECT (id)",
    "collections": "SELECT, UPDATE (languages)",
    "documents": "SELECT, INSERT, UPDATE",
    "document_versions": "SELECT, INSERT, UPDATE",
    "chunks": "SELECT, INSERT, UPDATE, DELETE",
    "chunk_contents": "SELECT (chunk_id, version), INSERT, DELETE",
    "chunk_questions": "SELECT (chunk_id, version), DELETE",
    "accepted_questions": "SELECT (id, document_id, chunk_id, state)",
    "completions": "SELECT (content_key), UPDATE (unused_since)",  # whoever may change a column may hold the row
    "abandoned_calls": "INSERT",
    "sweeps": "SELECT, INSERT, DELETE",
    "tally_changes": "INSERT",
    "workers": "SELECT, INSERT, UPDATE, DELETE",  # its own row; a row says nothing of anybody's documents
    "webhooks": "SELECT (id, tenant, events, disabled_at)",  # who is told of a document; not what is signed with
    "webhook_deliveries": "INSERT",
}
_SEQUENCES = "fencing, sweeps_id_seq"

# List the ledger's tables: those of the owner of Alembic's table, without that table.
_TABLES = text("""
    SELECT string_agg(quote_ident(t.tablename), ', ' ORDER BY t.tablename)
    FROM pg_tables t JOIN pg_tables a ON a.schemaname = t.schemaname AND a.tableowner = t.tableowner
    WHERE a.tablename = 'alembic_version' AND t.schemaname = 'public' AND t.tablename <> a.tablename
""")

# Return the statement that lets nobody else make temporary tables: one with a table's name would come before it in
# whatever runs as the owner.
_NO_TEMPORARY = text("SELECT format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database())")

# Find the role.
_FIND = text("SELECT 1 FROM pg_roles WHERE rolname = :name")

# Return the statement that gives the role its password; a statement of this kind takes no parameters.
_STATEMENT = text("""
    SELECT format('%s ROLE %I LOGIN PASSWORD %L', CAST(:verb AS text), CAST(:name AS text), CAST(:password AS text))
""")


async def make_app_role(engine: AsyncEngine, password: str) -> None:
    """Make the role of the API, the scheduler and the other workers: it reads and writes rows; safe to repeat.

    Repeat it after each migration, for new tables. The connection's own role must be allowed to make roles, and own the
    tables.
    """
    async with engine.connect() as connection:
        tables = (await connection.execute(_TABLES)).scalar_one()
    await _make(
        engine,
        APP_ROLE,
        password,
        [
            f"GRANT SELECT ON alembic_version TO {APP_ROLE}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {APP_ROLE}",
        ],
    )


async def make_parse_role(engine: AsyncEngine, password: str) -> None:
    """Make the role of parse workers, or give it this password, and let it do what they do; as `make_app_role`."""
    grants = [f"GRANT {privileges} ON {table} TO {PARSE_ROLE}" for table, privileges in _GRANTS.items()]
    await _make(engine, PARSE_ROLE, password, grants)


async def _make(engine: AsyncEngine, role: str, password: str, grants: Sequence[str]) -> None:
    async with engine.begin() as connection:
        await lock(connection, AdvisoryLock.MIGRATION)
        exists = (await connection.execute(_FIND, {"name": role})).one_or_none()
        parameters = {"verb": "ALTER" if exists else "CREATE", "name": role, "password": password}
        await connection.exec_driver_sql((await connection.execute(_STATEMENT, parameters)).scalar_one())
        for statement in (
            (await connection.execute(_NO_TEMPORARY)).scalar_one(),
            f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}",
            f"GRANT USAGE ON SCHEMA public TO {role}",
            f"GRANT USAGE ON SEQUENCE {_SEQUENCES} TO {role}",
            *grants,
        ):
            await connection.exec_driver_sql(statement)
