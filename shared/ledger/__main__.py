"""`python -m shared.ledger`: migrate the database and create the roles whose passwords are set, or wait for that.

`python -m shared.ledger explain NAME` prints a statement, and its plan if `FOREASK_DATABASE_URL` is set.
"""

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
from shared.process import identity
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

    await migrate(database)
    for password, make in (
        (settings.app_database_password, make_app_role),
        (settings.parse_database_password, make_parse_role),
        (settings.scale_database_password, make_scale_role),
    ):
        if password is not None:
            await make(database, password.get_secret_value())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shared.ledger", description=__doc__.partition("\n")[0])
    parser.add_argument("--wait", type=float, metavar="SECONDS", help="wait for the schema, and migrate nothing")
    commands = parser.add_subparsers(dest="command")
    explain = commands.add_parser("explain", help="print statements, and their plans if FOREASK_DATABASE_URL is set")
    explain.add_argument("name", nargs="?", help="a statement, such as claim_documents; without it, all are listed")
    return parser


async def _explain(settings: Settings, name: str | None) -> None:
    from shared.ledger import explain  # noqa: PLC0415 - imports every module of the ledger

    if name is None:
        print("\n".join(sorted(explain.all_statements())))  # noqa: T201
        return
    url = settings.database_url
    database = None if url is None else Database(url.get_secret_value(), pool_size=1, pooler=settings.database_pooler)
    try:
        for full, statement in explain.statements_of(name).items():
            print(f"-- {full}\n{explain.sql_of(statement)};\n")  # noqa: T201
            if database is not None:
                print(f"{await explain.plan_of(database, statement)}\n")  # noqa: T201
    finally:
        if database is not None:
            await database.aclose()


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the program; failures are printed to stderr as one sentence, with exit code 1 or 3."""
    identity.become("schema")
    chosen = _parser().parse_args(arguments)
    if chosen.command == "explain":
        try:
            asyncio.run(_explain(load(), chosen.name))
        except (ForeaskError, OSError) as error:
            sys.exit(str(error))
        return
    wait = None if chosen.wait is None else timedelta(seconds=chosen.wait)
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
