"""Collections: a tenant's named indexes. A collection is its live build; `builds` has the others."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid4

from shared.domain.corpus.collections import Collection, CollectionOptions, Damage, DamageCause
from shared.domain.corpus.filterable import FilterableField, with_more
from shared.domain.corpus.index_location import IndexNames
from shared.domain.errors import Conflict, NoCollection
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import counters, states
from shared.ledger.model.collection_options import options_json, options_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database

SQL = statements.load(__file__, states.FRAGMENTS, document_counts=counters.of_tenant("documents"))

_NEAR_NAMES = 500  # before a name, and after it: comparing them takes 3 ms
_MOST_CHANGES = 1_000  # documents that are read for the times of last changes
MOST_CONFIRMED = 2_000  # chunks that one request may count: a few milliseconds


class NamesNear(NamedTuple):
    """Names of a tenant's collections near another name in their order, and the number of all its collections."""

    names: Sequence[str]
    total: int


class Collections:
    """The collections of all tenants.

    Args:
        database: the ledger.
        index_names: names of Qdrant's collections.
    """

    def __init__(self, database: Database, index_names: IndexNames) -> None:
        self._database = database
        self._index_names = index_names

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, terms.index_names)

    async def ensure(
        self,
        tenant: str,
        name: str,
        *,
        embedding_model: str,
        options: CollectionOptions | None = None,
        description: str | None = None,
        replace_embedding: bool = False,
        most: int | None = None,
    ) -> Collection:
        """Return the collection, created if missing; `options` replace the options of an existing one.

        Filterable fields are added to the declared ones.

        Args:
            tenant: owner of the collection.
            name: name of the collection.
            embedding_model: name of the embedding of a new collection.
            options: options to set; None keeps them.
            description: description to set, with `options`; empty removes it, and None keeps it.
            replace_embedding: whether an existing collection without documents changes its embedding, too.
            most: maximum number of the tenant's collections; concurrent requests may exceed it. None sets no limit.

        Raises:
            InvalidInput: a field cannot be declared, or there are too many.
            Conflict: the collection or the tenant is being erased; a field is declared with another type; there are
                documents without it; there are documents and the embedding would change; or the tenant has the maximum
                number of collections.
        """
        parameters = {
            "id": uuid4(),
            "tenant": tenant,
            "name": name,
            "embedding_model": embedding_model,
            "index_name": self.index_name(embedding_model),
            "options": "{}" if options is None else _options_text(options, ()),
            "most": most,
        }
        async with self._database.begin() as connection:
            if options is None and not replace_embedding:
                return collection_of(await _found_or_made(connection, parameters))
            row = await _locked(connection, parameters)
            if replace_embedding and row["embedding_model"] != embedding_model:
                row = await _set_embedding(connection, parameters | {"id": row["id"]})
            if options is not None:
                row = await _set_options(connection, row, options)
            if description is not None:
                described = {"id": row["id"], "description": description or None}
                row = (await connection.execute(SQL.set_description, described)).one()
        return collection_of(row)

    async def find(self, tenant: str, name: str) -> Collection | None:
        async with self._database.begin() as connection:
            row = await _found(connection, tenant, name)
        return collection_of(row) if row else None

    async def get(self, tenant: str, name: str) -> Collection:
        """Return the collection.

        Raises:
            NoCollection: the tenant has no collection of that name.
        """
        collection = await self.find(tenant, name)
        if collection is None:
            raise no_collection(tenant, name)
        return collection

    async def require(self, tenant: str, name: str | None) -> None:
        """Check that a collection exists, if one is named.

        Raises:
            NoCollection: the tenant has no collection of that name.
        """
        if name is not None:
            await self.get(tenant, name)

    async def names_near(self, tenant: str, name: str) -> NamesNear:
        """Return names of a tenant's collections: all of them, or those before and after a name in their order."""
        parameters = {"tenant": tenant, "name": name, "limit": _NEAR_NAMES}
        rows = await self._database.rows(SQL.names_near, parameters)
        return NamesNear([row["name"] for row in rows], rows[0]["total"] if rows else 0)

    async def page(self, tenant: str, *, after: str = "", limit: int = 50) -> list[Collection]:
        """Return a tenant's collections in order of name, after `after`."""
        parameters = {"tenant": tenant, "after": after, "limit": limit}
        async with self._database.begin() as connection:
            return [collection_of(row) for row in (await connection.execute(SQL.page, parameters))]

    async def count(self, tenant: str) -> int:
        """Return the number of a tenant's collections."""
        (row,) = await self._database.rows(SQL.count, {"tenant": tenant})
        return int(row["total"])

    def index_name(self, embedding_model: str) -> str:
        """Name the collection of Qdrant for builds of an embedding model."""
        return self._index_names.for_embedding(embedding_model)

    async def index_names(self) -> list[str]:
        """Return the names of the Qdrant collections that contain points of collections."""
        async with self._database.begin() as connection:
            return list((await connection.execute(SQL.index_names)).scalars())

    async def document_counts(self, tenant: str, collection_ids: Sequence[UUID]) -> Mapping[UUID, Mapping[str, int]]:
        """Return the number of documents in each state, by collection of a tenant."""
        counts: dict[UUID, dict[str, int]] = {i: {} for i in collection_ids}
        parameters = {"tenant": tenant, "ids": list(map(str, collection_ids))}
        async with self._database.begin() as connection:
            for collection_id, state, count in await connection.execute(SQL.counts, parameters):
                counts[UUID(collection_id)][state] = count
        return counts

    async def languages_of_texts(self, collection_ids: Sequence[UUID]) -> Mapping[UUID, Mapping[str, int]]:
        """Return the number of texts in each language, among at most 300 texts of each collection."""
        counts: dict[UUID, dict[str, int]] = {i: {} for i in collection_ids}
        for row in await self._database.rows(SQL.languages_of_texts, {"ids": list(collection_ids)}):
            counts[row["collection_id"]][row["language"]] = row["texts"]
        return counts

    async def last_changes(self, tenant: str) -> Mapping[UUID, datetime]:
        """Return the time of each collection's last document change; collections without recent changes are missing."""
        rows = await self._database.rows(SQL.last_changes, {"tenant": tenant, "limit": _MOST_CHANGES})
        return {row["collection_id"]: row["at"] for row in rows}

    async def confirmed_points(self, collection_id: UUID) -> int:
        """Return a lower bound of a collection's points: Qdrant has confirmed this number for at most 2,000 chunks."""
        parameters = {"collection": collection_id, "limit": MOST_CONFIRMED}
        (row,) = await self._database.rows(SQL.confirmed_points, parameters)
        confirmed: int = row["points"]
        return confirmed


def no_collection(tenant: str, name: str) -> NoCollection:
    """Return the error of every request that names a collection which the tenant does not have."""
    return NoCollection(f"There is no collection '{name}'.", tenant=tenant, name=name)


def collection_of(row: Row) -> Collection:
    """Return a row as a collection. Its calibration is not checked: a damaged one must not hide the collection."""
    return Collection(
        id=row["id"],
        tenant=row["tenant"],
        name=row["name"],
        options=options_of(row["options"]),
        embedding_model=row["embedding_model"],
        index_name=row["index_name"],
        created_at=row["created_at"],
        calibration=row["calibration"],
        languages=tuple(row["languages"]),
        metadata_fields=tuple(row["metadata_fields"]),
        damage=Damage(DamageCause(row["damage"]), row["damaged_at"]) if row["damage"] else None,
        description=row["description"],
    )


async def _found(connection: Connection, tenant: str, name: str) -> Row | None:
    return (await connection.execute(SQL.find, {"tenant": tenant, "name": name})).one_or_none()


async def _found_or_made(connection: Connection, parameters: Mapping[str, Any]) -> Row:
    row = await _found(connection, parameters["tenant"], parameters["name"])
    return await _made(connection, parameters) if row is None else row


async def _locked(connection: Connection, parameters: Mapping[str, Any]) -> Row:
    """Find or create a collection, and lock its live build.

    If a switch replaces the build while this waits for its lock, the lock is released and the new live build is
    changed.
    """
    while True:
        found = await _found_or_made(connection, parameters)
        async with connection.savepoint() as undo:
            row = (await connection.execute(SQL.lock, {"id": found["id"]})).one_or_none()
            if row is not None:
                return row
            await undo()


async def _made(connection: Connection, parameters: Mapping[str, Any]) -> Row:
    await connection.execute(SQL.hold_erasures, {"tenant": parameters["tenant"]})
    names = {"tenant": parameters["tenant"], "name": parameters["name"]}
    erasure = (await connection.execute(SQL.find_erasure, names)).first()
    if erasure is not None:
        erased = "all data of the tenant" if erasure.collection is None else f"the collection '{erasure.collection}'"
        raise being_erased(erased, f" GET /v1/erasures/{erasure.id} returns its progress.")
    await connection.execute(SQL.insert, parameters)
    row = await _found(connection, names["tenant"], names["name"])
    if row is None:
        raise Conflict(
            f"This tenant may have {parameters['most']:,} collections: use an existing one, or ask the operator for"
            " more.",
            field="collection",
        )
    return row


def being_erased(erased: str, hint: str = "") -> Conflict:
    return Conflict(
        f"This waits for an erasure: {erased} is being deleted. Try again when the erasure has finished.{hint}"
    )


async def _set_embedding(connection: Connection, parameters: Mapping[str, Any]) -> Row:
    if (await connection.execute(SQL.has_points, {"id": parameters["id"]})).scalar_one():
        raise Conflict(
            "The embedding is chosen before the first document, and this collection has documents, or unfinished"
            " deletions: migrate it, or use a new collection.",
            field="embedding",
        )
    row: Row = (await connection.execute(SQL.set_embedding, parameters)).one()
    return row


async def _set_options(connection: Connection, locked: Row, options: CollectionOptions) -> Row:
    present = options_of(locked["options"]).filterable
    if (
        with_more(present, options.filterable) != present
        and (await connection.execute(SQL.has_documents, {"id": locked["id"]})).scalar_one()
    ):
        raise Conflict(
            "Fields are declared before the first document, and this collection has documents: declare them in a new"
            " collection. Paid questions are reused there.",
            field="filterable",
        )
    parameters = {"id": locked["id"], "options": _options_text(options, present)}
    row: Row = (await connection.execute(SQL.set_options, parameters)).one()
    return row


def _options_text(options: CollectionOptions, present: tuple[FilterableField, ...]) -> str:
    """Return options as JSON, with their fields added to the present ones."""
    return json.dumps(options_json(dataclasses.replace(options, filterable=with_more(present, options.filterable))))
