"""The CPU time of health checks: `python -m bench probes [--minutes M]`.

Ten idle workers run for M minutes without health checks, and for M minutes with the check of docker-compose.yml every
10 s each. The result contains the CPU time of the checks and the additional CPU time of the workers. The engine of
containers, which starts the check in the container, is not measured.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml

from embedded.ports import free_port
from tests.support.deployment import ROOT, Deployment, ScriptedProvider
from tests.support.waiting import wait_until

_WORKERS = {"parse": 4, "generate": 3, "index": 3}
_EVERY_SECONDS = 10.0
_SETTLE_SECONDS = 20.0


def probe(port: int) -> bool:
    """Run the health check of a worker."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    command = [word.replace("$$", "$") for word in compose["services"]["worker-index"]["healthcheck"]["test"][1:]]
    environment = {"PATH": os.environ["PATH"], "FOREASK_METRICS_PORT": str(port)}
    return subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, check=False).returncode == 0


def cpu_seconds(pids: list[int]) -> float:
    """Return the CPU time of processes, with their child processes."""
    family = [each for pid in pids for each in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))]
    return sum(times.user + times.system for times in (process.cpu_times() for process in family))


def idle(pids: list[int], minutes: float, ports: list[int]) -> tuple[float, float]:
    """Return the CPU seconds of the workers and of the checks while the workers are idle."""
    before, checks, started = cpu_seconds(pids), 0.0, time.monotonic()
    for number in range(round(minutes * 60 / _EVERY_SECONDS * len(pids))):
        if ports:
            spent = os.times()
            assert probe(ports[number % len(ports)])
            now = os.times()
            checks += now.children_user + now.children_system - spent.children_user - spent.children_system
        time.sleep(max(0.0, started + (number + 1) * _EVERY_SECONDS / len(pids) - time.monotonic()))
    return cpu_seconds(pids) - before, checks


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5.0)
    minutes = parser.parse_args().minutes
    provider = ScriptedProvider()
    with (
        tempfile.TemporaryDirectory() as folder,
        Deployment(provider.settings(), Path(folder), roles=(), durable=False) as deployment,
    ):
        ports, pids = [], []
        for role, count in _WORKERS.items():
            for number in range(count):
                ports.append(free_port())
                command = [sys.executable, "-m", "workers", role]
                pids.append(deployment.run(f"{role}-{number}", command, metrics_port=ports[-1]).pid)
                wait_until(lambda port=ports[-1]: probe(port))
        time.sleep(_SETTLE_SECONDS)
        without, _ = idle(pids, minutes, [])
        workers, checks = idle(pids, minutes, ports)
    provider.close()
    count, seconds = minutes * 60 / _EVERY_SECONDS * len(pids), minutes * 60
    print(f"one check                 {1000 * checks / count:8.2f} ms of CPU")
    print(f"one reply of a worker     {1000 * (workers - without) / count:8.2f} ms of CPU")
    print(f"all checks and replies    {100 * (checks + workers - without) / seconds:8.2f} % of a core")
    print(f"ten idle workers          {100 * without / seconds:8.2f} % of a core without checks")


if __name__ == "__main__":
    main()
