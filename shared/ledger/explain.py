"""`python -m shared.ledger explain`: statements of the ledger as PostgreSQL receives them, and their plans."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module

from shared.domain.errors import InvalidInput
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement, Statements

_FIRST_VERSION = 160000  # of PostgreSQL that plans a statement without its values
_PLANNED = ("DELETE", "INSERT", "MERGE", "SELECT", "UPDATE", "VALUES", "WITH")
_SHOWN = 5


def all_statements() -> dict[str, Statement]:
    """Return every statement of the ledger by its module and name, such as `work.parsing.claim_documents`.

    Statements of a table of statements have its name and their key, too: `documents.listing._ORDERS.name.first`.
    """
    found: dict[str, Statement] = {}
    of_features = (name for name in _modules("features") if "ledger" in name.split("."))
    for module in (*_modules("shared.ledger"), *of_features):
        if ".migrations" in module or module.endswith("__main__"):
            continue
        for name, value in vars(import_module(module)).items():
            found |= _named(module.removeprefix("shared.ledger."), name, value)
    return found


def _modules(package: str) -> Iterator[str]:
    """Yield the names of a package's modules, which are imported by name: the core does not depend on features."""
    for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        yield module.name


def _named(module: str, name: str, value: object) -> Iterator[tuple[str, Statement]]:
    if isinstance(value, Statement):
        yield f"{module}.{name}", value
    elif isinstance(value, Statements):
        yield from ((f"{module}.{key}", each) for key, each in vars(value).items())
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _named(f"{module}.{name}", str(key), each)


def statements_of(name: str) -> dict[str, Statement]:
    """Return the statements that have a name, with or without a module.

    Raises:
        InvalidInput: there is none.
    """
    every = all_statements()
    found = {full: each for full, each in every.items() if full == name or full.endswith(f".{name}")}
    if not found:
        short = {full.rpartition(".")[2]: full for full in every}
        close = [short[each] for each in get_close_matches(name.rpartition(".")[2], short, _SHOWN)]
        hint = f"similar ones: {', '.join(close)}" if close else "without a name, all of them are listed"
        raise InvalidInput(f"The ledger has no statement {name!r}; {hint}.")
    return found


def sql_of(statement: Statement) -> str:
    """Return a statement with `$1`, `$2` for its parameters, after a comment that names them."""
    names = ", ".join(f"${number} = :{name}" for number, name in enumerate(statement.names, start=1))
    return f"-- {names}\n{statement.sql}" if names else statement.sql


async def plan_of(database: Database, statement: Statement) -> str:
    """Return the plan that PostgreSQL makes without the values of a statement, which is not executed.

    A statement that is marked as generic is executed with this plan; any other is planned again for its values. A
    command such as `SET` has no plan.

    Raises:
        InvalidInput: the server is older than PostgreSQL 16.
    """
    verb = statement.sql.split(maxsplit=1)[0]
    if verb not in _PLANNED:
        return f"{verb} has no plan."
    async with database.begin() as connection:
        version = await connection.execute_sql("SELECT current_setting('server_version_num')::int")
        if version.scalar_one() < _FIRST_VERSION:
            raise InvalidInput("PostgreSQL 16 or newer plans a statement without its values; this server is older.")
        nulls = dict.fromkeys(statement.names)  # which the plan ignores
        explained = Statement(f"EXPLAIN (GENERIC_PLAN) {statement.text}", generic=statement.generic or False)
        return "\n".join((await connection.execute(explained, nulls)).scalars())
