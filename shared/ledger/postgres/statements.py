"""SQL statements, stored in files next to the modules that execute them.

A file consists of blocks, which have a name, a comment with the purpose if the name does not say it, and the SQL:

    -- name: delete_queued
    -- Delete documents that no worker has claimed.
    DELETE FROM documents d WHERE {TO_PARSE:d} AND d.leased_by IS NULL

A comment line `-- plan: generic` keeps the statement's plan (`shared.ledger.postgres.plans`). Comments are not sent.

A block that starts with `-- part:` is not a statement, but is included in statements of the file: `{is_due}` is
replaced by the part or the value of this name, and `{TO_PARSE:d}` by the result of the function `TO_PARSE` for `d`,
usually an alias. `python -m shared.ledger explain NAME` prints a statement filled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Value = str | Callable[..., str]

_HEAD = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_GENERIC = re.compile(r"^-- plan: generic\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")
_PLACEHOLDER = re.compile(r"\{([\w.]+)(?::([^{}]+))?\}")


@dataclass(frozen=True, slots=True)
class Statement:
    r"""A statement.

    Args:
        text: SQL with named parameters, such as `:tenant`; `\:` is a colon.
        generic: whether a connection keeps its plan; None if both are right for it.
    """

    text: str
    generic: bool | None = None
    sql: str = field(init=False)  # with $1 and $2 for the names
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        numbers: dict[str, int] = {}
        sql = _PARAMETER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", self.text)
        object.__setattr__(self, "sql", sql.replace("\\:", ":"))
        object.__setattr__(self, "names", tuple(numbers))

    def __str__(self) -> str:
        return self.text

    def values(self, parameters: Mapping[str, Any]) -> list[Any]:
        """Return the values of its parameters in their order.

        Raises:
            KeyError: a parameter has no value.
        """
        return [parameters[name] for name in self.names]


class Statements:
    """The statements of a file as attributes, each built once."""

    def __init__(self, statements: Mapping[str, Statement]) -> None:
        vars(self).update(statements)

    def __getattr__(self, name: str) -> Statement:
        raise AttributeError(f"There is no statement {name!r}.")


def load(module: str | Path, vocabulary: Mapping[str, Value] | None = None, /, **values: Value) -> Statements:
    """Read the statements of a module.

    Args:
        module: path of the module; the statements are in the file of the same name that ends in `.sql`.
        vocabulary: values of placeholders that many files use.
        **values: values of placeholders of this file.

    Raises:
        ValueError: the first block has no name, two blocks have the same name, a placeholder has no value, or a
            value or part is not used.
    """
    path = Path(module).with_suffix(".sql")
    introduction, *fields = _HEAD.split(path.read_text(encoding="utf-8"))
    blocks = list(zip(fields[::3], fields[1::3], fields[2::3], strict=True))
    names = Counter([*values, *(name for _, name, _ in blocks)])
    if _COMMENT.sub("", introduction).strip():
        raise ValueError(f"{path}: the first block has no name")
    if names.total() > len(names):
        raise ValueError(f"{path}: two blocks or values have the same name")
    bodies = {name: _COMMENT.sub("", body).strip() for _, name, body in blocks}
    defined = {**(vocabulary or {}), **values, **bodies}
    used: set[str] = set()

    def fill(match: re.Match[str]) -> str:
        name, argument = match.groups()
        value = defined.get(name)
        if value is None or (argument and isinstance(value, str)):
            raise ValueError(f"{path}: the placeholder {match[0]} has no value")
        used.add(name)
        if isinstance(value, str):
            return _PLACEHOLDER.sub(fill, value)
        return value(argument) if argument else value()

    filled = {
        name: Statement(_PLACEHOLDER.sub(fill, bodies[name]), generic=_GENERIC.search(body) is not None)
        for kind, name, body in blocks
        if kind == "name"
    }
    if unused := names.keys() - filled.keys() - used:
        raise ValueError(f"{path}: no statement uses {', '.join(sorted(unused))}")
    return Statements(filled)
