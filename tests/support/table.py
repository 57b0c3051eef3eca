"""Record which tests execute which lines, and choose the tests of each module for `make test CHANGED=1`.

    python -m tests.support.table record [TEST ...]  # by default all fast tests; TEST is a folder or file
    python -m tests.support.table write [--costs FILE]
    python -m tests.support.table prune

`record` runs tests with coverage.py, one context for each test, child processes included, in about twice the time of an
ordinary run. The results of several calls add up in `build/table`, until all tests are recorded again. `write` makes
`tests/changed.toml` of them. `prune` removes deleted tests from it, whose names are no longer in the tree. A table
by modules instead of lines survives edits; pytest-testmon would need its own complete run in each clone, and selects
each test that executes a changed function, which is most of them for a module that every test uses.
"""

from __future__ import annotations

import argparse
import ast
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import coverage
import pytest

from tests.support.changed import PRODUCT, ROOT, TABLE, Table, Tree, is_test

BUILD = ROOT / "build" / "table"
_CONFIGURATION_OF_CHILDREN = "COVERAGE_PROCESS_CONFIG"  # environment variable of coverage.py
# Of 252 planted bugs, the table has the test that catches the bug for 192, with 8 s of tests in the median. A table of
# single tests had 165 with 3 s, in more than twice the size; with three times for each line it had 192 with 10 s.
_TIMES = 2  # each line is executed by so many of a module's tests, if so many execute it
_WHOLE_SECONDS = 10.0  # the tests of a file that takes less are chosen together
_WHOLE_SHARE = 0.2  # a file is listed instead of its tests, if they take this share of its seconds
_START_SECONDS = 0.1  # added to each test's seconds, so that one test is chosen rather than many
_MOST_SECONDS = 20.0  # of a module's tests; lines that only longer tests execute are left to the complete run
_ALL = ["tests"]
# `greenlet`: SQLAlchemy runs the driver's calls in greenlets. The patches: children of tests.
_CONFIGURATION = f"""
[run]
core = ctrace
concurrency = thread, greenlet
patch = subprocess, fork, _exit
source = {", ".join(str(ROOT / folder) for folder in PRODUCT)}
disable_warnings = no-data-collected, module-not-measured, module-not-imported, already-imported, couldnt-parse
"""


class Naming:
    """A plugin that assigns the lines of child processes to the running test."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if (encoded := os.environ.get(_CONFIGURATION_OF_CHILDREN)) is not None:
            configuration = json.loads(base64.b64decode(encoded)) | {"context": item.nodeid}
            os.environ[_CONFIGURATION_OF_CHILDREN] = base64.b64encode(json.dumps(configuration).encode()).decode()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Naming(), "naming-contexts")


def record(tests: Sequence[str], processes: int) -> int:
    """Run tests, and store their data in a file of these arguments, which replaces an earlier one."""
    if tests == _ALL:
        shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    configuration = BUILD / "coverage.ini"
    configuration.write_text(_CONFIGURATION)
    name = hashlib.sha256("\0".join(tests).encode()).hexdigest()[:12]
    work = BUILD / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    command = [sys.executable, "-m", "pytest", *tests, "-m", "not slow", "--histories", "10", "--timeout", "900"]
    command += ["-p", "tests.support.table", "--cov", f"--cov-config={configuration}", "--cov-context=test"]
    command += ["--cov-report=", "--costs", str(work / "costs"), "--numprocesses", str(processes)]
    command += ["--dist", "loadscope", "--no-loadscope-reorder"]
    code = subprocess.call(command, cwd=ROOT, env=os.environ | {"COVERAGE_FILE": str(work / "data")})
    for result in ("data", "costs"):
        (work / result).replace(BUILD / f"{name}.{result}")
    shutil.rmtree(work)  # a child that outlives its test may have left a file
    return code


@dataclass
class Recording:
    """Executed lines by module and test, and each test's seconds."""

    lines: dict[str, dict[str, set[int]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    cases: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # by test file

    def add_lines(self, path: Path) -> None:
        data = coverage.CoverageData(str(path))
        data.read()
        for measured in data.measured_files():
            file = Path(measured)
            if file.is_file() and file.is_relative_to(ROOT):
                executed = self.lines[file.relative_to(ROOT).as_posix()]
                inner = inner_lines(file.read_text(encoding="utf-8"))
                for line, contexts in data.contexts_by_lineno(measured).items():
                    for test in {_function(context) for context in contexts if context} if line in inner else ():
                        executed[test].add(line)

    def add_costs(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "::" in (case := entry.get("test", "")):
                # Processor seconds lack the time of waiting, and a busy machine prolongs the other seconds.
                self.seconds[_function(case)] += (entry["seconds"] + entry["processor_seconds"]) / 2
                self.cases[_file(case)].add(case)


def _function(context: str) -> str:
    """Return the test of a context, without its parameters: `tests/a.py::test_b[c]|run`."""
    return context.partition("[")[0].partition("|")[0]


def inner_lines(source: str) -> set[int]:
    """Return the lines of functions: other lines run once, when the first test imports the module."""
    lines = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def cover(executed: Mapping[str, set[int]], seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield tests that execute each line several times: first the one with the most missing lines per second."""
    missing: dict[int, int] = defaultdict(int)
    for lines in executed.values():
        for line in lines:
            missing[line] = min(_TIMES, missing[line] + 1)
    rest = dict(executed)
    while any(missing.values()):
        gains = {test: sum(missing[line] > 0 for line in lines) for test, lines in rest.items()}
        best = max(sorted(gains), key=lambda test: gains[test] / (seconds.get(test, 0.0) + _START_SECONDS))
        for line in rest.pop(best):
            missing[line] = max(0, missing[line] - 1)
        yield best


def chosen(executed: Mapping[str, set[int]], seconds: Mapping[str, float]) -> list[str]:
    """Return the tests of a module within its time, and test files instead of their tests if they take little longer.

    Args:
        executed: lines that each test executes.
        seconds: seconds of each test and of each test file.
    """
    candidates: dict[str, set[int]] = defaultdict(set)
    for test, lines in executed.items():
        candidates[_file(test) if seconds.get(_file(test), 0.0) < _WHOLE_SECONDS else test] |= lines
    picked: dict[str, float] = {}
    for test in cover(candidates, seconds):
        if sum(picked.values()) + seconds.get(test, 0.0) <= _MOST_SECONDS or not picked:
            picked[test] = seconds.get(test, 0.0)
    sums = by_file(picked)
    whole = {file for file, spent in sums.items() if spent >= _WHOLE_SHARE * seconds.get(file, 0.0)}
    return list(dict.fromkeys(_file(test) if _file(test) in whole else test for test in picked))


def by_file(seconds: Mapping[str, float]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for test, spent in seconds.items():
        sums[_file(test)] += spent
    return sums


def _file(test: str) -> str:
    return test.partition("::")[0]


def write(costs: Iterable[Path] = ()) -> None:
    """Write the table of all recordings, with the seconds of an ordinary run if its costs are given."""
    recording = Recording()
    for data in sorted(BUILD.glob("*.data")):
        recording.add_lines(data)
    for path in list(costs) or sorted(BUILD.glob("*.costs")):
        recording.add_costs(path)
    every = recording.seconds | by_file(recording.seconds)
    modules = {module: chosen(tests, every) for module, tests in sorted(recording.lines.items()) if tests}
    numbers = {file: len(cases) for file, cases in recording.cases.items() if is_test(file)}
    spent = sorted(sum(map(every.__getitem__, tests)) for tests in modules.values())
    print(f"{TABLE}: {len(modules)} modules; seconds of a module's tests: median {spent[len(spent) // 2]:.1f}", end="")
    print(f", nine in ten {spent[len(spent) * 9 // 10]:.1f}, most {spent[-1]:.1f}")
    save(Table(modules, every, numbers))


def prune() -> None:
    """Remove tests and modules that no longer exist from the table."""
    table, tree = Table.read(ROOT), Tree(ROOT)
    files = set(tree.files)
    modules = {module: list(filter(tree.has, tests)) for module, tests in table.modules.items() if module in files}
    numbers = {file: number for file, number in table.tests.items() if tree.has(file)}
    save(Table({module: tests for module, tests in modules.items() if tests}, table.seconds, numbers))


def save(table: Table) -> None:
    listed = {test for tests in table.modules.values() for test in tests}
    seconds = {test: spent for test, spent in table.seconds.items() if test in listed or test in table.tests}
    lines = [
        "# The tests of each module for `make test CHANGED=1`, written by `make test-table` (tests/support/table.py).",
        "\n[modules]",
        *(f"{_quoted(module)} = [{', '.join(map(_quoted, tests))}]" for module, tests in table.modules.items()),
        "\n# Seconds of test files, and of single tests that are listed.\n[seconds]",
        *(f"{_quoted(test)} = {max(spent, 0.0):.1f}" for test, spent in sorted(seconds.items())),
        "\n# Numbers of fast tests.\n[tests]",
        *(f"{_quoted(file)} = {number}" for file, number in sorted(table.tests.items())),
    ]
    (ROOT / TABLE).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _quoted(text: str) -> str:
    return json.dumps(text)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.table", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record")
    recorder.add_argument("tests", nargs="*", default=_ALL)
    recorder.add_argument("--processes", type=int, default=2)
    commands.add_parser("write").add_argument("--costs", type=Path, action="append", default=[])
    commands.add_parser("prune")
    known = parser.parse_args(arguments)
    if known.command == "record":
        return record(known.tests, known.processes)
    if known.command == "write":
        write(known.costs)
    else:
        prune()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
