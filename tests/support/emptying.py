"""Engines as new, in milliseconds: data of earlier tests are deleted, and nothing is created again."""

from __future__ import annotations

import asyncio
import shutil
from uuid import uuid4

from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.schema import migrate
from shared.services.all import AllServices
from shared.vectors.schema.payload_indexes import REQUIRED
from tests.support.provider import DIMENSIONS
from tests.support.tables import columns
from tests.support.transitions import refuse_unknown_transitions

PREFIX = f"test-{uuid4().hex}"  # of this process's collections in Qdrant, which other processes may share
_COUNTS = ("tallies", "tally_changes", "spent_changes")  # triggers write to them when rows are deleted
KEPT_TABLES = ("deployment",)
# Most tables are empty, and looking takes less than an empty deletion. TRUNCATE makes new files for each table and
# index. PostgreSQL keeps the plans of a function's statements.
_EMPTY = "IF EXISTS (SELECT FROM {table}) THEN DELETE FROM {table}; END IF;"
_FORGET_WANTED = " UPDATE deployment SET wanted = NULL WHERE wanted IS NOT NULL;"
_FUNCTION = """
    CREATE OR REPLACE FUNCTION testing.empty_tables() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {statements} END $$
"""


async def prepare(database: Database) -> None:
    """Create the schema, a trigger that refuses unknown transitions, and a function that empties all tables."""
    await migrate(database)
    await refuse_unknown_transitions(database)
    async with database.begin() as connection:
        tables = [name for name in await columns(connection) if name not in (*_COUNTS, *KEPT_TABLES)]
        statements = " ".join(_EMPTY.format(table=table) for table in (*tables, *_COUNTS)) + _FORGET_WANTED
        await connection.execute_sql("CREATE SCHEMA IF NOT EXISTS testing")
        await connection.execute_sql(_FUNCTION.format(statements=statements))


async def empty(services: AllServices) -> None:
    """Delete the data of earlier tests, and reset the services as if they had just started."""
    async with services.database.begin() as connection:
        await connection.execute_sql("SELECT testing.empty_tables()")
    await _empty_index(services)
    shutil.rmtree(services.settings.data_dir / "uploads", ignore_errors=True)
    await forget(services)


async def forget(services: AllServices) -> None:
    """Delete the broker's keys, and reset the state that services keep about providers and engines."""
    await services.wakeups._redis.flushdb()  # a client of its own would read the metadata of a package first
    limiters = (services.limiters.llm, *services.limiters.embeddings.values())
    for limiter in limiters:
        limiter._client._kept.return_all()
    assert all(await asyncio.gather(*(limiter._client.refresh(timeout_seconds=5) for limiter in limiters)))
    for limiter in limiters:
        limiter._judge.__init__(limiter.limits.component, limiter._ask, limiter._now)  # type: ignore[misc]  # results of its neutral calls
        limiter.endings._pauses.clear()
    for indexer in services.indexers.values():
        indexer.embedder.seen = None
    services.retriever._vectors._remembered.clear()
    services.retriever._replaced._by_collection.clear()  # a restored document may have an earlier version
    services.index._rejecting.clear()
    services.index._most_points.clear()
    services.index._searched_apart.clear()
    services.notices._stored.clear()
    services.index._unavailable = False


def use_own_collections(services: AllServices) -> None:
    """Give a test collections of Qdrant that do not exist yet, instead of the shared one."""
    services.ledger[Collections]._index_names.prefix = f"{PREFIX}-{uuid4().hex}"


async def _empty_index(services: AllServices) -> None:
    """Delete the points of the collection that tests share, and every other collection.

    The shared collection always exists. A new one takes 130 ms of processor time, a deletion of points 2.
    """
    index, names = services.index, services.ledger[Collections]._index_names
    names.prefix = PREFIX
    assert services.settings.embedding_model is not None
    shared, exists = names.for_embedding(services.settings.embedding_model), False
    for name in await index.names():
        if name == shared and await _is_usual(services, name):
            exists = True
        elif name.startswith(PREFIX):
            await index.drop_collection(name)
    index._existing.clear()
    index._indexed.clear()
    if not exists:
        await index.ensure_collection(shared, DIMENSIONS)


async def _is_usual(services: AllServices, name: str) -> bool:
    """Return whether a collection is as the product creates it, and delete its points then."""
    index = services.index
    info = await index._info(name)
    created = index._layout.creation(DIMENSIONS)
    vectors = all(info["config"]["params"].get(kind) == created[kind] for kind in ("vectors", "sparse_vectors"))
    if not vectors or info["payload_schema"].keys() != REQUIRED.keys() or index._layout.differences(info):
        return False
    if info["points_count"]:
        await index._delete(name, {})
    return True
