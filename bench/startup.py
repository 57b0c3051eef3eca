"""The cost of each process before it does any work: `python -m bench startup`.

Every role is started a few times over the same embedded engines, until it has been asleep for a second. The table has
the medians: processor seconds and resident memory of the process itself, and of its children (the parse worker's
sandbox). Then all roles are started together, as by `foreask up`, which forks them from one process; its last line has
the sums. Memory is proportional there: a page that several processes share is counted once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import psutil

from cli.programs import Programs, WorkerCounts, children, forks_of
from embedded.ports import free_port
from embedded.stack import Stack
from shared.settings import Settings

ROLES = {
    "api": ["api"],
    "parse": ["workers", "parse"],
    "generate": ["workers", "generate"],
    "ingest": ["workers", "ingest"],
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


def _once_asleep(process: psutil.Process, import_seconds: float = _IMPORT_SECONDS) -> StartupCost:
    polls_asleep = 0
    while polls_asleep < _POLLS:
        time.sleep(_ASLEEP_SECONDS / _POLLS)
        asleep = _cpu_seconds(process) > import_seconds and not _threads_awake(process.pid)
        polls_asleep = polls_asleep + 1 if asleep else 0
    return _cost(process)


def _threads_awake(pid: int) -> int:
    """Return how many threads run, or wait for a processor or the disk."""
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(state != "S" for state in states)


def _cost(process: psutil.Process) -> StartupCost:
    own_children = process.children(recursive=True)
    return StartupCost(
        _cpu_seconds(process),
        process.memory_info().rss / 1e6,
        sum(map(_cpu_seconds, own_children)),
        sum(child.memory_info().rss for child in own_children) / 1e6,
    )


class SharedCost(NamedTuple):
    """The cost of a process with its children; a page that n processes share counts as 1/n."""

    cpu_seconds: float
    proportional_mb: float


@contextmanager
def together(environment: Mapping[str, str], logs: Path) -> Iterator[dict[str, int]]:
    """Start all roles as `foreask up` does; yield their process ids and the id of the process that forks them."""
    forks, port = forks_of(logs), free_port()
    here = {**environment, "FOREASK_API_PORT": str(port)}
    counts, grace = WorkerCounts(read=0), timedelta(seconds=5)
    processes = children(here, logs, counts, host="127.0.0.1", port=port, grace=grace, forks=forks)
    programs = Programs(list(processes), print, forks)
    programs.start()
    try:
        own = {} if forks is None or forks.pid is None else {"imports": forks.pid}
        yield programs.pids() | own
    finally:
        programs.stop()


def shared_costs(pids: Mapping[str, int]) -> dict[str, SharedCost]:
    """Wait until the processes sleep, and return their costs so far by name."""
    processes = {name: psutil.Process(pid) for name, pid in pids.items()}
    for process in processes.values():
        _once_asleep(process, import_seconds=0.0)
    known = set(pids.values())
    costs = {}
    for name, process in processes.items():
        whole = [process, *(child for child in process.children() if child.pid not in known)]
        cpu = sum(map(_cpu_seconds, whole))
        costs[name] = SharedCost(cpu, sum(each.memory_full_info().pss for each in whole) / 1e6)
    return costs


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
            sandbox = f"{cost.children_cpu_seconds:15.2f}  {cost.children_mb:11.0f}" if cost.children_mb else ""
            print(f"{role:10} {cost.cpu_seconds:6.2f}  {cost.resident_mb:11.0f} {sandbox}", flush=True)
        print("\ntogether          CPU s  proportional MB")
        runs_together = []
        for number in range(_RUNS):
            with together(stack.environment(), Path(folder) / f"logs-{number}") as pids:
                runs_together.append(shared_costs(pids))
        for name in runs_together[0]:
            _print_shared(name, [run[name] for run in runs_together])
        _print_shared("sum", [SharedCost(*map(sum, zip(*run.values(), strict=True))) for run in runs_together])


def _print_shared(name: str, runs: list[SharedCost]) -> None:
    cost = SharedCost(*(statistics.median(values) for values in zip(*runs, strict=True)))
    print(f"{name:16} {cost.cpu_seconds:6.2f}  {cost.proportional_mb:15.0f}", flush=True)


if __name__ == "__main__":
    main()
