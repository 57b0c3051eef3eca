"""The statements that a process sends to PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from shared.ledger.postgres.connections import DriverConnection, Row

_run = DriverConnection.run


@contextmanager
def sent_statements(containing: str = "") -> Iterator[list[str]]:
    """Record the statements that contain a text, in the order of their results."""
    with _recording(containing, lambda sql, _: sql) as found:
        yield found


@contextmanager
def changed_rows(containing: str) -> Iterator[list[int]]:
    """Record how many rows are changed by each statement that contains a text."""
    with _recording(containing, lambda _, changed: changed) as found:
        yield found


@contextmanager
def _recording(containing: str, value: Callable[[str, int], Any]) -> Iterator[list[Any]]:
    found: list[Any] = []

    async def record(driver: DriverConnection, sql: str, values: Sequence[Any]) -> tuple[list[Row], bytes]:
        rows, status = await _run(driver, sql, values)
        if containing in sql:
            found.append(value(sql, int(status.split()[-1]) if status[-1:].isdigit() else 0))
        return rows, status

    with patch.object(DriverConnection, "run", record):
        yield found
