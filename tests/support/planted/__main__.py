"""Plant the bugs that tests declare, and check that each test fails.

`python -m tests.support.planted [--jobs N] [NAME...]` plants the bugs whose test, meaning or file contains a NAME, or
all bugs, N at a time. The tests run first in a copy without a bug: a test that fails there proves nothing, so its bugs
are not planted. The command exits with status 1 if a bug was missed or its test could not be run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.support.planted.bugs import Bug, declared
from tests.support.planted.runs import Result, control, planted


def chosen(names: Sequence[str]) -> list[Bug]:
    return [bug for bug in declared() if not names or any(name in bug.test + bug.means + bug.file for name in names)]


def by_file(bugs: Sequence[Bug]) -> dict[str, list[str]]:
    """Return the distinct tests of bugs by their file: tests of a file share engines in the run without a bug."""
    tests: dict[str, list[str]] = {}
    for test in dict.fromkeys(bug.test for bug in bugs):
        tests.setdefault(test.partition("::")[0], []).append(test)
    return tests


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.planted")
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a bug's test, meaning or file")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of tests that run at the same time")
    options = parser.parse_args(arguments)
    bugs = chosen(options.names)
    unfit = {bug: wrong for bug in bugs if (wrong := bug.misfits())}
    results = [_report(bug, Result.NOT_RUN, "; ".join(wrong), 0.0) for bug, wrong in unfit.items()]
    fit = [bug for bug in bugs if bug not in unfit]
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        files = by_file(fit)
        sound = dict(zip(files, pool.map(control, files.values()), strict=True))

        def judge(bug: Bug) -> Result:
            return _report(bug, *planted(bug, sound[bug.test_file]))

        results += pool.map(judge, fit)
    print(", ".join(f"{results.count(result)} {result}" for result in Result))
    return 0 if set(results) <= {Result.CAUGHT} else 1


def _report(bug: Bug, result: Result, reason: str, seconds: float) -> Result:
    scenario = bug.test.partition("::")[2].removeprefix("test_")
    print(f"{scenario}: {bug.means}: {result}: {reason} ({seconds:.0f} s)", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
