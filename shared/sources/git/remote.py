"""A repository on a server, of which only the commit's trees and the needed contents are fetched."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from dulwich.client import Urllib3HttpGitClient
from dulwich.errors import GitProtocolError
from dulwich.object_store import DiskObjectStore, ObjectStoreGraphWalker
from dulwich.objects import ObjectID, Tree

from shared.domain.errors import Misconfigured, TooLarge, Unavailable
from shared.process.temporary_folders import TemporaryFolder
from shared.sources.files import COMPONENT
from shared.sources.git.address import Login
from shared.sources.git.options import FOLDER_PREFIX
from shared.sources.git.packs import TooLargePack, require_bounded
from shared.sources.git.repository import SMALL_BYTES, Refs, Repository, chosen, commit_of, unknown
from shared.sources.git.server import ServerPool
from shared.sources.hosts import Hosts

if TYPE_CHECKING:
    from dulwich.client import DetermineWantsFunc  # defined for type checkers only

_MAX_PACK_BYTES = 2 << 30  # of a reply; twice as many are on disk for a moment
_MAX_OBJECT_BYTES = 512 << 20  # dulwich unpacks an object in memory
_MAX_SECONDS = 1_800.0  # of a reply
_MOST_FILES = 256  # of a request for contents
_LARGE_PACK_BYTES = 16 << 20  # after a larger reply, the next one gets fewer files
_PREFIXES = (b"HEAD", b"refs/heads/", b"refs/tags/")


class RemoteRepository(Repository):
    """A repository on a server that is reached by HTTP.

    The server is asked for the trees of one commit and for small files, which include all pointers of Git LFS. Contents
    are fetched when they are read. While most files are read, a request fetches the next ones, too, up to 256; after
    few changes, it fetches single ones. The last two replies are stored in a temporary folder. A server that does not
    support partial clones sends all files of the commit with the first reply.

    Args:
        url: its address, without credentials.
        login: the credentials; None for a public repository.
        hosts: hosts that may be reached.
    """

    def __init__(self, url: str, login: Login | None, hosts: Hosts) -> None:
        super().__init__(url)
        self._client = Urllib3HttpGitClient(
            f"{url.rstrip('/')}/",
            username=None if login is None else login.username,
            password=None if login is None else login.password,
            pool_manager=ServerPool(url, hosts),
            thin_packs=False,
        )
        self._trees: _Reply | None = None
        self._contents = deque[_Reply](maxlen=2)
        self._stopped = threading.Event()

    def open(self, ref: str) -> ObjectID:
        existing: Refs = {}

        def wants(refs: Refs, depth: int | None = None) -> list[ObjectID]:  # noqa: ARG001
            nonlocal existing
            existing = refs
            return [chosen(refs, ref)]

        try:
            self._trees = self._fetch(
                wants,
                count=1,
                depth=1,
                filter_spec=b"blob:limit=%d" % SMALL_BYTES,
                ref_prefix=(*_PREFIXES, ref.encode()) if ref.startswith("refs/") else _PREFIXES,
            )
        except TooLargePack:
            raise Misconfigured(
                f"The server of {self.label} does not support partial clones, and the files of {ref!r} are too large"
                " for a complete one: clone it into a folder, and use that folder as the source.",
                component=COMPONENT,
            ) from None
        except GitProtocolError as error:
            # A server ends its reply if it has no such commit. An error of the network has a cause.
            if error.__cause__ is None and existing and chosen(existing, ref) not in existing.values():
                raise unknown(existing, ref) from None
            raise
        commit = commit_of(self._trees.store, existing, ref)
        self.commit = commit.id
        return ObjectID(commit.tree)

    def tree(self, tree_id: ObjectID) -> Tree:
        assert self._trees is not None
        tree = self._trees.store[tree_id]
        assert isinstance(tree, Tree)
        return tree

    def present(self, content_id: ObjectID) -> bytes | None:
        reply = self._reply_with(content_id)
        return None if reply is None else reply.store.get_raw(content_id)[1]

    def content(self, content_id: ObjectID, following: Callable[[], Iterable[ObjectID]]) -> bytes:
        reply = self._reply_with(content_id) or self._ask(content_id, following)
        reply.used.add(content_id)
        return reply.store.get_raw(content_id)[1]

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._client.close()
        for reply in (self._trees, *self._contents):
            if reply is not None:
                reply.delete()
        self._trees = None
        self._contents.clear()

    def _reply_with(self, content_id: ObjectID) -> _Reply | None:
        replies = (self._trees, *self._contents)
        return next((reply for reply in replies if reply is not None and content_id in reply.store), None)

    def _ask(self, content_id: ObjectID, following: Callable[[], Iterable[ObjectID]]) -> _Reply:
        """Fetch a content, and the next ones if the last reply was useful."""
        count = self._contents[-1].next_count() if self._contents else 1
        missing = (each for each in following() if each != content_id and self._reply_with(each) is None)
        wanted = [content_id, *islice(dict.fromkeys(missing), count - 1)] if count > 1 else [content_id]
        while len(self._contents) > 1:
            self._contents.popleft().delete()
        try:
            reply = self._fetch_contents(wanted)
        except TooLargePack:
            reply = self._fetch_contents([content_id])
        self._contents.append(reply)
        return reply

    def _fetch_contents(self, wanted: list[ObjectID]) -> _Reply:
        try:
            return self._fetch(lambda refs, depth=None: list(wanted), len(wanted), ref_prefix=_PREFIXES[:1])  # noqa: ARG005
        except TooLargePack:
            if len(wanted) > 1:
                raise
            raise TooLarge(f"The file has more than {_MAX_OBJECT_BYTES >> 20} MB.") from None

    def _fetch(self, wants: DetermineWantsFunc, count: int, **options: Any) -> _Reply:
        """Fetch objects into a new folder.

        Raises:
            TooLargePack: the objects have too many bytes.
        """
        folder = TemporaryFolder(FOLDER_PREFIX)
        try:
            store = DiskObjectStore.init(folder.path / "objects")
            file, index, _ = store.add_pack()
            with file:
                writer = _Writer(file, self._stopped)
                walker = ObjectStoreGraphWalker([], lambda _: [])
                self._client.fetch_pack("", wants, walker, writer.write, **options)
                file.flush()
                require_bounded(file, max_bytes=_MAX_OBJECT_BYTES, hash_bytes=store.object_format.oid_length)
                index()
        except BaseException:
            folder.remove()
            raise
        return _Reply(folder, store, count, writer.written)


@dataclass(slots=True)
class _Reply:
    """Objects that the server sent.

    Args:
        folder: temporary folder of the objects.
        store: the objects.
        count: number of requested objects.
        size_bytes: size of the pack.
        used: requested contents that were read.
    """

    folder: TemporaryFolder
    store: DiskObjectStore
    count: int
    size_bytes: int
    used: set[ObjectID] = field(default_factory=set)

    def next_count(self) -> int:
        """Return the number of contents to request next: more while half of them are read, and one otherwise."""
        if self.size_bytes > _LARGE_PACK_BYTES:
            return max(1, self.count // 2)
        return min(2 * self.count, _MOST_FILES) if 2 * len(self.used) >= self.count else 1

    def delete(self) -> None:
        self.store.close()
        self.folder.remove()


class _Writer:
    """Writes a pack, within limits.

    Args:
        file: the file of the pack.
        stopped: set when the source is closed.
    """

    def __init__(self, file: BinaryIO, stopped: threading.Event) -> None:
        self.written = 0
        self._file = file
        self._stopped = stopped
        self._until = time.monotonic() + _MAX_SECONDS

    def write(self, data: bytes) -> int:
        """Write a piece.

        Raises:
            TooLargePack: the pack has too many bytes.
            Unavailable: the source was closed, or the server sends too slowly.
        """
        self.written += len(data)
        if self.written > _MAX_PACK_BYTES:
            raise TooLargePack
        if self._stopped.is_set() or time.monotonic() > self._until:
            raise Unavailable("The repository was not received in time.", component=COMPONENT)
        return self._file.write(data)
