"""All collections of a data directory, owned by one process."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote

import structlog

from embedded.qdrant import schema
from embedded.qdrant.errors import ErrorReply, not_found, wrong_input
from embedded.qdrant.schema import Json
from embedded.qdrant.shard import CONFIGURATION, Shard

MAINTAIN_EVERY_SECONDS = 0.5
MAX_NAME_BYTES = 200

log = structlog.get_logger(__name__)


class InUseError(Exception):
    """Another process owns the data directory."""


class Store:
    """The collections; opening the store locks the data directory, or raises `InUseError`."""

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = _owned(data_dir)
        self._directory = data_dir / "collections"
        self._directory.mkdir(exist_ok=True)
        self._shards = {unquote(path.name): Shard(path) for path in self._collection_directories()}
        self._maintenance: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to flush and optimize in the background."""
        self._maintenance = asyncio.get_running_loop().create_task(self._maintain())

    async def close(self) -> None:
        if self._maintenance is not None:
            self._maintenance.cancel()
        for shard in self._shards.values():
            await shard.close()
        self._lock.close()

    def names(self) -> list[str]:
        return sorted(self._shards)

    def exists(self, name: str) -> bool:
        return name in self._shards

    def shard(self, name: str) -> Shard:
        """Return the collection with that name; 404 if it does not exist."""
        shard = self._shards.get(name)
        if shard is None:
            raise not_found(f"Collection `{name}` doesn't exist!")
        return shard

    def create(self, name: str, request: Json) -> None:
        if self.exists(name):
            raise ErrorReply(409, f"Wrong input: Collection `{name}` already exists!")
        if not name or len(quote(name, safe="")) > MAX_NAME_BYTES or name in (".", ".."):
            raise wrong_input("a collection's name must have 1 to 200 characters")
        directory = self._path(name)
        Shard.create(directory, schema.creation(request))
        self._shards[name] = Shard(directory)

    async def delete(self, name: str) -> bool:
        """Delete the collection; return false if it does not exist."""
        shard = self._shards.pop(name, None)
        if shard is None:
            return False
        (self._path(name) / CONFIGURATION).unlink()
        await shard.close()
        shutil.rmtree(self._path(name), ignore_errors=True)
        return True

    def _path(self, name: str) -> Path:
        return self._directory / quote(name, safe="").replace(".", "%2E")

    def _collection_directories(self) -> list[Path]:
        """Return the folders of collections; remove folders whose creation or deletion was interrupted."""
        directories = []
        for path in sorted(self._directory.iterdir()):
            if (path / CONFIGURATION).exists():
                directories.append(path)
            else:
                shutil.rmtree(path)
        return directories

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTAIN_EVERY_SECONDS)
            for name, shard in list(self._shards.items()):
                try:
                    await shard.maintain()
                except Exception:
                    log.exception("maintenance.failed", collection=name)


def _owned(data_dir: Path) -> IO[str]:
    """Lock the data directory until the file is closed or this process ends for any reason."""
    file = (data_dir / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise InUseError(
            f"The Qdrant data in {data_dir} is in use by process {holder}; only one process may use it."
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
