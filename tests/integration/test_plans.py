"""Hot statements keep their plans for some seconds; PostgreSQL plans all others at each execution."""

from uuid import uuid4

import pytest

from shared.domain.corpus.index_location import IndexNames
from shared.ledger.documents.documents import SQL as DOCUMENTS
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.connections import DriverConnection
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.finishing import SQL
from tests.support.planted import guards

MARKED, UNMARKED = (SQL.lock_advancing, {"ids": []}), (SQL.check_open, {"limit": 1})
ARRAYS = Statement("SELECT CAST('{a}' AS text[]) AS texts, CAST('{1}' AS bigint[]) AS numbers")
EXECUTED = Statement("""
    SELECT coalesce(sum(generic_plans), 0)::int AS generic, coalesce(sum(custom_plans), 0)::int AS custom
    FROM pg_prepared_statements WHERE starts_with(statement, :start)
""")

DOCUMENTS_WITH_READERS = Statement("""
    WITH written AS (
        INSERT INTO documents (id, public_id, tenant, collection_id, external_id, state)
        SELECT id, id, 'alice', CAST(:collection AS uuid), id, 'queued' FROM unnest(CAST(:ids AS uuid[])) AS i(id)
        RETURNING id
    )
    INSERT INTO document_versions (document_id, version, filename, upload, size_bytes, content_hash, readable_by)
    SELECT id, 1, 'document.md', 'none', 1, decode(md5(id::text), 'hex'), ARRAY['group:' || id] FROM written
""")
READ = Statement("""
    SELECT (seq_tup_read + idx_tup_fetch)::int AS versions
    FROM pg_stat_xact_user_tables WHERE relname = 'document_versions'
""")


@pytest.fixture
async def database(services, settings):
    """Yield a pool with one connection."""
    database = Database(settings.database_url.get_secret_value(), pool_size=1)
    yield database
    await database.aclose()


async def executed(database, start):
    """Return the number of executions of a statement with a kept plan, and with a plan of its own."""
    (row,) = await database.rows(EXECUTED, {"start": start})
    return row["generic"], row["custom"]


async def mode(database):
    (row,) = await database.rows(Statement("SHOW plan_cache_mode"))
    return row["plan_cache_mode"]


async def test_only_marked_statements_keep_plans(database):
    for _ in range(3):
        await database.rows(*MARKED)
        await database.rows(*UNMARKED)

    assert await executed(database, MARKED[0].sql[:50]) == (3, 0)
    assert await executed(database, UNMARKED[0].sql[:50]) == (0, 3)


@guards(
    "shared/ledger/postgres/connections.py",
    "self._plans.generic = None",
    "pass",
    means="a rollback leaves a connection in another mode than recorded",
)
async def test_mode_is_set_again_after_rollback(database):
    async with database.transaction() as connection:
        await connection.execute(*MARKED)
        await connection.rollback()
    assert await mode(database) == "force_custom_plan"

    await database.rows(*MARKED)
    assert await mode(database) == "force_generic_plan"


async def test_consecutive_marked_statements_change_mode_once(database):
    for _ in range(3):
        await database.rows(*MARKED)
        await database.ping()

    assert sum(await executed(database, "SELECT set_config('plan_cache_mode'")) == 1


async def test_second_connection_looks_up_no_types(settings, services, monkeypatch):
    monkeypatch.setattr(DriverConnection, "_found", {})
    for lookups in (1, 0):
        database, sent = Database(settings.database_url.get_secret_value(), pool_size=1), []
        async with database.pool.lend() as connection:
            connection.driver.add_query_logger(lambda query, sent=sent: sent.append(query.query))
        await database.warm()
        (row,) = await database.rows(ARRAYS)
        assert list(row.values()) == [["a"], [1]]
        assert len([query for query in sent if "typeinfo_tree" in query]) == lookups
        await database.aclose()


async def test_expired_plans_are_discarded_once(database):
    async with database.pool.lend() as connection:
        sent = []
        connection.driver.add_query_logger(lambda query: sent.append(query.query))
    for _ in range(3):
        await database.rows(*MARKED)

    assert sent.count("DISCARD PLANS") == 1


@guards(
    "shared/ledger/documents/documents.sql",
    "OR (SELECT r.readable_by FROM document_versions r WHERE r.document_id = v.id AND r.version = v.version)\n"
    "            && CAST(:principals AS text[]))",
    "OR EXISTS (SELECT 1 FROM document_versions r WHERE r.document_id = v.id AND r.version = v.version\n"
    "            AND r.readable_by && CAST(:principals AS text[])))",
    means="PostgreSQL reads the readers of all documents to check the found ones",
)
async def test_check_reads_only_readers_of_found_documents(database):
    collection = await Collections(database, IndexNames("test")).ensure("alice", "handbook", embedding_model="m")
    ids = [uuid4() for _ in range(1000)]
    async with database.begin() as connection:
        await connection.execute(DOCUMENTS_WITH_READERS, {"collection": collection.id, "ids": ids})
    found = {"ids": ids[:10], "versions": [1] * 10, "principals": [f"group:{ids[0]}", "user:ada"]}

    async with database.begin() as connection:
        shown = await connection.execute(DOCUMENTS.shown_versions, found)
        (read,) = await connection.execute(READ, {})

    assert {row["id"] for row in shown} == set(ids[1:10])
    assert read["versions"] == 10
