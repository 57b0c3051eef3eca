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
from embedded.qdrant.collection import CONFIGURATION, ServedCollection
from embedded.qdrant.errors import ErrorReply, not_found, wrong_input
from embedded.qdrant.schema import Json

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
        self._collections: dict[str, ServedCollection] = {}
        self._creation = asyncio.Lock()
        self._maintenance: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the collections, and start to optimize in the background."""
        directories = self._collection_directories()
        opened = await asyncio.gather(*(ServedCollection.open(path, _exit_process) for path in directories))
        self._collections = {unquote(collection.directory.name): collection for collection in opened}
        self._maintenance = asyncio.get_running_loop().create_task(self._maintain())

    async def close(self) -> None:
        if self._maintenance is not None:
            self._maintenance.cancel()
        await asyncio.gather(*(collection.close() for collection in self._collections.values()))
        self._lock.close()

    def names(self) -> list[str]:
        return sorted(self._collections)

    def exists(self, name: str) -> bool:
        return name in self._collections

    def collection(self, name: str) -> ServedCollection:
        """Return the collection with that name; 404 if it does not exist."""
        collection = self._collections.get(name)
        if collection is None:
            raise not_found(f"Collection `{name}` doesn't exist!")
        return collection

    async def create(self, name: str, request: Json) -> None:
        if not name or len(quote(name, safe="")) > MAX_NAME_BYTES or name in (".", ".."):
            raise wrong_input("a collection's name must have 1 to 200 characters")
        async with self._creation:  # a collection that "already exists" accepts writes
            if self.exists(name):
                raise ErrorReply(409, f"Wrong input: Collection `{name}` already exists!")
            ServedCollection.create(self._path(name), schema.creation(request))
            self._collections[name] = await ServedCollection.open(self._path(name), _exit_process)

    async def delete(self, name: str) -> bool:
        """Delete the collection; return false if it does not exist."""
        collection = self._collections.pop(name, None)
        if collection is None:
            return False
        (self._path(name) / CONFIGURATION).unlink()
        await collection.delete()
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
            for name, collection in list(self._collections.items()):
                try:
                    await collection.maintain()
                except Exception:
                    log.exception("maintenance.failed", collection=name)


def _exit_process() -> None:
    """End this process, which its supervisor then restarts, because the process of a collection has ended."""
    log.critical("collection.ended")
    os._exit(1)


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
