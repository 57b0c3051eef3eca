"""Failed tests run again, alone, and costly folders are measured again; the run fails if both times are bad."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import twice
from tests.support.costs import TOO_COSTLY

FAILS_ONCE = """
from pathlib import Path

def test_that_fails_once():
    seen = Path(__file__).with_suffix(".seen")
    first = not seen.exists()
    seen.touch()
    assert not first

def test_that_passes():
    with Path(__file__).with_suffix(".passed").open("a") as runs:
        runs.write("x")
"""
FAILS_ALWAYS = """
def test_that_fails():
    assert False
"""


class Pytests:
    """Runs of pytest that leave `values` in its cache, one after the other, and fail unless they are empty."""

    def __init__(self, key: str, values: Sequence[Sequence[str]]) -> None:
        self._key = key
        self._values = values
        self.arguments: list[list[str]] = []

    def __call__(self, arguments: list[str], cache: str) -> int:
        value = self._values[len(self.arguments)]
        self.arguments.append(arguments)
        path = Path(cache, "v", self._key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
        return 1 if value else 0


@pytest.fixture
def run(tmp_path, capfd):
    def run(source):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "test_some.py").write_text(source)
        code = twice.main(["-q", "-p", "xdist", f"--rootdir={tmp_path}", f"-c{tmp_path}/pytest.ini", str(tmp_path)])
        return code, capfd.readouterr().out

    return run


def test_failed_tests_run_again_alone(run, tmp_path):
    code, out = run(FAILS_ONCE + FAILS_ALWAYS)

    assert code == 1
    assert "Repair them:\n  test_some.py::test_that_fails_once\n" in out
    assert (tmp_path / "test_some.passed").read_text() == "x"  # only the failed ones ran again


@pytest.mark.parametrize(("failed", "again", "expected", "runs"), [(1, 0, 0, 2), (2, 1, 1, 2), (7, 0, 1, 1)])
def test_run_passes_if_failed_tests_pass_alone(tmp_path, failed, again, expected, runs):
    pytests = Pytests("cache/lastfailed", [[f"test_{number}" for number in range(count)] for count in (failed, again)])

    assert twice.checked(["tests"], str(tmp_path), pytests) == expected
    assert len(pytests.arguments) == runs


def test_file_that_cannot_be_imported_fails(run):
    code, _ = run("import module_that_does_not_exist")

    assert code != 0


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([["unit", "faults"], ["unit"], []], 0),
        ([["unit", "faults"], ["unit"], ["unit"]], 1),
        ([["start"], []], 0),
        ([["unit"], ["start"]], 0),
        ([["slow"]], 1),
    ],
)
def test_folder_fails_if_measured_too_costly_three_times(tmp_path, measured, expected):
    pytests = Pytests(TOO_COSTLY, measured)

    code = twice.checked(["tests"], str(tmp_path), pytests)

    assert code == expected
    again = [{"start": "contract"}.get(name, name) for costly in measured[:-1] for name in [",".join(sorted(costly))]]
    assert pytests.arguments == [["tests"], *(["tests", "--folders", folders] for folders in again)]


def test_run_records_costly_folders_and_measures_given_ones(tmp_path):
    shutil.copytree(Path(twice.__file__).parent, tmp_path / "tests/support")
    (tmp_path / "tests/slow.txt").touch()
    (tmp_path / "tests/budget.toml").write_text("reference_seconds = 1000\n[folders]\nunit = 0.001\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.support.costs"]\n')
    for folder in ("unit", "other"):
        (tmp_path / "tests" / folder).mkdir()
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text("def test_one():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "--budget", "--folders", "unit", "tests", "-o", "cache_dir=cache"]

    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert result.returncode == 1
    assert "1 passed, 1 deselected" in result.stdout
    assert json.loads((tmp_path / "cache/v" / TOO_COSTLY).read_text()) == ["unit"]
