"""The time of an erasure of a document among large tables: `python -m bench erasure --rows 10000000`.

The ledger alone runs, in a PostgreSQL of its own. A tenant gets as many logged queries, and as many paid questions with
the contents that use them, as `--rows` says; a hundredth of the queries returned a chunk of the document. While the
document is erased, queries are logged. Printed are the seconds until the erasure is accepted, until it has
searched each table, the slowest slice, and the remaining rows with an id of the document.

10 million rows need about 10 GB in the folder for temporary files (`TMPDIR`).
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from embedded.stack import Stack
from features.all import FEATURES
from features.erasure.ledger import erasures
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.documents import NewDocument
from shared.domain.corpus.index_location import IndexNames
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.schema import migrate
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.leftovers import Leftovers
from shared.services.features import erased_tables
from shared.settings import Settings
from tests.support.tables import analyze

ROWS = 1_000_000
_PART = 1_000_000  # rows of one statement
_TENANT, _MODEL = "default", "embedding"
_PAUSE_SECONDS = 0.05  # between two logged queries

# Indexes of the filled tables, which are created after their rows.
_INDEXES = Statement("""
    SELECT indexname, indexdef FROM pg_indexes
    WHERE tablename = ANY(ARRAY['queries', 'completions', 'chunk_contents'])
      AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conname = indexname)
""")
_QUERIES = Statement("""
    INSERT INTO queries (id, tenant, collection_id, question, chunk_ids, created_at)
    SELECT gen_random_uuid(), :tenant, :collection, 'When does the harbour open in the month ' || n || '?',
           CASE WHEN n % 100 = 0 THEN ARRAY[CAST(:chunk AS uuid)] ELSE '{}' END || ARRAY(
               SELECT CAST(md5((n + i)::text) AS uuid) FROM generate_series(1, 7) i),
           now() - interval '30 days' + n * interval '30 days' / :rows
    FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) n
""")
_COMPLETIONS = Statement("""
    INSERT INTO completions (content_key, tenant, model, questions)
    SELECT decode(md5(n::text) || md5('k' || n), 'hex'), :tenant, 'model', ARRAY['When does it open?']
    FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) n
""")
# All but a thousandth of the paid questions are in use.
_CONTENTS = Statement("""
    INSERT INTO chunk_contents (chunk_id, version, content, content_key)
    SELECT CAST(md5('c' || n) AS uuid), 1, '{}', decode(md5(n::text) || md5('k' || n), 'hex')
    FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) n WHERE n % 1000 <> 0
""")
_LOG = Statement("""
    INSERT INTO queries (id, tenant, collection_id, question, chunk_ids)
    VALUES (gen_random_uuid(), :tenant, :collection, 'Another one?', ARRAY[gen_random_uuid()])
""")
_LEFT = Statement("SELECT count(*) FROM queries WHERE CAST(:chunk AS uuid) = ANY(chunk_ids)")
_UNUSED = Statement("""
    SELECT count(*) FROM completions p
    WHERE NOT EXISTS (SELECT 1 FROM chunk_contents t WHERE t.content_key = p.content_key)
""")
_SIZE = Statement("SELECT pg_size_pretty(pg_database_size(current_database()))")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="of each table; %(default)s by default")
    rows = parser.parse_args().rows
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Settings(_env_file=None), Path(folder), engines=["postgres"], durable=False) as stack,
    ):
        assert stack.settings.database_url is not None
        asyncio.run(run(stack.settings.database_url.get_secret_value(), rows))


async def run(url: str, rows: int) -> None:
    slow = Database(url, timeout=None)  # fills tables
    await migrate(slow)
    collection = await Collections(slow, IndexNames("bench")).ensure(_TENANT, "default", embedding_model=_MODEL)
    document, chunk = await add_document(slow, collection)
    started = time.perf_counter()
    await fill(slow, rows, {"tenant": _TENANT, "collection": collection.id, "chunk": chunk, "rows": rows})
    print(f"{rows:,} rows of each table in {time.perf_counter() - started:.0f} s, {await one(slow, _SIZE)}", flush=True)
    database = Database(url)
    asking = asyncio.create_task(ask(database, collection.id))
    try:
        await erase(database, document)
    finally:
        asking.cancel()
    left = {"chunk": chunk}
    print(f"left: {await one(slow, _LEFT, left)} queries, {await one(slow, _UNUSED)} unused paid questions", flush=True)
    await database.aclose()
    await slow.aclose()


async def add_document(database: Database, collection: Collection) -> tuple[UUID, UUID]:
    """Add a document with a chunk that queries have returned; return the ids of both."""
    new = NewDocument(collection, "a.md", "a.md", None, "text/markdown", {}, None, "none", 1_000, uuid4().bytes)
    document, chunk = await Documents(database).submit(new), uuid4()
    async with database.begin() as connection:
        await connection.execute(
            Statement("""
                INSERT INTO chunks (id, version, document_id, tenant, ordinal, content_key, embedding_model, state)
                SELECT :chunk, d.version, d.id, d.tenant, 0, '', :model, 'indexed' FROM documents d
            """),
            {"chunk": chunk, "model": _MODEL},
        )
    return document.document.id, chunk


async def fill(database: Database, rows: int, values: dict[str, object]) -> None:
    async with database.begin() as connection:
        indexes = (await connection.execute(_INDEXES)).all()
        for name, _ in indexes:
            await connection.execute_sql(f"DROP INDEX {name}")
    for statement in (_QUERIES, _COMPLETIONS, _CONTENTS):
        for first in range(1, rows + 1, _PART):
            part = {"first": first, "last": min(rows, first + _PART - 1)}
            named = {name: values[name] for name in set(statement.names) & values.keys()}
            async with database.begin() as connection:
                await connection.execute(statement, part | named)
    async with database.begin() as connection:
        for _, definition in indexes:
            await connection.execute_sql(definition)
    async with database.begin() as connection:
        await analyze(connection)


async def ask(database: Database, collection_id: UUID) -> None:
    while True:
        async with database.begin() as connection:
            await connection.execute(_LOG, {"tenant": _TENANT, "collection": collection_id})
        await asyncio.sleep(_PAUSE_SECONDS)


async def erase(database: Database, document: UUID) -> None:
    """Erase the document as the scheduler does, without its points, and print the times."""
    everything = erasures.Erasures(database)
    leftovers = Leftovers(database, timedelta(seconds=30))
    started = time.perf_counter()
    await everything.start_document(document)
    print(f"started in {time.perf_counter() - started:.2f} s", flush=True)
    await leftovers.purge_versions()
    await leftovers.finish_deletion(await leftovers.deletable())
    async with database.begin() as connection:
        await connection.execute_sql("DELETE FROM sweeps")  # as if their leases had expired
        await connection.execute_sql("DELETE FROM outdated_objects")
    seconds, slices, slowest = defaultdict[str, float](float), defaultdict[str, int](int), 0.0
    while True:
        before = time.perf_counter()
        found = await everything.proceed(_no_keys, erased_tables(FEATURES))
        taken = time.perf_counter() - before
        if found is None:
            await asyncio.sleep(1)  # transactions that have not seen the fence must end first: 30 s
            continue
        table = await one(database, Statement("SELECT coalesce(search ->> 'in', 'the rest') FROM erasures"))
        seconds[table] += taken
        slices[table] += 1
        slowest = max(slowest, taken)
        if found.finished_at is not None:
            break
    print(f"finished in {time.perf_counter() - started:.0f} s, of which 30 s of waiting; slowest slice {slowest:.2f} s")
    for table, taken in seconds.items():
        print(f"  {table:<14} {taken:7.1f} s in {slices[table]:,} slices", flush=True)


async def one(database: Database, statement: Statement, parameters: dict[str, object] | None = None) -> Any:
    async with database.begin() as connection:
        return (await connection.execute(statement, parameters or {})).scalar_one()


async def _no_keys(_: str) -> None:
    """Delete nothing: the benchmark has no broker."""


if __name__ == "__main__":
    main()
