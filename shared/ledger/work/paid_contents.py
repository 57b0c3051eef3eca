"""Paid contents that chunks need: a completion is not deleted while a chunk with its key is being inserted."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.postgres import statements

SQL = statements.load(__file__)


async def hold(connection: AsyncConnection, keys: Iterable[bytes]) -> None:
    """Lock the completions of these keys until the transaction ends."""
    await connection.execute(SQL.hold, {"keys": list(keys)})
