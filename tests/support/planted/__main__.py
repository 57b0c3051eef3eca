"""Plant the bugs that tests guard, and check that each test fails.

`python -m tests.support.planted [--jobs N] [--changed [REFERENCE]] [NAME...]` plants the bugs whose test, meaning or
file contains a NAME, or all bugs, in N copies of the working tree. The tests run first without a bug: a test that fails
then proves nothing, so its bugs are not planted. The command exits with status 1 if a bug was missed or its test could
not be run.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from pathlib import Path

from tests.support.isolated_home import parent
from tests.support.planted.bugs import ROOT, Bug, declared
from tests.support.planted.runs import Group, Interrupted, Result, Runner

# Seconds of a bug by the folder of its test. Only their ratios matter to the estimate of the remaining time.
SECONDS = {"faults": 30, "page": 15, "properties": 10, "acceptance": 10, "contract": 5, "integration": 4, "unit": 1}
_TESTS_OF_GROUP = 6  # more would share more engines, but one job could run a long group when all others have ended


def chosen(bugs: Iterable[Bug], names: Sequence[str], changed: set[str] | None) -> list[Bug]:
    """Return the bugs with one of the names, if any, and with a changed file or test, if any are given."""
    return [
        bug
        for bug in bugs
        if (not names or any(name in text for name in names for text in (bug.test, bug.means, bug.file)))
        and (changed is None or not changed.isdisjoint((bug.file, bug.test_file)))
    ]


def changed_files(reference: str) -> set[str]:
    """Return the files that differ from a git reference, and new files."""
    commands = (["git", "diff", "--name-only", "-z", reference], ["git", "ls-files", "-oz", "--exclude-standard"])
    outputs = (subprocess.run(c, cwd=ROOT, check=True, capture_output=True, text=True).stdout for c in commands)
    return {name for output in outputs for name in output.split("\0") if name}


def groups(bugs: Iterable[Bug]) -> Iterator[Group]:
    """Yield the bugs in groups of a few tests of one file, with the same options."""
    ordered = sorted(bugs, key=lambda bug: (bug.test_file, bug.histories or 0, bug.test))
    for (_, histories), of_file in groupby(ordered, lambda bug: (bug.test_file, bug.histories)):
        tests = (tuple(of_test) for _, of_test in groupby(of_file, lambda bug: bug.test))
        while some := tuple(islice(tests, _TESTS_OF_GROUP)):
            yield Group(sum(some, ()), histories)


def cost(bugs: Iterable[Bug]) -> int:
    return sum(SECONDS[bug.test.split("/")[1]] for bug in bugs)


class Progress:
    """Prints each result with the estimated time until the last one, and a summary."""

    def __init__(self, bugs: Sequence[Bug]) -> None:
        self._bugs = bugs
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._results: dict[Bug, tuple[Result, str]] = {}

    def report(self, bug: Bug, result: Result, reason: str, seconds: float = 0.0) -> None:
        with self._lock:
            self._results[bug] = result, f"{bug.means}: {reason} ({bug.test})"
            done = cost(self._results)
            left = self._minutes() * (cost(self._bugs) - done) / done
            number = f"{len(self._results)}/{len(self._bugs)}"
            print(f"{number}, {left:.0f} min left: {result} in {seconds:.1f} s: {self._results[bug][1]}", flush=True)

    def summarise(self) -> bool:
        """Print the bugs that were not caught, and the counts; return whether every bug was caught."""
        for bug in self._bugs:
            result, reason = self._results.get(bug, (Result.NOT_RUN, ""))
            if reason and result is not Result.CAUGHT:
                print(f"{result}: {reason}")
        results = [result for result, _ in self._results.values()]
        missing = len(self._bugs) - len(results)
        counts = {result: results.count(result) + (missing if result is Result.NOT_RUN else 0) for result in Result}
        print(", ".join(f"{number} {result}" for result, number in counts.items()), f"in {self._minutes():.1f} minutes")
        return counts[Result.CAUGHT] == len(self._bugs)

    def _minutes(self) -> float:
        return (time.monotonic() - self._started) / 60


class Jobs:
    """Plants bugs in several copies of the tree at the same time, the slowest groups first."""

    def __init__(self, pending: Iterable[Group], progress: Progress) -> None:
        self._pending = deque(sorted(pending, key=lambda group: -cost(group.bugs)))
        self._progress = progress
        self._runners: list[Runner] = []

    def run(self, number: int, folder: Path) -> None:
        """Run all groups; an interruption stops the running tests.

        Args:
            number: number of jobs.
            folder: empty folder for the copies of the tree and the files of the tests.
        """
        number = min(number, len(self._pending))
        with ThreadPoolExecutor(max(1, number)) as pool:
            jobs = [pool.submit(self._work, folder / str(job)) for job in range(number)]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                self._pending.clear()
                for runner in self._runners:
                    runner.interrupt()
                raise

    def _work(self, folder: Path) -> None:
        with Runner(folder) as runner:
            self._runners.append(runner)
            while self._pending:
                try:
                    for verdict in runner.judged(self._pending.popleft()):
                        self._progress.report(*verdict)
                except (IndexError, Interrupted):
                    return


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.planted")
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a bug's test, meaning or file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="copies of the tree to work in")
    parser.add_argument(
        "--changed",
        nargs="?",
        const="HEAD",
        metavar="REFERENCE",
        help="only bugs whose file or test differs from this git reference, by default HEAD",
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the copies of the tree keep theirs
    bugs = chosen(declared(), options.names, changed_files(options.changed) if options.changed else None)
    if not bugs and not options.changed:
        parser.error(f"no bug has one of the names {options.names}")
    progress = Progress(bugs)
    unfit = {bug: "; ".join(reasons) for bug in bugs if (reasons := bug.misfits())}
    for bug, reasons in unfit.items():
        progress.report(bug, Result.NOT_RUN, reasons)
    jobs = Jobs(groups(bug for bug in bugs if bug not in unfit), progress)
    try:
        with tempfile.TemporaryDirectory(prefix="bug-", dir=parent(), ignore_cleanup_errors=True) as folder:
            jobs.run(options.jobs, Path(folder))
    except KeyboardInterrupt:
        print("interrupted")
    return 0 if progress.summarise() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
