"""Searches of large tables for erased data, in slices.

A transaction is shorter than a search of ten million rows. Each slice examines some rows after a position, which the
erasure's row stores. The searches start when no process can write further rows of the erased data, so a row that a
search has passed needs no second look.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from shared.ledger.documents import completions, page_texts
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.statements import Statement

_SLICE_KEYS = 5_000  # examined in a slice; all of them may have to be deleted
_SLICE_COUNTED = 50_000
_SLICE_QUERIES = 20_000
FIRST_TIME = "-infinity"

SQL = statements.load(__file__, is_unused=completions.UNUSED, is_text_unused=page_texts.UNUSED)


@dataclass(frozen=True, slots=True)
class Slice:
    """A searched slice.

    Args:
        deleted: number of deleted rows.
        after: position from which the search continues; None if it has ended.
        waits: whether another transaction holds rows, so that the slice has to be repeated.
    """

    deleted: int = 0
    after: str | None = None
    waits: bool = False


ENDED = Slice()


@dataclass(frozen=True, slots=True)
class Search:
    """A search of a table.

    Args:
        counted: name under which the erasure counts its deleted rows.
        next: deletes the next slice, after a position.
    """

    counted: str
    next: Callable[[Connection, Row, str | None], Awaitable[Slice]]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The statements of a table whose rows are in use while another table has their key."""

    following: Statement
    lock: Statement
    delete: Statement


async def _unused(table: _Keys, connection: Connection, erasure: Row, after: str | None) -> Slice:
    """Delete unused rows of the tenant among the next ones.

    A row that a new chunk needs is locked by the transaction that inserts the chunk. If this transaction fails, the row
    is unused, so the position does not pass the row.
    """
    first = b"" if after is None else bytes.fromhex(after)
    parameters = {"tenant": erasure["tenant"], "after": first, "limit": _SLICE_KEYS}
    found = (await connection.execute(table.following, parameters)).all()
    if not found:
        return ENDED
    unused = [row.key for row in found if row.unused]
    locked = (await connection.execute(table.lock, {"keys": unused})).scalars() if unused else []
    deleted = (await connection.execute(table.delete, {"keys": locked})).all() if locked else []
    if len(locked) < len(unused):
        return Slice(len(deleted), after, waits=True)
    return Slice(len(deleted), found[-1].key.hex())


async def count_unused(connection: Connection, table: str, tenant: str, after: bytes) -> tuple[int, bytes | None]:
    """Count the unused rows of a tenant in the next slice of a table; return their number and the last key."""
    parameters = {"tenant": tenant, "after": after, "limit": _SLICE_COUNTED}
    found = (await connection.execute(_OF_KEYS[table].following, parameters)).all()
    return sum(row.unused for row in found), found[-1].key if found else None


async def _queries(connection: Connection, erasure: Row, after: str | None) -> Slice:
    """Delete the next logged queries of a collection or a tenant, or remove erased documents' chunks from them."""
    following, change, of_builds, scope = _logged(erasure)
    start = {"after": after or FIRST_TIME}
    until = (await connection.execute(following, of_builds | start | {"limit": _SLICE_QUERIES})).scalar_one()
    if until is None:
        return ENDED
    changed = await connection.execute(change, of_builds | scope | start | {"until": until})
    return Slice(0 if change is SQL.remove_chunks else changed.rowcount, until)


def _logged(erasure: Row) -> tuple[Statement, Statement, dict[str, Any], dict[str, Any]]:
    """Return the statements that find and change the next queries, with the builds and the scope that they name."""
    if erasure["scope"] == "documents":
        return SQL.next_queries, SQL.remove_chunks, {"builds": erasure["build_ids"]}, {"id": erasure["id"]}
    if erasure["scope"] == "collection":
        return SQL.next_queries, SQL.delete_of_builds, {"builds": erasure["collection_ids"]}, {}
    return SQL.next_of_all, SQL.delete_queries, {}, {"tenant": erasure["tenant"]}


_OF_KEYS = {
    "completions": _Keys(SQL.next_completions, completions.SQL.lock, completions.SQL.delete_unused),
    "paid_replies": _Keys(SQL.next_replies, SQL.lock_replies, SQL.delete_replies),
    "page_texts": _Keys(SQL.next_texts, page_texts.SQL.lock, page_texts.SQL.delete_unused),
}
PAID: Collection[str] = _OF_KEYS.keys()
SEARCHES: dict[str, Search] = {
    "queries": Search("queries", _queries),
    **{table: Search(table, partial(_unused, keys)) for table, keys in _OF_KEYS.items()},
}
