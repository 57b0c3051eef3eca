"""Erasures: a tenant, a collection or documents are deleted with everything derived from them.

One transaction starts the erasure and hides everything that it covers. The documents are then deleted in slices, like
dropped builds and deleted documents: chunks, versions and bytes, points, rows. When they are deleted, the erasure draws
a token. From then on no settlement with a smaller token restores erased data, and only calls and objects with smaller
tokens can contain it. When these have ended, and all transactions that have not seen the token, the erasure searches
the large tables, and deletes the remaining rows, also in slices. Its own row contains all that it needs to resume.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from features.erasure.domain import Erasure
from features.erasure.ledger.searches import SEARCHES, Search
from features.erasure.ledger.text_searches import searches_of
from shared.domain.errors import NotFound
from shared.ledger.documents.documents import delete_rows
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.model import collections, states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.postgres.statements import Statement

_SLICE = 1_000  # rows of one transaction
# No transaction lasts longer than 20 s. After that, every settlement has seen the token, and its rows are visible.
_WRITERS_END_AFTER = timedelta(seconds=30)
# A writer whose process was suspended may write after all leases have expired, and die before it can report that.
_RECHECK_AFTER = timedelta(minutes=10)
_RECHECK_FOR = timedelta(days=7)

SQL = statements.load(__file__, states.FRAGMENTS)


def _delete_where(table: str, condition: str) -> Statement:
    """Return the statement that deletes some rows of a table."""
    return Statement(f"""
        DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {condition} LIMIT :limit)) RETURNING 1
    """)


# Rows under a collection's name: no other collection has this name before the erasure has ended.
_OF_NAME = "tenant = :tenant AND collection = CAST(:collection AS text)"

# Counters of builds, and of jobs under the collection's name.
_OF_COUNTED = f"""
    part = ANY(CAST(CAST(:ids AS uuid[]) AS text[]))
    OR counted = 'jobs' AND part = ANY(ARRAY(SELECT id::text FROM jobs WHERE {_OF_NAME}))
"""

# Budgets of the collection, and of jobs under its name, with their reservations.
_OF_BUDGETS = f"{_OF_NAME} OR job_id = ANY(ARRAY(SELECT id FROM jobs WHERE {_OF_NAME}))"

# Remaining rows of collections and documents. Changes are deleted before the sums to which they are added.
_OF_PARTS = {
    "budgets": _delete_where("budgets", _OF_BUDGETS),
    "disabled_questions": _delete_where("disabled_questions", _OF_NAME),
    "tally_changes": _delete_where("tally_changes", _OF_COUNTED),
    "tallies": _delete_where("tallies", _OF_COUNTED),
    "jobs": _delete_where("jobs", _OF_NAME),
}

# Tables of the core with rows of a tenant. Collections, documents, chunks and sweeps are deleted before these, and the
# record of erasures is retained. Sums follow their changes, because the scheduler adds changes to sums concurrently.
TABLES_OF_TENANT = (
    "completions",
    "paid_replies",
    "page_texts",
    "pages_by_day",
    "spent",
    "spent_changes",
    "abandoned_calls",
    "batches",
    "budgets",
    "api_keys",
    "queries",
    "accepted_questions",
    "disabled_questions",
    "outdated_objects",
    "tally_changes",
    "job_claims",
    "jobs",
    "tallies",
    "spent_by_day",
    "ended_by_minute",
)
_OF_TENANT = {table: _delete_where(table, "tenant = :tenant") for table in TABLES_OF_TENANT if table not in SEARCHES}

# Claims of jobs are deleted first, so that no worker writes rows of features afterwards.
_CLAIMS_OF_PART = {"job_claims": _delete_where("job_claims", _OF_NAME)}
_CLAIMS_OF_TENANT = {"job_claims": _OF_TENANT["job_claims"]}


class Erasures:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def start(self, tenant: str, collection: str | None = None) -> Erasure:
        """Start the erasure of a collection or a tenant, which is hidden from now on.

        Returns:
            The new erasure, or the running one if it exists.

        Raises:
            NoCollection: the tenant has no collection of that name.
        """
        scope = {"tenant": tenant, "collection": collection}
        async with self._database.begin() as connection:
            await connection.execute(collections.SQL.hold_collections, {"tenant": tenant})
            running = (await connection.execute(SQL.find_open, scope)).first()
            if running is not None:
                return _erasure(running)
            ids = (await connection.execute(SQL.lock_builds, scope)).scalars()
            if collection is not None and not (await connection.execute(SQL.has_live, scope)).scalar_one():
                raise collections.no_collection(tenant, collection)
            await connection.execute(SQL.erase_builds, {"ids": ids})
            await connection.execute(SQL.drop_at_once, {"ids": ids})
            documents = (await connection.execute(SQL.count_documents, {"ids": ids})).scalar_one()
            kind = "tenant" if collection is None else "collection"
            return await _start(connection, scope | {"scope": kind}, documents, collection_ids=ids)

    @again_after_collision
    async def start_document(self, document_id: UUID) -> Erasure:
        """Start the erasure of a document of any tenant.

        Raises:
            NotFound: there is no such document.
        """
        async with self._database.begin() as connection:
            owner = (await connection.execute(SQL.find_owner, {"id": document_id})).scalar_one_or_none()
            if owner is None:
                raise _no_document(document_id)
            return await _start_documents(connection, owner, [document_id], [])

    @again_after_collision
    async def start_documents(self, tenant: str, document_ids: Sequence[UUID], texts: Sequence[str]) -> Erasure:
        """Start the erasure of documents, and of the records in which texts that name a person occur.

        Repeating it is harmless: documents that an earlier erasure covers are left out.

        Args:
            tenant: the tenant.
            document_ids: public ids of at most some thousand documents, which are hidden from now on.
            texts: texts that occur in users' questions, answers and conversations, which the scheduler deletes.

        Returns:
            The new erasure; the running one with the same documents and texts; or, if all documents are erased and
            there are no texts, the newest erasure that covers one of them.

        Raises:
            NotFound: the tenant does not have one of the documents, and has not erased it.
        """
        ids, texts = sorted(set(document_ids)), sorted(set(texts))
        async with self._database.begin() as connection:
            await connection.execute(collections.SQL.hold_collections, {"tenant": tenant})
            of_ids = {"tenant": tenant, "ids": ids}
            found = set((await connection.execute(SQL.lock_documents, of_ids)).scalars())
            same = (await connection.execute(SQL.find_same, of_ids | {"texts": texts})).first()
            if same is not None:
                return _erasure(same)
            missing = [each for each in ids if each not in found]
            earlier = (await connection.execute(SQL.find_erasures_of, of_ids | {"ids": missing})).all()
            unknown = set(missing).difference(*(row["public_ids"] for row in earlier))
            if unknown:
                raise _no_document(min(unknown))
            if earlier and not found and not texts:
                return _erasure(earlier[0])
            return await _start_documents(connection, tenant, sorted(found), texts)

    async def get(self, erasure_id: UUID, tenant: str | None = None) -> Erasure:
        """Return an erasure, of this tenant or of any.

        Raises:
            NotFound: no erasure has that id.
        """
        async with self._database.begin() as connection:
            found = await connection.execute(SQL.get, {"id": erasure_id, "tenant": tenant})
            row = found.one_or_none()
        if row is None:
            raise NotFound(f"There is no erasure {erasure_id}.")
        return _erasure(row)

    async def page(
        self, tenant: str, *, after: tuple[datetime, UUID] | None = None, limit: int = 50
    ) -> Sequence[Erasure]:
        """List the erasures of a tenant, the newest first."""
        at, last = after or (None, None)
        parameters = {"tenant": tenant, "at": at, "after": last, "limit": limit}
        return [_erasure(row) for row in await self._database.rows(SQL.page, parameters)]

    async def in_scope(
        self, *, tenant: str | None = None, collection: str | None = None, document_id: UUID | None = None
    ) -> Sequence[Erasure]:
        """Return erasures, including finished ones, by scope; None matches any value."""
        parameters = {"tenant": tenant, "collection": collection, "document_id": document_id}
        async with self._database.begin() as connection:
            return [_erasure(row) for row in (await connection.execute(SQL.list, parameters))]

    @again_after_collision
    async def proceed(
        self, delete_keys: Callable[[str], Awaitable[None]], features: Sequence[ErasedTable]
    ) -> Erasure | None:
        """Delete some remaining rows of an erasure whose documents are deleted, or finish it.

        Args:
            delete_keys: deletes a tenant's keys in the broker before its erasure finishes.
            features: tables of features; their rows are deleted before rows of the core.

        Returns:
            The erasure; None if none is due, or another transaction holds its rows.
        """
        async with self._database.begin() as connection:
            await connection.execute(SQL.draw_fence)
        async with self._database.begin() as connection:
            due = await connection.execute(SQL.lock_due, {"writers_end_after": _WRITERS_END_AFTER})
            row = due.first()
            if row is None:
                return None
            searches = SEARCHES | searches_of(row["texts"], features)
            if (name := _searched(row)) is not None:
                return await _search(connection, row, name, searches)
            name, count = await _delete_slice(connection, row, features)
            if count:
                return await _save(connection, row, name, count, row["search"])
            if row["scope"] == "tenant":
                await delete_keys(row["tenant"])
            parameters = {"id": row["id"], "recheck_after": _RECHECK_AFTER}
            return _erasure((await connection.execute(SQL.finish, parameters)).one())

    async def due_rechecks(self, limit: int) -> Sequence[Erasure]:
        """Return finished erasures whose points are to be deleted again, longest due first."""
        return [_erasure(row) for row in await self._database.rows(SQL.due_rechecks, {"limit": limit})]

    async def settle_rechecks(self, erasures: Sequence[Erasure], *, confirmed: bool) -> None:
        """Record whether Qdrant confirmed that no points of these erasures are left.

        The next check is later by as long as the erasure has been finished, and the last one is after a week. Without
        confirmation the check is repeated soon.
        """
        parameters = {"ids": [erasure.id for erasure in erasures], "recheck_after": _RECHECK_AFTER}
        async with self._database.begin() as connection:
            if confirmed:
                await connection.execute(SQL.settle_rechecks, parameters | {"recheck_for": _RECHECK_FOR})
            else:
                await connection.execute(SQL.postpone_rechecks, parameters)


async def _start(connection: Connection, scope: Mapping[str, Any], documents: int, **target: Any) -> Erasure:
    lists: dict[str, list[UUID]] = {f"{name}_ids": [] for name in ("collection", "document", "chunk", "build")}
    parameters = {"id": uuid4(), "public_ids": [], "texts": [], **lists, **scope, **target}
    of_batches = ("tenant", "collection_ids", "document_ids")
    await connection.execute(SQL.lock_batches, {"tenant": parameters["tenant"]})
    await connection.execute(SQL.cancel_batches, {name: parameters[name] for name in of_batches})
    row = await connection.execute(SQL.insert, parameters | {"deleted": json.dumps({"documents": documents})})
    return _erasure(row.one(), documents)


async def _start_documents(connection: Connection, tenant: str, ids: Sequence[UUID], texts: Sequence[str]) -> Erasure:
    of_ids = {"tenant": tenant, "ids": ids}
    await connection.execute(SQL.lock_documents, of_ids)
    logged = (await connection.execute(SQL.logged, of_ids)).one()
    rows = [row["id"] for each in ids for row in await delete_rows(connection, tenant, each)]
    scope = {"tenant": tenant, "scope": "documents", "collection": None}
    return await _start(connection, scope, len(rows), public_ids=ids, document_ids=rows, texts=texts, **logged)


def _no_document(document_id: UUID) -> NotFound:
    return NotFound(f"There is no document {document_id}. GET /v1/documents lists the documents.")


def _searched(erasure: Row) -> str | None:
    """Return the table that an erasure is searching; None after all searches."""
    table: str | None = next(iter(SEARCHES)) if erasure["search"] is None else erasure["search"]["in"]
    return table


async def _search(connection: Connection, erasure: Row, name: str, searches: Mapping[str, Search]) -> Erasure | None:
    """Search the next slice of a table; return None if it has to wait for another transaction."""
    search = erasure["search"] or {"in": name, "after": None}
    found = await searches[name].next(connection, erasure, search["after"])
    if found.waits and not found.deleted:
        return None
    counted = searches[name].counted
    if found.after is None and not found.waits:
        names = [*searches, None]
        name_after = names[names.index(name) + 1]
        return await _save(connection, erasure, counted, found.deleted, {"in": name_after, "after": None})
    return await _save(connection, erasure, counted, found.deleted, {"in": name, "after": found.after})


async def _save(
    connection: Connection, erasure: Row, name: str, count: int, search: Mapping[str, str | None]
) -> Erasure:
    deleted = erasure["deleted"] | ({name: erasure["deleted"].get(name, 0) + count} if count else {})
    parameters = {"id": erasure["id"], "deleted": json.dumps(deleted), "search": json.dumps(search)}
    return _erasure((await connection.execute(SQL.save, parameters)).one())


async def _delete_slice(connection: Connection, erasure: Row, features: Sequence[ErasedTable]) -> tuple[str, int]:
    """Delete some remaining rows of an erasure; return their table and number, 0 if none remain."""
    tenant, limit = erasure["tenant"], {"limit": _SLICE}
    is_tenant = erasure["scope"] == "tenant"
    if is_tenant:
        of_features = {table.name: table.of_tenant for table in features if table.of_tenant is not None}
        statements = _CLAIMS_OF_TENANT | of_features | _OF_TENANT
    else:
        of_features = {table.name: table.of_part for table in features if table.of_part is not None}
        statements = _CLAIMS_OF_PART | of_features | _OF_PARTS
    named = {name: erasure[name] for name in ("collection", "public_ids", "document_ids")}
    parts = {} if is_tenant else named | {"ids": erasure["collection_ids"]}
    parameters = limit | {"tenant": tenant} | parts
    for name, statement in statements.items():
        count = len((await connection.execute(statement, parameters)).all())
        if count:
            return name, count
    return "", 0


def _erasure(row: Row, documents_left: int | None = None) -> Erasure:
    names = Erasure.__dataclass_fields__.keys() - {"documents_left"}
    left = row.get("documents_left", 0) if documents_left is None else documents_left
    return Erasure(**{name: row[name] for name in names}, documents_left=left)
