"""Failed tests run again, alone; the run fails if one of them fails again."""

import pytest

from tests.support import twice

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


@pytest.fixture
def run(tmp_path, capfd):
    def run(source):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "test_some.py").write_text(source)
        code = twice.main(["-q", "-p", "xdist", f"--rootdir={tmp_path}", f"-c{tmp_path}/pytest.ini", str(tmp_path)])
        return code, capfd.readouterr().out

    return run


def test_run_passes_if_failed_test_passes_alone(run, tmp_path):
    code, out = run(FAILS_ONCE)

    assert code == 0
    assert "These failed among other tests and passed alone. Repair them:\n  test_some.py::test_that_fails_once" in out
    assert (tmp_path / "test_some.passed").read_text() == "x"  # only the failed one ran again


def test_run_fails_if_test_fails_again(run):
    code, out = run(FAILS_ONCE + FAILS_ALWAYS)

    assert code == 1
    assert "Repair them:\n  test_some.py::test_that_fails_once\n" in out


def test_many_failures_do_not_run_again(run):
    tests = [FAILS_ALWAYS.replace("that_fails", f"that_fails_{number}") for number in range(twice.AGAIN + 1)]

    code, out = run("".join(tests))

    assert code == 1
    assert "run again" not in out
    assert f"{twice.AGAIN + 1} failed" in out


def test_file_that_cannot_be_imported_fails(run):
    code, _ = run("import module_that_does_not_exist")

    assert code != 0
