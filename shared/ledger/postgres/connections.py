"""A connection to PostgreSQL: it executes statements, and its rows have attributes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import asyncpg

from shared.ledger.postgres.plans import CHANGE_MODE, MODES, Plans
from shared.ledger.postgres.statements import Statement

_FIRST_OWN_ID = 10_000  # types with smaller ids are the same on every server
_NO_LOOKUP = SimpleNamespace(name="none")  # the driver expects the statement of a lookup

Parameters = Mapping[str, Any]


class Row(asyncpg.Record):  # type: ignore[misc]  # asyncpg has no types
    """A row: `row.name` and `row["name"]` are its columns, and iterating yields their values."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class DriverConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection of the driver that shares its knowledge of types with the connections that follow.

    The driver looks up an array type when a statement of a connection first uses it. This query takes 5 to 15 ms of
    PostgreSQL's processor time, as much as the rest of a connection's start.
    """

    _found: ClassVar[dict[int, Any]] = {}  # element types precede their arrays

    async def _introspect_types(self, typeoids: Iterable[int], *timeout: Any) -> tuple[Any, Any]:
        ids = set(typeoids)
        if ids <= self._found.keys():
            return list(self._found.values()), _NO_LOOKUP
        types, lookup = await super()._introspect_types(ids, *timeout)
        self._found.update({found["oid"]: found for found in types if found["oid"] < _FIRST_OWN_ID})
        return types, lookup

    async def run(self, sql: str, values: Sequence[Any]) -> tuple[list[Row], bytes]:
        """Execute a statement; return its rows, and PostgreSQL's words about it, such as `b"UPDATE 3"`."""
        rows, status, _ = await self._execute(sql, values, 0, None, return_status=True)
        return rows, status


class Result:
    """The result of a statement.

    Args:
        rows: its rows; None if it returns none.
        status: PostgreSQL's words about it.
    """

    __slots__ = ("_rows", "_status")

    def __init__(self, rows: list[Row], status: bytes) -> None:
        self._rows = rows
        self._status = status

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    @property
    def rowcount(self) -> int:
        """The number of rows that it has inserted, changed, deleted or returned."""
        words = self._status.split()
        return int(words[-1]) if words and words[-1].isdigit() else 0

    def all(self) -> list[Row]:
        return self._rows

    def first(self) -> Row | None:
        return self._rows[0] if self._rows else None

    def one(self) -> Row:
        """Return the only row.

        Raises:
            ValueError: the statement returned no row, or several.
        """
        (row,) = self._rows
        return row

    def one_or_none(self) -> Row | None:
        """Return the only row; None if there is none.

        Raises:
            ValueError: the statement returned several rows.
        """
        return self.one() if self._rows else None

    def scalars(self) -> list[Any]:
        """Return the first column."""
        return [row[0] for row in self._rows]

    def scalar_one(self) -> Any:
        """Return the value of the only row.

        Raises:
            ValueError: the statement returned no row, or several.
        """
        return self.one()[0]

    def scalar_one_or_none(self) -> Any:
        """Return the value of the only row; None if there is none.

        Raises:
            ValueError: the statement returned several rows.
        """
        return self.scalar_one() if self._rows else None


class Connection:
    """A connection of the pool.

    Args:
        driver: the open connection of the driver.
        keeps_plans: whether prepared statements outlast a transaction.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, driver: DriverConnection, *, keeps_plans: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.driver = driver
        self.opened_at = self.idle_since = clock()
        self._plans = Plans() if keeps_plans else None
        self._clock = clock
        self._savepoints = 0

    @property
    def is_closed(self) -> bool:
        closed: bool = self.driver.is_closed()
        return closed

    @property
    def is_in_transaction(self) -> bool:
        is_in: bool = self.driver.is_in_transaction()
        return is_in

    async def execute(
        self, statement: Statement, parameters: Parameters | Sequence[Parameters] | None = None
    ) -> Result:
        """Execute a statement; with a sequence of parameters once for each, without rows."""
        if statement.generic is not None and self._plans is not None:
            await self._set_mode(self._plans, generic=statement.generic)
        if parameters is None or isinstance(parameters, Mapping):
            return Result(*await self.driver.run(statement.sql, statement.values(parameters or {})))
        await self.driver.executemany(statement.sql, [statement.values(each) for each in parameters])
        return Result([], b"")

    async def execute_sql(self, sql: str, *values: Any) -> Result:
        """Execute one statement with the parameters $1, $2 and so on."""
        return Result(*await self.driver.run(sql, values))

    async def begin(self) -> None:
        await self.driver.execute("BEGIN")

    async def commit(self) -> None:
        await self.driver.execute("COMMIT")

    async def rollback(self) -> None:
        """Undo the transaction. The mode of plans is set again before the next statement that depends on it."""
        await self.driver.execute("ROLLBACK")
        if self._plans is not None:
            self._plans.generic = None

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[Callable[[], Any]]:
        """Undo the block, but not the transaction, if the block raises, or awaits the function that this yields."""
        self._savepoints += 1
        name, is_undone = f"s{self._savepoints}", False

        async def undo() -> None:
            nonlocal is_undone
            is_undone = True
            await self.driver.execute(f"ROLLBACK TO {name}")

        await self.driver.execute(f"SAVEPOINT {name}")
        try:
            yield undo
        except BaseException:
            if not self.is_closed:
                await undo()
            raise
        if not is_undone:
            await self.driver.execute(f"RELEASE {name}")

    async def _set_mode(self, plans: Plans, *, generic: bool) -> None:
        if plans.generic is not generic:
            await self.driver.run(CHANGE_MODE, MODES[generic])
            plans.generic = generic
        if generic and plans.expire(self._clock()):
            await self.driver.execute("DISCARD PLANS")
