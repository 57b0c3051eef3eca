"""Folders of killed processes are removed, and folders in use are not."""

import fcntl
import shutil
import subprocess
import sys
import tempfile

import pytest

from features.all import FEATURES
from shared.process.temporary_folders import TemporaryFile, TemporaryFolder, remove_leftovers
from shared.services.parse import remove_temporary_files

PREFIX = "foreask-test-"
KILLED = """
import os
from shared.process.temporary_folders import TemporaryFile, TemporaryFolder
used = {made}
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("made", ["TemporaryFolder('foreask-test-')", "TemporaryFile('foreask-test-', b'text')"])
def test_files_of_killed_process_are_removed(temporary, made):
    process = subprocess.run([sys.executable, "-c", KILLED.format(made=made)], check=False)
    assert process.returncode == -9
    (folder,) = temporary.iterdir()
    (folder / "pack").write_text("objects")

    remove_leftovers(PREFIX)

    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("prefix", ["foreask-upload-", "foreask-git-", "foreask-pages-"])
async def test_workers_remove_files_of_killed_processes(temporary, prefix):
    subprocess.run([sys.executable, "-c", KILLED.format(made=f"TemporaryFile('{prefix}', b'text')")], check=False)
    assert len(list(temporary.iterdir())) == 1

    await remove_temporary_files(FEATURES)

    assert list(temporary.iterdir()) == []


def test_folder_in_use_remains():
    folder = TemporaryFolder(PREFIX)

    remove_leftovers(PREFIX)

    assert folder.path.exists()
    folder.remove()
    assert not folder.path.exists()


def test_file_has_its_bytes_until_removed(temporary):
    file = TemporaryFile(PREFIX, b"text")
    remove_leftovers(PREFIX)
    assert file.path.read_bytes() == b"text"

    file.remove()

    assert list(temporary.iterdir()) == []


def test_folder_removed_before_its_lock_is_replaced(monkeypatch, temporary):
    """Another process may start between the creation of a folder and its lock."""
    make = tempfile.mkdtemp
    made = []

    def make_and_lose(*args, **options):
        made.append(make(*args, **options))
        if len(made) <= 2:
            remove_leftovers(PREFIX)
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    folder = TemporaryFolder(PREFIX)

    assert len(made) == 3
    assert list(temporary.iterdir()) == [folder.path]


def test_folder_removed_while_locking_is_replaced(monkeypatch, temporary):
    lock, locked = fcntl.flock, []

    def lose_and_lock(descriptor, operation):
        locked.append(descriptor)
        if len(locked) == 1:
            shutil.rmtree(next(temporary.iterdir()))
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lose_and_lock)
    folder = TemporaryFolder(PREFIX)

    assert len(locked) == 2
    assert list(temporary.iterdir()) == [folder.path]


def test_target_of_link_remains(temporary):
    target = temporary / "documents"
    target.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(target)

    remove_leftovers(PREFIX)

    assert target.exists()
