"""Run pytest, and run the tests that failed again, alone; measure folders that were too costly again.

    python -m tests.support.twice [OPTIONS OF PYTEST]

A machine that hangs for some seconds lets leases, limits and time-outs of running tests end, and multiplies the
processor seconds of the tests that run then. Such a test passes when nothing else runs; a fault of the code fails
again. The tests that failed once are listed at the end: each is a weakness of the test or a rare fault of the code, and
is to be repaired. A folder of tests is too costly if three measurements say so.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.costs import SLOW, START, TOO_COSTLY

Run = Callable[[list[str], str], int]
AGAIN = 6  # more failed tests are a fault of the code
MEASUREMENTS = 3
LIKE_START = "contract"  # its tests use most fixtures of the session


def main(arguments: list[str]) -> int:
    """Return pytest's exit code."""
    with tempfile.TemporaryDirectory() as cache:
        return checked(arguments, cache, _pytest)


def checked(arguments: list[str], cache: str, run: Run) -> int:
    """Run pytest by `run`, which returns its exit code and leaves its cache in the folder `cache`."""
    code = run(arguments, cache)
    failed, too_costly = _failed(cache), _too_costly(cache)
    if code != pytest.ExitCode.TESTS_FAILED or len(failed) > AGAIN or not failed | too_costly:
        return code
    if failed:
        print(f"\n{len(failed)} failed and run again, alone:", *sorted(failed), sep="\n  ", flush=True)
        # An option that is given twice has its last value. A second run may find no test that failed, as after a
        # failed import: then nothing runs, which is an error too.
        options = ["--numprocesses", "0", "--last-failed", "--last-failed-no-failures", "none"]
        code = run([*arguments, *options], cache)
    passed = failed - _failed(cache)
    if too_costly and passed == failed:
        code = _measured_again(too_costly, arguments, cache, run)
        passed |= _failed(cache)  # in the first run
    if passed:
        print("\nThese failed once and passed once. Repair them:", *sorted(passed), sep="\n  ", flush=True)
    return code


def _measured_again(too_costly: set[str], arguments: list[str], cache: str, run: Run) -> int:
    """Return 0 if one of the measurements is within the budget of each folder."""
    for _ in range(MEASUREMENTS - 1):
        if SLOW in too_costly:  # half an hour
            break
        folders = sorted({LIKE_START if name == START else name for name in too_costly})
        print("\nToo costly, and measured again:", *folders, flush=True)
        run([*arguments, "--folders", ",".join(folders)], cache)
        too_costly = too_costly & _too_costly(cache)
        if not too_costly:
            return 0
    return pytest.ExitCode.TESTS_FAILED


def _pytest(arguments: list[str], cache: str) -> int:
    return subprocess.call([sys.executable, "-m", "pytest", *arguments, "-o", f"cache_dir={cache}"])


def _failed(cache: str) -> set[str]:
    return set(_cached(cache, "cache/lastfailed"))


def _too_costly(cache: str) -> set[str]:
    return set(_cached(cache, TOO_COSTLY))


def _cached(cache: str, key: str) -> list[str]:
    path = Path(cache, "v", key)
    return list(json.loads(path.read_text())) if path.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
