"""The files of a Git repository at one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from itertools import dropwhile, islice
from posixpath import basename

from features.sources.errors import COMPONENT, not_found, too_large
from features.sources.git.address import GitAddress, Login
from features.sources.git.local import LocalRepository
from features.sources.git.objects import GitReader, ListedFolder, TreeFile, too_large_object
from features.sources.git.options import GitOptions
from features.sources.git.remote import MOST_FILES, RemoteRepository
from features.sources.git.repository import Repository
from features.sources.hosts import Hosts
from features.sources.keys import problem_of
from features.sources.source import Entry, Item, Source
from shared.confined.reading import Reader
from shared.domain.errors import Misconfigured, Unavailable, Unreadable

_MOST_CONTENTS = 500  # that one request may read
_PAGE = 1_000  # entries of a page
_MOST_AHEAD = 1_000  # files whose rows are read at once while files are read in order
_AHEAD_FACTOR = 4


class GitSource(Source):
    """The files of a repository. Every call sees the commit that the first one found.

    The version of a file is the id of its content. Its mode is not a part of it, because a script that becomes
    executable has the same content. Symbolic links and submodules are left out: they have no content of their own.

    Args:
        uri: `git+https://host/path.git`, `git+http://…`, or `git+file:///folder`, without a user name or password.
        options: the ref, and the selected files.
        secret: `token`, or `username` and `password`.
        hosts: hosts that may be reached.
        reader: reads objects in a confined process.

    Raises:
        InvalidInput: the address or the secret cannot be used.
    """

    is_snapshot = True
    is_resumable = True  # a fetch that has started continues

    def __init__(self, uri: str, options: GitOptions, secret: Mapping[str, str], hosts: Hosts, reader: Reader) -> None:
        address = GitAddress.parse(uri)
        self._options = options
        self._link = options.link or address.link
        self._git = GitReader(reader, str(address.folder or address.url))
        self._repository: Repository = (
            LocalRepository(address.folder, self._git)
            if address.folder
            else RemoteRepository(address.url, Login.of(secret), hosts, self._git)
        )
        self._opening: asyncio.Task[ListedFolder] | None = None
        self._turn = asyncio.Lock()
        self._ahead: dict[str, TreeFile] = {}
        self._ahead_count = 1
        self._read_ahead = 0
        self._contents: dict[str, bytes] = {}

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        last = after
        while True:
            async with self._turn:
                tree = await self._opened()
                rows = await self._git.rows(self._repository.stores, tree, after=last, most=_PAGE)
            for row in rows:
                yield _entry(row)
            if len(rows) < _PAGE:
                return
            last = rows[-1].key

    async def find(self, key: str) -> Entry | None:
        if problem_of(key):
            return None
        async with self._turn:
            tree = await self._opened()
            row = await self._git.row(self._repository.stores, tree, key)
        return None if row is None else _entry(row)

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        async with self._turn:
            row = await self._row(entry.key)
            content = await self._content(row, max_bytes)
        metadata = {"commit": self._repository.commit, "path": row.key}
        if self._link:
            metadata["url"] = GitAddress.link_of(self._link, self._repository.commit, row.key)
        return Item(content, row.id, filename=basename(row.key), metadata=metadata)

    async def aclose(self) -> None:
        self._repository.stop()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        async with self._turn:
            await self._repository.aclose()

    async def _row(self, key: str) -> TreeFile:
        """Return the row of a key. While files are read in order, the rows of the next ones are read with it."""
        if problem_of(key):
            raise not_found(key)
        if key not in self._ahead:
            used = 2 * self._read_ahead >= len(self._ahead)
            self._ahead_count = min(self._ahead_count * _AHEAD_FACTOR, _MOST_AHEAD) if used and self._ahead else 1
            tree = await self._opened()
            rows = await self._git.rows(self._repository.stores, tree, start=key, most=self._ahead_count)
            self._ahead, self._read_ahead = {row.key: row for row in rows}, 0
        self._read_ahead += 1
        row = self._ahead.get(key)
        if row is None:
            raise not_found(key)
        if row.refused:
            raise Unreadable(row.refused)
        return row

    async def _content(self, row: TreeFile, max_bytes: int) -> bytes:
        """Return the content of a file. Small contents of the next ones are read with it."""
        if row.id not in self._contents:
            wanted = [row.id, *(each.id for each in self._following(row))]
            found = await self._git.contents(self._repository.stores, wanted[:_MOST_CONTENTS], max_bytes=max_bytes)
            if not found.has(row.id):
                missing = [each.id for each in self._following(row) if each.size is None and not found.has(each.id)]
                stores = await self._repository.fetch(row.id, missing)
                found = await self._git.contents(stores, [row.id, *missing[: MOST_FILES - 1]], max_bytes=max_bytes)
            if row.id in found.too_large:
                size = found.too_large[row.id]
                raise too_large(size, max_bytes) if size else too_large_object()
            if row.id not in found.by_id:
                raise Unavailable(f"The server did not send the content of {row.key}.", component=COMPONENT)
            self._contents = found.by_id
        self._repository.use(row.id)
        content = self._contents[row.id]
        if len(content) > max_bytes:  # it was read ahead within another limit
            raise too_large(len(content), max_bytes)
        return content

    def _following(self, row: TreeFile) -> Iterator[TreeFile]:
        """Yield the files that are probably read next."""
        rows = iter(self._ahead.values())
        after = dropwhile(lambda each: each.key != row.key, rows)
        return (each for each in islice(after, 1, None) if each.refused is None)

    async def _opened(self) -> ListedFolder:
        """Return the folder whose files are listed; the first call opens the repository."""
        if self._opening is None or _has_failed(self._opening):
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)  # a cancelled listing leaves it to the next one

    async def _open(self) -> ListedFolder:
        root = await self._repository.open(self._options.ref)
        found = await self._git.folder(self._repository.stores, root, self._options.path)
        if isinstance(found, str):
            return ListedFolder(found, self._options.path, self._options)
        raise Misconfigured(
            f"The repository has no folder {self._options.path!r} at {self._options.ref!r}. At the top it has:"
            f" {', '.join(found) or 'no folder'}.",
            component=COMPONENT,
        )


def _has_failed(task: asyncio.Task[ListedFolder]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _entry(row: TreeFile) -> Entry:
    return Entry(row.key, row.id, row.size, row.refused)
