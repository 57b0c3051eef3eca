"""Paid contents that chunks need: a completion is not deleted while a chunk with its key is being inserted."""

from __future__ import annotations

from collections.abc import Iterable

from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection

SQL = statements.load(__file__)


async def hold(connection: Connection, keys: Iterable[bytes]) -> None:
    """Lock the completions of these keys until the transaction ends."""
    await connection.execute(SQL.hold, {"keys": list(keys)})
