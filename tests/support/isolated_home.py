"""Fresh ground for a test run: an empty HOME and an empty TMPDIR, which every test must leave empty."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

GROUND = "TEST_GROUND"  # the environment variable that names it, for processes of the run
_LEFT = pytest.StashKey[list[Path]]()
# A developer's shell must not change what a test sees.
_FOREIGN = ("FOREASK_", "OPENAI_", "OTEL_", "XDG_", "PYTHONDONTWRITEBYTECODE")


@pytest.hookimpl(tryfirst=True)  # before pytest chooses where its own temporary files go
def pytest_configure(config: pytest.Config) -> None:
    if _is_worker(config):
        return  # it has its environment from the process that started it
    ground = Path(tempfile.mkdtemp(prefix="foreask-tests-")).resolve()
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ[GROUND] = str(ground)
    for variable in ("HOME", "TMPDIR"):
        os.environ[variable] = str(ground / variable.lower())
        (ground / variable.lower()).mkdir()
    tempfile.tempdir = None  # Python remembers what TMPDIR was
    config.option.basetemp = config.option.basetemp or ground / "pytest"


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
        terminalreporter.section("left behind", red=True)
        for path in left:
            terminalreporter.write_line(f"A test left {path.relative_to(os.environ[GROUND])} behind.", red=True)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    if not _is_worker(config):
        shutil.rmtree(os.environ[GROUND])


def _is_worker(config: pytest.Config) -> bool:
    """Whether this process runs tests for another one, which then reports."""
    return hasattr(config, "workerinput")
