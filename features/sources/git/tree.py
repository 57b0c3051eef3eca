"""The files of a tree, in the order of their keys."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from dulwich.objects import ObjectID, Tree

from features.sources.keys import problem_of, substitute_key
from shared.domain.errors import Unreadable

MOST_NAMES = 5_000_000
MOST_DEPTH = 100
_CACHED = 64  # folders


@dataclass(frozen=True, slots=True)
class Node:
    """A file or folder.

    Args:
        key: its complete path; a path that cannot be a key is replaced.
        id: id of its content.
        is_folder: whether its content is a tree.
        refused: why it cannot be read; None if it can.
    """

    key: str
    id: ObjectID
    is_folder: bool
    refused: str | None = None

    @property
    def order(self) -> bytes:
        """Its rank: a folder precedes and follows the same keys as the files in it."""
        return (f"{self.key}/" if self.is_folder else self.key).encode()


class TreeWalk:
    """Finds files below a folder.

    Args:
        read_tree: returns the tree of an id.
        root: id of the folder's tree.
        path: the folder's path, empty or without slashes at its ends.
        skips: whether a folder, such as `drafts/`, is not listed; its name has the folder's path.
    """

    def __init__(
        self,
        read_tree: Callable[[ObjectID], Tree],
        root: ObjectID,
        path: str = "",
        skips: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._read_tree = read_tree
        self._skips = skips
        self._nodes = lru_cache(_CACHED)(lambda tree, prefix: _nodes(read_tree(tree), prefix))
        self._root = root
        self._prefix = f"{path}/" if path else ""

    def files(self, after: str = "", start: str = "") -> Iterator[Node]:
        """Yield the files that follow a key, or start with a key, in the order of the keys' UTF-8 bytes."""
        last, is_next = (start or after).encode(), bool(start)
        for node in self._below(self._root, self._prefix, last):
            # In a folder with a path of almost the maximum size, several replaced keys may be the same.
            key = node.key.encode()
            if key > last or (is_next and key == last):
                yield node
                last, is_next = key, False

    def find(self, key: str) -> Node | None:
        """Return the file or folder with a key."""
        if not key.startswith(self._prefix) or problem_of(key):
            return None
        node: Node | None = Node("", self._root, is_folder=True)
        end = len(self._prefix)
        while node is not None and node.is_folder and end <= len(key):
            start, end = end, key.find("/", end) + 1 or len(key) + 1
            nodes, path = self._nodes(node.id, key[:start]), key[: end - 1]
            node = nodes.get(path.encode()) or nodes.get(f"{path}/".encode())
        return node if end > len(key) else None

    def folders(self) -> list[str]:
        """Return the names of the folders at the top."""
        return [node.key for node in self._nodes(self._root, self._prefix).values() if node.is_folder]

    def require_bounded(self) -> None:
        """Check the number of names and the depth of folders. A tree is read once, also if many folders share it.

        Raises:
            Unreadable: there are too many.
        """
        names = self._names_below(self._root, dict[ObjectID, int](), 0)
        if names > MOST_NAMES:
            raise Unreadable(f"it has {names:,} names, more than {MOST_NAMES:,}: choose a folder with the option path")

    def _names_below(self, tree: ObjectID, counted: dict[ObjectID, int], depth: int) -> int:
        if depth > MOST_DEPTH:
            raise Unreadable(f"its folders are nested more than {MOST_DEPTH} deep")
        names = 0
        for _, mode, content_id in self._read_tree(tree).iteritems():
            names += 1
            if stat.S_ISDIR(mode):
                if content_id not in counted:
                    counted[content_id] = self._names_below(content_id, counted, depth + 1)
                names += counted[content_id]
        return names

    def _below(self, tree: ObjectID, prefix: str, after: bytes) -> Iterator[Node]:
        for order, node in self._nodes(tree, prefix).items():
            if not node.is_folder:
                yield node
            elif (order > after or after.startswith(order)) and not self._skips(f"{node.key}/"):
                yield from self._below(node.id, f"{node.key}/", after)


def _nodes(tree: Tree, prefix: str) -> dict[bytes, Node]:
    """Return the files and folders of a tree by their rank, in its order.

    Git sorts a tree as if the name of each folder ended in a slash, which is the order of the bytes of complete paths.
    It is sorted again, because replaced keys have other ranks.

    Raises:
        Unreadable: a name contains a slash or is empty, which Git never writes.
    """
    nodes = dict[bytes, Node]()
    for name, mode, content_id in tree.iteritems():
        if b"/" in name or not name:
            raise Unreadable("it has an invalid tree: run git fsck in it")
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            node = _node(name.decode(errors="surrogateescape"), prefix, content_id, is_folder=stat.S_ISDIR(mode))
            nodes[node.order] = node
    return dict(sorted(nodes.items()))


def _node(name: str, prefix: str, content_id: ObjectID, *, is_folder: bool) -> Node:
    """Return a file or folder; a folder that cannot be a part of keys becomes a single refused file."""
    if problem := problem_of(prefix + name):
        return Node(substitute_key(name, prefix), content_id, is_folder=False, refused=problem)
    return Node(prefix + name, content_id, is_folder)
