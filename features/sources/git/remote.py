"""A repository on a server, of which only the commit's trees and the needed contents are fetched."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dulwich.client import Urllib3HttpGitClient
from dulwich.errors import GitProtocolError
from dulwich.object_store import ObjectStoreGraphWalker
from dulwich.objects import ObjectID

from features.sources.errors import COMPONENT
from features.sources.git.address import Login
from features.sources.git.objects import GitReader, Stored, too_large_object
from features.sources.git.options import FOLDER_PREFIX
from features.sources.git.packs import TooLargePack
from features.sources.git.readers import SMALL_BYTES
from features.sources.git.repository import Refs, Repository, chosen, unknown
from features.sources.git.server import ServerPool
from features.sources.hosts import Hosts
from shared.domain.errors import Misconfigured, Unavailable
from shared.process.full_disk import FULL
from shared.process.temporary_folders import TemporaryFolder, has_room

if TYPE_CHECKING:
    from dulwich.client import DetermineWantsFunc  # defined for type checkers only

_MAX_PACK_BYTES = 2 << 30  # of a reply; twice as many are on disk for a moment
_MAX_REFS_BYTES = 64 << 20
_MAX_SECONDS = 1_800.0  # of a reply
_MOST_READS, _LEAST_READ_BYTES = 100_000, 16  # names of refs have more, and each read costs the processor
MOST_FILES = 256  # of a request for contents
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
        reader: reads objects.
    """

    def __init__(self, url: str, login: Login | None, hosts: Hosts, reader: GitReader) -> None:
        super().__init__(url, reader)
        self._receiving = _ReceiveLimits()
        self._client = Urllib3HttpGitClient(
            f"{url.rstrip('/')}/",
            username=None if login is None else login.username,
            password=None if login is None else login.password,
            pool_manager=_BoundedPool(url, hosts, self._receiving),
            thin_packs=False,
        )
        self._trees: _Reply | None = None
        self._contents = deque[_Reply](maxlen=2)

    @property
    def stores(self) -> list[Stored]:
        return [reply.stored for reply in (self._trees, *self._contents) if reply is not None]

    async def _refs(self, ref: str) -> Refs:
        existing: Refs = {}
        self._remove_files()  # of an attempt that failed

        def determine_wants(refs: Refs, depth: int | None = None) -> list[ObjectID]:  # noqa: ARG001
            nonlocal existing
            existing = refs
            return [chosen(refs, ref)]

        try:
            self._trees = await self._fetched(
                determine_wants,
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
        except _EndedError:
            # A server ends its reply if it has no such commit. An error of the network has a cause.
            if existing and chosen(existing, ref) not in existing.values():
                raise unknown(existing, ref) from None
            raise
        return existing

    async def fetch(self, object_id: str, following: Sequence[str]) -> list[Stored]:
        """Fetch a content, and the next ones if the last reply was useful."""
        count = self._contents[-1].next_count() if self._contents else 1
        wanted = list(dict.fromkeys([object_id, *following]))[:count]
        while len(self._contents) > 1:
            self._contents.popleft().delete()
        try:
            reply = await self._fetched_contents(wanted)
        except TooLargePack:
            reply = await self._fetched_contents([object_id])
        reply.aim = count
        self._contents.append(reply)
        return [reply.stored]

    def use(self, object_id: str) -> None:
        for reply in self._contents:
            if object_id in reply.wanted:
                reply.used.add(object_id)

    def stop(self) -> None:
        self._receiving.stopped.set()

    def _close_connections(self) -> None:
        self._client.close()

    def _remove_files(self) -> None:
        for reply in (self._trees, *self._contents):
            if reply is not None:
                reply.delete()
        self._trees = None
        self._contents.clear()

    async def _fetched_contents(self, wanted: list[str]) -> _Reply:
        ids = [ObjectID(each.encode()) for each in wanted]
        try:
            return await self._fetched(lambda refs, depth=None: ids, len(ids), wanted, ref_prefix=_PREFIXES[:1])  # noqa: ARG005
        except TooLargePack:
            if len(wanted) > 1:
                raise
            raise too_large_object() from None

    async def _fetched(
        self, determine_wants: DetermineWantsFunc, count: int, wanted: Sequence[str] = (), **options: Any
    ) -> _Reply:
        """Fetch objects into a new folder, and index them.

        Raises:
            TooLargePack: the objects have too many bytes.
        """
        folder = TemporaryFolder(FOLDER_PREFIX)
        try:
            size = await self.in_thread(lambda: self._receive(folder.path / "pack", determine_wants, options))
            pack = (folder.path / "pack").open("rb")
            try:
                index = await self.reader.write_index(pack, folder.path / "index")
            except BaseException:
                pack.close()
                raise
        except BaseException:
            folder.remove()
            raise
        return _Reply(folder, Stored("pack", pack, index), count, size, frozenset(wanted))

    def _receive(self, path: Path, determine_wants: DetermineWantsFunc, options: Mapping[str, Any]) -> int:
        """Write the server's reply into a file, and return its size."""
        self._receiving.start()
        with path.open("wb") as file:

            def write(data: bytes) -> int:
                self._receiving.write(len(data))
                if not has_room(path.parent, len(data)):
                    raise Unavailable(f"The repository at {self.label} cannot be read: {FULL}.", component=COMPONENT)
                return file.write(data)

            walker = ObjectStoreGraphWalker([], lambda _: [])
            try:
                self._client.fetch_pack("", determine_wants, walker, write, **options)
            except GitProtocolError as error:
                if error.__cause__ is None:
                    raise _EndedError(self.label) from error
                raise
            return file.tell()


class _EndedError(Unavailable):
    """The server ended its reply without a reason."""

    def __init__(self, label: str) -> None:
        message = f"The repository at {label} cannot be read: GitProtocolError."
        super().__init__(message, component=COMPONENT)


@dataclass(slots=True)
class _Reply:
    """Objects that the server sent.

    Args:
        folder: temporary folder of the objects.
        stored: the objects.
        count: number of requested objects.
        size_bytes: size of the pack.
        wanted: ids of the requested contents.
        aim: number of contents that the request should have had.
        used: requested contents that were read.
    """

    folder: TemporaryFolder
    stored: Stored
    count: int
    size_bytes: int
    wanted: frozenset[str]
    aim: int = 1
    used: set[str] = field(default_factory=set)

    def next_count(self) -> int:
        """Return the number of contents to request next: more while most of them are read, and one otherwise."""
        if self.size_bytes > _LARGE_PACK_BYTES:
            return max(1, self.count // 2)
        return min(2 * self.aim, MOST_FILES) if 2 * len(self.used) > self.count else 1

    def delete(self) -> None:
        self.stored.close()
        self.folder.remove()


class _ReceiveLimits:
    """The limits of a reply, which is received in the repository's thread."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._received = self._written = self._reads = 0
        self._until = 0.0

    def start(self) -> None:
        """Start a request; it may have several replies, of which the last one has objects."""
        self._received = self._written = self._reads = 0
        self._until = time.monotonic() + _MAX_SECONDS

    def receive(self, size: int) -> None:
        """Count bytes of a reply.

        Raises:
            Unavailable: the source was closed, or the server sends too slowly.
            Misconfigured: the server sends too much before the objects, or too small pieces.
        """
        self._received += size
        self._reads += size > 0
        if self._reads > _MOST_READS and self._received < self._reads * _LEAST_READ_BYTES:
            raise Misconfigured("The server sends the repository in pieces of a few bytes.", component=COMPONENT)
        if self.stopped.is_set() or time.monotonic() > self._until:
            raise Unavailable("The repository was not received in time.", component=COMPONENT)
        if not self._written and self._received > _MAX_REFS_BYTES:
            raise Misconfigured("The server names too many refs.", component=COMPONENT)

    def write(self, size: int) -> None:
        """Count bytes of objects.

        Raises:
            TooLargePack: there are too many.
        """
        self._written += size
        if self._written > _MAX_PACK_BYTES:
            raise TooLargePack
        self.receive(0)


class _BoundedPool(ServerPool):
    """Connections whose replies are counted.

    Args:
        url: address of the repository.
        hosts: hosts that may be reached.
        receiving: the limits of replies.
    """

    def __init__(self, url: str, hosts: Hosts, receiving: _ReceiveLimits) -> None:
        super().__init__(url, hosts)
        self._receiving = receiving

    def urlopen(self, method: str, url: str, redirect: bool = True, **options: Any) -> Any:  # type: ignore[override]
        """Send a request as `ServerPool`; the body of its reply is counted while it is read."""
        self._receiving.receive(0)
        reply = super().urlopen(method, url, redirect=redirect, **options)
        read = reply.read

        def counted(*arguments: Any, **named: Any) -> bytes:
            data: bytes = read(*arguments, **named)
            self._receiving.receive(len(data))
            return data

        reply.read = counted
        return reply
