"""Bringing a database to the newest schema."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

_MIGRATIONS = Path(__file__).with_name("migrations")
_LOCK = 7_065_011  # any number, the same for all: only one process migrates at a time


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for an open connection."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


async def migrate(engine: AsyncEngine) -> None:
    """Apply what is missing; safe to call from many processes at once, and again."""
    async with engine.connect() as connection:
        await connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
        await connection.commit()
        try:
            await connection.run_sync(lambda sync: command.upgrade(configuration(sync), "head"))
            await connection.commit()
        finally:
            await connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
            await connection.commit()
