"""The files of a Git repository at one commit."""

from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from dulwich.lfs import LFSPointer
from dulwich.objects import ObjectID, Tree
from pydantic import BaseModel, ConfigDict, Field, field_validator

from shared.domain.errors import Misconfigured, NotFound, TooLarge, Unavailable, Unreadable
from shared.sources.git.address import GitAddress, Login
from shared.sources.git.local import LocalRepository
from shared.sources.git.remote import RemoteRepository
from shared.sources.git.repository import COMPONENT, SMALL_BYTES, Repository
from shared.sources.keys import TOO_LONG, is_too_long, shortened
from shared.sources.patterns import Names, selected
from shared.sources.source import Entry, Item, Source

_CACHED_TREES = 64
_PAGE = 1_000  # entries that one call in a thread lists
_READ_AHEAD = 256  # maximum number of files of a request
_NAMED = 10  # folders that an error names
_LFS = "It is stored in Git LFS, and the repository has only its pointer: add the file itself, or exclude it."
_NOT_UTF8 = "Its name is not UTF-8: rename it."

T = TypeVar("T")


class GitOptions(BaseModel):
    """Options of a repository.

    Args:
        ref: a branch, a tag or the complete id of a commit; HEAD is the default branch.
        path: a folder of the repository; only its files are listed.
        include: patterns; if there are any, a file must match at least one.
        exclude: patterns; a file must not match any.
        link: address of a file for people, with `{commit}` and `{path}`; known for the usual hosts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    ref: str = Field("HEAD", min_length=1, max_length=500)
    path: str = Field("", max_length=1_000)
    include: Names = ()
    exclude: Names = ()
    link: str | None = Field(None, max_length=1_000)

    @field_validator("path")
    @classmethod
    def _without_slashes(cls, value: str) -> str:
        return value.strip("/")


@dataclass(frozen=True, slots=True)
class _Child:
    r"""A file or folder of a tree.

    Args:
        name: its name; bytes that are not UTF-8 are written as `\xff`.
        id: of its content.
        is_folder: whether its content is a tree.
        refused: why it cannot be read; None if it can.
    """

    name: str
    id: ObjectID
    is_folder: bool
    refused: str | None = None

    @property
    def order(self) -> bytes:
        """Its rank among the children of a tree, by which paths are in the order of their bytes."""
        return (f"{self.name}/" if self.is_folder else self.name).encode()


class GitSource(Source):
    """The files of a repository. Every call sees the commit that the first one found.

    The version of a file is the id of its content. Its mode is not a part of it, because a script that becomes
    executable has the same content. Symbolic links and submodules are left out: they have no content of their own.

    Args:
        uri: `git+https://host/path.git`, `git+http://…`, or `git+file:///folder`, without a user name or password.
        options: the ref, and the selected files.
        secret: `token`, or `username` and `password`.

    Raises:
        InvalidInput: the address or the secret cannot be used.
    """

    def __init__(self, uri: str, options: GitOptions, secret: Mapping[str, str]) -> None:
        self._address = GitAddress.parse(uri)
        self._options = options
        self._link = options.link or self._address.link
        self._repository: Repository = (
            LocalRepository(self._address.folder)
            if self._address.folder
            else RemoteRepository(self._address.url, Login.of(secret))
        )
        self._root: ObjectID | None = None
        self._children = lru_cache(_CACHED_TREES)(lambda tree: _children(self._repository.tree(tree)))
        self._thread = threading.Lock()  # dulwich reads and writes its files without locks

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        files = self._files(after)
        while page := await self._in_thread(lambda: list(islice(files, _PAGE))):
            for entry, _ in page:
                yield entry

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        return await self._in_thread(lambda: self._read(entry.key, max_bytes))

    async def find(self, key: str) -> Entry | None:
        found = await self._in_thread(lambda: self._find(key))
        return found and found[0]

    async def aclose(self) -> None:
        self._repository.stop()
        await self._in_thread(self._repository.close)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Call in a thread, after the calls of cancelled tasks have returned."""

        def alone() -> T:
            with self._thread, self._repository.reading():
                return call()

        return await asyncio.to_thread(alone)

    def _files(self, after: str = "") -> Iterator[tuple[Entry, ObjectID]]:
        """Yield the entries of the selected files that follow a key, with the ids of their contents."""
        last = after
        folder = f"{self._options.path}/" if self._options.path else ""
        for key, child in self._walk(self._folder(), folder, after.encode()):
            # A shortened key may be the previous one, or precede it.
            if selected(key, self._options.include, self._options.exclude) and key.encode() > last.encode():
                yield self._entry(key, child), child.id
                last = key

    def _walk(self, tree: ObjectID, prefix: str, after: bytes) -> Iterator[tuple[str, _Child]]:
        """Yield the files below a folder that follow a key, with their keys, in the order of the keys' bytes.

        Git sorts a tree as if the name of each folder ended in `/`, which is the order of the bytes of complete paths.
        """
        for child in self._children(tree).values():
            key = prefix + child.name
            if is_too_long(key):
                yield shortened(key), _Child(child.name, child.id, is_folder=False, refused=TOO_LONG)
            elif child.is_folder:
                below = f"{key}/".encode()
                if below > after or after.startswith(below):
                    yield from self._walk(child.id, f"{key}/", after)
            elif key.encode() > after:
                yield key, child

    def _entry(self, key: str, child: _Child) -> Entry:
        content = None if child.refused else self._repository.present(child.id)
        refused = child.refused or (_LFS if content is not None and _is_pointer(content) else None)
        return Entry(key, child.id.decode(), None if content is None else len(content), refused)

    def _find(self, key: str) -> tuple[Entry, ObjectID] | None:
        """Return the entry of a key and the id of its content, or None if it is not a selected file."""
        folder = f"{self._options.path}/" if self._options.path else ""
        if not key.startswith(folder) or not selected(key, self._options.include, self._options.exclude):
            return None
        child = self._descend(self._folder(), key.removeprefix(folder))
        return None if child is None or child.is_folder else (self._entry(key, child), child.id)

    def _descend(self, tree: ObjectID, path: str) -> _Child | None:
        """Return the file or folder at a path below a tree."""
        child: _Child | None = _Child("", tree, is_folder=True)
        for name in path.split("/"):
            if child is None or not child.is_folder:
                return None
            children = self._children(child.id)
            child = children.get(name.encode()) or children.get(f"{name}/".encode())
        return child

    def _folder(self) -> ObjectID:
        """Return the id of the folder whose files are listed; the first call opens the repository."""
        if self._root is None:
            root = self._repository.open(self._options.ref)
            self._root = self._below(root) if self._options.path else root
        return self._root

    def _below(self, root: ObjectID) -> ObjectID:
        child = self._descend(root, self._options.path)
        if child is None or not child.is_folder:
            folders = [each.name for each in self._children(root).values() if each.is_folder]
            raise Misconfigured(
                f"The repository has no folder {self._options.path!r} at {self._options.ref!r}. At the top it has:"
                f" {', '.join(folders[:_NAMED]) or 'no folder'}.",
                component=COMPONENT,
            )
        return child.id

    def _read(self, key: str, max_bytes: int) -> Item:
        found = self._find(key)
        if found is None:
            raise NotFound("The file is not in the repository any more.")
        entry, content_id = found
        if entry.refused:
            raise Unreadable(entry.refused)
        content = self._repository.content(content_id, lambda: self._following(key))
        if len(content) > max_bytes:
            raise TooLarge(f"The file has {len(content):,} bytes; {max_bytes:,} are allowed.")
        commit = self._repository.commit.decode()
        metadata = {"commit": commit, "path": key} | self._links(commit, key)
        return Item(content, entry.version, filename=key.rpartition("/")[2], metadata=metadata)

    def _following(self, key: str) -> Iterator[ObjectID]:
        """Yield the ids of the contents that are probably read next."""
        return (content_id for entry, content_id in islice(self._files(key), _READ_AHEAD) if not entry.refused)

    def _links(self, commit: str, key: str) -> dict[str, str]:
        return {"url": GitAddress.link_of(self._link, commit, key)} if self._link else {}


def _children(tree: Tree) -> dict[bytes, _Child]:
    """Return the files and folders of a tree by their rank, so that the keys of their files are in order.

    Raises:
        Unavailable: a name contains `/` or is empty, which Git never writes.
    """
    children = dict[bytes, _Child]()
    for name, mode, content_id in tree.iteritems():
        if b"/" in name or not name:
            raise Unavailable("The repository has an invalid tree: run git fsck in it.", component=COMPONENT)
        if (child := _child(name, mode, content_id)) and (child.order not in children or not child.refused):
            children[child.order] = child
    return dict(sorted(children.items()))


def _child(name: bytes, mode: int, content_id: ObjectID) -> _Child | None:
    """Return a file or a folder, and None for a symbolic link or a submodule."""
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return None
    try:
        return _Child(name.decode(), content_id, stat.S_ISDIR(mode))
    except UnicodeDecodeError:
        # A folder becomes one refused entry, because none of its files has a valid key.
        return _Child(name.decode(errors="backslashreplace"), content_id, is_folder=False, refused=_NOT_UTF8)


def _is_pointer(content: bytes) -> bool:
    return len(content) < SMALL_BYTES and LFSPointer.from_bytes(content) is not None
