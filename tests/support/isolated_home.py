"""An empty HOME and an empty TMPDIR for each test run; a run fails if a test leaves files there."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

FOLDER = "TEST_FOLDER"  # environment variable: parent of the run's folder, for example on a disk of your choice
RUN = "TEST_RUN"  # environment variable: the run's folder, for processes that tests start
_LEFT = pytest.StashKey[list[Path]]()
# A developer's shell must not change the results of tests.
_FOREIGN = ("FOREASK_", "OPENAI_", "OTEL_", "XDG_", "PYTHONDONTWRITEBYTECODE")
# A run writes about 4 GB at once and 39 GB in all. Memory is faster than any disk, if there is enough of it.
_MEMORY = Path("/dev/shm")  # noqa: S108  tmpfs on every Linux
_NEEDED_BYTES = 10 * 2**30


@pytest.hookimpl(tryfirst=True)  # set before pytest chooses the folder for its temporary files
def pytest_configure(config: pytest.Config) -> None:
    if _is_worker(config):
        return  # a pytest-xdist worker inherits the environment of the process that started it
    run = Path(tempfile.mkdtemp(prefix="foreask-tests-", dir=parent())).resolve()
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ[RUN] = str(run)
    for variable in ("HOME", "TMPDIR"):
        os.environ[variable] = str(run / variable.lower())
        (run / variable.lower()).mkdir()
    os.environ["TESSDATA_PREFIX"] = str(Path(sys.prefix, "share/tessdata"))  # the system's may have other languages
    tempfile.tempdir = None  # Python caches TMPDIR
    config.option.basetemp = config.option.basetemp or run / "pytest"


@pytest.hookimpl(trylast=True)  # after the fixtures of the session, in every process
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _is_worker(session.config):
        return
    left = [path for variable in ("HOME", "TMPDIR") for path in Path(os.environ[variable]).iterdir()]
    session.config.stash[_LEFT] = left
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash.get(_LEFT, []):
        terminalreporter.section("files left behind", red=True)
        for path in left:
            terminalreporter.write_line(f"A test did not delete {path.relative_to(os.environ[RUN])}.", red=True)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_worker(config):
        shutil.rmtree(os.environ[RUN])


def parent() -> str | None:
    """Return the parent of the run's folder; None for the system's folder for temporary files."""
    return os.environ.get(FOLDER) or (str(_MEMORY) if _fits_in_memory() else None)


def _fits_in_memory() -> bool:
    if not os.access(_MEMORY, os.W_OK) or os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return False
    return min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) >= _NEEDED_BYTES


def _is_worker(config: pytest.Config) -> bool:
    """Return whether this process is one of pytest-xdist's workers."""
    return hasattr(config, "workerinput")
