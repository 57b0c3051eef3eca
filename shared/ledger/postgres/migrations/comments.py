r"""Comments of tables and columns, which `\d+` of psql shows: read from the comments of `CREATE TABLE` statements.

Later migrations have no such file, and pass `comment=` to their columns and tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TABLE = re.compile(
    r"(?P<above>(?:^--[^\n]*\n)*)^CREATE TABLE (?P<table>\w+)"
    r"(?: PARTITION OF (?P<whole>\w+) [^;]*| \(\n(?P<columns>.*?)^\)[^;]*);",
    re.MULTILINE | re.DOTALL,
)
_COLUMN = re.compile(
    r"(?P<above>(?:^    -- .*\n)*)^    (?P<column>[a-z]\w*) .*?(?:  -- (?P<comment>.*))?$", re.MULTILINE
)
_SHARED = re.compile(r"^--   (?P<column>\w+) +(?P<comment>.*)$", re.MULTILINE)
_SHARED_HEAD = "-- Columns without a comment mean the same in every table:\n--\n"


def statements_of(sql: str) -> Iterator[str]:
    """Return a `COMMENT ON` statement for each table and each column of a schema.

    The comment of a table is the first paragraph above it. The comment of a column is on its line, else above it, else
    in the list at the head of the schema. A partition has the columns of its table.

    Raises:
        KeyError: a column has no comment, or a partition's table is missing.
    """
    usual = dict(_SHARED.findall(sql.partition(_SHARED_HEAD)[2].partition("\n--\n")[0]))
    columns: dict[str, dict[str, str]] = {}
    for found in _TABLE.finditer(sql):
        table, whole = found["table"], found["whole"]
        yield _statement(f"TABLE {table}", _text(found["above"].partition("\n--\n")[0]))
        columns[table] = columns[whole] if whole else dict(_columns(found["columns"], usual))
        for column, comment in columns[table].items():
            yield _statement(f"COLUMN {table}.{column}", comment)


def _columns(lines: str, usual: dict[str, str]) -> Iterator[tuple[str, str]]:
    for found in _COLUMN.finditer(lines):
        column = found["column"]
        yield column, found["comment"] or _text(found["above"]) or usual[column]


def _text(comment: str) -> str:
    """Return the text of lines that start with `--`."""
    return " ".join(line.strip().removeprefix("--").strip() for line in comment.splitlines())


def _statement(object_name: str, comment: str) -> str:
    quoted = comment.replace("'", "''")
    return f"COMMENT ON {object_name} IS '{quoted}';"
