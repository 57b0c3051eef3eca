"""Processor seconds of each test, child processes and engines included, and the budget of each folder.

`--costs=FILE` writes them as JSON lines. `--budget` compares the sums of the folders with `tests/budget.toml`: the run
warns if a folder needs a third more than its budget, and fails at twice. A test on a machine that hangs for
seconds needs up to six times as many; so `tests/support/twice.py` measures such folders again, by `--folders`. Seconds
of other processors are converted: see `reference_seconds`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import statistics
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.slow import is_slow

WARNS, FAILS = 4 / 3, 2.0  # multiples of a folder's budget
START = "start"  # imports, collection and fixtures of the session, which belong to no folder
SLOW = "slow"  # tests of all folders that `make test` leaves out
TOO_COSTLY = "foreask/too_costly"  # key of pytest's cache: the names of the rows that fail
_SHOWN = 10
_TICKS = os.sysconf("SC_CLK_TCK")
_FRESH_BYTES = 20 << 20
_WALK_SECONDS = 0.1  # walking the processes takes about two milliseconds
BUDGET = Path(__file__).parents[1] / "budget.toml"


@dataclass
class Cost:
    """The time of one test or of several."""

    processor_seconds: float = 0.0
    seconds: float = 0.0

    def add(self, processor_seconds: float, seconds: float) -> None:
        self.processor_seconds += processor_seconds
        self.seconds += seconds

    @property
    def waiting_seconds(self) -> float:
        return max(0.0, self.seconds - self.processor_seconds)


def children_seconds() -> float:
    """Return the processor seconds of this process's running descendants, and of reaped ones."""
    parents: dict[int, int] = {}
    own: dict[int, float] = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208  ten times as fast as Path
        try:
            with open(f"/proc/{pid}/stat", "rb", 0) as stat:  # noqa: PTH123  half the time of Path
                fields = stat.read().rpartition(b") ")[2].split()
        except OSError:  # it has exited
            continue
        parents[int(pid)] = int(fields[1])
        own[int(pid)] = sum(map(int, fields[11:15])) / _TICKS
    children = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    reaped = os.times()
    total, running = reaped.children_user + reaped.children_system, list(children[os.getpid()])
    while running:
        pid = running.pop()
        total += own[pid]
        running.extend(children[pid])
    return total


def reference_seconds() -> float:
    """Return the processor seconds of a fixed piece of work, by which processors of different speeds are compared.

    A twentieth of it is fresh memory, which can cost ten times as much on a virtual machine whose host is short of it,
    and which starting processes consist of.
    """
    started = time.process_time()
    with mmap.mmap(-1, _FRESH_BYTES) as fresh:
        for page in range(0, _FRESH_BYTES, mmap.PAGESIZE):
            fresh[page] = 1
    for number in range(1000):
        text = json.dumps({str(n): [n * number, "x" * (n % 50)] for n in range(100)}, sort_keys=True)
        hashlib.sha256(text.encode()).hexdigest()
        sorted(json.loads(text), key=lambda key: key[::-1])
    return time.process_time() - started


class Recorder:
    """Records the costs of the tests of one process, by name."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = defaultdict(Cost)
        self._children_seconds = 0.0  # at the last walk over the processes
        self._walked_at = 0.0
        self._shares: dict[str, float] = defaultdict(float)  # seconds of the tests since then

    def start(self) -> None:
        self.add(START, time.process_time(), time.process_time())
        self.assign()

    def add(self, name: str, processor_seconds: float, seconds: float) -> None:
        """Add the time of this process for a test. The next walk adds the time of its child processes."""
        self.costs[name].add(processor_seconds, seconds)
        self._shares[name] += max(seconds, 0.0)
        if time.monotonic() - self._walked_at > _WALK_SECONDS:
            self.assign()

    def assign(self) -> None:
        """Distribute the processor seconds of the child processes over the tests since the last walk, by duration."""
        before, self._children_seconds = self._children_seconds, max(self._children_seconds, children_seconds())
        self._walked_at = time.monotonic()
        whole = sum(self._shares.values())
        for name, seconds in self._shares.items():
            self.costs[name].add((self._children_seconds - before) * seconds / whole if whole else 0.0, 0.0)
        self._shares.clear()


class Measuring:
    """The plugin of a process that runs tests."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.references: list[float] = []
        self._of_session = Cost()  # fixtures of the session that the current test is the first to use
        self._in_fixture = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self.recorder.start()
        self.references.append(reference_seconds())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        with _timed() as cost:
            result = yield
        fixtures, self._of_session = self._of_session, Cost()
        self.recorder.add(
            item.nodeid, cost.processor_seconds - fixtures.processor_seconds, cost.seconds - fixtures.seconds
        )
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if fixturedef.scope != "session" or self._in_fixture:
            return (yield)
        self._in_fixture = True
        self.recorder.assign()
        try:
            with _timed() as cost:
                return (yield)
        finally:
            self._in_fixture = False
            self._of_session.add(cost.processor_seconds, cost.seconds)
            self.recorder.add(START, cost.processor_seconds, cost.seconds)
            self.recorder.assign()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.recorder.assign()
        self.references.append(reference_seconds())
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["costs"] = {name: asdict(cost) for name, cost in self.recorder.costs.items()}
            output["references"] = self.references


@contextmanager
def _timed() -> Iterator[Cost]:
    """Yield a cost that has its values when the block ends; child processes are not included."""
    cost = Cost()
    started, processor = time.monotonic(), time.process_time()
    try:
        yield cost
    finally:
        cost.add(time.process_time() - processor, time.monotonic() - started)


class Reporting:
    """The plugin of the reporting process; with pytest-xdist this process distributes the tests."""

    def __init__(self, measuring: Measuring | None, file: Path | None, budget: Budget | None) -> None:
        self._measuring = measuring
        self._file = file
        self._budget = budget
        self._costs: dict[str, Cost] = defaultdict(Cost)
        self._references: list[float] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output: Mapping[str, Any] = getattr(node, "workeroutput", {})
        self._add({name: Cost(**cost) for name, cost in output.get("costs", {}).items()}, output.get("references", ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._measuring is not None:
            self._add(self._measuring.recorder.costs, self._measuring.references)
        if self._file is not None:
            lines = [{"reference_seconds": self._references}]
            lines += [{"test": name} | asdict(cost) for name, cost in self._costs.items()]
            self._file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        if self._budget is None or not self._references:
            return
        too_costly = [row.folder for row in self._rows(self._budget) if row.fails]
        if cache := getattr(session.config, "cache", None):
            cache.set(TOO_COSTLY, too_costly)
        if too_costly:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._budget is None or not self._references:
            return
        terminalreporter.section("processor seconds")
        for line in rendered(self._rows(self._budget), self._costs):
            terminalreporter.write_line(line)

    def _add(self, costs: Mapping[str, Cost], references: Iterable[float]) -> None:
        for name, cost in costs.items():
            self._costs[name].add(cost.processor_seconds, cost.seconds)
        self._references.extend(references)

    def _rows(self, budget: Budget) -> list[Row]:
        return compared(self._costs, statistics.median(self._references), budget)


@dataclass(frozen=True)
class Budget:
    """The processor seconds of each folder of tests.

    Args:
        reference_seconds: `reference_seconds()` on the machine of the budget.
        folders: budgets by folder below `tests`.
    """

    reference_seconds: float
    folders: Mapping[str, float]

    @classmethod
    def read(cls, path: Path = BUDGET) -> Budget:
        return cls(**tomllib.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Row:
    """The costs of a folder, in seconds of the budget's machine."""

    folder: str
    tests: int
    seconds: float
    budget: float | None

    @property
    def share(self) -> float:
        return self.seconds / self.budget if self.budget else 0.0

    @property
    def warns(self) -> bool:
        return self.share > WARNS

    @property
    def fails(self) -> bool:
        return self.share > FAILS


def compared(costs: Mapping[str, Cost], reference: float, budget: Budget) -> list[Row]:
    """Return a row for each folder with tests in this run, and one for the start of its processes."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, int] = defaultdict(int)
    for name, cost in costs.items():
        folder = folder_of(name)
        seconds[folder] += cost.processor_seconds * budget.reference_seconds / reference
        tests[folder] += name != START
    return [Row(folder, tests[folder], seconds[folder], budget.folders.get(folder)) for folder in sorted(seconds)]


def folder_of(test: str) -> str:
    """Return the folder of a test, or the name of the row that replaces it."""
    return START if test == START else SLOW if is_slow(test) else test.split("/")[1]


def rendered(rows: Sequence[Row], costs: Mapping[str, Cost]) -> Iterator[str]:
    """Yield the table of the folders, the costliest tests of folders above their budget, and the longest waits."""
    yield f"{'folder':<14}{'tests':>7}{'seconds':>9}{'budget':>8}"
    for row in rows:
        budget = "" if row.budget is None else f"{row.budget:8.0f}{row.share:7.0%}"
        verdict = "  too costly: fails at 200%" if row.fails else "  above its budget" if row.warns else ""
        yield f"{row.folder:<14}{row.tests:>7}{row.seconds:>9.0f}{budget}{verdict}"
    above = {row.folder for row in rows if row.warns}
    if above:
        yield f"The costliest tests of {', '.join(sorted(above))}, in processor seconds:"
        among = {name: cost for name, cost in costs.items() if folder_of(name) in above and name != START}
        yield from _longest(among, lambda cost: cost.processor_seconds)
    yield "The tests that wait longest without working, in seconds:"
    yield from _longest({name: cost for name, cost in costs.items() if name != START}, lambda c: c.waiting_seconds)


def _longest(costs: Mapping[str, Cost], key: Callable[[Cost], float]) -> Iterator[str]:
    for name in sorted(costs, key=lambda name: key(costs[name]), reverse=True)[:_SHOWN]:
        yield f"{key(costs[name]):8.1f}  {name}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=Path, help="file for the processor seconds of each test")
    parser.addoption("--budget", action="store_true", help="compare processor seconds with tests/budget.toml")
    parser.addoption("--folders", help="run only the tests of these folders of tests, separated by commas")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (folders := config.getoption("folders")) is None:
        return
    others = [item for item in items if item.nodeid.split("/")[1] not in folders.split(",")]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]


def pytest_configure(config: pytest.Config) -> None:
    worker = hasattr(config, "workerinput")
    budget = Budget.read() if config.getoption("budget") else None
    if not worker and budget is None and config.getoption("costs") is None:
        return
    measuring = None
    if worker or not config.getoption("numprocesses", None):
        measuring = Measuring()
        config.pluginmanager.register(measuring, "measuring")
    if not worker:
        config.pluginmanager.register(Reporting(measuring, config.getoption("costs"), budget), "reporting")
