"""Searches for texts that name a person in users' questions, answers and conversations, in slices.

A preview counts the rows that an erasure would delete. The erasure deletes them after it has searched the tables for
its documents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from features.erasure.ledger import searches
from features.erasure.ledger.searches import ENDED, FIRST_TIME, Search, Slice
from features.erasure.texts import pattern_of
from shared.ledger.erasure.erased_tables import ErasedTable, TextStatements
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.statements import Statement

_SLICE_QUERIES = 5_000  # examined in a slice, with their answers
_SLICE_ACCEPTED = 20_000
_SLICE_LONG = 200  # conversations, which may be long

_POSITIONS: Mapping[str, Callable[[str], object]] = {"queries": datetime.fromisoformat, "accepted_questions": UUID}

SQL = statements.load(__file__, states.FRAGMENTS)


@dataclass(frozen=True, slots=True)
class CountedSlice:
    """A slice whose rows were counted.

    Args:
        rows: numbers of rows that an erasure would delete, by their name in a preview.
        after: position from which the search continues; None if it has ended.
    """

    rows: Mapping[str, int]
    after: str | None


Count = Callable[[Connection, str, str, str | None], Awaitable[CountedSlice]]
"""Counts the next slice for a tenant and a pattern, after a position."""


def searches_of(texts: Sequence[str], features: Iterable[ErasedTable]) -> dict[str, Search]:
    """Return the searches of an erasure by name; none without texts."""
    if not texts:
        return {}
    found = {"queries": _delete_queries, "accepted_questions": _retract_accepted}
    found |= {table: partial(_delete_rows, texts.delete) for table, texts in _tables(features)}
    return {f"texts in {table}": Search(table, delete) for table, delete in found.items()}


def counts_of(features: Iterable[ErasedTable]) -> dict[str, Count]:
    """Return the counts of a preview by name."""
    found: dict[str, Count] = {"queries": _count_queries, "accepted_questions": _count_accepted}
    return found | {table: partial(_count_rows, table, texts.count) for table, texts in _tables(features)}


def require_position(table: str, after: str | None = None) -> None:
    """Refuse a text from a client that is not a position in a table of records.

    Raises:
        ValueError: it is not a position.
    """
    if after is not None:
        if "\0" in after:
            raise ValueError(after)
        _POSITIONS.get(table, str)(after)


def _tables(features: Iterable[ErasedTable]) -> list[tuple[str, TextStatements]]:
    return [(table.name, table.texts) for table in features if table.texts is not None]


async def _until(connection: Connection, after: str | None) -> str | None:
    """Return the time of the last of the next logged queries of all tenants; None if there are none."""
    parameters = {"after": after or FIRST_TIME, "limit": _SLICE_QUERIES}
    until: str | None = (await connection.execute(searches.SQL.next_of_all, parameters)).scalar_one()
    return until


async def _delete_queries(connection: Connection, erasure: Row, after: str | None) -> Slice:
    until = await _until(connection, after)
    if until is None:
        return ENDED
    parameters = _parameters(erasure) | {"after": after or FIRST_TIME, "until": until}
    return Slice((await connection.execute(SQL.delete_queries, parameters)).rowcount, until)


async def _count_queries(connection: Connection, tenant: str, pattern: str, after: str | None) -> CountedSlice:
    until = await _until(connection, after)
    if until is None:
        return CountedSlice({}, None)
    parameters = {"tenant": tenant, "pattern": pattern, "after": after or FIRST_TIME, "until": until}
    return CountedSlice(dict((await connection.execute(SQL.count_queries, parameters)).one()), until)


async def _retract_accepted(connection: Connection, erasure: Row, after: str | None) -> Slice:
    """Retract accepted questions. The slice is repeated until their points and rows are deleted."""
    parameters = _parameters(erasure) | {"after": None if after is None else UUID(after), "limit": _SLICE_ACCEPTED}
    found = (await connection.execute(SQL.retract_accepted, parameters)).one()
    if found["waits"]:
        return Slice(found["rows"], after, waits=True)
    return Slice(0, None if found["last"] is None else str(found["last"]))


async def _count_accepted(connection: Connection, tenant: str, pattern: str, after: str | None) -> CountedSlice:
    position = None if after is None else UUID(after)
    parameters = {"tenant": tenant, "pattern": pattern, "after": position, "limit": _SLICE_ACCEPTED}
    found = (await connection.execute(SQL.count_accepted, parameters)).one()
    last = None if found["last"] is None else str(found["last"])
    return CountedSlice({"accepted_questions": found["rows"]}, last)


async def _delete_rows(statement: Statement, connection: Connection, erasure: Row, after: str | None) -> Slice:
    parameters = _parameters(erasure) | {"after": after, "limit": _SLICE_LONG}
    found = (await connection.execute(statement, parameters)).one()
    return Slice(found["rows"], found["last"])


async def _count_rows(  # noqa: PLR0917  the first two are given by the table
    table: str, statement: Statement, connection: Connection, tenant: str, pattern: str, after: str | None
) -> CountedSlice:
    parameters = {"tenant": tenant, "pattern": pattern, "after": after, "limit": _SLICE_LONG}
    found = (await connection.execute(statement, parameters)).one()
    return CountedSlice({table: found["rows"]}, found["last"])


def _parameters(erasure: Row) -> dict[str, object]:
    return {"tenant": erasure["tenant"], "pattern": pattern_of(erasure["texts"])}
