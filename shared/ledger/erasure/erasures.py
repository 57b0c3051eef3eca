"""Erasures: a tenant, a collection or a document is deleted with everything derived from it.

One transaction starts the erasure and hides everything that it covers. The documents are then deleted in slices, like
dropped builds and deleted documents: chunks, versions and bytes, points, rows. When they are deleted and no worker can
write for them any more, the erasure deletes the remaining rows, also in slices. Its own row contains all that it needs
to resume.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.erasures import Erasure
from shared.domain.errors import NotFound
from shared.ledger.documents import completions
from shared.ledger.documents.documents import delete_rows
from shared.ledger.model import states
from shared.ledger.model.collections import HOLD_COLLECTIONS
from shared.ledger.postgres.database import Database, again_after_collision

_SLICE = 1_000  # rows of one transaction

_TO_ERASE = "tenant = :tenant AND (CAST(:collection AS text) IS NULL OR name = :collection)"

# Find a running erasure with the same scope.
_FIND_OPEN = text("""
    SELECT * FROM erasures
    WHERE tenant = :tenant AND finished_at IS NULL AND document_id IS NULL
      AND collection IS NOT DISTINCT FROM CAST(:collection AS text)
""")

# Lock the builds of a collection, or of a whole tenant, in the lock order of all writers.
_LOCK_BUILDS = text(f"""
    SELECT id FROM collections WHERE {_TO_ERASE} ORDER BY name, {states.is_live()} DESC, build FOR UPDATE
""")

# Drop all builds at once, including the live one.
_ERASE_BUILDS = text(f"""
    UPDATE collections
    SET {states.ERASE_BUILD.sets()}, followed = false, filled_until = NULL, reindexed_until = NULL, live_until = NULL
    WHERE id = ANY(CAST(:ids AS uuid[])) AND {states.ERASE_BUILD.applies()}
""")

# Drop builds without waiting for cached queries.
_HASTEN = text("UPDATE collections SET live_until = NULL WHERE id = ANY(CAST(:ids AS uuid[]))")

# Return whether a tenant has a live collection.
_HAS_LIVE = text(f"SELECT EXISTS (SELECT 1 FROM collections WHERE {_TO_ERASE} AND {states.is_live()})")

# Start an erasure.
_BEGIN = text("""
    INSERT INTO erasures (id, tenant, collection, document_id, collection_ids, document_ids, deleted)
    VALUES (:id, :tenant, :collection, :document_id, CAST(:collection_ids AS uuid[]), CAST(:document_ids AS uuid[]),
            CAST(:deleted AS jsonb))
    RETURNING *
""")

# Count the rows of documents in builds.
_COUNT_DOCUMENTS = text("SELECT count(*) FROM documents WHERE collection_id = ANY(CAST(:ids AS uuid[]))")

# Find the tenant of a document.
_FIND_OWNER = text(f"""
    SELECT d.tenant FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.public_id = :id AND {states.exists("d")} AND {states.is_live("l")}
      AND (CAST(:tenant AS text) IS NULL OR d.tenant = :tenant)
""")

# Remove the document's chunk ids from the query log; the queries belong to users. A join finds the queries: to compare
# each query with each chunk would take longer than a transaction may.
_UNNAME_CHUNKS = text(f"""
    WITH gone AS MATERIALIZED (
        SELECT DISTINCT c.id
        FROM documents d JOIN chunks c ON c.document_id = d.id WHERE d.public_id = :id AND d.tenant = :tenant
    )
    UPDATE queries q SET chunk_ids = ARRAY(
        SELECT s.id FROM unnest(q.chunk_ids) WITH ORDINALITY s(id, rank)
        WHERE NOT EXISTS (SELECT 1 FROM chunks c JOIN documents d ON d.id = c.document_id
                          WHERE c.id = s.id AND d.public_id = :id AND d.tenant = :tenant OFFSET 0)
        ORDER BY s.rank)
    WHERE q.id IN (
        SELECT n.id FROM (SELECT id, unnest(chunk_ids) AS chunk_id FROM queries
                          WHERE collection_id IN (SELECT collection_id FROM documents
                                                  WHERE public_id = :id AND {states.exists()})) n
        JOIN gone g ON g.id = n.chunk_id)
""")

# Read an erasure, and how many rows of its documents are left.
_GET = text("""
    SELECT e.*, (SELECT count(*) FROM documents d
                 WHERE d.collection_id = ANY(e.collection_ids) OR d.id = ANY(e.document_ids)) AS documents_left
    FROM erasures e WHERE e.id = :id AND (CAST(:tenant AS text) IS NULL OR e.tenant = :tenant)
""")

# Lock an erasure whose documents are deleted with their points and bytes, and which has no calls in flight.
_LOCK_DUE = text("""
    SELECT e.* FROM erasures e
    WHERE e.finished_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM collections l WHERE l.id = ANY(e.collection_ids))
      AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = ANY(e.document_ids))
      AND NOT EXISTS (SELECT 1 FROM sweeps s
                      WHERE s.collection_id = ANY(e.collection_ids) OR s.document_id = ANY(e.document_ids))
      AND NOT EXISTS (SELECT 1 FROM outdated_objects o WHERE o.tenant = e.tenant)
      AND NOT EXISTS (SELECT 1 FROM abandoned_calls a WHERE a.tenant = e.tenant)
    ORDER BY random() LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
""")

# Fence all current claims: late settlements must not restore erased data.
_CLAIMED_BY_NOW = "last_token = nextval('fencing')"

# Count the deleted rows.
_ADD = text(f"""
    UPDATE erasures SET deleted = CAST(:deleted AS jsonb), {_CLAIMED_BY_NOW} WHERE id = :id RETURNING *
""")

# End an erasure.
_FINISH = text(f"UPDATE erasures SET finished_at = now(), {_CLAIMED_BY_NOW} WHERE id = :id RETURNING *")

# List erasures by scope, newest first. A tenant's erasure covers its collections and documents.
_LIST = text("""
    SELECT * FROM erasures
    WHERE (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
      AND (CAST(:collection AS text) IS NULL OR collection = :collection)
      AND (CAST(:document_id AS uuid) IS NULL OR document_id = :document_id)
    ORDER BY started_at DESC
""")


def _delete_where(table: str, condition: str) -> TextClause:
    """Return the statement that deletes some rows of a table."""
    return text(f"""
        DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {condition} LIMIT :limit)) RETURNING 1
    """)


# Rows under a collection's name: until the erasure has ended there is no other collection of that name.
_OF_NAME = "tenant = :tenant AND collection = CAST(:collection AS text) AND CAST(:document_id AS uuid) IS NULL"

# Remaining rows of collections and documents. Changes are deleted before the sums to which they are added.
_OF_PARTS = {
    "queries": _delete_where("queries", "collection_id = ANY(CAST(:ids AS uuid[]))"),
    "webhook_deliveries": _delete_where(
        "webhook_deliveries", "collection_id = ANY(CAST(:ids AS uuid[])) OR document_id = CAST(:document_id AS uuid)"
    ),
    "labelled_sets": _delete_where("labelled_sets", _OF_NAME),
    "evaluations": _delete_where("evaluations", _OF_NAME),
    "tally_changes": _delete_where("tally_changes", "part = ANY(CAST(CAST(:ids AS uuid[]) AS text[]))"),
    "tallies": _delete_where("tallies", "part = ANY(CAST(CAST(:ids AS uuid[]) AS text[]))"),
}

# Tables with rows of a tenant. Collections, documents, chunks and sweeps are deleted before these, and the record of
# erasures is retained. Sums follow their changes, because the scheduler adds changes to sums concurrently.
TABLES_OF_TENANT = (
    "completions",
    "paid_replies",
    "spent",
    "spent_changes",
    "abandoned_calls",
    "api_keys",
    "queries",
    "accepted_questions",
    "outdated_objects",
    "tally_changes",
    "labelled_sets",
    "evaluations",
    "webhook_deliveries",
    "webhooks",
    "tallies",
    "spent_by_day",
    "ended_by_minute",
)
_OF_TENANT = {table: _delete_where(table, "tenant = :tenant") for table in TABLES_OF_TENANT}


class Erasures:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def begin(self, tenant: str, collection: str | None = None) -> Erasure:
        """Start the erasure of a collection or of a whole tenant, which is hidden from now on.

        Returns:
            The erasure; the running one if there is one.

        Raises:
            NotFound: the tenant has no collection of that name.
        """
        scope = {"tenant": tenant, "collection": collection}
        async with self._database.begin() as connection:
            await connection.execute(HOLD_COLLECTIONS, {"tenant": tenant})
            under_way = (await connection.execute(_FIND_OPEN, scope)).mappings().first()
            if under_way is not None:
                return _erasure(under_way)
            ids = (await connection.execute(_LOCK_BUILDS, scope)).scalars().all()
            if collection is not None and not (await connection.execute(_HAS_LIVE, scope)).scalar_one():
                raise NotFound(f"There is no collection '{collection}'. GET /v1/collections lists those that exist.")
            await connection.execute(_ERASE_BUILDS, {"ids": ids})
            await connection.execute(_HASTEN, {"ids": ids})
            documents = (await connection.execute(_COUNT_DOCUMENTS, {"ids": ids})).scalar_one()
            return await _begin(connection, scope, documents, collection_ids=ids)

    @again_after_collision
    async def begin_document(self, document_id: UUID, tenant: str | None = None) -> Erasure:
        """Start the erasure of a document of this tenant or of any.

        Raises:
            NotFound: there is no such document.
        """
        parameters = {"id": document_id, "tenant": tenant}
        async with self._database.begin() as connection:
            owner = (await connection.execute(_FIND_OWNER, parameters)).scalar_one_or_none()
            if owner is None:
                raise NotFound(f"There is no document {document_id}. GET /v1/documents lists those that exist.")
            await connection.execute(_UNNAME_CHUNKS, {"id": document_id, "tenant": owner})
            rows = await delete_rows(connection, owner, document_id)
            scope = {"tenant": owner, "collection": None}
            ids = [row["id"] for row in rows]
            return await _begin(connection, scope, len(ids), document_id=document_id, document_ids=ids)

    async def get(self, erasure_id: UUID, tenant: str | None = None) -> Erasure:
        """Return an erasure, of this tenant or of any.

        Raises:
            NotFound: there is none of that id.
        """
        async with self._database.begin() as connection:
            found = await connection.execute(_GET, {"id": erasure_id, "tenant": tenant})
            row = found.mappings().one_or_none()
        if row is None:
            raise NotFound(f"There is no erasure {erasure_id}.")
        return _erasure(row)

    async def of(
        self, *, tenant: str | None = None, collection: str | None = None, document_id: UUID | None = None
    ) -> Sequence[Erasure]:
        """Return erasures, including finished ones, by scope; None matches any value."""
        parameters = {"tenant": tenant, "collection": collection, "document_id": document_id}
        async with self._database.begin() as connection:
            return [_erasure(row) for row in (await connection.execute(_LIST, parameters)).mappings()]

    @again_after_collision
    async def proceed(self, delete_keys: Callable[[str], Awaitable[None]]) -> Erasure | None:
        """Delete some remaining rows of an erasure whose documents are deleted, or finish it.

        Args:
            delete_keys: deletes a tenant's keys in the broker before its erasure finishes.

        Returns:
            The erasure; None if none is due.
        """
        async with self._database.begin() as connection:
            row = (await connection.execute(_LOCK_DUE)).mappings().first()
            if row is None:
                return None
            name, count = await _delete_slice(connection, row)
            if count:
                deleted = row["deleted"] | {name: row["deleted"].get(name, 0) + count}
                parameters = {"id": row["id"], "deleted": json.dumps(deleted)}
                return _erasure((await connection.execute(_ADD, parameters)).mappings().one())
            if _erasure(row).is_tenant:
                await delete_keys(row["tenant"])
            return _erasure((await connection.execute(_FINISH, {"id": row["id"]})).mappings().one())


async def _begin(connection: AsyncConnection, scope: Mapping[str, Any], documents: int, **of: Any) -> Erasure:
    parameters = {"id": uuid4(), "document_id": None, "collection_ids": [], "document_ids": [], **scope, **of}
    row = (await connection.execute(_BEGIN, parameters | {"deleted": json.dumps({"documents": documents})})).mappings()
    return _erasure(row.one(), documents)


async def _delete_slice(connection: AsyncConnection, erasure: RowMapping) -> tuple[str, int]:
    """Delete some remaining rows of an erasure; return their table and number, 0 if none is left."""
    tenant, limit = erasure["tenant"], {"limit": _SLICE}
    count = await completions.delete_unused(connection, tenant)
    if count:
        return "completions", count
    is_tenant = _erasure(erasure).is_tenant
    statements = _OF_TENANT if is_tenant else _OF_PARTS
    named = {name: erasure[name] for name in ("collection", "document_id")}
    parts = {} if is_tenant else named | {"ids": erasure["collection_ids"]}
    parameters = limit | {"tenant": tenant} | parts
    for name, statement in statements.items():
        count = len((await connection.execute(statement, parameters)).all())
        if count:
            return name, count
    return "", 0


def _erasure(row: RowMapping, documents_left: int | None = None) -> Erasure:
    names = Erasure.__dataclass_fields__.keys() - {"documents_left"}
    left = row.get("documents_left", 0) if documents_left is None else documents_left
    return Erasure(**{name: row[name] for name in names}, documents_left=left)
