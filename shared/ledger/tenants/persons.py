"""Persons in the ledger: requests of managers on their behalf, and the groups that persons had lately.

No list of persons is stored. The audit log names a person whom a manager viewed documents as, and the names of groups
show which readers of documents no person matches.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.domain.access.persons import EVERYONE, UNSET, Person
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

NO_PERSON = "nobody"  # instead of readers: documents that no person reads
_SLICE = 1_000  # rows of one transaction

SQL = statements.load(__file__, states.FRAGMENTS, nobody=f"'{NO_PERSON}'")

ERASED_TABLES = (ErasedTable(name="groups_seen", of_tenant=SQL.erase_of_tenant),)


@dataclass(frozen=True, slots=True)
class ReaderCount:
    """A reader that documents name.

    Args:
        reader: `everyone`, `user:NAME` or `group:NAME`; `unset` for documents that name none, `nobody` for documents
            that no person reads.
        documents: number of documents in live builds whose newest versions name it.
        seen_at: when a person last had this group; None: no person has had it lately, or it is not a group.
    """

    reader: str
    documents: int
    seen_at: datetime | None


class Persons:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def record_view(self, tenant: str, person: Person) -> None:
        """Record in the audit log that the author of the request views documents as a person."""
        groups = json.dumps(sorted(person.groups))
        async with self._database.begin() as connection:
            await connection.execute(SQL.record_view, {"tenant": tenant, "person": person.user, "groups": groups})

    async def see_groups(self, seen: Collection[tuple[str, str]]) -> None:
        """Record that persons have these groups now: pairs of a tenant and a group."""
        pairs = sorted(seen)
        parameters = {"tenants": [tenant for tenant, _ in pairs], "names": [name for _, name in pairs]}
        async with self._database.begin() as connection:
            await connection.execute(SQL.see_groups, parameters)

    async def forget_groups(self, age: timedelta) -> bool:
        """Delete some groups that no person has had for so long; return whether more may be left."""
        return len(await self._database.rows(SQL.forget_groups, {"age": age, "limit": _SLICE})) == _SLICE

    async def readers(self, tenant: str, collection: str | None, *, most: int) -> Sequence[ReaderCount]:
        """Count the documents of a tenant, or of a collection, by reader.

        `everyone`, `unset` and `nobody` are first, then the readers of most documents, at most `most`.
        """
        parameters = {
            "tenant": tenant,
            "collection": collection,
            "first": [EVERYONE, UNSET, NO_PERSON],
            "limit": most,
        }
        return [ReaderCount(**row) for row in await self._database.rows(SQL.readers, parameters)]
