"""Run pytest, and run the tests that failed again, alone.

    python -m tests.support.twice [OPTIONS OF PYTEST]

A machine that hangs for some seconds lets leases, limits and time-outs of running tests end. Such a test passes
when nothing else runs; a fault of the code fails again. The tests that passed only the second time are listed at the
end: each is a weakness of the test or a rare fault of the code, and is to be repaired.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

AGAIN = 6  # more failed tests are a fault of the code


def main(arguments: list[str]) -> int:
    """Return pytest's exit code."""
    with tempfile.TemporaryDirectory() as cache:
        code = _pytest(arguments, cache)
        failed = _failed(cache)
        if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= AGAIN:
            return code
        print(f"\n{len(failed)} failed and run again, alone:", *failed, sep="\n  ", flush=True)
        # An option that is given twice has its last value. A second run may find no test that failed, as after a
        # failed import: then nothing runs, which is an error too.
        code = _pytest([*arguments, "--numprocesses", "0", "--last-failed", "--last-failed-no-failures", "none"], cache)
        passed = sorted(set(failed) - set(_failed(cache)))
    if passed:
        print("\nThese failed among other tests and passed alone. Repair them:", *passed, sep="\n  ", flush=True)
    return code


def _pytest(arguments: list[str], cache: str) -> int:
    return subprocess.call([sys.executable, "-m", "pytest", *arguments, "-o", f"cache_dir={cache}"])


def _failed(cache: str) -> list[str]:
    path = Path(cache, "v/cache/lastfailed")
    return sorted(json.loads(path.read_text())) if path.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
