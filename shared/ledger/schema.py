"""The schema: bring a database to the newest one."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.ledger.database import AdvisoryLock

_MIGRATIONS = Path(__file__).with_name("migrations")

# Wait until no other process migrates. The lock belongs to the session, for Alembic commits as it goes.
_LOCK = text("SELECT pg_advisory_lock(:number)")

# Let the next process migrate.
_UNLOCK = text("SELECT pg_advisory_unlock(:number)")


def _configuration(connection: Connection) -> Config:
    """Alembic's configuration for an open connection."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


async def migrate(engine: AsyncEngine) -> None:
    """Apply the migrations that are missing; safe to call from many processes at once, and again."""
    async with engine.connect() as connection:
        await connection.execute(_LOCK, {"number": AdvisoryLock.MIGRATION})
        await connection.commit()
        try:
            await connection.run_sync(lambda sync: command.upgrade(_configuration(sync), "head"))
            await connection.commit()
        finally:
            await connection.execute(_UNLOCK, {"number": AdvisoryLock.MIGRATION})
            await connection.commit()
