"""The engines of a test process: embedded ones, or your servers, if the environment names them.

`DATABASE_URL`, `REDIS_URL` and `QDRANT_URL` (with `QDRANT_API_KEY`) name servers. The tests create a database of their
own, and need an empty Redis database and an empty Qdrant, because they delete everything there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from pydantic import SecretStr
from redis import Redis
from sqlalchemy.engine import make_url

from shared.vectors.index import Index

VARIABLES = ("DATABASE_URL", "REDIS_URL", "QDRANT_URL")


@contextmanager
def named_servers(environment: Mapping[str, str] = os.environ) -> Iterator[dict[str, Any]]:
    """Yield the settings of the servers that the environment names, and delete the tests' data at the end."""
    settings: dict[str, Any] = {}
    with ExitStack() as stack:
        if url := environment.get("DATABASE_URL"):
            # Roles belong to the server, so each run needs the same passwords.
            passwords = dict.fromkeys(("app_database_password", "parse_database_password"), SecretStr("foreask-tests"))
            settings |= {"database_url": SecretStr(stack.enter_context(_own_database(url)))} | passwords
        if url := environment.get("REDIS_URL"):
            settings["redis_url"] = SecretStr(stack.enter_context(_empty_redis(url)))
        if url := environment.get("QDRANT_URL"):
            key = environment.get("QDRANT_API_KEY")
            settings["qdrant_api_key"] = key = SecretStr(key) if key else None
            settings["qdrant_url"] = stack.enter_context(_empty_qdrant(url, key))
        yield settings


def require_one_process(config: pytest.Config) -> None:
    """Refuse several test processes on one server: each deletes everything there.

    Raises:
        pytest.UsageError: the environment names a server, and the run has several processes.
    """
    named = [variable for variable in VARIABLES if os.environ.get(variable)]
    if named and (config.getoption("numprocesses", None) or 0) > 1:
        message = f"{', '.join(named)}: a server serves one test process. Run pytest without --numprocesses."
        raise pytest.UsageError(message)


@contextmanager
def _own_database(url: str) -> Iterator[str]:
    name = f"foreask_test_{uuid4().hex[:12]}"

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(
            make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        )
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute(f"CREATE DATABASE {name}"))
    try:
        yield make_url(url).set(database=name).render_as_string(hide_password=False)
    finally:
        asyncio.run(execute(f"DROP DATABASE {name} WITH (FORCE)"))


@contextmanager
def _empty_redis(url: str) -> Iterator[str]:
    with Redis.from_url(url) as redis:
        if keys := redis.dbsize():
            raise pytest.UsageError(f"REDIS_URL: the database has {keys} keys. They would be deleted.")
        yield url
        redis.flushdb()


@contextmanager
def _empty_qdrant(url: str, key: SecretStr | None) -> Iterator[str]:
    async def with_index(use: Callable[[Index], Awaitable[Any]]) -> Any:
        index = Index(url, api_key=key)
        try:
            return await use(index)
        finally:
            await index.aclose()

    async def drop_all(index: Index) -> None:
        for name in await index.names():
            await index.drop_collection(name)

    if names := asyncio.run(with_index(Index.names)):
        message = f"QDRANT_URL: the server has collections ({', '.join(names[:3])}). They would be deleted."
        raise pytest.UsageError(message)
    try:
        yield url
    finally:
        asyncio.run(with_index(drop_all))
