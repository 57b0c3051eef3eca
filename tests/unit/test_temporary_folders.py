"""Folders of killed processes are removed, and folders in use are not."""

import os
import subprocess
import sys
import tempfile

import pytest

from shared.process.temporary_folders import TemporaryFolder, remove_leftovers

PREFIX = "foreask-test-"
OLD = 1_700_000_000
KILLED = """
import os
from shared.process.temporary_folders import TemporaryFolder
print(TemporaryFolder("foreask-test-").path, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def age(path):
    os.utime(path, (OLD, OLD))


def test_folder_of_killed_process_is_removed(temporary):
    process = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, check=False)
    folder = temporary / process.stdout.strip()
    (folder / "pack").write_text("objects")
    remove_leftovers(PREFIX)
    assert folder.exists()  # another process may be about to lock it

    age(folder)
    remove_leftovers(PREFIX)

    assert not folder.exists()


def test_folder_in_use_remains_however_old():
    folder = TemporaryFolder(PREFIX)
    age(folder.path)

    remove_leftovers(PREFIX)

    assert folder.path.exists()
    folder.remove()
    assert not folder.path.exists()


def test_target_of_link_remains(temporary):
    target = temporary / "documents"
    target.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(target)
    age(target)

    remove_leftovers(PREFIX)

    assert target.exists()
