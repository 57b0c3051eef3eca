"""A full folder for temporary files is reported with its remedy, and downloaded pages leave room for other work."""

import errno
import os
import shutil
import sqlite3

import pytest

from features.sources.source import Entry, Source
from features.sources.syncing.watched_source import WatchedSource
from features.sources.web.crawl.texts import Texts
from shared.domain.errors import Unavailable
from shared.process.network import problem_of
from shared.process.temporary_folders import has_room
from tests.support.planted import guards

MEGABYTE = 1 << 20


def write_to_full_disk():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def write_to_full_database():
    database = sqlite3.connect(":memory:")
    database.executescript("PRAGMA max_page_count = 2; CREATE TABLE pages (address text)")
    database.execute("INSERT INTO pages VALUES (?)", ("a" * 10_000,))


class FullSource(Source):
    """A source whose temporary files have no room."""

    def __init__(self, write):
        self._write = write

    async def entries(self, after=""):
        self._write()
        yield Entry(after, "")

    async def fetch(self, entry, *, max_bytes):
        self._write()

    async def find(self, key):
        self._write()


@guards(
    "shared/process/full_disk.py",
    'getattr(error, "sqlite_errorcode", None) == _SQLITE_FULL',
    "False",
    means="a crawl whose temporary files have no room ends without a reason",
    case="write_to_full_database",
)
@pytest.mark.parametrize("write", [write_to_full_disk, write_to_full_database])
async def test_full_folder_is_reported_with_remedy(write):
    source = WatchedSource(FullSource(write), lambda: None)

    for call in (anext(source.entries()), source.fetch(Entry("a", ""), max_bytes=1), source.find("a")):
        with pytest.raises(Unavailable, match=r"temporary files is full: make /tmp \(TMPDIR\) of the parse and read"):
            await call


async def test_other_errors_of_files_are_unchanged():
    def fail():
        raise PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        await WatchedSource(FullSource(fail), lambda: None).find("a")


def test_reason_of_reply_without_room_is_the_folder():
    with pytest.raises(OSError, match="No space") as caught:
        write_to_full_disk()

    assert "make /tmp (TMPDIR)" in problem_of(caught.value)


@guards(
    "features/sources/web/crawl/texts.py",
    " and has_room(self.folder, len(content))",
    "",
    means="the pages of one crawl take all temporary room of the worker",
)
def test_page_without_room_is_not_kept(monkeypatch):
    usage = shutil.disk_usage("/")._replace(total=1024 * MEGABYTE, free=130 * MEGABYTE)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    texts = Texts()
    try:
        texts.store("small", b"a" * MEGABYTE)
        texts.store("large", b"a" * 3 * MEGABYTE)
        assert (texts.read("small"), texts.read("large")) == (b"a" * MEGABYTE, None)
    finally:
        texts.remove()


@pytest.mark.parametrize(
    ("total", "free", "fits"), [(256, 64, True), (256, 63, False), (1e6, 128, True), (1e6, 127, False)]
)
def test_reserve_fits_size_of_folder(monkeypatch, tmp_path, total, free, fits):
    usage = shutil.disk_usage("/")._replace(total=int(total) * MEGABYTE, free=free * MEGABYTE)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    assert has_room(tmp_path, 0) is fits
