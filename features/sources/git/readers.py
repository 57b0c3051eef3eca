"""Readers of Git's objects, which run in a confined process: see `shared.confined`.

The files of a request are pairs: objects and their index. The option `stores` has the kind of each pair.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import islice
from typing import Any, BinaryIO

import orjson
from dulwich.errors import ApplyDeltaError, ChecksumMismatch, FileFormatException, ObjectMissing, WrongObjectException
from dulwich.lfs import LFSPointer
from dulwich.objects import Commit, ObjectID, ShaFile, Tag, Tree
from dulwich.pack import UnresolvedDeltas

from features.sources.git.options import GitOptions
from features.sources.git.packs import (
    Contents,
    LooseObjects,
    ObjectStore,
    Pack,
    TooLargePack,
    entries_of_idx,
    index_of,
    indexed,
    mapped,
)
from features.sources.git.tree import Node, TreeWalk
from shared.domain.errors import Unreadable

SMALL_BYTES = 1_024  # a pointer of Git LFS has fewer bytes, by its specification
LFS = "Git LFS stores its content, and the repository has only a pointer: add the file itself to Git, or exclude it."
ALIVE, TOO_LARGE, INDEX = b".", b"!", b"i"  # first bytes of messages of `index`
CONTENT, MISSING, LARGE = 0, 1, 2  # states of a content
CONTENT_HEAD = struct.Struct(">20sBQ")  # id, state, size

_COMMIT, _TREE, _BLOB, _TAG = 1, 2, 3, 4
_KINDS: Mapping[str, Callable[[Contents, Contents, int], ObjectStore]] = {"pack": Pack, "loose": LooseObjects}
_MOST_TAGS = 10  # tags may point to tags
_PIECE_BYTES = 900_000  # two of them fit into a message
_ALIVE_OBJECTS = 5_000
_BATCH = 500
# dulwich reports objects that it cannot parse by these.
_BROKEN = (
    ApplyDeltaError,
    AssertionError,
    ChecksumMismatch,
    FileFormatException,
    LookupError,
    ObjectMissing,
    TypeError,
    UnresolvedDeltas,
    ValueError,
    WrongObjectException,
    struct.error,
    zlib.error,
)

Read = Callable[[Mapping[str, Any], Sequence[BinaryIO]], Generator[bytes]]


def _converting(read: Read) -> Read:
    """Convert the errors of dulwich, whose messages quote objects."""

    @wraps(read)
    def converted(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
        try:
            yield from read(options, files)
        except TooLargePack:
            raise Unreadable("an object of it is too large") from None
        except _BROKEN as error:
            raise Unreadable(f"its objects are damaged ({type(error).__name__})") from error

    return converted


class _Objects:
    """The objects of all stores."""

    def __init__(self, stores: Sequence[ObjectStore]) -> None:
        self._stores = stores

    def read(self, object_id: ObjectID) -> tuple[int, bytes]:
        """Return type and content of an object; raise KeyError if it is missing."""
        raw = bytes.fromhex(object_id.decode())
        for store in self._stores:
            if (read := store.read(raw)) is not None:
                return read
        raise KeyError(object_id)

    def size(self, object_id: ObjectID) -> int | None:
        """Return the size of an object; None if it is missing."""
        raw = bytes.fromhex(object_id.decode())
        return next((size for store in self._stores if (size := store.size(raw)) is not None), None)

    def __contains__(self, object_id: ObjectID) -> bool:
        raw = bytes.fromhex(object_id.decode())
        return any(raw in store for store in self._stores)

    def parsed(self, object_id: ObjectID) -> ShaFile:
        kind, content = self.read(object_id)
        return ShaFile.from_raw_string(kind, content)

    def tree(self, object_id: ObjectID) -> Tree:
        tree = self.parsed(object_id)
        assert isinstance(tree, Tree)
        return tree


@contextmanager
def _objects(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Iterator[_Objects]:
    with ExitStack() as stack:
        contents = [stack.enter_context(mapped(file.fileno())) for file in files]
        pairs = zip(options["stores"], contents[::2], contents[1::2], strict=True)
        yield _Objects([_KINDS[kind](objects, index, options["max_bytes"]) for kind, objects, index in pairs])


@_converting
def index(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Check a pack, and yield its index in pieces."""
    entries = list[tuple[bytes, int]]()
    with mapped(files[0].fileno()) as pack:
        try:
            for number, found in enumerate(indexed(pack, max_bytes=options["max_bytes"])):
                entries += found
                if number % _ALIVE_OBJECTS == 0:
                    yield ALIVE
        except TooLargePack:
            yield TOO_LARGE
            return
    yield from _pieces(index_of(entries))


@_converting
def converted_index(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield an index that Git has written, in our form, in pieces."""
    del options
    with mapped(files[0].fileno()) as idx:
        yield from _pieces(index_of(entries_of_idx(idx)))


def _pieces(found: bytes) -> Iterator[bytes]:
    for at in range(0, len(found), _PIECE_BYTES):
        yield INDEX + found[at : at + _PIECE_BYTES]


@_converting
def commit(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the id of the commit that an id names, or to which its tag points, and the id of its tree; or a problem."""
    with _objects(options, files) as objects:
        object_id = ObjectID(options["id"].encode())
        if object_id not in objects:
            yield orjson.dumps({"problem": "missing"})
            return
        found = objects.parsed(object_id)
        for _ in range(_MOST_TAGS):
            if not isinstance(found, Tag):
                break
            object_id = found.object[1]
            found = objects.parsed(object_id)
        if not isinstance(found, Commit):
            yield orjson.dumps({"problem": "other"})
            return
        yield orjson.dumps({"commit": object_id.decode(), "tree": found.tree.decode()})


@_converting
def folder(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the id of the tree of a folder, whose size is checked; or the names of the folders at the top."""
    with _objects(options, files) as objects:
        walk = TreeWalk(objects.tree, ObjectID(options["tree"].encode()))
        path = options["path"]
        found = walk.find(path) if path else Node("", ObjectID(options["tree"].encode()), is_folder=True)
        if found is None or not found.is_folder:
            yield orjson.dumps({"folders": [name[:_NAME_CHARS] for name in walk.folders()[:_NAMED]]})
            return
        TreeWalk(objects.tree, found.id, path).require_bounded()
        yield orjson.dumps({"tree": found.id.decode()})


_NAMED, _NAME_CHARS = 10, 200


@_converting
def entries(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the selected files that follow a key, or start with one, at most `most`.

    Each is a list of its key, id, size if it is known, and the reason for its refusal.
    """
    with _objects(options, files) as objects:
        walk, selects = _walk(objects, options)
        nodes = (node for node in walk.files(options["after"], options["start"]) if selects(node.key))
        rows = (_entry(objects, node) for node in islice(nodes, options["most"]))
        while batch := list(islice(rows, _BATCH)):
            yield orjson.dumps(batch)


@_converting
def entry(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the selected file of a key as a list of one or no entry: see `entries`."""
    with _objects(options, files) as objects:
        walk, selects = _walk(objects, options)
        node = walk.find(options["key"])
        is_file = node is not None and not node.is_folder and selects(node.key)
        yield orjson.dumps([_entry(objects, node)] if node and is_file else [])


def _walk(objects: _Objects, options: Mapping[str, Any]) -> tuple[TreeWalk, Callable[[str], bool]]:
    chosen, path = GitOptions.model_validate(options["options"]), options["path"]

    def below(key: str) -> str:
        return key.removeprefix(path).removeprefix("/")

    walk = TreeWalk(objects.tree, ObjectID(options["tree"].encode()), path, lambda folder: chosen.skips(below(folder)))
    return walk, lambda key: chosen.selects(below(key))


def _entry(objects: _Objects, node: Node) -> tuple[str, str, int | None, str | None]:
    size = None if node.refused else objects.size(node.id)
    is_pointer = size is not None and size < SMALL_BYTES and _is_pointer(objects.read(node.id)[1])
    return node.key, node.id.decode(), size, node.refused or (LFS if is_pointer else None)


def _is_pointer(content: bytes) -> bool:
    return LFSPointer.from_bytes(content) is not None


@_converting
def contents(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield contents, each after its head: the first one, and others as long as all together are small."""
    with _objects(options, files) as objects:
        ready = bytearray()
        sent = 0
        for object_id in options["ids"]:
            raw = bytes.fromhex(object_id)
            try:
                content = objects.read(ObjectID(object_id.encode()))[1]
            except KeyError:
                ready += CONTENT_HEAD.pack(raw, MISSING, 0)
                continue
            except TooLargePack:
                ready += CONTENT_HEAD.pack(raw, LARGE, 0)
                continue
            if sent and sent + len(content) > _PIECE_BYTES:
                break
            sent += len(content)
            if len(content) > options["most"]:
                ready += CONTENT_HEAD.pack(raw, LARGE, len(content))
                continue
            ready += CONTENT_HEAD.pack(raw, CONTENT, len(content))
            for at in range(0, len(content), _PIECE_BYTES):
                ready += content[at : at + _PIECE_BYTES]
                if len(ready) >= _PIECE_BYTES:
                    yield bytes(ready)
                    ready.clear()
        if ready:
            yield bytes(ready)


READERS = {
    "index": index,
    "converted_index": converted_index,
    "commit": commit,
    "folder": folder,
    "entries": entries,
    "entry": entry,
    "contents": contents,
}
