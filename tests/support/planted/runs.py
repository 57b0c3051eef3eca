"""Runs of tests in copies of the working tree, with a bug or without."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

from embedded.guarded import guarded
from tests.support.planted.bugs import ROOT, Bug

_MIN_SECONDS = 300.0  # time limit of a test, if it takes less without the bug
_TIMES_SLOWER = 5  # a test with a bug may take this multiple of its time without the bug
_STOP_SECONDS = 30.0  # time in which an interrupted test stops its engines
_RAN = (0, 1)  # exit codes of pytest: all tests passed, or some failed
# Errors of a planted text that is not valid code: they would fail any test.
_INVALID = ("SyntaxError", "IndentationError", "NameError", "ImportError", "ModuleNotFoundError")
_CLIENTS = ("clients/python", "clients/mcp", "clients/evaluation")


class Result(StrEnum):
    CAUGHT = "caught"
    MISSED = "MISSED"
    NOT_RUN = "NOT RUN"


@dataclass(frozen=True)
class Run:
    """A run of tests.

    Args:
        seconds: duration of the run.
        failures: first line of the failure, by the name of each failed test.
        times: durations of the tests that passed, by name.
        trouble: reason why the tests did not run, such as an error of a fixture.
        timed_out: whether the run was interrupted.
    """

    seconds: float
    failures: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    trouble: str = ""
    timed_out: bool = False


def control(tests: Sequence[str]) -> Run:
    """Run tests in a copy of the tree without a bug."""
    with copied() as folder:
        return run(tests, folder, _MIN_SECONDS * len(tests))


def planted(bug: Bug, sound: Run) -> tuple[Result, str, float]:
    """Run the test of a bug in a copy of the tree; return the result, its reason, and the duration in seconds.

    Args:
        bug: the bug.
        sound: the run of the test, and of others, without a bug.
    """
    name = bug.test.rpartition("::")[2]
    before = [seconds for test, seconds in sound.times.items() if _is_of(test, name)]
    if reason := failure_without_bug(name, sound):
        return Result.NOT_RUN, reason, 0.0
    with copied() as folder:
        path = folder / "tree" / bug.file
        path.write_text(bug.planted(path.read_text()))
        options = ["--histories", str(bug.histories)] if bug.histories else []
        done = run([bug.test, *options], folder, max(_MIN_SECONDS, _TIMES_SLOWER * sum(before)))
    return *judged(done), done.seconds


def failure_without_bug(name: str, sound: Run) -> str:
    """Return why a test proves nothing: it fails or does not run without a bug. Empty if it passes."""
    failures = [failure for test, failure in sound.failures.items() if _is_of(test, name)]
    if failures:
        return f"the test fails without the bug: {failures[0]}"
    if not any(_is_of(test, name) for test in sound.times):
        return f"the test does not run without the bug: {sound.trouble or 'it is not selected'}"
    return ""


def judged(done: Run) -> tuple[Result, str]:
    """Return the result on a run with a bug, and its reason.

    A timeout proves nothing, because any test may be too slow on a busy machine.
    """
    if done.timed_out:
        return Result.NOT_RUN, f"unexpected timeout after {done.seconds:.0f} s"
    if done.failures:
        failure = next(iter(done.failures.values()))
        return (Result.NOT_RUN if failure.startswith(_INVALID) else Result.CAUGHT), failure
    if done.trouble:
        return Result.NOT_RUN, done.trouble
    return Result.MISSED, "the test passes"


def run(tests: Sequence[str], folder: Path, seconds: float) -> Run:
    """Run tests in the copy of the tree in a folder.

    Args:
        tests: node ids of the tests, and options of pytest.
        folder: the folder; pytest's files are written there, too.
        seconds: time limit.
    """
    tree, report = folder / "tree", folder / "report.xml"
    options = ["-p", "no:cacheprovider", f"--basetemp={folder / 'run'}", f"--junit-xml={report}"]
    options += ["-o", "junit_family=xunit1"]  # the scenarios record properties, which xunit2 does not allow
    # Installed packages may import the original tree.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(tree / path) for path in ("", *_CLIENTS))}
    started = time.monotonic()
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(
            guarded([sys.executable, "-m", "pytest", *tests, *options], death_signal=signal.SIGINT),
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        timed_out = not _ends_within(process, seconds)
        output.seek(0)
        text = output.read()
    duration = time.monotonic() - started
    trouble = "" if process.returncode in _RAN else _end_of(text)
    if not report.exists():
        return Run(duration, trouble=trouble or _end_of(text), timed_out=timed_out)
    failures, times, errors = read_report(report.read_text())
    return Run(duration, failures, times, trouble or next(iter(errors.values()), ""), timed_out)


def read_report(report: str) -> tuple[dict[str, str], dict[str, float], dict[str, str]]:
    """Return the failures of a JUnit report, the times of passed tests and the errors of fixtures, each by test."""
    failures: dict[str, str] = {}
    times: dict[str, float] = {}
    errors: dict[str, str] = {}
    for case in ET.fromstring(report).iter("testcase"):
        name = case.get("name", "")
        if (failure := case.find("failure")) is not None:
            failures[name] = _first_line(failure)
        elif (error := case.find("error")) is not None:
            errors[name] = _first_line(error)
        elif case.find("skipped") is None:
            times[name] = float(case.get("time", "0"))
    return failures, times, errors


def _first_line(element: ET.Element) -> str:
    lines = element.get("message", "").strip().splitlines()
    return lines[0][:120] if lines else "no message"


def _end_of(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "pytest printed nothing"


def _is_of(case: str, name: str) -> bool:
    """Return whether a test of a report has this name; without parameters a name means all tests of its function."""
    return case == name or case.partition("[")[0] == name


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for a run; at its time limit interrupt it, so that it stops its engines, and kill it if it does not stop."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return False
    return True


@contextmanager
def copied() -> Iterator[Path]:
    """Yield a folder with a copy of the working tree: files that git tracks, and new files that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    with tempfile.TemporaryDirectory(prefix="planted-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder) / "tree"
        for name in filter(None, listed.stdout.split("\0")):
            if (source := ROOT / name).exists():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, tree / name)
        yield Path(folder)
