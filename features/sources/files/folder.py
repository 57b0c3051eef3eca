"""A folder as a source: each file is a document, whose key is its path below the folder."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from posixpath import basename
from typing import NamedTuple, TypeVar

from features.sources.errors import not_found, too_large, unavailable
from features.sources.files.file_source import FileSource, OpenFile
from features.sources.files.permissions import READ, TRAVERSE, Names, Readers, both, who_may
from features.sources.keys import problem_of, substitute_key
from features.sources.options import FileOptions
from features.sources.source import Entry, Item
from shared.domain.access.persons import EVERYONE
from shared.domain.errors import Unreadable
from shared.process.threads import OwnThreads

T = TypeVar("T")

_BATCH = 1_000  # entries per call of a thread
_NAMES = 50_000  # of one folder in memory, about 15 MB; a larger folder is read again for each further 50,000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_ABOVE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW  # O_PATH needs no right to list the folder
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a pipe would wait for its writer
_GONE = (errno.ENOENT, errno.ENOTDIR)
_READS_AT_ONCE = 2
_READS = 3  # of a file that changes while it is read
_PIECE = 1 << 20
_EVERYONE: Readers = frozenset({EVERYONE})
_TICK_NS = 10_000_000  # longest step of the usual file systems' clocks
_COARSE_TICK_NS = 2_000_000_000  # of FAT, and of file systems that store whole seconds
_COARSE_NS = 1_000_000_000
_HANGS_SECONDS = 600.0  # a call that takes longer will probably never return

_calls: dict[object, tuple[Path, float]] = {}  # running ones, with their folders and the times of their starts


class _Node(NamedTuple):
    """A name in a folder; the key of a folder ends with a slash, by which it is ordered."""

    key: str
    name: str
    refused: str | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it has entries below it."""
        return self.refused is None and self.key.endswith("/")

    def follows(self, after: str) -> bool:
        """Return whether its entries, or some of them, have keys that follow `after`."""
        return self.key > after or (self.is_folder and after.startswith(self.key))


class FolderSource(FileSource):
    """The files below a folder.

    A link to a file below the folder is read as that file. Links to folders are not followed, and no file is opened
    through a link that leads out of the folder: each segment of a path is opened without following links.

    Args:
        folder: its absolute path, without links.
        options: selection of its files, and whether their permissions name readers.
    """

    def __init__(self, folder: Path, options: FileOptions) -> None:
        self._folder = folder
        self._options = options
        self._names = Names() if options.entries_name_readers else None
        self._threads = OwnThreads("folder", _READS_AT_ONCE)

    async def aclose(self) -> None:
        self._threads.close()

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        walk = self._walk(after)
        try:
            while batch := await self._in_thread(lambda: list(islice(walk, _BATCH))):
                for entry in batch:
                    yield entry
        finally:
            with suppress(ValueError):  # a cancelled listing's thread still uses it, and closes it by dropping it
                walk.close()

    async def find(self, key: str) -> Entry | None:
        if problem_of(key) or not _is_path(key) or not self._options.selects(key):
            return None
        return await self._in_thread(lambda: self._find(key))

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        content, version, readers = await self._in_thread(lambda: self._read(entry.key, max_bytes))
        return Item(content, version, filename=basename(entry.key), readable_by=readers)

    @asynccontextmanager
    async def opened(self, entry: Entry) -> AsyncIterator[OpenFile]:
        descriptor = await self._in_thread(lambda: self._open_file(entry.key))
        with os.fdopen(descriptor, "rb") as file:
            before = _version(os.fstat(descriptor))
            yield OpenFile(file, before)
            if _version(os.fstat(descriptor)) != before:
                raise unavailable(f"{entry.key} changed while it was read.")

    def _walk(self, after: str) -> Generator[Entry, None, None]:
        with self._opened_folder() as root:
            yield from self._below(root, "", after, self._among(_EVERYONE, root))
            if not os.path.samestat(os.fstat(root), self._folder.stat()):
                raise unavailable(f"The folder {self._folder} was replaced while it was listed.")

    def _below(self, folder: int, prefix: str, after: str, readers: Readers) -> Iterator[Entry]:
        """Yield the entries of a folder and its subfolders.

        Args:
            folder: descriptor of the folder.
            prefix: its key, which is empty or ends with a slash.
            after: key that the entries follow.
            readers: users of the folder; not used unless permissions name readers.
        """
        for node in self._nodes(folder, prefix, after):
            if not node.is_folder:
                if entry := self._entry(folder, node, readers):
                    yield entry
                continue
            with _opened(node.name, _FOLDER, folder) as below:
                if below is not None:
                    yield from self._below(below, node.key, after, self._among(readers, below))

    def _nodes(self, folder: int, prefix: str, after: str) -> Iterator[_Node]:
        """Yield the selected names of a folder, in the order of their keys, without those up to `after`."""
        nodes = self._first(folder, prefix, lambda node: node.follows(after))
        while nodes:
            yield from nodes
            last = nodes[-1] if len(nodes) == _NAMES else None
            nodes = self._first(folder, prefix, last.__lt__) if last else []

    def _first(self, folder: int, prefix: str, follows: Callable[[_Node], bool]) -> list[_Node]:
        """Return the first names of a folder that follow, at most `_NAMES`."""
        nodes: list[_Node] = []
        with os.scandir(folder) as found:
            for item in found:
                node = self._node(prefix, item.name, _kind_of(item))
                if node is not None and follows(node):
                    nodes.append(node)
                if len(nodes) == 2 * _NAMES:
                    nodes = sorted(nodes)[:_NAMES]
        return sorted(nodes)[:_NAMES]

    def _node(self, prefix: str, name: str, kind: int) -> _Node | None:
        """Return the node of a name; None if it is not selected, or neither a file nor a folder.

        Args:
            prefix: key of its folder.
            name: the name.
            kind: file type bits of its mode.
        """
        key = prefix + name
        if kind == stat.S_IFDIR:
            return None if self._options.skips(key + "/") else _named(prefix, name, "/")
        if not self._options.selects(key):
            return None
        if kind == stat.S_IFLNK:
            return self._link(prefix, name)
        return _named(prefix, name) if kind == stat.S_IFREG else None

    def _link(self, prefix: str, name: str) -> _Node | None:
        """Return the node of a link; None for a link to a folder below this one, whose files are listed there."""
        node = _named(prefix, name)
        path = Path(os.path.realpath(self._folder / prefix / name))
        if node.refused or (path.is_file() and self._contains(path)):
            return node
        if path.is_dir() and self._contains(path):
            return None
        problem = "does not exist" if self._contains(path) else "is outside of the folder"
        return node._replace(refused=f"It is a link, whose target {problem}.")

    def _contains(self, path: Path) -> bool:
        return path.is_relative_to(self._folder)

    def _entry(self, folder: int, node: _Node, readers: Readers) -> Entry | None:
        """Return the entry of a name; None if it was removed after its folder was read."""
        if node.refused:
            return Entry(node.key, "", refused=node.refused)
        try:
            found = os.stat(node.name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                found = Path(os.path.realpath(self._folder / node.key)).stat()
                named = self._readers_of(node.key)
            else:
                named = self._named(found, f"/proc/self/fd/{folder}/{node.name}", readers)
        except FileNotFoundError:
            return None
        return Entry(node.key, _version(found), found.st_size, readable_by=named)

    def _named(self, found: os.stat_result, file: str | int, readers: Readers) -> tuple[str, ...] | None:
        """Return who may read a file in a folder that these readers may use; None unless permissions name readers."""
        if self._names is None:
            return None
        return tuple(sorted(both(readers, who_may(READ, found, file, self._names))))

    def _among(self, readers: Readers, folder: int) -> Readers:
        """Return who among these readers may use an open folder, too."""
        if self._names is None:
            return readers
        return both(readers, who_may(TRAVERSE, os.fstat(folder), folder, self._names))

    def _readers_of_folder(self, key: str, root: int) -> Readers:
        """Return who may use the source's folder, and each one below it that leads to a file."""
        readers, above = self._among(_EVERYONE, root), key.split("/")[:-1]
        for depth in range(1, len(above) + 1):
            with _opened("/".join(above[:depth]), _FOLDER, root) as folder:
                if folder is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
                readers = self._among(readers, folder)
        return readers

    def _find(self, key: str) -> Entry | None:
        above, name = os.path.split(key)
        with self._opened_folder() as root, _opened(above, _FOLDER, root) as folder:
            if folder is None:
                return None
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return None
            node = self._node(f"{above}/" if above else "", name, stat.S_IFMT(found.st_mode))
            if node is None or node.key != key:
                return None
            return self._entry(folder, node, self._readers_of_folder(key, root))

    def _read(self, key: str, max_bytes: int) -> tuple[bytes, str, tuple[str, ...] | None]:
        """Return the bytes of a file, their version and readers; a file that changes meanwhile is read again."""
        for _ in range(_READS):
            with os.fdopen(self._open_file(key), "rb") as file:
                before = os.fstat(file.fileno())
                if before.st_size > max_bytes:
                    raise too_large(before.st_size, max_bytes)
                content = file.read(max_bytes + 1)
                if _version(os.fstat(file.fileno())) == _version(before) and len(content) == before.st_size:
                    return content, _settled_version(before), self._readers_of(key, file.fileno())
        raise unavailable(f"{key} changed whenever it was read: the next sync reads it again.")

    def _readers_of(self, key: str, file: int | None = None) -> tuple[str, ...] | None:
        """Return who may read a file and all folders that lead to it; None unless permissions name readers.

        Args:
            key: key of the file or link.
            file: descriptor of the file, if it is open.
        """
        if self._names is None:
            return None
        path = Path(os.path.realpath(self._folder / key))
        with self._opened_folder() as root:
            readers = self._readers_of_folder(key, root)
            if self._contains(path):
                readers = both(readers, self._readers_of_folder(path.relative_to(self._folder).as_posix(), root))
        found = path.stat() if file is None else os.fstat(file)
        return self._named(found, str(path) if file is None else file, readers)

    def _open_file(self, key: str) -> int:
        """Return a descriptor of a file.

        Raises:
            NotFound: it does not exist any more, or is not a file.
            Unreadable: its permissions forbid it.
        """
        if not _is_path(key):
            raise not_found(key)
        with self._opened_folder() as root:
            try:
                return _open_regular(key, root)
            except PermissionError:
                raise Unreadable("The permissions of the file forbid reading it.") from None
            except OSError as error:
                if error.errno in _GONE:
                    raise not_found(key) from None
                if error.errno != errno.ELOOP:
                    raise
            return self._open_target(key, root)

    def _open_target(self, key: str, root: int) -> int:
        """Return a descriptor of the file that a link names."""
        path = Path(os.path.realpath(self._folder / key))
        if not self._contains(path):
            raise Unreadable("It is a link, whose target is outside of the folder.")
        try:
            return _open_regular(path.relative_to(self._folder).as_posix(), root)
        except OSError as error:
            if error.errno in (*_GONE, errno.ELOOP):
                raise not_found(key) from None
            raise

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Call a function in a thread of the source's own.

        A network file system that never answers keeps the thread of each call, even if the call is cancelled. Further
        calls of its folder fail, so that it does not take more and more threads.

        Raises:
            Unavailable: the file system refused, or does not answer; a folder that cannot be read must not look like an
                empty one.
        """
        folder, now = self._folder, time.monotonic()
        if any(now - started > _HANGS_SECONDS for root, started in list(_calls.values()) if root == folder):
            raise unavailable(f"The folder {folder} does not answer: an earlier call has waited for ten minutes.")

        def counted() -> T:
            name = object()
            _calls[name] = folder, time.monotonic()
            try:
                return call()
            finally:
                del _calls[name]

        try:
            return await self._threads.run(counted)
        except OSError as error:
            name = f"{error.filename}: " if isinstance(error.filename, str) else ""
            raise unavailable(f"The folder cannot be read: {name}{error.strerror}.") from error

    @contextmanager
    def _opened_folder(self) -> Iterator[int]:
        """Open the source's folder, without following a link that replaced it."""
        above = os.open("/", _ABOVE)
        try:
            descriptor = _open(self._folder.as_posix().strip("/"), _FOLDER, above)
        except OSError as error:
            raise unavailable(f"The folder {self._folder} cannot be read: {error.strerror}.") from None
        finally:
            os.close(above)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _open(path: str, flags: int, folder: int) -> int:
    """Return a descriptor of a path below an open folder, none of whose segments may be a link."""
    *above, name = path.split("/") if path else ["."]
    current = folder
    try:
        for segment in above:
            following = os.open(segment, _ABOVE, dir_fd=current)
            if current != folder:
                os.close(current)
            current = following
        return os.open(name, flags, dir_fd=current)
    finally:
        if current != folder:
            os.close(current)


@contextmanager
def _opened(path: str, flags: int, folder: int) -> Iterator[int | None]:
    """Open a path below an open folder; None if it does not exist any more."""
    try:
        descriptor = _open(path, flags, folder)
    except OSError as error:
        if error.errno not in (*_GONE, errno.ELOOP):
            raise
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_regular(path: str, folder: int) -> int:
    descriptor = _open(path, _FILE, folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _kind_of(item: os.DirEntry[str]) -> int:
    """Return the file type bits of a name's mode; most file systems list them with the names."""
    if item.is_symlink():
        return stat.S_IFLNK
    if item.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if item.is_file(follow_symlinks=False) else stat.S_IFIFO


def _named(prefix: str, name: str, suffix: str = "") -> _Node:
    """Return the node of a name. A folder is refused as a whole if no name below it could be a key."""
    key = prefix + name + suffix
    problem = problem_of(key + "." if suffix else key)
    return _Node(substitute_key(name, prefix, suffix), name, problem) if problem else _Node(key, name)


def _is_path(key: str) -> bool:
    return not {"", ".", ".."} & set(key.split("/"))


def _version(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns}-{found.st_size}"


def _settled_version(found: os.stat_result) -> str:
    """Return the version of bytes that were read.

    A second write within one step of the file system's clock does not change the time. The version of a file that was
    just written is therefore marked: it differs from the next listing's, so that the file is read again.
    """
    tick = _TICK_NS if found.st_mtime_ns % _COARSE_NS else _COARSE_TICK_NS
    recent = abs(time.time_ns() - found.st_mtime_ns) < tick
    return _version(found) + ("-recent" if recent else "")
