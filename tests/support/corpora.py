"""Corpora that tests change and list: repositories and tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg

from features.sources.git.options import GitOptions
from features.sources.git.repositories import GitSource
from features.sources.hosts import Hosts
from features.sources.postgres.options import PostgresOptions
from features.sources.postgres.rows import PostgresSource
from features.sources.source import Entry, Source
from shared.confined.reading import Readers
from shared.settings.temporary_bytes import TEMPORARY_BYTES
from tests.support.git_server import GitFolder, GitServer

READER, PASSWORD = "reader", "a password: of/the?reader"
LOGIN = {"username": READER, "password": PASSWORD, "sslmode": "disable"}  # the server of tests has no TLS
PRIVATE = Hosts(private=True)


async def listed(source: Source, after: str = "") -> list[Entry]:
    return [entry async for entry in source.entries(after)]


class Corpus(ABC):
    """Texts by key."""

    @abstractmethod
    async def write(self, texts: dict[str, str]) -> None:
        """Add texts, and replace existing ones."""

    @abstractmethod
    async def remove(self, key: str) -> None: ...

    @abstractmethod
    async def disappear(self) -> None:
        """Remove the corpus itself."""

    @abstractmethod
    def source(self) -> Source: ...


class GitCorpus(Corpus):
    """A repository.

    Args:
        folder: its repository.
        server: its server; None if the folder is read.
        readers: read its objects.
    """

    def __init__(self, folder: GitFolder, server: GitServer | None, readers: Readers) -> None:
        self.folder = folder
        self.server = server
        self.readers = readers

    async def write(self, texts: dict[str, str]) -> None:
        for key, text in texts.items():
            self.folder.write(key, text.encode())
        self.folder.commit()

    async def remove(self, key: str) -> None:
        self.folder.remove(key)
        self.folder.commit()

    async def disappear(self) -> None:
        self.folder.folder.rename(self.folder.folder.with_suffix(".moved"))

    def source(self, secret: dict[str, str] | None = None, **options: Any) -> GitSource:
        path: Path = self.folder.folder
        uri = f"git+{self.server.url}/{path.name}" if self.server else f"git+file://{path}"
        return GitSource(uri, GitOptions(**options), secret or {}, PRIVATE, self.readers.for_tenant("alice"))


class TableCorpus(Corpus):
    """A table of a database, which the role `reader` may only read.

    Args:
        url: URL of the database.
        owner: connection of its owner.
        name: its name.
        options: options that select the table.
    """

    def __init__(self, url: str, owner: asyncpg.Connection, name: str = "article", **options: Any) -> None:
        self.url = url
        self.owner = owner
        self.name = name
        self.options: dict[str, Any] = {"id": "key", "text": "body", "sslmode": "disable"} | options

    async def create(self) -> None:
        """Create the table, and replace an existing one."""
        await self.owner.execute(f"DROP TABLE IF EXISTS {self.name}; {_table(self.name)}")

    async def write(self, texts: dict[str, str]) -> None:
        statement = f"INSERT INTO {self.name} VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET body = excluded.body"
        await self.owner.executemany(statement, list(texts.items()))

    async def remove(self, key: str) -> None:
        await self.owner.execute(f"DELETE FROM {self.name} WHERE key = $1", key)

    async def disappear(self) -> None:
        await self.owner.execute(f"DROP TABLE {self.name}")

    def source(
        self, secret: dict[str, str] | None = None, temporary_bytes: int = TEMPORARY_BYTES, **options: Any
    ) -> PostgresSource:
        parts = urlsplit(self.url)
        uri = f"postgresql://{parts.hostname}:{parts.port}{parts.path}"
        login = LOGIN if secret is None else secret
        given = {name: value for name, value in (self.options | options).items() if value is not None}
        return PostgresSource(uri, PostgresOptions(**given), login, PRIVATE, temporary_bytes)


@asynccontextmanager
async def database(url: str) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    """Yield the URL of a new database with the table `article` and the role `reader`, and a connection of its owner."""
    name = f"corpus_{uuid4().hex}"
    server = await asyncpg.connect(url)
    await server.execute(f"CREATE DATABASE {name}")
    other = f"{url.rpartition('/')[0]}/{name}"
    owner = await asyncpg.connect(other, statement_cache_size=0)  # tests give tables of the same name other types
    try:
        await owner.execute(f"""
            DROP ROLE IF EXISTS {READER};
            CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}';
            {_table("article")}
        """)
        yield other, owner
    finally:
        await owner.close()
        await server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await server.execute(f"DROP ROLE {READER}")
        await server.close()


async def renew(owner: asyncpg.Connection) -> None:
    """Make a database of `database` as new, which takes a tenth of the time of another one."""
    await owner.execute(f"""
        SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '{READER}';
        DO $$ DECLARE name text; BEGIN
            FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)' LOOP
                EXECUTE format('DROP SCHEMA %I CASCADE', name);
            END LOOP;
        END $$;
        CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC;
        ALTER ROLE {READER} RESET ALL;
        {_table("article")}
    """)


def _table(name: str) -> str:
    return f"CREATE TABLE {name} (key text PRIMARY KEY, body text); GRANT SELECT ON {name} TO {READER};"
