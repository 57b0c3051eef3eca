"""The files of a Git repository at one commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from posixpath import basename
from typing import TypeVar

from dulwich.lfs import LFSPointer
from dulwich.objects import ObjectID

from shared.domain.errors import Misconfigured, Unreadable
from shared.sources.files import COMPONENT, not_found, too_large
from shared.sources.git.address import GitAddress, Login
from shared.sources.git.local import LocalRepository
from shared.sources.git.options import GitOptions
from shared.sources.git.remote import RemoteRepository
from shared.sources.git.repository import SMALL_BYTES, Repository
from shared.sources.git.tree import Node, TreeWalk
from shared.sources.hosts import Hosts
from shared.sources.source import Entry, Item, Source

_PAGE = 1_000  # entries that one call in a thread lists
_READ_AHEAD = 256  # following files that a request may include
_NAMED = 10  # folders that an error names
_LFS = "Git LFS stores its content, and the repository has only a pointer: add the file itself to Git, or exclude it."

T = TypeVar("T")


class GitSource(Source):
    """The files of a repository. Every call sees the commit that the first one found.

    The version of a file is the id of its content. Its mode is not a part of it, because a script that becomes
    executable has the same content. Symbolic links and submodules are left out: they have no content of their own.

    Args:
        uri: `git+https://host/path.git`, `git+http://…`, or `git+file:///folder`, without a user name or password.
        options: the ref, and the selected files.
        secret: `token`, or `username` and `password`.
        hosts: hosts that may be reached.

    Raises:
        InvalidInput: the address or the secret cannot be used.
    """

    is_snapshot = True

    def __init__(
        self,
        uri: str,
        options: GitOptions,
        secret: Mapping[str, str],
        hosts: Hosts,
    ) -> None:
        address = GitAddress.parse(uri)
        self._options = options
        self._link = options.link or address.link
        self._repository: Repository = (
            LocalRepository(address.folder)
            if address.folder
            else RemoteRepository(address.url, Login.of(secret), hosts)
        )
        self._opened: TreeWalk | None = None
        self._thread = threading.Lock()  # dulwich reads and writes its files without locks

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        files = self._files(after)
        try:
            while page := await self._in_thread(lambda: [self._entry(node) for node in islice(files, _PAGE)]):
                for entry in page:
                    yield entry
        finally:
            with suppress(ValueError):  # the thread of a cancelled listing still uses it
                files.close()

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        return await self._in_thread(lambda: self._read(entry.key, max_bytes))

    async def find(self, key: str) -> Entry | None:
        def found() -> Entry | None:
            node = self._find(key)
            return None if node is None else self._entry(node)

        return await self._in_thread(found)

    async def aclose(self) -> None:
        self._repository.stop()
        await self._in_thread(self._repository.close)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Call in a thread, after the calls of cancelled tasks have returned."""

        def alone() -> T:
            with self._thread, self._repository.reading():
                return call()

        return await asyncio.to_thread(alone)

    def _files(self, after: str = "") -> Generator[Node]:
        for node in self._tree().files(after):
            if self._selects(node.key):
                yield node

    def _selects(self, key: str) -> bool:
        return self._options.selects(key.removeprefix(self._options.path).removeprefix("/"))

    def _find(self, key: str) -> Node | None:
        node = self._tree().find(key)
        return None if node is None or node.is_folder or not self._selects(key) else node

    def _entry(self, node: Node) -> Entry:
        content = None if node.refused else self._repository.present(node.id)
        refused = node.refused or (_LFS if content is not None and _is_pointer(content) else None)
        return Entry(node.key, node.id.decode(), None if content is None else len(content), refused)

    def _read(self, key: str, max_bytes: int) -> Item:
        node = self._find(key)
        if node is None:
            raise not_found(key)
        content = self._repository.content(node.id, lambda: self._following(key))
        if len(content) > max_bytes:
            raise too_large(len(content), max_bytes)
        if _is_pointer(content):
            raise Unreadable(_LFS)
        commit = self._repository.commit.decode()
        metadata = {"commit": commit, "path": key}
        if self._link:
            metadata["url"] = GitAddress.link_of(self._link, commit, key)
        return Item(content, node.id.decode(), filename=basename(key), metadata=metadata)

    def _following(self, key: str) -> Iterator[ObjectID]:
        """Yield the ids of the contents that are probably read next."""
        return (node.id for node in islice(self._files(key), _READ_AHEAD) if not node.refused)

    def _tree(self) -> TreeWalk:
        """Return the folder whose files are listed; the first call opens the repository."""
        if self._opened is None:
            root = self._repository.open(self._options.ref)
            self._opened = self._walk_of_path(root) if self._options.path else TreeWalk(self._repository.tree, root)
        return self._opened

    def _walk_of_path(self, root: ObjectID) -> TreeWalk:
        top = TreeWalk(self._repository.tree, root)
        folder = top.find(self._options.path)
        if folder is None or not folder.is_folder:
            raise Misconfigured(
                f"The repository has no folder {self._options.path!r} at {self._options.ref!r}. At the top it has:"
                f" {', '.join(top.folders()[:_NAMED]) or 'no folder'}.",
                component=COMPONENT,
            )
        return TreeWalk(self._repository.tree, folder.id, self._options.path)


def _is_pointer(content: bytes) -> bool:
    return len(content) < SMALL_BYTES and LFSPointer.from_bytes(content) is not None
