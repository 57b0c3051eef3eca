"""The schema: bring a database to the newest one."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.ledger.database import AdvisoryLock, lock

_MIGRATIONS = Path(__file__).with_name("migrations")


def _configuration(connection: Connection) -> Config:
    """Alembic's configuration for an open connection."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


async def migrate(engine: AsyncEngine) -> None:
    """Apply the migrations that are missing, all or none; safe to call from many processes at once, and again."""
    async with engine.begin() as connection:
        await lock(connection, AdvisoryLock.MIGRATION)
        await connection.run_sync(lambda sync: command.upgrade(_configuration(sync), "head"))
