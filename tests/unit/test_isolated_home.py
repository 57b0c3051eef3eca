"""A test run has its own home folder and temporary folder, and tests leave both empty."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.deployment import ROOT
from tests.support.isolated_home import FOLDER, RUN


def test_run_provides_home_to_tests_and_processes():
    run = Path(os.environ[RUN])
    program = "import pathlib, tempfile; print(pathlib.Path.home(), tempfile.gettempdir())"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert [str(Path.home()), tempfile.gettempdir()] == child.stdout.split()
    assert {Path.home().parent, Path(tempfile.gettempdir()).parent} == {run}


def test_tmp_path_is_outside_checked_folders(tmp_path):
    assert not tmp_path.is_relative_to(tempfile.gettempdir())
    assert not tmp_path.is_relative_to(Path.home())


@pytest.mark.parametrize(
    ("leave", "reported"),
    [
        ("pathlib.Path.home().joinpath('.cached').touch()", "home/.cached"),
        ("tempfile.mkstemp(suffix='.forgotten')", ".forgotten"),
        ("None", ""),
    ],
)
def test_run_with_leftover_files_fails_and_names_them(tmp_path, leave, reported):
    test = tmp_path / "test_leaving.py"
    test.write_text(f"import pathlib, tempfile\n\ndef test_it():\n    {leave}\n")
    (tmp_path / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.isolated_home", str(test)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), FOLDER: str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert "1 passed" in done.stdout
    assert done.returncode == (1 if reported else 0)
    assert reported in done.stdout.partition("files left behind")[2]
    assert [path for path in tmp_path.iterdir() if path.name.startswith("foreask-tests-")] == []
