"""The statements that list and read the rows of a table or query.

Only names that the database reported are used as identifiers, quoted; all values are parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from features.sources.errors import COMPONENT
from features.sources.named_readers import MOST_BYTES
from features.sources.postgres.options import PostgresOptions
from shared.domain.corpus.document_fields import (
    MOST_KEY_BYTES,
    MOST_METADATA_BYTES,
    MOST_TITLE_CHARS,
    MOST_VERSION_BYTES,
)
from shared.domain.errors import Misconfigured

_LISTING = Path(__file__).with_name("listing.sql").read_text(encoding="utf-8")
_ROW = Path(__file__).with_name("row.sql").read_text(encoding="utf-8")
TOO_LONG = "too long"  # instead of readers; not JSON
_NAMED = 30  # columns that an error names
_MOST_VERSION_BYTES = MOST_VERSION_BYTES - 100  # without the fingerprint of the options
_MOST_METADATA_BYTES = 4 * MOST_METADATA_BYTES  # as PostgreSQL writes it, with spaces


@dataclass(frozen=True, slots=True)
class PostgresStatements:
    """The statements.

    Args:
        listing: takes the key after which it starts; returns `id` and `id_hash` (None unless the id is cut), the
            `id_bytes` of the whole id, `version`, `size_bytes` and `readers` as JSON, `TOO_LONG` if they are too long,
            and None without such a column.
        row: takes a key, the maximum size of the content, and the names of the metadata; returns `version`,
            `size_bytes`, `content`, `title`, `metadata` and `readers`; None instead of metadata that are too large.
        value: takes a key; fails if it is not a value of the id's type.
    """

    listing: str
    row: str
    value: str


async def statements_of(connection: Any, options: PostgresOptions) -> PostgresStatements:
    """Return the statements for a table or query, whose columns the database reports.

    Raises:
        Misconfigured: a column does not exist, or the query is not a single SELECT.
        asyncpg.PostgresError: the database rejects the table or query.
    """
    rows = _quoted_table(options) if options.query is None else await _query(connection, options.query)
    described = (await connection.prepare(f"SELECT * FROM {rows} AS source LIMIT 0")).get_attributes()  # noqa: S608
    types = {attribute.name: attribute.type for attribute in described}
    _require_columns(options, types)
    value = _value_of_key(types[options.id])
    values = {
        "rows": rows,
        "id": _column(options.id),
        "text": _column(options.text),
        "title": f"{_column(options.title)}::text" if options.title else "NULL",
        "metadata": ", ".join(f"${3 + i}::text, {_column(name)}" for i, name in enumerate(options.metadata)),
        "is_same": f"{_column(options.id)} = {value}" if value else "TRUE",
        "readers": _readers(options),
        "too_long": f"'{TOO_LONG}'",
        "version": _version(options),
        "most_readers_bytes": MOST_BYTES,
        "most_key_bytes": MOST_KEY_BYTES,
        "most_title_chars": MOST_TITLE_CHARS + 1,
        "most_metadata_bytes": _MOST_METADATA_BYTES,
    }
    return PostgresStatements(_LISTING.format(**values), _ROW.format(**values), f"SELECT {value or '$1::text'}")


async def _query(connection: Any, query: str) -> str:
    """Return a query as a table, after the database has accepted it as one statement.

    Raises:
        Misconfigured: it returns no rows.
        asyncpg.PostgresError: it is not a single statement.
    """
    statement = query.strip().rstrip(";")
    if not (await connection.prepare(statement)).get_attributes():
        raise _wrong("The query must be a SELECT.")
    return f"(\n{statement}\n)"  # a comment at its end ends with its line


def _require_columns(options: PostgresOptions, types: Mapping[str, Any]) -> None:
    named = options.columns() | ({options.readers_column: "readers_column"} if options.readers_column else {})
    for column, option in named.items():
        if column not in types:
            raise _wrong(
                f"There is no column {column!r}, which the option {option} names. The columns are:"
                f" {', '.join(list(types)[:_NAMED])}."
            )
    if types[options.text].name == "bytea":
        raise _wrong(
            f"The column {options.text!r} contains bytes, not text: decode it in a query, such as"
            f" convert_from({options.text}, 'UTF8')."
        )


def _readers(options: PostgresOptions) -> str:
    """Return the expression of a row's readers as JSON, which is `null` for NULL."""
    if options.readers_column is None:
        return "NULL::text"
    return f"coalesce(to_jsonb({_column(options.readers_column)})::text, 'null')"


def _version(options: PostgresOptions) -> str:
    """Return the expression of a row's version. Without a column it is a hash of all used ones."""
    if options.version:
        value = f"coalesce({_column(options.version)}::text, '')"
        digest = f"encode(sha256(convert_to({value}, 'UTF8')), 'hex')"
        version = f"(CASE WHEN octet_length({value}) > {_MOST_VERSION_BYTES} THEN {digest} ELSE {value} END)"
    else:
        used = ", ".join(map(_column, options.columns()))
        version = f"encode(sha256(convert_to(ROW({used})::text, 'UTF8')), 'hex')"
    return f"'{options.fingerprint()}-' || {version}"


def _value_of_key(kind: Any) -> str | None:
    """Return the expression of the value whose text is $1; None for a type that has no unique texts."""
    if kind.kind != "scalar":
        return None
    return f"CAST($1::text AS {_quoted(kind.schema)}.{_quoted(kind.name)})"


def _column(name: str) -> str:
    return f"source.{_quoted(name)}"


def _quoted_table(options: PostgresOptions) -> str:
    assert options.table is not None
    return f"{_quoted(options.schema_name)}.{_quoted(options.table)}"


def _quoted(name: str) -> str:
    """Return a name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def _wrong(message: str) -> Misconfigured:
    return Misconfigured(message, component=COMPONENT)
