"""Collections: a tenant's named indexes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import RowMapping, func, select
from sqlalchemy.dialects.postgresql import insert

from shared.domain.errors import NotFound
from shared.domain.records import Collection, CollectionOptions
from shared.ledger import tables as t
from shared.ledger.database import Database


class Collections:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def ensure(
        self, tenant: str, name: str, *, embedding_model: str, options: CollectionOptions | None = None
    ) -> Collection:
        """Return the collection, made if there is none; given options replace those it has."""
        collection_id = uuid4()
        values = {
            "id": collection_id,
            "tenant": tenant,
            "name": name,
            "options": options_json(options or CollectionOptions()),
            "embedding_model": embedding_model,
            "index_name": f"foreask-{collection_id.hex}",
        }
        statement = insert(t.collections).values(values)
        # An update that changes nothing still returns the row that is there, whoever made it.
        changed = {"options": statement.excluded.options} if options else {"name": name}
        statement = statement.on_conflict_do_update(index_elements=["tenant", "name"], set_=changed)
        async with self._database.begin() as connection:
            row = (await connection.execute(statement.returning(t.collections))).mappings().one()
        return collection_of(row)

    async def find(self, tenant: str, name: str) -> Collection | None:
        statement = select(t.collections).where(t.collections.c.tenant == tenant, t.collections.c.name == name)
        async with self._database.begin() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        return collection_of(row) if row else None

    async def get(self, tenant: str, name: str) -> Collection:
        """Return the collection.

        Raises:
            NotFound: this tenant has none of that name.
        """
        collection = await self.find(tenant, name)
        if collection is None:
            raise NotFound(f"There is no collection '{name}'. GET /v1/collections lists those that exist.")
        return collection

    async def page(self, tenant: str, *, after: str = "", limit: int = 50) -> list[Collection]:
        """Return a tenant's collections in order of name."""
        statement = (
            select(t.collections)
            .where(t.collections.c.tenant == tenant, t.collections.c.name > after)
            .order_by(t.collections.c.name)
            .limit(limit)
        )
        async with self._database.begin() as connection:
            return [collection_of(row) for row in (await connection.execute(statement)).mappings()]

    async def counts(self, collection_ids: Sequence[UUID]) -> Mapping[UUID, Mapping[str, int]]:
        """Return how many documents of each state each collection has."""
        d = t.documents.c
        statement = (
            select(d.collection_id, d.state, func.count())
            .where(d.collection_id.in_(collection_ids), d.state != "deleting")
            .group_by(d.collection_id, d.state)
        )
        counts: dict[UUID, dict[str, int]] = {i: {} for i in collection_ids}
        async with self._database.begin() as connection:
            for collection_id, state, count in await connection.execute(statement):
                counts[collection_id][state] = count
        return counts


def collection_of(row: RowMapping) -> Collection:
    return Collection(
        id=row["id"],
        tenant=row["tenant"],
        name=row["name"],
        options=options_of(row["options"]),
        embedding_model=row["embedding_model"],
        index_name=row["index_name"],
        created_at=row["created_at"],
        calibration=row["calibration"],
    )


def options_json(options: CollectionOptions) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(options).items() if value is not None}


def options_of(value: Mapping[str, Any]) -> CollectionOptions:
    known = {f.name for f in dataclasses.fields(CollectionOptions)}
    return CollectionOptions(**{name: v for name, v in value.items() if name in known})
