"""All collections of a data directory, owned by one process."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote

import orjson
import structlog

from embedded.qdrant import schema
from embedded.qdrant.errors import ApiError, not_found, unsupported, wrong_input
from embedded.qdrant.schema import Json
from embedded.qdrant.shard import CONFIGURATION, Shard, write_whole

MAINTAIN_EVERY_SECONDS = 0.5
MAX_NAME_BYTES = 200

log = structlog.get_logger(__name__)


class InUseError(Exception):
    """Another process owns the data directory."""


class Store:
    """The collections and aliases; opening it takes the data directory, or raises `InUseError`."""

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(parents=True, exist_ok=True)
        self._lock = _owned(data_dir)
        self._aliases_file = data_dir / "aliases.json"
        self.aliases: dict[str, str] = (
            orjson.loads(self._aliases_file.read_bytes()) if self._aliases_file.exists() else {}
        )
        self._directory = data_dir / "collections"
        self._directory.mkdir(exist_ok=True)
        self._shards = {unquote(path.name): Shard(path) for path in self._kept_directories()}
        self._maintenance: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to flush and optimize in the background."""
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
        return name in self._shards or name in self.aliases

    def shard(self, name: str) -> Shard:
        """The collection of that name or alias; 404 where there is none."""
        shard = self._shards.get(self.aliases.get(name, name))
        if shard is None:
            raise not_found(f"Collection `{name}` doesn't exist!")
        return shard

    def create(self, name: str, request: Json) -> None:
        if self.exists(name):
            raise ApiError(409, f"Wrong input: Collection `{name}` already exists!")
        if not name or len(quote(name, safe="")) > MAX_NAME_BYTES or name in (".", ".."):
            raise wrong_input("a collection's name must have 1 to 200 characters")
        directory = self._path(name)
        Shard.create(directory, schema.creation(request))
        self._shards[name] = Shard(directory)

    async def delete(self, name: str) -> bool:
        """Delete the collection and the aliases to it; false where there is none."""
        shard = self._shards.pop(name, None)
        if shard is None:
            return False
        self._keep_aliases({alias: target for alias, target in self.aliases.items() if target != name})
        (self._path(name) / CONFIGURATION).unlink()
        await shard.close()
        shutil.rmtree(self._path(name), ignore_errors=True)
        return True

    def change_aliases(self, request: Json) -> None:
        """Apply all actions, or none where one is refused."""
        aliases = dict(self.aliases)
        for action in request["actions"]:
            self._change_alias(aliases, action)
        self._keep_aliases(aliases)

    def _change_alias(self, aliases: dict[str, str], action: Json) -> None:
        match action:
            case {"create_alias": {"collection_name": target, "alias_name": alias}}:
                if target not in self._shards:
                    raise not_found(f"Collection `{target}` doesn't exist!")
                if alias in self._shards:
                    raise ApiError(409, f"Wrong input: Collection `{alias}` already exists!")
                aliases[alias] = target
            case {"delete_alias": {"alias_name": alias}}:
                aliases.pop(alias, None)
            case {"rename_alias": {"old_alias_name": old, "new_alias_name": new}}:
                if old not in aliases:
                    raise not_found(f"Alias `{old}` doesn't exist!")
                aliases[new] = aliases.pop(old)
            case _:
                raise unsupported(f"the alias action `{', '.join(action)}`")

    def _keep_aliases(self, aliases: dict[str, str]) -> None:
        if aliases != self.aliases:
            write_whole(self._aliases_file, aliases)
            self.aliases = aliases

    def _path(self, name: str) -> Path:
        return self._directory / quote(name, safe="").replace(".", "%2E")

    def _kept_directories(self) -> list[Path]:
        """Collections; what has no configuration was being made or deleted when the process died."""
        kept = []
        for path in sorted(self._directory.iterdir()):
            if (path / CONFIGURATION).exists():
                kept.append(path)
            else:
                shutil.rmtree(path)
        return kept

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTAIN_EVERY_SECONDS)
            for name, shard in list(self._shards.items()):
                try:
                    await shard.maintain()
                except Exception:
                    log.exception("maintenance failed", collection=name)


def _owned(data_dir: Path) -> IO[str]:
    """Hold the data directory until the file is closed or this process ends, however it ends."""
    file = (data_dir / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise InUseError(
            f"The Qdrant data in {data_dir} is in use by process {holder}; one process may own it."
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
