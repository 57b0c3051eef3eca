"""Readers by rules, columns and permissions of files: an unknown right admits no person."""

import errno
import os
import stat
import struct

import pytest

from features.sources.files.folder import FolderSource
from features.sources.files.permissions import READ, Names, both, who_may
from features.sources.named_readers import readers_in
from features.sources.opening import KINDS, options_of
from features.sources.options import FolderOptions
from features.sources.source import Entry
from shared.domain.errors import InvalidInput
from tests.support.planted import guards

RULES = [
    {"match": "legal/**", "readable_by": ["group:legal"]},
    {"match": "*.md", "readable_by": ["everyone"]},
]


@guards(
    "features/sources/permissions.py",
    "            return rule.readable_by\n    return ()",
    "            return rule.readable_by\n    return ('everyone',)",
    means="an entry that no rule matches is public",
)
@pytest.mark.parametrize(
    ("key", "readers"),
    [
        ("legal/lease.md", ("group:legal",)),
        ("legal/2026/lease.md", ("group:legal",)),
        ("other/legal/lease.md", ("everyone",)),
        ("Legal/lease.txt", ()),
        ("lease.txt", ()),
    ],
)
def test_first_matching_rule_names_readers(key, readers):
    assert options_of("folder", {"readers": RULES}).readers_of(key, ("everyone",)) == readers


def test_rule_matches_key_in_each_form_of_unicode():
    options = options_of("folder", {"readers": "Vertra\u0308ge/* = group:legal\n* = everyone"})

    assert options.readers_of("Vertr\u00e4ge/a.md", None) == options.readers_of("Vertra\u0308ge/a.md", None)
    assert options.readers_of("Vertr\u00e4ge/a.md", None) == ("group:legal",)


@pytest.mark.parametrize("address", ["https://example.org/vertr%C3%A4ge/a", "https://example.org/legal/a?b=1"])
def test_rule_of_pages_matches_address_and_path(address):
    for rule in ("/vertr\u00e4ge/*", "https://example.org/vertr%C3%A4ge/*"):
        text = f"{rule} = group:legal\n/legal/* = group:legal\n* = everyone"
        assert options_of("crawl", {"readers": text}).readers_of(address, None) == ("group:legal",)


def test_rules_of_text_and_list_are_equal():
    text = '\n legal/** = group:legal \n*.md = ["everyone"]\n'

    assert options_of("git", {"readers": text}).readers == options_of("git", {"readers": RULES}).readers
    assert options_of("git", {"readers": "a = "}).readers_of("a", None) == ()
    assert [options_of("git", {"readers": none}).names_readers for none in (None, [], "")] == [False, True, True]


def test_source_without_option_names_no_readers():
    for kind in KINDS:
        required = {"table": "a", "id": "a", "text": "b"} if kind == "postgresql" else {}
        options = options_of(kind, required)
        named = ("everyone",) if kind == "push" else None  # only a program sends readers without being asked for them
        assert (options.names_readers, options.readers_of("a", ("everyone",))) == (False, named)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"readers": "legal"}, "write a pattern and its readers in each line"),
        ({"readers": " = everyone"}, "write a pattern and its readers in each line"),
        ({"readers": 7}, "write a list of rules"),
        ({"readers": ["everyone"]}, "write a list of rules"),
        ({"readers": [RULES[0], {"match": "a"}]}, "rule 2, readable_by: field required"),
        ({"readers": [{"match": "", "readable_by": []}]}, "rule 1, match: "),
        ({"readers": [{"match": "a", "readable_by": ["legal"]}]}, "rule 1, readable_by: a reader is `everyone`"),
        ({"readers": [{"match": "a", "readable_by": 7}]}, "rule 1, readable_by: readers are a list"),
        ({"readers": [{"match": "a", "readable_by": [], "deny": []}]}, "rule 1, deny: "),
        ({"readers": RULES, "permissions": True}, "Set either readers, or an option"),
        ({"readers": [], "permissions": True}, "Set either readers, or an option"),
    ],
)
def test_malformed_rules_are_refused(options, sentence):
    with pytest.raises(InvalidInput) as refused:
        options_of("folder", options)

    assert sentence in refused.value.message


@pytest.mark.parametrize(
    ("value", "readers"),
    [
        (None, ()),
        ("", ()),
        (" ", ()),
        ([], ()),
        ("[]", ()),
        ("everyone", ("everyone",)),
        ("user:b, group:a,", ("group:a", "user:b")),
        ('["group:cn=a,dc=b"]', ("group:cn=a,dc=b",)),
        (["group:a", "group:a"], ("group:a",)),
    ],
)
def test_column_names_readers(value, readers):
    assert readers_in(value) == readers


@pytest.mark.parametrize(
    "value",
    [
        *("legal", "Everyone", "unset", "group:", "*", "[broken", "[1]", "[null]", '["user:a", ["user:b"]]'),
        *(7, True, {}, {"everyone": 1}, b"everyone", ["everyone", None]),
        [f"user:{number:0200}" for number in range(200)],
    ],
)
def test_malformed_column_is_refused(value):
    with pytest.raises(InvalidInput):
        readers_in(value)


# --- permissions of files ---


class Machine(Names):
    """A machine with the users `ada` (1) and `bob` (2) and the groups `legal` (10) and `hr` (20)."""

    def __init__(self):
        super().__init__()
        self._known |= {("user", 1): "ada", ("user", 2): "bob", ("group", 10): "legal", ("group", 20): "hr"}


def status(mode, uid=1, gid=10):
    return os.stat_result((stat.S_IFREG | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))


@guards(
    "features/sources/files/permissions.py",
    "    if all(others) and any",
    "    if any",
    means="a mode that forbids a file to its group makes it public",
)
@pytest.mark.parametrize(
    ("mode", "readers"),
    [
        (0o644, {"everyone"}),
        (0o044, {"everyone"}),
        (0o640, {"group:legal", "user:ada"}),
        (0o604, {"user:ada"}),
        (0o600, {"user:ada"}),
        (0o040, {"group:legal"}),
        (0o311, set()),
        (0o000, set()),
    ],
)
def test_mode_names_readers(tmp_path, mode, readers):
    (tmp_path / "a").touch()

    assert who_may(READ, status(mode), str(tmp_path / "a"), Machine()) == readers


def access_list(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@guards(
    "features/sources/files/permissions.py",
    "each.bits & (mask if each.kind in limited else right) & right",
    "each.bits & right",
    means="an access list grants a right that its mask removes",
)
@pytest.mark.parametrize(
    ("entries", "readers"),
    [
        ([(1, 6, 0), (2, 4, 2), (4, 0, 0), (16, 4, 0), (32, 0, 0)], {"user:ada", "user:bob"}),
        ([(1, 6, 0), (4, 4, 0), (8, 4, 20), (16, 4, 0), (32, 0, 0)], {"user:ada", "group:legal", "group:hr"}),
        ([(1, 6, 0), (2, 6, 2), (4, 4, 0), (16, 2, 0), (32, 0, 0)], {"user:ada"}),
        ([(1, 6, 0), (2, 0, 2), (4, 4, 0), (16, 4, 0), (32, 4, 0)], {"user:ada"}),
        ([(1, 6, 0), (2, 4, 2), (4, 4, 0), (16, 4, 0), (32, 4, 0)], {"everyone"}),
        ([(1, 6, 0), (2, 4, 2), (4, 0, 0), (16, 4, 0), (32, 4, 0)], {"user:ada", "user:bob"}),
    ],
)
def test_access_list_names_readers(monkeypatch, entries, readers):
    monkeypatch.setattr(os, "getxattr", lambda *_: access_list(*entries))

    assert who_may(READ, status(0o674), "a", Machine()) == readers


def test_unreadable_access_list_is_an_error(monkeypatch):
    def fail(*_):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "getxattr", fail)
    with pytest.raises(OSError, match="Permission denied"):
        who_may(READ, status(0o644), "a", Machine())


def test_unknown_ids_are_numbers():
    assert Names().user(2**31 - 7) == f"user:{2**31 - 7}"
    assert Names().group(2**31 - 7) == f"group:{2**31 - 7}"


def test_both_folder_and_file_must_admit():
    everyone = frozenset({"everyone"})
    assert both(everyone, everyone) == everyone
    assert both(everyone, {"group:a"}) == both({"group:a"}, everyone) == {"group:a"}
    assert both({"group:a", "user:b"}, {"group:a", "user:c"}) == {"group:a"}
    assert both({"group:a"}, set()) == set()


@pytest.fixture
async def tree(tmp_path):
    """Return a folder with a public file, and a file in a folder of its owner."""
    (tmp_path / "closed/below").mkdir(parents=True)
    for name in ("a.md", "closed/below/b.md"):
        (tmp_path / name).write_text("The harbour opens at seven.")
        (tmp_path / name).chmod(0o644)
    for folder, mode in ((tmp_path, 0o755), (tmp_path / "closed", 0o700), (tmp_path / "closed/below", 0o755)):
        folder.chmod(mode)
    source = FolderSource(tmp_path, FolderOptions(permissions=True))
    yield source, tmp_path
    await source.aclose()


@guards(
    "features/sources/files/folder.py",
    "                    yield from self._below(below, node.key, after, self._among(readers, below))",
    "                    yield from self._below(below, node.key, after, readers)",
    means="a readable file in a folder that others cannot enter is public",
)
async def test_folder_that_others_cannot_enter_restricts_files(tree):
    source, folder = tree
    owner = Names().user(os.getuid())
    (folder / "link.md").symlink_to("closed/below/b.md")

    listed = {entry.key: entry.readable_by async for entry in source.entries()}

    expected = {"a.md": ("everyone",), "closed/below/b.md": (owner,), "link.md": (owner,)}
    assert listed == expected
    for key, readers in expected.items():
        assert (await source.find(key)).readable_by == readers
        assert (await source.fetch(Entry(key, ""), max_bytes=100)).readable_by == readers
    folder.chmod(0o700)
    assert {entry.readable_by async for entry in source.entries()} == {(owner,)}


@guards(
    "features/sources/files/folder.py",
    "_settled_version(before), self._readers_of(key, file.fileno())",
    "_settled_version(before), None",
    means="a file that is replaced by a private one after the listing is published",
)
async def test_content_has_readers_of_its_own_moment(tree):
    source, folder = tree
    (entry, *_) = [entry async for entry in source.entries()]
    (folder / "a.md").chmod(0o600)

    item = await source.fetch(entry, max_bytes=100)

    assert (entry.readable_by, item.readable_by) == (("everyone",), (Names().user(os.getuid()),))


async def test_folder_without_option_reads_no_permissions(tree):
    _, folder = tree
    source = FolderSource(folder, FolderOptions())

    assert {entry.readable_by async for entry in source.entries()} == {None}
    await source.aclose()
