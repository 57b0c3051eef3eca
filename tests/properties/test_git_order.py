"""Files of any tree are listed in the order of their keys, completely, and from any key on."""

import stat
from itertools import pairwise

from dulwich.object_store import MemoryObjectStore
from dulwich.objects import Blob, Tree
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.sources.git.tree import TreeWalk
from tests.support.planted import guards

# Characters around the slash, whose rank differs between names and paths, and the ends of UTF-8's ranges.
CHARACTERS = st.sampled_from(
    [*"-./"[:2], *"0aA ~", "\x01", "\x7f", "\x80", "é", "\ud7ff", "\ue000", "\uffff", "\U0001f600"]
)
NAMES = st.text(CHARACTERS, min_size=1, max_size=4).map(str.encode)
RAW_NAMES = st.one_of(NAMES, st.sampled_from([b"\xff", b"a\xe9", b"a\xe8", b"\xc3", b"n" * 300]))
BLOB = Blob.from_string(b"x")


def trees(names):
    """Return folders as dictionaries, in which None represents a file."""
    return st.recursive(st.none(), lambda child: st.dictionaries(names, child, max_size=6), max_leaves=30)


def stored(store, folder):
    tree = Tree()
    for name, child in folder.items():
        if child is None:
            tree.add(name, stat.S_IFREG | 0o644, BLOB.id)
        else:
            tree.add(name, stat.S_IFDIR, stored(store, child))
    store.add_object(tree)
    return tree.id


def walk(folder):
    store = MemoryObjectStore()
    return TreeWalk(lambda tree: store[tree], stored(store, folder or {}))


def paths(folder, prefix=b""):
    for name, child in (folder or {}).items():
        yield from [prefix + name] if child is None else paths(child, prefix + name + b"/")


@guards(
    "features/sources/git/tree.py",
    '(f"{self.key}/" if self.is_folder else self.key)',
    "self.key",
    means="a folder has the rank of its name",
)
@settings(deadline=None)
@example({b"a": {b"b": None}, b"a-": None})  # generated trees rarely have such names
@given(trees(NAMES))
def test_files_follow_byte_order_of_paths(folder):
    listed = [node.key.encode() for node in walk(folder).files()]

    assert listed == sorted(paths(folder))


@settings(deadline=None)
@given(trees(NAMES), st.text(CHARACTERS | st.just("/"), max_size=8))
def test_listing_resumes_after_any_text(folder, after):
    listed = [node.key.encode() for node in walk(folder).files(after)]

    assert listed == sorted(path for path in paths(folder) if path > after.encode())


@settings(deadline=None)
@given(trees(RAW_NAMES))
def test_keys_are_unique_and_found_whatever_the_names(folder):
    files = walk(folder)

    nodes = list(files.files())

    assert all(one.key.encode() < two.key.encode() for one, two in pairwise(nodes))
    assert all(len(node.key.encode()) <= 1_024 for node in nodes)
    for node in nodes:
        assert files.find(node.key) == node
        assert list(files.files(node.key)) == nodes[nodes.index(node) + 1 :]
