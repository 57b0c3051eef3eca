"""The fault suite: one deployment for the scenarios that its settings suit, and the table at the end."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deployment import ROOT, ScriptedProvider
from tests.faults.fleet import Fleet
from tests.faults.scale import SCALES, Scale
from tests.faults.scenario import Row, Scenario, rendered

TABLE = pytest.StashKey[list[Row]]()
SETTINGS = {
    "llm_max_in_flight": 12,
    "llm_timeout": 4,
    "embedding_timeout": 4,
    "tuning": {"lease": 3, "drain": 5, "retry_base": 0.2, "retry_ceiling": 2, "reconcile_every": 0.5},
    "grace": 5,
    "log_level": "info",
    "calibrate": False,  # what it embeds would be counted as a scenario's
}
Begin = Callable[[str, str], Scenario]


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> Scale:
    return SCALES[request.config.getoption("--faults")]


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--seed"))


@pytest.fixture(scope="session")
def table(request: pytest.FixtureRequest) -> list[Row]:
    return request.config.stash.setdefault(TABLE, [])


@pytest.fixture(scope="package")
def fleet(provider_process: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A deployment that scenarios share, since each start costs the processors seconds; no other test has it beside."""
    with Fleet(provider_process.settings(**SETTINGS), tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture
def begin(fleet: Fleet, provider: ScriptedProvider, seed: int, table: list[Row]) -> Iterator[Begin]:
    """Begin a scenario over the shared deployment."""

    def begin(number: str, name: str) -> Scenario:
        return Scenario(fleet, provider, f"{number} {name}", number, seed, table)

    yield begin
    for link in ("ledger", "broker", "qdrant"):
        fleet.fault(link)
    fleet.recover()  # a scenario that failed would make the next ones fail


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(TABLE, [])
    if not rows:
        return
    scale = config.getoption("--faults")
    machine = (
        f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )
    text = f"faults: {scale}, {machine}\n{rendered(rows)}"
    terminalreporter.section("faults")
    terminalreporter.write_line(text)
    if scale != "short":
        path = Path(ROOT, "build", "faults.txt")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
