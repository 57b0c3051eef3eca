"""States of the engines that a process builds once: a later test gets its rows, points and uploads in 10 ms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from shared.services.all import AllServices
from tests.support.emptying import KEPT_TABLES, PREFIX, forget
from tests.support.tables import columns

_NUMBERS = count()
# Triggers would count the rows again, and foreign keys prescribe an order of the tables.
_WITHOUT_TRIGGERS = {"session_replication_role": "replica"}
_MOST_POINTS = 10_000


@dataclass(frozen=True)
class State:
    """A state of the engines.

    Args:
        value: result of the function that built it.
        restore: SQL that inserts its rows.
        points: the points of each of Qdrant's collections.
        uploads: the contents of the stored files by path.
    """

    value: Any
    restore: str
    points: Mapping[str, list[Any]]
    uploads: Mapping[Path, bytes]


class Remembered:
    """Builds a state when a test first needs it, and restores it for others.

    The keys of the broker are not part of a state. A restored row has the times of its first insertion. On a server
    whose owner of databases is not a superuser, which triggers need, each test builds its state.
    """

    def __init__(self, services: AllServices) -> None:
        self._services = services
        self._states: dict[Hashable, State] = {}
        self._connection: asyncpg.Connection | None = None
        self._restores = True

    async def state(self, build: Callable[..., Awaitable[Any]], *arguments: Hashable) -> Any:
        """Give empty engines the state that `build(services, *arguments)` makes of them, and return its result."""
        state = self._states.get((build, arguments))
        if state is None:
            value = await build(self._services, *arguments)
            await forget(self._services)
            if await self._can_restore():
                saved = State(value, await self._save_rows(), await self._points(), self._files())
                self._states[build, arguments] = saved
            return value
        assert self._connection is not None
        await self._connection.execute(state.restore)
        for name, points in state.points.items():
            await self._services.index._write(name, "", {"points": points}, "PUT")
        for path, content in state.uploads.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return state.value

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _can_restore(self) -> bool:
        if self._connection is None and self._restores:
            url = self._services.settings.database_url
            assert url is not None
            try:
                self._connection = await asyncpg.connect(url.get_secret_value(), server_settings=_WITHOUT_TRIGGERS)
            except asyncpg.InsufficientPrivilegeError:
                self._restores = False
        return self._restores

    async def _save_rows(self) -> str:
        """Copy the rows, and return a statement that inserts the copies."""
        number, inserts = next(_NUMBERS), []
        async with self._services.database.begin() as connection:
            for table in (await columns(connection)).keys() - set(KEPT_TABLES):
                if (await connection.execute_sql(f"SELECT EXISTS (SELECT FROM {table})")).scalar_one():
                    copy = f"testing.{table}_{number}"
                    await connection.execute_sql(f"CREATE UNLOGGED TABLE {copy} AS TABLE {table}")
                    inserts.append(f"INSERT INTO {table} TABLE {copy};")
            function = f"testing.restore_{number}()"
            body = f"LANGUAGE plpgsql AS $$ BEGIN {' '.join(inserts)} END $$"
            await connection.execute_sql(f"CREATE FUNCTION {function} RETURNS void {body}")
        return f"SELECT {function}"

    async def _points(self) -> dict[str, list[Any]]:
        page = {"limit": _MOST_POINTS, "with_payload": True, "with_vector": True}
        points = {}
        for name in await self._services.index.names():
            if name.startswith(PREFIX):
                read = await self._services.index._read(name, "/scroll", page)
                assert read["next_page_offset"] is None
                points[name] = read["points"]
        return {name: some for name, some in points.items() if some}

    def _files(self) -> dict[Path, bytes]:
        paths = (self._services.settings.data_dir / "uploads").rglob("*")
        return {path: path.read_bytes() for path in paths if path.is_file()}
