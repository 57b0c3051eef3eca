"""PostgreSQL roles of servers and workers: they own no table, create none, and are not superusers.

An attacker who controls the API or a worker has the rights of its role: no programs or files of PostgreSQL's machine,
no other role, no tables to drop. Parse and read workers process untrusted files, so their role has fewer rights: it
cannot read texts of chunks, questions or queries in the ledger. Parse workers bring the documents of sources up to
date, and therefore their role can delete documents, too. An autoscaler has a role that reads one value.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.access.database_roles import APP_ROLE, PARSE_ROLE, SCALE_ROLE
from shared.ledger.postgres.database import AdvisoryLock, Database, begin_alone
from shared.ledger.postgres.statements import Statement

# The rights of a parse worker on each table. It may find the rows of contents by key only.
_GRANTS = {
    "alembic_version": "SELECT",
    "schema_compat": "SELECT",
    "deployment": "SELECT (id)",
    "collections": "SELECT, UPDATE (languages, metadata_fields)",
    "documents": "SELECT, INSERT, UPDATE",
    "document_versions": "SELECT, INSERT, UPDATE",
    "chunks": "SELECT, INSERT, UPDATE, DELETE",
    "chunk_contents": "SELECT (chunk_id, version), INSERT, DELETE",
    "chunk_questions": "SELECT (chunk_id, version), DELETE",
    "accepted_questions": "SELECT (id, document_id, chunk_id, state), DELETE",  # of deleted documents
    "disabled_questions": "SELECT (document_id), DELETE",  # likewise
    # the right to update a column includes the right to lock the row
    # Texts of pages: it reads their files anyway. Erased texts must not be stored again.
    "pages": "SELECT, INSERT, UPDATE, DELETE",
    "page_texts": "SELECT (key, tenant, text, words, confidence), INSERT, UPDATE (unused_since)",
    "page_pictures": "INSERT",
    "pages_by_day": "SELECT, INSERT, UPDATE",
    "erasures": "SELECT (id, tenant, last_token, finished_at), UPDATE (last_token)",  # the last release locks the row
    "completions": "SELECT (content_key), UPDATE (unused_since)",
    "abandoned_calls": "INSERT",
    "sweeps": "SELECT, INSERT, DELETE",
    "tallies": "SELECT",  # numbers of open chunks, which delay syncs
    "tally_changes": "SELECT, INSERT",
    # Which jobs are paused. A sync pauses its own job until its deletions are approved, and a lookup ends its own.
    # Requests, progress and results of jobs contain questions.
    "jobs": (
        "SELECT (id, tenant, number, state, pause_reason, ended_at), UPDATE (state, pause_reason, error, ended_at)"
    ),
    "job_claims": "SELECT, UPDATE, DELETE",
    "sources": "SELECT",
    "source_items": "SELECT, INSERT, UPDATE, DELETE",
    "source_hints": "SELECT, INSERT, UPDATE, DELETE",  # entries that changed before they were parsed
    "source_notes": "SELECT, INSERT, UPDATE, DELETE",
    "source_checks": "SELECT, UPDATE",
    "syncs": "SELECT, UPDATE",
    "pushed_keys": "SELECT, DELETE",
    "workers": "SELECT, INSERT, UPDATE, DELETE",  # its own row; rows contain no documents
    "webhooks": "SELECT (id, tenant, events, disabled_at)",  # which webhooks receive an event; not the secrets
    "webhook_deliveries": "INSERT",
}
_TOKENS = "fencing"
_SEQUENCES = f"{_TOKENS}, sweeps_id_seq"

# List the ledger's tables: the tables with the owner of Alembic's table, without the two tables about the schema.
_TABLES = Statement("""
    SELECT string_agg(quote_ident(t.tablename), ', ' ORDER BY t.tablename)
    FROM pg_tables t JOIN pg_tables a ON a.schemaname = t.schemaname AND a.tableowner = t.tableowner
    WHERE a.tablename = 'alembic_version' AND t.schemaname = 'public'
      AND t.tablename NOT IN ('alembic_version', 'schema_compat')
""")

# Return the statement that forbids temporary tables: one with the name of a table would shadow it in statements of the
# owner.
_NO_TEMPORARY = Statement("SELECT format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database())")

# Find the role.
_FIND = Statement("SELECT 1 FROM pg_roles WHERE rolname = :name")

# Return the statement that gives the role its password; a statement of this kind takes no parameters.
_STATEMENT = Statement("""
    SELECT format('%s ROLE %I LOGIN PASSWORD %L', CAST(:verb AS text), CAST(:name AS text), CAST(:password AS text))
""")


async def make_app_role(database: Database, password: str) -> None:
    """Create the role of the API, the scheduler and the other workers, which reads and writes rows; safe to repeat.

    Repeat it after each migration, for new tables. The connection's own role must be allowed to create roles, and must
    own the tables.
    """
    async with database.transaction() as connection:
        tables = (await connection.execute(_TABLES)).scalar_one()
    await _make(
        database,
        APP_ROLE,
        password,
        [
            f"GRANT SELECT ON alembic_version, schema_compat TO {APP_ROLE}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {APP_ROLE}",
            _grant_sequences(APP_ROLE),
            f"GRANT SELECT, UPDATE ON SEQUENCE {_TOKENS} TO {APP_ROLE}",  # it raises tokens above the clock
        ],
    )


async def make_parse_role(database: Database, password: str) -> None:
    """Create the role of parse workers, or set its password, and grant its rights; as `make_app_role`."""
    grants = [f"GRANT {privileges} ON {table} TO {PARSE_ROLE}" for table, privileges in _GRANTS.items()]
    await _make(database, PARSE_ROLE, password, [*grants, _grant_sequences(PARSE_ROLE)])


async def make_scale_role(database: Database, password: str) -> None:
    """Create the role of an autoscaler, which reads the wanted numbers of workers, or set its password."""
    await _make(database, SCALE_ROLE, password, [f"GRANT SELECT (wanted) ON deployment TO {SCALE_ROLE}"])


def _grant_sequences(role: str) -> str:
    return f"GRANT USAGE ON SEQUENCE {_SEQUENCES} TO {role}"


async def _make(database: Database, role: str, password: str, grants: Sequence[str]) -> None:
    async with begin_alone(database, AdvisoryLock.MIGRATION) as connection:
        exists = (await connection.execute(_FIND, {"name": role})).one_or_none()
        parameters = {"verb": "ALTER" if exists else "CREATE", "name": role, "password": password}
        await connection.execute_sql((await connection.execute(_STATEMENT, parameters)).scalar_one())
        for statement in (
            (await connection.execute(_NO_TEMPORARY)).scalar_one(),
            f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}",
            f"GRANT USAGE ON SCHEMA public TO {role}",
            *grants,
        ):
            await connection.execute_sql(statement)
