"""Bringing the ledger's schema up to date from the command line."""

from __future__ import annotations

from shared.errors import InvalidInput
from shared.ledger import schema
from shared.ledger.database import Database
from shared.settings import Settings


async def migrate(settings: Settings) -> None:
    """Apply what is missing.

    Raises:
        InvalidInput: the settings name no database.
    """
    if settings.database_url is None:
        raise InvalidInput("FOREASK_DATABASE_URL is not set.", field="database_url")
    database = Database(settings.database_url.get_secret_value())
    try:
        await schema.migrate(database.engine)
    finally:
        await database.aclose()
