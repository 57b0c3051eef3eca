"""Options of a table or query, and the address of its database."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from features.sources.options import ColumnOptions, Texts
from shared.domain.errors import InvalidInput

TlsMode = Literal["disable", "require", "verify-ca", "verify-full"]
MEDIA_TYPES = {"markdown": "text/markdown", "html": "text/html", "plain": "text/plain"}

_FORM = "The address of a database must have the form postgresql://host:5432/database, with nothing else."
_HOST = re.compile(r"[\w.:-]+", re.ASCII)
_DEFAULT_PORT = 5432

Name = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[^\x00]+$")]
Query = Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=r"^[^\x00]+$")]


class PostgresOptions(ColumnOptions):
    """Options of rows. The names of columns are written as in the catalog, without quotes."""

    model_config = ConfigDict(serialize_by_alias=True)

    table: Name | None = Field(None, description="a table or view; alternatively a query")
    schema_name: Name = Field("public", alias="schema", description="the schema of the table")
    query: Query | None = Field(None, description="a single SELECT that returns the columns")
    id: Name = Field(description="the column whose value identifies a document, and is unique")
    text: Name = Field(description="the column with the text")
    title: Name | None = Field(None, description="the column with the title")
    version: Name | None = Field(
        None, description="a column that changes whenever the row changes; without it the used columns are compared"
    )
    metadata: Texts = Field((), description="columns that become metadata")
    format: Literal["markdown", "html", "plain"] = Field("plain", description="the format of the text")
    user: Name | None = Field(None, description="the user of the database, unless the secret has one")
    sslmode: TlsMode = Field(
        "verify-full",
        description="disable, require (encrypted), verify-ca, or verify-full (the certificate has the host's name)",
    )
    timeout_seconds: int = Field(300, ge=1, le=3_600, description="the limit of a statement; a listing sorts all ids")

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("Set either table or query.")
        return self

    def columns(self) -> dict[str, str]:
        """Return the columns of a document's content with an option that names each."""
        named = {"id": self.id, "text": self.text, "title": self.title, "version": self.version}
        columns = {column: option for option, column in named.items() if column is not None}
        return columns | {column: "metadata" for column in self.metadata if column not in columns}

    def fingerprint(self) -> str:
        """Return a hash of the columns and the format, a part of each version: other columns are other content."""
        parts = (self.format, self.text, self.title or "", *self.metadata)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where a database is."""

    host: str
    port: int
    database: str

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Return the address that a URI names.

        Raises:
            InvalidInput: it is not the address of one database, or it contains a user name, a password or parameters.
        """
        try:
            parts = urlsplit(uri)
            host, port = parts.hostname or "", parts.port or _DEFAULT_PORT
        except ValueError:
            raise InvalidInput(_FORM, field="uri") from None
        if "@" in parts.netloc:
            raise InvalidInput(
                "The address contains a user name or password: store them as the secret of the source.", field="uri"
            )
        database = unquote(parts.path[1:])
        is_complete = parts.scheme in {"postgresql", "postgres"} and _HOST.fullmatch(host) and database
        if not is_complete or parts.query or parts.fragment or "/" in database or "\0" in database:
            raise InvalidInput(_FORM, field="uri")
        return cls(host, port, database)
