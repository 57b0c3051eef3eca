"""A folder as a source: its names, its links, and its failures while it is listed or read."""

import asyncio
import ctypes
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import time_machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features.sources.files import folder as module
from features.sources.files.folder import FolderSource
from features.sources.options import FileOptions
from shared.domain.errors import NotFound, Unavailable, Unreadable
from tests.support.planted import guards
from tests.support.waiting import eventually

NOBODY = 65_534


@pytest.fixture
def root(tmp_path):
    (tmp_path / "corpus").mkdir()
    return tmp_path / "corpus"


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("A secret.")
    return tmp_path / "outside"


def write(root, *names, text="A text."):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def listed(root, after="", **options):
    return [entry async for entry in FolderSource(root, FileOptions(**options)).entries(after)]


async def keys(root, **options):
    return [entry.key for entry in await listed(root, **options)]


async def refusals(root):
    return {entry.key: entry.refused for entry in await listed(root) if entry.refused}


async def content(root, entry):
    return (await FolderSource(root, FileOptions()).fetch(entry, max_bytes=1_000)).content


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a.md", "b/c.txt", "b/d.md"]),
        ({"include": ("*.md",)}, ["a.md", "b/d.md"]),
        ({"include": ("b/*",), "exclude": ("*.txt",)}, ["b/d.md"]),
        ({"exclude": ("b/*",)}, ["a.md"]),
        ({"hidden": True}, [".git/x.md", "a.md", "b/.e.md", "b/c.txt", "b/d.md"]),
    ],
)
async def test_options_select_files(root, options, expected):
    write(root, "a.md", "b/c.txt", "b/d.md", "b/.e.md", ".git/x.md")

    assert await keys(root, **options) == expected
    source = FolderSource(root, FileOptions(**options))
    found = [await source.find(key) for key in ("a.md", "b/c.txt", "b/d.md", "b/.e.md", ".git/x.md")]
    assert {entry.key for entry in found if entry} == set(expected)


async def test_name_that_is_not_utf8_is_refused(root):
    write(root, "a.md", "z.md", "caf%E9.md")
    (root / os.fsdecode(b"caf\xe9.md")).write_text("A text.")
    (root / os.fsdecode(b"caf\xe9")).mkdir()
    (root / os.fsdecode(b"caf\xe9") / "below.md").write_text("A text.")

    entries = await listed(root)

    assert [entry.key for entry in entries if not entry.refused] == ["a.md", "caf%E9.md", "z.md"]
    assert [entry.refused for entry in entries if entry.refused] == ["Its name is not UTF-8: rename it."] * 2
    assert [entry.key for entry in entries] == sorted(entry.key for entry in entries)
    for number, entry in enumerate(entries):
        assert await listed(root, after=entry.key) == entries[number + 1 :]


async def test_long_name_is_refused(root):
    deep = "/".join(["d" * 200] * 5) + "/"
    write(root, deep + "e" * 19, deep + "f" * 20, f"{deep}{'d' * 17}/x", f"{deep}{'g' * 18}/x", "z.md")

    entries = await listed(root)

    assert [len(entry.key) for entry in entries if not entry.refused] == [1_024, 1_024, 4]
    refused = [entry for entry in entries if entry.refused]
    assert len(refused) == 2
    assert all(len(entry.key) <= 1_024 and "may have 1,024" in entry.refused for entry in refused)
    assert [entry.key for entry in entries] == sorted(entry.key for entry in entries)
    for number, entry in enumerate(entries):
        assert await listed(root, after=entry.key) == entries[number + 1 :]


async def test_link_to_file_in_folder_is_read(root):
    write(root, ".data/a.md", "b.md")
    (root / "a.md").symlink_to(".data/a.md")

    first, _ = await listed(root)

    assert (first.key, first.size_bytes) == ("a.md", 7)
    assert await content(root, first) == b"A text."


async def test_links_lead_nowhere_outside_of_folder(root, outside):
    write(root, "b/c.md")
    (root / "file.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    (root / "missing.md").symlink_to("no.md")
    (root / "relative.md").symlink_to("b/../../outside/secret.md")

    assert [entry.key for entry in await listed(root) if not entry.refused] == ["b/c.md"]
    assert await refusals(root) == {
        "file.md": "It is a link, whose target is outside of the folder.",
        "folder": "It is a link, whose target is outside of the folder.",
        "missing.md": "It is a link, whose target does not exist.",
        "relative.md": "It is a link, whose target is outside of the folder.",
    }
    assert await FolderSource(root, FileOptions()).find("folder/secret.md") is None


@pytest.mark.parametrize("replaced", ["b/c.md", "b"])
async def test_link_created_after_listing_is_not_followed(root, outside, replaced):
    write(root, "b/c.md")
    (entry,) = await listed(root)
    (outside / "c.md").write_text("Another secret.")

    if replaced == "b":
        shutil.rmtree(root / "b")
        (root / "b").symlink_to(outside)
    else:
        (root / "b/c.md").unlink()
        (root / "b/c.md").symlink_to(outside / "c.md")

    with pytest.raises((NotFound, Unreadable)):
        await content(root, entry)


async def test_link_that_replaces_the_folder_is_error(root, outside):
    shutil.rmtree(root)
    root.symlink_to(outside)

    with pytest.raises(Unavailable, match="cannot be read"):
        await listed(root)


async def test_pipe_is_not_listed_and_not_read(root):
    write(root, "a")
    (entry,) = await listed(root)
    (root / "a").unlink()
    os.mkfifo(root / "a")

    assert await listed(root) == []
    with pytest.raises(NotFound):
        await content(root, entry)


async def test_replaced_folder_ends_listing_with_error(root):
    write(root, *(f"{number:04}" for number in range(2_500)))
    listing = FolderSource(root, FileOptions()).entries()
    await anext(listing)

    shutil.rmtree(root)
    root.mkdir()

    with pytest.raises(Unavailable, match="was replaced"):
        [entry async for entry in listing]


async def test_listing_skips_subfolder_removed_meanwhile(root):
    write(root, *(f"a/{number:04}" for number in range(1_000)), "b/c")
    listing = FolderSource(root, FileOptions()).entries()
    found = [(await anext(listing)).key]

    shutil.rmtree(root / "b")

    found += [entry.key async for entry in listing]
    assert found == [f"a/{number:04}" for number in range(1_000)]


def as_nobody(call):
    """Return the result of a coroutine function, whose threads have no rights to files of other users."""
    become = getattr(ctypes.CDLL(None), "setfsuid", lambda _: None)

    result = []

    def run():
        become(NOBODY)  # a thread's own, and of the threads that it starts
        try:
            result.append(asyncio.run(call()))
        except Exception as error:  # noqa: BLE001 - raised below
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


def reachable(path):
    """Allow every user to reach a path, but not to list the folders above it."""
    for above in (path, *path.parents):
        if above.owner() == path.owner() and above.stat().st_mode & 0o11 != 0o11:
            above.chmod(0o711)


def test_folder_below_unlistable_folder_is_read(root):
    write(root, "b/c")
    reachable(root.parent)
    root.chmod(0o755)

    assert [entry.key for entry in as_nobody(lambda: listed(root))] == ["b/c"]


def test_unreadable_folder_is_error_and_not_empty(root):
    write(root, "b/c", "d")
    reachable(root.parent)
    root.chmod(0o755)
    (root / "b").chmod(0)
    try:
        error = as_nobody(lambda: listed(root))
    finally:
        (root / "b").chmod(0o755)

    assert isinstance(error, Unavailable)
    assert "b: Permission denied" in error.message


def test_unreadable_file_is_refused_when_fetched(root):
    write(root, "a")
    reachable(root.parent)
    root.chmod(0o755)
    (root / "a").chmod(0)

    (entry,) = as_nobody(lambda: listed(root))

    assert entry.refused is None
    assert isinstance(as_nobody(lambda: content(root, entry)), Unreadable)


async def test_file_that_changes_while_open_is_error(root):
    write(root, "a")
    source = FolderSource(root, FileOptions())
    (entry,) = await listed(root)

    with pytest.raises(Unavailable, match="a changed while"):
        async with source.opened(entry):
            write(root, "a", text="Another text.")


async def test_file_larger_than_its_size_is_error():
    source = FolderSource(Path("/proc/self").resolve(), FileOptions())  # its files grow while they are read
    entry = await source.find("status")

    with pytest.raises(Unavailable, match="changed whenever"):
        await source.fetch(entry, max_bytes=1_000_000)


@pytest.mark.parametrize(
    ("mtime_ns", "age_ns", "marked"),
    [
        (1_700_000_000_123_456_789, 5_000_000, True),
        (1_700_000_000_123_456_789, 50_000_000, False),
        (1_700_000_000_000_000_000, 1_500_000_000, True),  # a clock of whole seconds
        (1_700_000_000_000_000_000, 2_500_000_000, False),
    ],
)
def test_version_of_just_written_file_is_marked(mtime_ns, age_ns, marked):
    found = SimpleNamespace(st_mtime_ns=mtime_ns, st_size=7)

    with time_machine.travel((mtime_ns + age_ns) / 1e9, tick=False):
        version = module._settled_version(found)

    assert version.startswith(module._version(found))
    assert (version != module._version(found)) is marked


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.sets(st.text("ab-/.0", min_size=1, max_size=4).filter(lambda name: name.strip("/.")), max_size=20))
async def test_large_folder_is_listed_in_parts(tmp_path_factory, monkeypatch, names):
    root = tmp_path_factory.mktemp("corpus")
    monkeypatch.setattr(module, "_NAMES", 2)
    for name in names:
        key = "/".join(part for part in name.split("/") if part.strip("."))
        path = root / key
        if not path.exists() and not any(above.is_file() for above in path.parents):
            write(root, key)

    expected = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    entries = await listed(root, hidden=True)

    assert [entry.key for entry in entries] == expected
    for number, entry in enumerate(entries):
        assert await listed(root, after=entry.key, hidden=True) == entries[number + 1 :]


@guards(
    "features/sources/files/folder.py",
    "now - started > _HANGS_SECONDS",
    "now < started",
    means="a folder that never answers takes a thread at each sync, until the process has none",
)
async def test_hanging_folder_takes_no_further_thread(root, monkeypatch):
    monkeypatch.setattr(module, "_HANGS_SECONDS", 0.0)
    (root / "a.md").write_text("The harbour opens at six.")
    source, answers = FolderSource(root, FileOptions()), threading.Event()
    hanging = asyncio.create_task(source._in_thread(answers.wait))
    await eventually(lambda: module._calls)
    hanging.cancel()

    try:
        with pytest.raises(Unavailable, match="does not answer: an earlier call has waited"):
            await source.find("a.md")
    finally:
        answers.set()  # the process waits for its threads
    await eventually(lambda: not module._calls)

    assert (await source.find("a.md")).key == "a.md"
