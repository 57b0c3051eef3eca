"""The role of parse workers in PostgreSQL: it claims documents and settles them, and reads nothing else.

A parse worker handles files of strangers. Whoever takes it over finds neither texts nor questions nor queries in the
ledger by it, and can delete no document.
"""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.ledger.database import AdvisoryLock, lock

PARSE_ROLE = "foreask_parse"

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
}

# Find the role.
_FIND = text("SELECT 1 FROM pg_roles WHERE rolname = :name")

# Return the statement that gives the role its password; a statement of this kind takes no parameters.
_STATEMENT = text("""
    SELECT format('%s ROLE %I LOGIN PASSWORD %L', CAST(:verb AS text), CAST(:name AS text), CAST(:password AS text))
""")


async def make_parse_role(engine: AsyncEngine, password: str) -> None:
    """Make the role, or give it this password, and let it do what parse workers do; safe to repeat.

    The connection's own role must be allowed to make roles.
    """
    async with engine.begin() as connection:
        await lock(connection, AdvisoryLock.MIGRATION)
        exists = (await connection.execute(_FIND, {"name": PARSE_ROLE})).one_or_none()
        parameters = {"verb": "ALTER" if exists else "CREATE", "name": PARSE_ROLE, "password": password}
        await connection.exec_driver_sql((await connection.execute(_STATEMENT, parameters)).scalar_one())
        for statement in _statements():
            await connection.exec_driver_sql(statement)


def _statements() -> list[str]:
    grants = [f"GRANT {privileges} ON {table} TO {PARSE_ROLE}" for table, privileges in _GRANTS.items()]
    return [
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {PARSE_ROLE}",
        f"GRANT USAGE ON SCHEMA public TO {PARSE_ROLE}",
        f"GRANT USAGE ON SEQUENCE fencing, sweeps_id_seq TO {PARSE_ROLE}",
        *grants,
    ]
