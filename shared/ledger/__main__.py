"""`python -m shared.ledger`: migrate the database and create the roles whose passwords are set, or wait for that."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta

from shared.domain.errors import ForeaskError
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.revision import REVISION, SchemaNewer, SchemaOutdated, require_schema, wait_for_schema
from shared.ledger.postgres.roles import make_app_role, make_parse_role, make_scale_role
from shared.settings import Settings, load, require

_NEWER_CODE_NEEDED = 3  # exit code
_NEWER = "The schema is newer than revision {} of this code, which can run on it: nothing is changed."


async def main(settings: Settings, wait: timedelta | None) -> None:
    url = require(settings.database_url, "FOREASK_DATABASE_URL").get_secret_value()
    database = Database(url, timeout=None, pooler=settings.database_pooler)
    try:
        if wait is not None:
            await wait_for_schema(database, wait)
        elif await _is_newer(database):
            print(_NEWER.format(REVISION))  # noqa: T201
        else:
            await _update(database, settings)
    finally:
        await database.aclose()


async def _is_newer(database: Database) -> bool:
    """Return whether a newer release has migrated the ledger, whose roles may have rights unknown to this code."""
    try:
        return await require_schema(database)
    except SchemaOutdated:
        return False


async def _update(database: Database, settings: Settings) -> None:
    from shared.ledger.postgres.schema import migrate  # noqa: PLC0415 - a waiting process needs no Alembic

    await migrate(database.engine)
    for password, make in (
        (settings.app_database_password, make_app_role),
        (settings.parse_database_password, make_parse_role),
        (settings.scale_database_password, make_scale_role),
    ):
        if password is not None:
            await make(database.engine, password.get_secret_value())


def _wait_of(arguments: Sequence[str] | None) -> timedelta | None:
    """Return the value of `--wait`."""
    parser = argparse.ArgumentParser(prog="python -m shared.ledger")
    parser.add_argument("--wait", type=float, metavar="SECONDS", help="wait for the schema, and migrate nothing")
    seconds: float | None = parser.parse_args(arguments).wait
    return None if seconds is None else timedelta(seconds=seconds)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the program; failures are printed to stderr as one sentence, with exit code 1 or 3."""
    wait = _wait_of(arguments)
    try:
        asyncio.run(main(load(), wait))
    except SchemaNewer as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(_NEWER_CODE_NEEDED)
    except (ForeaskError, OSError) as error:
        failure = "The database could not be brought to the newest schema"
        if wait is not None:
            failure = f"Waited up to {wait.total_seconds():g} s for the schema"
        sys.exit(f"{failure}: {error}")


if __name__ == "__main__":
    run()
