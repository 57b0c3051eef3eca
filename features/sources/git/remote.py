"""A repository on a server, of which only the commit's trees and the needed contents are fetched."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dulwich.client import Urllib3HttpGitClient
from dulwich.errors import GitProtocolError, HangupException
from dulwich.object_store import ObjectStoreGraphWalker
from dulwich.objects import ObjectID

from features.sources.errors import COMPONENT
from features.sources.git.address import Login
from features.sources.git.objects import GitReader, Stored, too_large_object
from features.sources.git.options import FOLDER_PREFIX
from features.sources.git.packs import TooLargePack
from features.sources.git.readers import SMALL_BYTES
from features.sources.git.repository import ObjectRefused, Refs, Repository, chosen, unknown
from features.sources.git.server import ServerPool
from features.sources.git.stored_packs import Packs, absent
from features.sources.hosts import Hosts
from shared.domain.errors import Misconfigured, Unavailable
from shared.process.full_disk import FULL
from shared.process.temporary_folders import TemporaryFolder, has_room

if TYPE_CHECKING:
    from dulwich.client import DetermineWantsFunc  # defined for type checkers only

_MAX_PACK_BYTES = 2 << 30  # of a reply
_MAX_BATCH_BYTES = 128 << 20  # of a reply with several contents: the server names no sizes before it sends them
_MAX_REFS_BYTES = 64 << 20
_MAX_SECONDS = 1_800.0  # of a reply
_MOST_READS, _LEAST_READ_BYTES = 100_000, 16  # names of refs have more, and each read costs the processor
MOST_FILES = 256  # of a request for contents
_MOST_SEARCHED = 2 * MOST_FILES  # among packs of other processes
_MOST_REFUSALS = 3  # of requests for several contents; then one is requested alone
_MOST_SENT = 20_000
_DIVISOR = 4  # after a reply that was too large, the next one has so many times fewer files
_PREFIXES = (b"HEAD", b"refs/heads/", b"refs/tags/")
_START_BYTES = 1_000  # of a reply, which may be an error that names refused objects
_REFUSAL, _ID = b"ERR ", re.compile(rb"\b[0-9a-f]{40}\b")
_PROGRESS_SECONDS = 1.0


class RemoteRepository(Repository):
    """A repository on a server that is reached by HTTP.

    The server is asked for the trees of one commit and for small files, which include all pointers of Git LFS. If
    another content is read, one request fetches it with up to 255 expected ones. Replies are stored where all processes
    of this machine find them; without such a folder, in a temporary one. A server that does not support partial clones,
    or refuses to send single contents, sends all files of the commit with one reply.

    Args:
        url: its address, without credentials.
        login: the credentials; None for a public repository.
        hosts: hosts that may be reached.
        reader: reads objects.
        packs: fetched packs that other processes read, too; None: only this object reads them.
        progressed: called while a reply arrives, about once per second.
    """

    reads_by_id = True

    def __init__(
        self,
        url: str,
        login: Login | None,
        hosts: Hosts,
        reader: GitReader,
        *,
        packs: Packs | None = None,
        progressed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(url, reader)
        self._receiving = _ReceiveLimits()
        self._client = Urllib3HttpGitClient(
            f"{url.rstrip('/')}/",
            username=None if login is None else login.username,
            password=None if login is None else login.password,
            pool_manager=_BoundedPool(url, hosts, self._receiving),
            thin_packs=False,
        )
        self._packs = packs
        self._own_folder: TemporaryFolder | None = None
        self._progressed = progressed
        self._trees: _Reply | None = None
        self._is_complete = False
        self._most_files = MOST_FILES
        self._sent = set[str]()  # ids of requested contents, which are not requested again with others

    @property
    def stores(self) -> list[Stored]:
        return [] if self._trees is None else [self._trees.stored]

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
                depth=1,
                filter_spec=b"blob:limit=%d" % SMALL_BYTES,
                ref_prefix=(*_PREFIXES, ref.encode()) if ref.startswith("refs/") else _PREFIXES,
            )
        except TooLargePack:
            raise self._incomplete(f"The server of {self.label} does not support partial clones") from None
        except ObjectRefused:
            if existing and chosen(existing, ref) not in existing.values():
                raise unknown(existing, ref) from None
            raise
        self._share(self._trees)
        return existing

    @asynccontextmanager
    async def holding(
        self, object_id: str, expected: Sequence[str], *, is_current: bool
    ) -> AsyncIterator[list[Stored]]:
        with ExitStack() as stack:
            yield [await self._stored(object_id, expected, stack, is_current=is_current)]

    async def _stored(self, object_id: str, expected: Sequence[str], stack: ExitStack, *, is_current: bool) -> Stored:
        """Return the store that has a content, which the stack closes; raises as `holding`."""
        if self._trees is not None and self._is_in_trees(object_id):
            return self._trees.stored
        packs = self._shared_packs()
        stored = packs.find(object_id)
        if stored is None:
            async with packs.fetching():
                stored = packs.find(object_id)  # another process may have fetched it
                if stored is None:
                    reply = await self._fetched_with(object_id, expected, is_current=is_current)
                    self._share(reply)
                    if reply is not self._trees:
                        stack.callback(reply.delete)
                    return reply.stored
        stack.callback(stored.close)
        return stored

    def has(self, object_id: str) -> bool:
        if self._is_in_trees(object_id):
            return True
        return self._packs is not None and not self._packs.lacking([object_id])

    def _is_in_trees(self, object_id: str) -> bool:
        return not self._absent([object_id])

    def _absent(self, object_ids: Iterable[str]) -> list[str]:
        return list(object_ids) if self._trees is None else absent(self._trees.stored.index, object_ids)

    async def _fetched_with(self, object_id: str, expected: Sequence[str], *, is_current: bool) -> _Reply:
        """Fetch a content and others, or all files of the commit.

        Raises:
            TooLarge: the content has more bytes than this machine unpacks.
            ObjectRefused: the server refuses to send the content, and it may not belong to the commit.
        """
        absent_ids = self._absent(each for each in expected if each not in self._sent)
        others = self._shared_packs().lacking(absent_ids[:_MOST_SEARCHED])
        refusals = 0
        while True:
            wanted = list(dict.fromkeys([object_id, *others]))[: self._most_files]
            try:
                reply = await self._fetched_contents(wanted)
            except TooLargePack:
                if len(wanted) == 1:
                    raise too_large_object() from None
                self._most_files = max(1, len(wanted) // _DIVISOR)
            except _RefusedError as error:
                if len(wanted) > 1:
                    refusals += 1
                    known = error.named & set(others)
                    others = [e for e in others if e not in known] if known and refusals < _MOST_REFUSALS else []
                elif is_current and self.commit and not self._is_complete:
                    return await self._fetch_complete()
                else:
                    raise
            else:
                if reply.size_bytes < _MAX_BATCH_BYTES // _DIVISOR:
                    self._most_files = min(2 * self._most_files, MOST_FILES)
                self._sent = {*wanted, *(self._sent if len(self._sent) < _MOST_SENT else ())}
                return reply

    async def _fetched_contents(self, wanted: Sequence[str]) -> _Reply:
        ids = [ObjectID(each.encode()) for each in wanted]
        most_bytes = _MAX_BATCH_BYTES if len(ids) > 1 else _MAX_PACK_BYTES
        return await self._fetched(lambda refs, depth=None: ids, most_bytes, ref_prefix=_PREFIXES[:1])  # noqa: ARG005

    async def _fetch_complete(self) -> _Reply:
        """Fetch all files of the commit, because the server refuses to send single ones."""
        ids = [ObjectID(self.commit.encode())]
        try:
            reply = await self._fetched(lambda refs, depth=None: ids, depth=1, ref_prefix=_PREFIXES)  # noqa: ARG005
        except TooLargePack:
            raise self._incomplete(f"The server of {self.label} refuses to send single files") from None
        if self._trees is not None:
            self._trees.delete()
        self._trees, self._is_complete = reply, True
        return reply

    def _incomplete(self, problem: str) -> Misconfigured:
        return Misconfigured(
            f"{problem}, and the files of the commit are too large for a complete clone: clone it into a folder, and"
            " use that folder as the source.",
            component=COMPONENT,
        )

    def _shared_packs(self) -> Packs:
        if self._packs is None:
            self._own_folder = TemporaryFolder(FOLDER_PREFIX)
            self._packs = Packs(self._own_folder.path, "own")
        return self._packs

    def _share(self, reply: _Reply) -> None:
        """Store a reply where other processes find it, and this one after it has closed the reply."""
        self._shared_packs().add(reply.folder.path / "pack", reply.folder.path / "index")

    def stop(self) -> None:
        self._receiving.stopped.set()

    def _close_connections(self) -> None:
        self._client.close()

    def _remove_files(self) -> None:
        if self._trees is not None:
            self._trees.delete()
            self._trees = None
        if self._own_folder is not None:
            self._own_folder.remove()
            self._own_folder = self._packs = None

    async def _fetched(
        self, determine_wants: DetermineWantsFunc, most_bytes: int | None = None, **options: Any
    ) -> _Reply:
        """Fetch objects into a new folder, and index them.

        Raises:
            TooLargePack: the objects have too many bytes.
            _RefusedError: the server refuses to send an object.
        """
        loop, folder = asyncio.get_running_loop(), TemporaryFolder(FOLDER_PREFIX)

        def receive() -> int:  # in the thread, after the call of a cancelled task has returned
            most = _MAX_PACK_BYTES if most_bytes is None else most_bytes
            self._receiving.start(most, lambda: loop.call_soon_threadsafe(self._progressed))
            return self._receive(folder.path / "pack", determine_wants, options)

        try:
            size = await self.in_thread(receive)
            pack = (folder.path / "pack").open("rb")
            try:
                index = await self.reader.write_index(pack, folder.path / "index")
            except BaseException:
                pack.close()
                raise
        except BaseException:
            folder.remove()
            raise
        return _Reply(folder, Stored("pack", pack, index), size)

    def _receive(self, path: Path, determine_wants: DetermineWantsFunc, options: Mapping[str, Any]) -> int:
        """Write the server's reply into a file, and return its size."""
        with path.open("wb") as file:

            def write(data: bytes) -> int:
                self._receiving.write(len(data))
                if self._packs is not None and not has_room(path.parent, len(data)):
                    self._packs.make_room()
                if not has_room(path.parent, len(data)):
                    raise Unavailable(f"The repository at {self.label} cannot be read: {FULL}.", component=COMPONENT)
                return file.write(data)

            walker = ObjectStoreGraphWalker([], lambda _: [])
            try:
                self._client.fetch_pack("", determine_wants, walker, write, **options)
            except GitProtocolError as error:
                # dulwich takes a refusal for the end of the connection. An error of the network has a cause.
                if isinstance(error, HangupException) and error.__cause__ is None and file.tell() == 0:
                    raise _RefusedError(self.label, self._receiving.named) from error
                raise
            return file.tell()


class _RefusedError(ObjectRefused):
    """The server ended its reply before the first object.

    Args:
        label: name of the repository.
        named: ids of objects that the reply names.
    """

    def __init__(self, label: str, named: frozenset[str]) -> None:
        message = f"The repository at {label} cannot be read: its server refuses to send the requested objects."
        super().__init__(message, component=COMPONENT)
        self.named = named


@dataclass(frozen=True, slots=True)
class _Reply:
    """Objects that the server sent.

    Args:
        folder: temporary folder in which they were stored.
        stored: the objects.
        size_bytes: size of the pack.
    """

    folder: TemporaryFolder
    stored: Stored
    size_bytes: int

    def delete(self) -> None:
        """Close the files, and delete them unless they were moved."""
        self.stored.close()
        self.folder.remove()


class _ReceiveLimits:
    """The limits of a reply, which is received in the repository's thread."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._received = self._written = self._reads = 0
        self._most_bytes = _MAX_PACK_BYTES
        self._until = self._progressed_at = 0.0
        self._progressed: Callable[[], object] = lambda: None
        self._start = b""

    def start(self, most_bytes: int, progressed: Callable[[], object]) -> None:
        """Start a request; it may have several replies, of which the last one has objects."""
        self._received = self._written = self._reads = 0
        self._most_bytes, self._progressed = most_bytes, progressed
        self._until = time.monotonic() + _MAX_SECONDS

    def start_reply(self) -> None:
        """Start a reply of a request."""
        self._start = b""

    @property
    def named(self) -> frozenset[str]:
        """The ids that the last reply names if it is an error."""
        _, is_error, text = self._start.partition(_REFUSAL)
        return frozenset(each.decode() for each in _ID.findall(text)) if is_error else frozenset()

    def receive(self, data: bytes) -> None:
        """Count bytes of a reply.

        Raises:
            Unavailable: the source was closed, or the server sends too slowly.
            Misconfigured: the server sends too much before the objects, or too small pieces.
        """
        self._received += len(data)
        self._reads += bool(data)
        self._start += data[: _START_BYTES - len(self._start)]
        if self._reads > _MOST_READS and self._received < self._reads * _LEAST_READ_BYTES:
            raise Misconfigured("The server sends the repository in pieces of a few bytes.", component=COMPONENT)
        now = time.monotonic()
        if self.stopped.is_set() or now > self._until:
            raise Unavailable("The repository was not received in time.", component=COMPONENT)
        if not self._written and self._received > _MAX_REFS_BYTES:
            raise Misconfigured("The server names too many refs.", component=COMPONENT)
        if data and now - self._progressed_at > _PROGRESS_SECONDS:
            self._progressed_at = now
            self._progressed()

    def write(self, size: int) -> None:
        """Count bytes of objects.

        Raises:
            TooLargePack: there are too many.
        """
        self._written += size
        if self._written > self._most_bytes:
            raise TooLargePack
        self.receive(b"")


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
        self._receiving.receive(b"")
        self._receiving.start_reply()
        reply = super().urlopen(method, url, redirect=redirect, **options)
        read = reply.read

        def counted(*arguments: Any, **named: Any) -> bytes:
            data: bytes = read(*arguments, **named)
            self._receiving.receive(data)
            return data

        reply.read = counted
        return reply
