"""Git's objects in files, read in a confined process, whose messages are validated here."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from features.sources.errors import COMPONENT
from features.sources.git.options import GitOptions
from features.sources.git.packs import ENTRY_BYTES, MOST_OBJECTS, TooLargePack
from features.sources.git.readers import CONTENT, CONTENT_HEAD, INDEX, LARGE, TOO_LARGE
from shared.confined.reading import Reader
from shared.domain.corpus.document_fields import MOST_KEY_BYTES
from shared.domain.errors import Misconfigured, TooLarge, Transient, Unavailable, Unreadable

T = TypeVar("T")
MOST_OBJECT_BYTES = 512 << 20  # an object is unpacked in memory
_MODULE = "features.sources.git.readers"
_STRICT = ConfigDict(strict=True, extra="forbid")
_Id = Annotated[str, Field(pattern="^[0-9a-f]{40}$")]
_Key = Annotated[str, Field(min_length=1, max_length=MOST_KEY_BYTES, pattern="^[^\\x00]+$")]
_Row = tuple[_Key, _Id, Annotated[int, Field(ge=0, le=2**53)] | None, Annotated[str, Field(max_length=500)] | None]
_ROWS = TypeAdapter(Annotated[list[_Row], Field(max_length=1_000, fail_fast=True)], config=ConfigDict(strict=True))


class _Commit(TypedDict, total=False):
    __pydantic_config__ = _STRICT  # type: ignore[misc] # pydantic's name for the options of a dictionary

    commit: _Id
    tree: _Id
    problem: Literal["missing", "other"]


class _Folder(TypedDict, total=False):
    __pydantic_config__ = _STRICT  # type: ignore[misc]

    tree: _Id
    folders: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=10)]


_COMMIT, _FOLDER = TypeAdapter(_Commit), TypeAdapter(_Folder)


@dataclass(slots=True)
class Stored:
    """Objects in a file, and their index.

    Args:
        kind: format of the objects.
        objects: opened file of the objects.
        index: opened file of the index.
    """

    kind: Literal["pack", "loose"]
    objects: IO[bytes]
    index: IO[bytes]

    def close(self) -> None:
        self.objects.close()
        self.index.close()


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a tree; without its content it has no size."""

    key: str
    id: str
    size: int | None
    refused: str | None


@dataclass(frozen=True, slots=True)
class ListedFolder:
    """The listed folder: id of its tree, its path, and the selection of its files."""

    id: str
    path: str
    options: GitOptions

    @property
    def request(self) -> dict[str, Any]:
        return {"tree": self.id, "path": self.path, "options": self.options.model_dump(mode="json")}


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents by the ids of their objects, and the sizes of contents that are too large; 0 if it is unknown."""

    by_id: dict[str, bytes] = field(default_factory=dict)
    too_large: dict[str, int] = field(default_factory=dict)


def too_large_object() -> TooLarge:
    """Return the error of a content that is too large to be unpacked."""
    return TooLarge(f"The file has more than {MOST_OBJECT_BYTES >> 20} MB.")


class GitReader:
    """Reads Git's objects.

    All methods raise `Misconfigured` if the objects are damaged, or reading them takes too much time or memory, and
    `Unavailable` if no process can be started.

    Args:
        reader: reader of the tenant's sources.
        label: name of the repository in errors.
    """

    def __init__(self, reader: Reader, label: str) -> None:
        self._reader = reader
        self._label = label

    async def write_index(self, objects: IO[bytes], path: Path, *, name: str = "index") -> IO[bytes]:
        """Write the index of a pack, or of an index of Git (`name` is `converted_index`), and return it, opened.

        Raises:
            TooLargePack: the pack or an object has too many bytes.
        """
        left = MOST_OBJECTS * ENTRY_BYTES
        with path.open("wb") as file:
            async with self._messages(name, {}, [], [objects]) as messages:
                async for message in messages:
                    if message.startswith(TOO_LARGE):
                        raise TooLargePack
                    if message.startswith(INDEX):
                        left -= len(message) - len(INDEX)
                        if left < 0:
                            raise self._invalid()
                        file.write(message[len(INDEX) :])
        return path.open("rb")

    async def commit(self, stores: Sequence[Stored], object_id: str) -> tuple[str, str] | Literal["missing", "other"]:
        """Return the ids of a commit and its tree; or why the id names no commit."""
        found = await self._value(_COMMIT, "commit", {"id": object_id}, stores)
        if "commit" in found and "tree" in found:
            return found["commit"], found["tree"]
        return found.get("problem", "missing")

    async def folder(self, stores: Sequence[Stored], tree: str, path: str) -> str | list[str]:
        """Return the id of a folder's tree; the names of the top folders if it does not exist."""
        found = await self._value(_FOLDER, "folder", {"tree": tree, "path": path}, stores)
        return found["tree"] if "tree" in found else found.get("folders", [])

    async def rows(
        self, stores: Sequence[Stored], tree: ListedFolder, *, after: str = "", start: str = "", most: int
    ) -> list[TreeFile]:
        """Return the selected files that follow a key, or start with a key, in the order of their keys."""
        options = tree.request | {"after": after, "start": start, "most": most}
        rows = [TreeFile(*row) for batch in await self._values(_ROWS, "entries", options, stores) for row in batch]
        keys = [after.encode(), *(row.key.encode() for row in rows)]
        if len(rows) > most or any(first >= second for first, second in pairwise(keys)):
            raise self._invalid()
        return rows

    async def row(self, stores: Sequence[Stored], tree: ListedFolder, key: str) -> TreeFile | None:
        """Return the selected file of a key."""
        rows = await self._value(_ROWS, "entry", tree.request | {"key": key}, stores)
        if len(rows) > 1 or (rows and rows[0][0] != key):
            raise self._invalid()
        return TreeFile(*rows[0]) if rows else None

    async def contents(self, stores: Sequence[Stored], ids: Sequence[str], *, max_bytes: int) -> Contents:
        """Return the content of the first id, if it is stored, and of some others if they are small."""
        options = {"ids": list(dict.fromkeys(ids)), "most": max_bytes}
        receiving = _Receiving(frozenset(ids), max_bytes)
        async with self._messages("contents", options, stores) as messages:
            async for message in messages:
                if not receiving.add(message):
                    raise self._invalid()
        return receiving.contents

    async def _values(
        self, adapter: TypeAdapter[T], name: str, options: Mapping[str, Any], stores: Sequence[Stored]
    ) -> list[T]:
        try:
            async with self._messages(name, options, stores) as messages:
                found = [adapter.validate_json(message) async for message in messages]
        except ValidationError as error:
            raise self._invalid() from error
        return found

    async def _value(
        self, adapter: TypeAdapter[T], name: str, options: Mapping[str, Any], stores: Sequence[Stored]
    ) -> T:
        found = await self._values(adapter, name, options, stores)
        if len(found) != 1:
            raise self._invalid()
        return found[0]

    @asynccontextmanager
    async def _messages(
        self, name: str, options: Mapping[str, Any], stores: Sequence[Stored], files: Sequence[IO[bytes]] = ()
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        opened = [*files, *(file for store in stores for file in (store.objects, store.index))]
        sent = {**options, "stores": [store.kind for store in stores], "max_bytes": MOST_OBJECT_BYTES}
        reading = self._reader.read(_MODULE, name, sent, [file.fileno() for file in opened], subject="it")
        try:
            async with aclosing(reading) as messages:
                yield messages
        except Unreadable as error:
            raise self._error(f"{error.message}.") from error
        except Unavailable:
            raise
        except Transient as error:
            raise Unavailable(error.message, component="parser") from error

    def _invalid(self) -> Misconfigured:
        return self._error("it crashed the parser (invalid reply).")

    def _error(self, reason: str) -> Misconfigured:
        """Return the error of objects that were received completely: other attempts would fail alike."""
        return Misconfigured(f"The repository at {self._label} cannot be read: {reason}", component=COMPONENT)


class _Receiving:
    """Contents that arrive in pieces, each after its head."""

    def __init__(self, wanted: frozenset[str], max_bytes: int) -> None:
        self.contents = Contents()
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._data = bytearray()

    def add(self, message: bytes) -> bool:
        """Add a piece; return whether it is valid."""
        self._data += message
        while len(self._data) >= CONTENT_HEAD.size:
            raw, state, size = CONTENT_HEAD.unpack_from(self._data)
            object_id = raw.hex()
            if object_id not in self._wanted or (state == CONTENT and size > self._max_bytes):
                return False
            end = CONTENT_HEAD.size + (size if state == CONTENT else 0)
            if len(self._data) < end:
                return True
            if state == CONTENT:
                content = bytes(self._data[CONTENT_HEAD.size : end])
                if _id_of(content) != object_id:
                    return False
                self.contents.by_id[object_id] = content
            elif state == LARGE:
                self.contents.too_large[object_id] = size
            del self._data[:end]
        return True


def _id_of(content: bytes) -> str:
    """Return the id of a content: its reader, or the process that wrote a shared pack, may have been taken over."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
