"""Repeated runs of a measurement: the median of each number, and its lowest and highest value."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.deployment import Deployment

Numbers = dict[str, float]
"""The numbers of one run by name; a name ends with the unit."""


def add_options(parser: argparse.ArgumentParser, runs: int = 1) -> None:
    parser.add_argument("--runs", type=int, default=runs, help="runs of each measurement; %(default)s by default")
    parser.add_argument("--json", type=Path, help="file to which the numbers of each run are appended, a line per run")


def repeat(title: str, measure: Callable[[], Numbers], options: argparse.Namespace) -> list[Numbers]:
    """Measure as often as requested, print the numbers, and append them to the requested file."""
    load, runs = os.getloadavg()[0], []
    for _ in range(options.runs):
        runs.append(measure())
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps({"title": title, "numbers": runs[-1]}) + "\n")
    print(f"\n{title}; load of the machine {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    print_runs(runs)
    return runs


def print_runs(runs: Sequence[Numbers]) -> None:
    if len(runs) > 1:
        print(f"  {'':34}{'median':>10}   lowest to highest of {len(runs)} runs")
    for name in runs[0]:
        values = [run[name] for run in runs if name in run]
        spread = f"   {min(values):.2f} to {max(values):.2f}" if len(runs) > 1 else ""
        print(f"  {name:34}{statistics.median(values):10.2f}{spread}", flush=True)


class CpuMeter:
    """The processor time of each process of a deployment since the creation of the meter."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._own, self._engines = deployment.cpu_seconds(), deployment.engine_cpu_seconds()

    def milliseconds(self, count: int, unit: str) -> Numbers:
        """Return the milliseconds of each process divided by a number of chunks or queries, and their sums."""
        own = _since(self._own, self._deployment.cpu_seconds())
        engines = _since(self._engines, self._deployment.engine_cpu_seconds())
        sums = {"foreask": sum(own.values()), "engines": sum(engines.values())}
        numbers = {name: seconds * 1000 / count for name, seconds in (own | engines | sums).items()}
        numbers["foreask and engines"] = numbers["foreask"] + numbers["engines"]
        return {f"{name}, CPU ms a {unit}": value for name, value in numbers.items()}


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> Numbers:
    return {name: seconds - before[name] for name, seconds in now.items() if name in before}
