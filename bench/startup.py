"""The cost of each process before it does any work: `python -m bench startup`.

Every role is started a few times over the same embedded engines, until it has been asleep for a second. The table has
the medians: processor seconds and resident memory of the process itself, and of its children (the parse worker's
sandbox).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from embedded.stack import Stack
from shared.settings import Settings

ROLES = {
    "api": ["api"],
    "parse": ["workers", "parse"],
    "generate": ["workers", "generate"],
    "index": ["workers", "index"],
    "scheduler": ["workers", "scheduler"],
}
_RUNS = 5
_ASLEEP_SECONDS = 1.0
_POLLS = 10
_IMPORT_SECONDS = 0.3  # a process that has used less still waits for the disk
_UNUSED_URL = "http://127.0.0.1:9/v1"  # a provider that is never called


class StartupCost(NamedTuple):
    cpu_seconds: float
    resident_mb: float
    children_cpu_seconds: float
    children_mb: float


def run(command: list[str], environment: Mapping[str, str]) -> StartupCost:
    """Start a process, wait until it sleeps, and return its cost so far."""
    nowhere = subprocess.DEVNULL
    process = psutil.Popen([sys.executable, "-m", *command], env=dict(environment), stdout=nowhere, stderr=nowhere)
    try:
        return _once_asleep(process)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _once_asleep(process: psutil.Popen) -> StartupCost:
    polls_asleep = 0
    while polls_asleep < _POLLS:
        time.sleep(_ASLEEP_SECONDS / _POLLS)
        asleep = _cpu_seconds(process) > _IMPORT_SECONDS and not _threads_awake(process.pid)
        polls_asleep = polls_asleep + 1 if asleep else 0
    return _cost(process)


def _threads_awake(pid: int) -> int:
    """Return how many threads run, or wait for a processor or the disk."""
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(state != "S" for state in states)


def _cost(process: psutil.Popen) -> StartupCost:
    children = process.children(recursive=True)
    return StartupCost(
        _cpu_seconds(process),
        process.memory_info().rss / 1e6,
        sum(map(_cpu_seconds, children)),
        sum(child.memory_info().rss for child in children) / 1e6,
    )


def _cpu_seconds(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]
        llm_base_url=_UNUSED_URL,
        llm_model="none",
        embedding_base_url=_UNUSED_URL,
        embedding_model="none",
        api_port=0,
    )
    with tempfile.TemporaryDirectory() as folder, Stack(settings, Path(folder)) as stack:
        environment = {**os.environ, **stack.environment()}
        subprocess.run([sys.executable, "-m", "shared.ledger"], env=environment, check=True)
        print("role        CPU s  resident MB   children CPU s  children MB")
        for role, command in ROLES.items():
            runs = [run(command, environment) for _ in range(_RUNS)]
            cost = StartupCost(*(statistics.median(values) for values in zip(*runs, strict=True)))
            children = f"{cost.children_cpu_seconds:15.2f}  {cost.children_mb:11.0f}" if cost.children_mb else ""
            print(f"{role:10} {cost.cpu_seconds:6.2f}  {cost.resident_mb:11.0f} {children}", flush=True)


if __name__ == "__main__":
    main()
