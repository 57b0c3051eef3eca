"""The shared deployment of the fault suite, and the table of its results."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support.deployment import ROOT, ScriptedProvider
from tests.support.fleet import KEYS, Fleet
from tests.support.forkserver import ForkServer
from tests.support.scale import SCALES, Scale
from tests.support.scenario import Scenario, ScenarioResult, rendered

PROPERTY = "scenario"  # name of a report's property, which pytest-xdist sends between processes
SETTINGS = {
    "llm_max_in_flight": 12,
    "llm_timeout": 4,
    "embedding_timeout": 4,
    "source_roots": {"*": ("*",)},
    "llm_batches": True,
    "tuning": {
        "drain": 5,
        "retry_base": 0.2,
        "retry_ceiling": 1,
        "reconcile_interval": 0.5,
        "batch_min_chunks": 1,
        "batch_max_chunks": 6,
        "batch_wait": 0.4,
        "batch_poll": 0.2,
        "batch_list_lag": 2,
        "sync_deletion_after": 0.01,
    },
    "shutdown_timeout": 5,
    "log_level": "info",
    "api_keys": ",".join(f"{tenant}:{key}" for tenant, key in KEYS.items()),
    "llm_input_price": 0.225,
    "llm_output_price": 0.9,
    "embedding_price": 0,
    "calibrate": False,  # its embeddings would be counted as a scenario's
}
StartScenario = Callable[[str, str], Scenario]


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> Scale:
    return SCALES[request.config.getoption("--faults")]


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--seed"))


@pytest.fixture(scope="package")
def fleet(
    provider_process: ScriptedProvider, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory, scale: Scale
) -> Iterator[Fleet]:
    """A deployment that scenarios share, one at a time, because each start takes seconds of processor time."""
    tuning = {**SETTINGS["tuning"], **scale.tuning, "lease": scale.lease_seconds}
    settings = provider_process.settings(**SETTINGS | {"tuning": tuning})
    folder = tmp_path_factory.mktemp("fleet")
    with Fleet(settings, folder, launch=forks.launch) as fleet:
        yield fleet


@pytest.fixture
def start_scenario(
    fleet: Fleet, provider: ScriptedProvider, seed: int, record_property: Callable[[str, object], None]
) -> Iterator[StartScenario]:
    """A function that starts a scenario over the shared deployment."""

    def record(row: ScenarioResult) -> None:
        record_property(PROPERTY, asdict(row))

    def start(number: str, name: str) -> Scenario:
        return Scenario(fleet, provider, f"{number} {name}", number, seed, record)

    yield start
    fleet.use_key_of("default")
    for link in ("ledger", "broker", "qdrant"):
        fleet.fault(link)
    fleet.recover()  # otherwise a failed scenario would make the next ones fail


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [r for reports in terminalreporter.stats.values() for r in reports if getattr(r, "when", "") == "call"]
    rows = [ScenarioResult(**row) for report in reports for name, row in report.user_properties if name == PROPERTY]
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
