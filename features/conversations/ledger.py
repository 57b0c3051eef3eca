"""Conversations of the page, stored for each key if the operator allows it.

A conversation contains questions and answers, and no passages. It is deleted some days after its last change, when its
key ends, and when data that it cites is erased. A page may store a conversation again that was deleted since, so
conversations that cite erased data are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from features.conversations.domain import Citations, Conversation
from shared.domain.access.keys import Owner
from shared.domain.errors import Conflict, NotFound
from shared.ledger.erasure.erased_tables import ErasedTable, TextStatements
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database, again_after_collision

_MOST = 100  # conversations of a key
_CHECK_EVERY = timedelta(minutes=10)
_SLICE = 100

SQL = statements.load(__file__, states.FRAGMENTS)

ERASED_TABLES = (
    ErasedTable(
        name="conversations",
        of_tenant=SQL.erase_of_tenant,
        of_part=SQL.erase_of_part,
        under_name=SQL.count_under_name,
        by_document=SQL.count_by_document,
        texts=TextStatements(SQL.count_texts, SQL.erase_texts),
    ),
)


class Conversations:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def store(self, owner: Owner, conversation: Conversation, cited: Citations) -> datetime:
        """Store a conversation unless a later change of it is stored; the oldest ones above the maximum are deleted.

        Returns:
            The time of the stored change, which is never in the future.

        Raises:
            Conflict: the conversation cites erased data.
        """
        where = _of(owner) | {"id": conversation.id}
        values = where | {
            "key_id": owner.key_id,
            "name": conversation.name,
            "turns": conversation.turns,
            "collections": sorted(set(cited.collections)),
            "documents": sorted(set(cited.document_ids)),
            "changed_at": conversation.changed_at,
        }
        async with self._database.begin() as connection:
            await connection.execute(SQL.lock, _of(owner))
            stored: datetime | None = (await connection.execute(SQL.store, values)).scalar_one_or_none()
            if stored is None:
                later: datetime = (await connection.execute(SQL.changed_at, where)).scalar_one()
                return later
            if (await connection.execute(SQL.cites_erased, where)).scalar_one():
                raise Conflict(
                    "A document or a collection of this conversation was erased, so the conversation cannot be stored:"
                    " start a new one."
                )
            await connection.execute(SQL.delete_oldest, _of(owner) | {"most": _MOST})
        return stored

    async def page(
        self, owner: Owner, *, oldest: timedelta, after: tuple[datetime, str] | None = None, limit: int = 20
    ) -> Sequence[Conversation]:
        """List a key's conversations, the last changed first.

        Args:
            owner: the key.
            oldest: time since the last change from which no conversation is returned.
            after: time and id of the last conversation of the previous page.
            limit: maximum number.
        """
        at, last = after or (None, None)
        parameters = _of(owner) | {"age": oldest, "at": at, "after": last, "limit": limit}
        return [Conversation(**row) for row in await self._database.rows(SQL.page, parameters)]

    async def delete(self, owner: Owner, conversation_id: str) -> None:
        """Delete a conversation of a key.

        Raises:
            NotFound: the key has no such conversation.
        """
        if not await self._database.rows(SQL.delete, _of(owner) | {"id": conversation_id}):
            raise NotFound(f"This key has no conversation '{conversation_id}'.")

    async def delete_all(self, owner: Owner) -> None:
        """Delete all conversations of a key."""
        await self._database.rows(SQL.delete, _of(owner) | {"id": None})

    async def forget(self, oldest: timedelta) -> bool:
        """Delete some conversations that must not be stored any more; return whether more may be due.

        Args:
            oldest: time since the last change from which conversations are deleted.
        """
        async with self._database.begin() as connection:
            due = {"every": min(_CHECK_EVERY, oldest), "limit": _SLICE}
            rows = (await connection.execute(SQL.lock_due, due)).all()
            locked = {
                "tenants": [row.tenant for row in rows],
                "owners": [row.owner for row in rows],
                "ids": [row.id for row in rows],
            }
            await connection.execute(SQL.delete_over, locked | {"age": oldest})
            await connection.execute(SQL.record_check, locked)
        return len(rows) == _SLICE


def _of(owner: Owner) -> dict[str, object]:
    return {"tenant": owner.tenant, "owner": owner.name}
