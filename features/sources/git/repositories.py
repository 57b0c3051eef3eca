"""The files of a Git repository at one commit."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from posixpath import basename

from features.sources.errors import COMPONENT, not_found
from features.sources.git.address import GitAddress, Login
from features.sources.git.blobs import Blobs
from features.sources.git.local import LocalRepository
from features.sources.git.objects import GitReader, ListedFolder, TreeFile
from features.sources.git.options import GitOptions
from features.sources.git.remote import RemoteRepository
from features.sources.git.repository import ObjectRefused, Repository
from features.sources.git.stored_packs import Packs
from features.sources.hosts import Hosts
from features.sources.keys import problem_of
from features.sources.source import Entry, Item, Source
from shared.confined.reading import Reader
from shared.domain.errors import Misconfigured, Unreadable

_PAGE = 1_000  # entries of a page
_MOST_LISTED = 10_000  # entries that are expected if the caller names none
_ID = re.compile("[0-9a-f]{40}")


class GitSource(Source):
    """The files of a repository. Every call sees the commit that the first one found.

    The version of a file is the id of its content. Its mode is not a part of it, because a script that becomes
    executable has the same content. Symbolic links and submodules are left out: they have no content of their own.

    Expected contents are fetched together. If the caller never calls `expect`, the last 10,000 listed entries are
    expected.

    Args:
        uri: `git+https://host/path.git`, `git+http://…`, or `git+file:///folder`, without a user name or password.
        options: the ref, and the selected files.
        secret: `token`, or `username` and `password`.
        hosts: hosts that may be reached.
        reader: reads objects in a confined process.
        packs: fetched packs that other processes of this machine read, too; None: only this source reads them.

    Raises:
        InvalidInput: the address or the secret cannot be used.
    """

    is_snapshot = True
    is_resumable = True  # a fetch that has started continues

    def __init__(
        self,
        uri: str,
        options: GitOptions,
        secret: Mapping[str, str],
        hosts: Hosts,
        reader: Reader,
        *,
        packs: Packs | None = None,
    ) -> None:
        address = GitAddress.parse(uri)
        self._options = options
        self._link = options.link or address.link
        self._git = GitReader(reader, str(address.folder or address.url))
        self._repository: Repository = (
            LocalRepository(address.folder, self._git)
            if address.folder
            else RemoteRepository(address.url, Login.of(secret), hosts, self._git, packs=packs, progressed=self._report)
        )
        self._opening: asyncio.Task[ListedFolder] | None = None
        self._turn = asyncio.Lock()
        self._blobs = Blobs(self._git, self._repository)
        self._versions: dict[str, str] = {}  # of expected entries, by key
        self._listed = deque[Entry](maxlen=_MOST_LISTED)
        self._is_told = False  # whether the caller names the next entries

    def _report(self) -> None:
        with suppress(RuntimeError):  # the job that watched it has ended
            self.progressed()

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        last = after
        while True:
            async with self._turn:
                tree = await self._opened()
                rows = await self._git.rows(self._repository.stores, tree, after=last, most=_PAGE)
            entries = [_entry(row) for row in rows]
            if not self._is_told:
                self._listed.extend(entries)
                self._expect(self._listed)
            for entry in entries:
                yield entry
            if len(rows) < _PAGE:
                return
            last = rows[-1].key

    async def find(self, key: str) -> Entry | None:
        if problem_of(key):
            return None
        row = await self._found(key)
        return None if row is None else _entry(row)

    def expect(self, entries: Sequence[Entry]) -> None:
        self._is_told = True
        self._listed.clear()
        self._expect(entries)

    def _expect(self, entries: Iterable[Entry]) -> None:
        readable = (entry for entry in entries if entry.refused is None and _ID.fullmatch(entry.version))
        self._versions = {entry.key: entry.version for entry in readable}
        self._blobs.expect(self._versions.values())

    def expects(self, entry: Entry) -> bool:
        return self._blobs.expects(entry.version) if _ID.fullmatch(entry.version) else True

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        version = await self._version(entry)
        async with self._turn:
            await self._opened()
            content = await self._blobs.read(version, entry.key, max_bytes=max_bytes, is_current=True)
        metadata = {"commit": self._repository.commit, "path": entry.key}
        if self._link:
            metadata["url"] = GitAddress.link_of(self._link, self._repository.commit, entry.key)
        return Item(content, version, filename=basename(entry.key), metadata=metadata)

    async def content(self, entry: Entry, *, max_bytes: int) -> bytes:
        if self._repository.reads_by_id and _ID.fullmatch(entry.version):
            with suppress(ObjectRefused):  # the server may not have it any more
                async with self._turn:
                    return await self._blobs.read(entry.version, entry.key, max_bytes=max_bytes, is_current=False)
        return (await self.fetch(Entry(entry.key, ""), max_bytes=max_bytes)).content

    async def aclose(self) -> None:
        self._repository.stop()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        async with self._turn:
            await self._repository.aclose()

    async def _version(self, entry: Entry) -> str:
        """Return the id of the content of an entry at the commit."""
        if entry.version and self._versions.get(entry.key) == entry.version:
            return entry.version
        row = None if problem_of(entry.key) else await self._found(entry.key)
        if row is None:
            raise not_found(entry.key)
        if row.refused:
            raise Unreadable(row.refused)
        return row.id

    async def _found(self, key: str) -> TreeFile | None:
        async with self._turn:
            tree = await self._opened()
            return await self._git.row(self._repository.stores, tree, key)

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
