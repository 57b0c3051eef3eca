"""`python -m shared.ledger`: migrate the database, and create the roles whose passwords are set."""

from __future__ import annotations

import asyncio
import sys

from shared.domain.errors import ForeaskError
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.roles import make_app_role, make_parse_role
from shared.ledger.postgres.schema import migrate
from shared.settings import Settings, load


async def main(settings: Settings) -> None:
    if settings.database_url is None:
        sys.exit("FOREASK_DATABASE_URL is not set.")
    database = Database(settings.database_url.get_secret_value(), timeout=None, pooler=settings.database_pooler)
    try:
        await migrate(database.engine)
        if settings.app_database_password is not None:
            await make_app_role(database.engine, settings.app_database_password.get_secret_value())
        if settings.parse_database_password is not None:
            await make_parse_role(database.engine, settings.parse_database_password.get_secret_value())
    finally:
        await database.aclose()


if __name__ == "__main__":
    try:
        asyncio.run(main(load()))
    except (ForeaskError, OSError) as error:
        sys.exit(f"The database could not be brought to the newest schema: {error}")
