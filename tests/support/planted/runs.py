"""Runs of tests in a copy of the working tree, and the results that they prove."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Self
from xml.etree import ElementTree as ET

from tests.support.forkserver import Forked, ForkServer
from tests.support.isolated_home import FOLDER
from tests.support.planted.bugs import Bug
from tests.support.planted.engines import Engines
from tests.support.planted.trees import Tree, copy_working_tree
from tests.support.waiting import TIMEOUT

_MIN_SECONDS = 300.0  # time limit of a test, if it takes less without the bug
_TIMES_SLOWER = 5  # a test with a bug may take this multiple of its time without the bug
# Many bugs are caught because a condition never holds. A test with a bug waits for it that long, and in addition twice
# its time without the bug, instead of minutes.
_CONDITION_SECONDS = 30.0
_STOP_SECONDS = 30.0  # time in which an interrupted test stops its engines
# Folders whose tests use the engines of the fixture `stack`. The others start deployments, or need no engine.
_SHARING = ("tests/contract/", "tests/integration/", "tests/properties/")
_RAN = (0, 1)  # exit codes of pytest: all tests passed, or some failed
# Errors of a planted text that is not valid code: they would fail any test.
_INVALID = ("SyntaxError", "IndentationError", "NameError", "ImportError", "ModuleNotFoundError")
_OPTIONS = (
    *("-p", "no:cacheprovider"),
    *("-o", "junit_family=xunit1"),  # the scenarios record properties, which xunit2 does not allow
    *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),  # anyio, a library and a plugin
)


class Interrupted(Exception):
    """The runs are to end."""


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


@dataclass(frozen=True)
class Group:
    """Bugs whose tests share engines in the run without a bug: tests of one file, with the same options.

    Args:
        bugs: the bugs.
        histories: number of random histories, if the tests need more than their default.
    """

    bugs: tuple[Bug, ...]
    histories: int | None = None

    @property
    def shares_engines(self) -> bool:
        """Whether the tests use only the engines of the fixture `stack`, or none."""
        return self.bugs[0].test.startswith(_SHARING)

    @property
    def tests(self) -> list[str]:
        return list(dict.fromkeys(bug.test for bug in self.bugs))


class Runner:
    """Runs tests in a copy of the working tree, one run at a time; a context manager that stops its processes.

    A fork server imports the libraries once, and each run imports the modules of the tree.

    Args:
        folder: folder of the copy and of the runs' files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tree = Tree(folder / "tree")
        copy_working_tree(self._tree.folder)
        self._server = ForkServer(self._tree.folder, imports="tests.support.planted.libraries")
        self._engines = Engines(folder, self._server)
        self._numbers = count()
        self._running: Forked | None = None
        self._is_interrupted = False

    def judged(self, group: Group) -> Iterator[tuple[Bug, Result, str, float]]:
        """Yield the result of each bug, its reason, and the duration in seconds.

        The tests run first without a bug: a test that fails then proves nothing, so its bugs are not planted.
        """
        servers = self._engines.variables() if group.shares_engines else {}
        sound = self.run(group.tests, group.histories, _MIN_SECONDS * len(group.tests), servers)
        for bug in group.bugs:
            name = bug.test.rpartition("::")[2]
            if reason := failure_without_bug(name, sound):
                yield bug, Result.NOT_RUN, reason, 0.0
                continue
            before = sum(seconds for test, seconds in sound.times.items() if _is_of(test, name))
            # Engines that run already do not have the bug.
            servers = self._engines.variables() if group.shares_engines and not bug.file.startswith("embedded/") else {}
            timeout = {TIMEOUT: str(_CONDITION_SECONDS + 2 * before)}
            with self._tree.planted(bug):
                limit = max(_MIN_SECONDS, _TIMES_SLOWER * before)
                done = self.run([bug.test], bug.histories, limit, servers | timeout)
            yield bug, *judged(done), done.seconds

    def run(
        self, tests: Sequence[str], histories: int | None, limit_seconds: float, variables: Mapping[str, str]
    ) -> Run:
        """Run tests in the copy as it is.

        Args:
            tests: node ids.
            histories: number of random histories, if not the default.
            limit_seconds: the run is interrupted after this time.
            variables: additions to the environment.

        Raises:
            Interrupted: `interrupt` was called.
        """
        if self._is_interrupted:
            raise Interrupted
        folder = self._folder / f"run-{next(self._numbers)}"
        folder.mkdir()
        report, log = folder / "report.xml", folder / "output"
        command = [sys.executable, "-m", "pytest", *tests, *_OPTIONS, f"--junit-xml={report}"]
        if histories:
            command += ["--histories", str(histories)]
        # A bug's failing examples must not be repeated with the next bug.
        # The path of a browser's socket has at most 107 characters, so the tests' folder is not in this one.
        own = {FOLDER: str(self._folder.parent), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")}
        started = time.monotonic()
        self._running = self._server.launch(command, os.environ | own | variables, log)
        timed_out = not _exits_within(self._running, 0 if self._is_interrupted else limit_seconds)
        if self._is_interrupted:
            raise Interrupted
        seconds = time.monotonic() - started
        text = log.read_text(errors="replace")
        trouble = "" if self._running.returncode in _RAN else _end_of(text)
        if trouble or timed_out:
            self._engines.stop()  # the run may not have emptied them
        if report.exists():
            failures, times, errors = read_report(report.read_text())
            done = Run(seconds, failures, times, trouble or next(iter(errors.values()), ""), timed_out)
        else:
            done = Run(seconds, trouble=trouble or _end_of(text), timed_out=timed_out)
        shutil.rmtree(folder, ignore_errors=True)
        return done

    def interrupt(self) -> None:
        """Interrupt the running test, which stops its engines, and prevent further ones; called by another thread."""
        self._is_interrupted = True
        if self._running is not None:
            _stop(self._running)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engines.stop()
        self._server.close()


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


def _exits_within(process: Forked, seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        _stop(process)
        return False
    return True


def _stop(process: Forked) -> None:
    """Interrupt a run, so that it stops its engines, and kill its processes if it does not exit."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
