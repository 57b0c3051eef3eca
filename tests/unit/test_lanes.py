"""Tests run side by side, and those that assert a time run alone."""

import os
import subprocess
import sys
from itertools import combinations

import pytest

from tests.support.deployment import ROOT

TESTS = """
import os, time
import pytest

def runs():
    began = time.monotonic()
    time.sleep(0.3)
    with open(os.environ["RUNS"], "a") as file:
        print(os.environ["PYTEST_CURRENT_TEST"].split("::")[1].split()[0], began, time.monotonic(), file=file)

@pytest.mark.alone
def test_alone():
    runs()

@pytest.mark.parametrize("number", range(4))
def test_together(number):
    runs()
"""


@pytest.fixture
def runs(tmp_path):
    """When each test of two files began and ended."""
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    for name in ("test_one.py", "test_two.py"):
        (folder / name).write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.isolated_home", "-p", "tests.lanes", "-n", "2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "RUNS": str(tmp_path / "runs")}
    subprocess.run([*command, "--dist", "loadfile", "tests"], cwd=tmp_path, env=environment, check=True)
    lines = [line.split() for line in (tmp_path / "runs").read_text().splitlines()]
    return [(name, float(began), float(ended)) for name, began, ended in lines]


def test_only_a_test_that_is_not_marked_has_company(runs):
    company = [{one[0], other[0]} for one, other in combinations(runs, 2) if one[1] < other[2] and other[1] < one[2]]

    assert len(runs) == 10
    assert company
    assert not any("test_alone" in pair for pair in company)
    assert {name for name, *_ in runs[-2:]} == {"test_alone"}
