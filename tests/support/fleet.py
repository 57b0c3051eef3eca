"""A deployment under fault: several workers per role, restarted when they die, and a proxy in front of each engine."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import asyncpg
import httpx
import orjson
import psutil
from pydantic import SecretStr

from shared.settings import Settings
from tests.support.deployment import ROOT, Deployment, Launch, Process, execute
from tests.support.dying import PASSED
from tests.support.waiting import TIMEOUT_SECONDS

CREW = ("parse-1", "generate-1", "generate-2", "index-1", "index-2", "scheduler-1")
LINKS = {"ledger": "FOREASK_DATABASE_URL", "broker": "FOREASK_REDIS_URL", "qdrant": "FOREASK_QDRANT_URL"}
KEYS = {
    tenant: f"{tenant}-0123456789abcdef0123456789"
    for tenant in ("default", "flood", "few", "leaving", "staying", "stalled")
}
_WATCH_SECONDS = 0.05
_CLAIMED_CALLS = """
    SELECT count(*) FROM chunks WHERE state = 'generating' AND leased_by LIKE '%:' || $1::text
"""

_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY(pg_blocking_pids(pid))"


@dataclass(frozen=True)
class Job:
    """The command of a process: a module with arguments, and settings that override the fleet's settings."""

    module: str
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)

    def command(self) -> list[str]:
        return [sys.executable, "-m", self.module, *self.arguments]


@dataclass(frozen=True)
class Death:
    """A process that exited by a signal or a crash; `in_flight` is the number of its unfinished calls."""

    name: str
    pid: int
    code: int
    in_flight: int


class Proxy:
    """`tests.support.proxy` as a process, and its remote control."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "tests.support.proxy", orjson.dumps(targets).decode()]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self.ports: dict[str, int] = orjson.loads(self._process.stdout.readline())
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.ports['control']}", trust_env=False, timeout=TIMEOUT_SECONDS
        )

    def change(self, link: str, mode: str = "pass", **fault: Any) -> None:
        self._client.post(f"/{link}", json={"mode": mode, **fault}).raise_for_status()

    def turn(self, link: str, target: str) -> None:
        """Forward new connections of a link to another engine."""
        self._client.put(f"/{link}", content=target).raise_for_status()

    def report(self, link: str) -> dict[str, int]:
        return self._client.get(f"/{link}").raise_for_status().json()

    def close(self) -> None:
        self._client.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Fleet(Deployment):
    """A deployment whose processes are restarted when they die, as by an orchestrator.

    Its client uses the key of one tenant at a time, initially the key of `default`.
    """

    def __init__(self, settings: Settings, data_dir: Path, *, launch: Launch, crew: Sequence[str] = CREW) -> None:
        super().__init__(settings, data_dir, roles=(), launch=launch, durable=False)
        self.crew = tuple(crew)
        self.deaths: list[Death] = []
        self.proxy: Proxy | None = None
        self._jobs: dict[str, Job] = {}
        self._next: dict[str, Job] = {}  # the job that is started when a process dies
        self._watched = threading.Lock()
        self._ending = threading.Event()
        self._watch = threading.Thread(target=self._keep_running, name="orchestrator", daemon=True)
        self.use_key_of("default")

    def start(self) -> Self:
        self.stack.start()
        self.proxy = Proxy({link: _address(self._url(variable)) for link, variable in LINKS.items()})
        self._start_processes()
        self._watch.start()
        return self

    def restart(self) -> None:
        """Kill every process at once, including the engines, and start all of them over the same data."""
        with self._watched:
            before = {name: process.pid for name, process in self.processes.items()}
            self.kill_everything()
            self.stack.start()
            for name, pid in before.items():
                self.deaths.append(Death(name, pid, -signal.SIGKILL, self.calls_claimed_by(pid)))
            self._start_processes()

    def stop(self) -> None:
        self._ending.set()
        if self._watch.ident:
            self._watch.join()
        for process in self.processes.values():  # no test reads the results of an orderly exit
            with suppress(ProcessLookupError):
                process.kill()
        super().stop()
        if self.proxy is not None:
            self.proxy.close()

    def assign(self, name: str, job: Job) -> Process:
        """Run a job under a name, and restart it whenever its process dies."""
        self._jobs[name] = self._next[name] = job
        return self.run(name, job.command(), **job.settings)

    def use_key_of(self, tenant: str) -> None:
        self.client.headers["authorization"] = f"Bearer {KEYS[tenant]}"

    def environment(self) -> Mapping[str, str]:
        assert self.proxy is not None
        environment = dict(super().environment())
        for link, variable in LINKS.items():
            environment[variable] = environment[variable].replace(
                _address(environment[variable]), f"127.0.0.1:{self.proxy.ports[link]}"
            )
        return environment

    def fault(self, link: str, mode: str = "pass", **more: Any) -> None:
        assert self.proxy is not None
        self.proxy.change(link, mode, **more)

    def move_ledger(self, url: str) -> None:
        """Forward the connections of all processes to another server of PostgreSQL, which was promoted."""
        assert self.proxy is not None
        self.stack.settings = self.stack.settings.model_copy(update={"database_url": SecretStr(url)})
        self.proxy.turn("ledger", _address(url))

    def signal(self, name: str, number: int) -> None:
        with suppress(ProcessLookupError):
            self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)

    def replace(self, jobs: Mapping[str, Job], *, for_good: bool = False) -> None:
        """Stop the workers with these names, if any, start others under their names, and wait for their start.

        When one of them dies, the usual worker replaces it; with `for_good` the same job is started again.
        """
        before = {name: self.started(name) for name in jobs}
        with self._watched:
            self._stop_processes(*jobs)
            for name, job in jobs.items():
                self.assign(name, job)
                self._next[name] = job if for_good else worker(name)
        self._wait_for_workers(before)

    @contextmanager
    def api_as(self, job: Job) -> Iterator[None]:
        """Run another job as the API within the block."""
        self._serve_by(job)
        try:
            yield
        finally:
            self._serve_by(Job("api"))

    def _serve_by(self, job: Job) -> None:
        with self._watched:
            self._stop_processes("api")
            self.assign("api", job)
        self.wait_until(self.accepts, "the API did not start")

    def _stop_processes(self, *names: str) -> None:
        ending = [self.processes.pop(name) for name in names if name in self.processes]
        for process in ending:
            process.terminate()
        for process in ending:
            process.wait(timeout=TIMEOUT_SECONDS)

    @contextmanager
    def executing(self) -> Iterator[None]:
        """Within the block, start processes as an orchestrator does: with a new interpreter that imports everything."""
        forked, self.launch = self.launch, execute
        try:
            yield
        finally:
            self.launch = forked

    def roll(self, name: str) -> None:
        """Stop a process and wait until its successor works."""
        before, process = self.started(name), self.processes[name]
        process.terminate()
        try:
            process.wait(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} did not exit in time\n{self.logs()}") from None
        self.wait_until(lambda: self._restarted(name, before, process.pid), f"{name} was not restarted")

    def _restarted(self, name: str, before: int, old: int) -> bool:
        if name == "api":
            return self.accepts()
        if name.startswith("scheduler"):
            return self.processes[name].pid != old
        return self.started(name) > before

    def signal_at(self, name: str, point: str, *, nth: int = 1, number: str = "KILL") -> int:
        """Replace a worker by a process that sends itself a signal at a point of `tests.support.dying`."""
        self.replace({name: Job("tests.support.dying", (role_of(name), point, str(nth), number))})
        return self.processes[name].pid

    def resume(self, name: str) -> None:
        """Resume a worker that stopped at a point, and replace it: before it exits, it settles its claims."""
        passed = self.log(name).count(PASSED)
        self.signal(name, signal.SIGCONT)
        self.wait_until(lambda: self.log(name).count(PASSED) > passed, f"{name} did not continue", 20)
        self.replace({name: worker(name)})

    def recover(self) -> None:
        """Restore the usual processes: resume stopped ones, and remove the workers of a single scenario."""
        for name in self.processes:
            self.signal(name, signal.SIGCONT)
        with self._watched:
            self._stop_processes(*(self.processes.keys() - self.crew - {"api"}))
        self.replace({name: worker(name) for name in self.crew if self._jobs[name] != worker(name)})

    @contextmanager
    def paused(self, *names: str) -> Iterator[None]:
        """Stop these processes by SIGSTOP within the block."""
        for name in names:
            self.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            for name in names:
                self.signal(name, signal.SIGCONT)

    def is_stopped(self, name: str) -> bool:
        return psutil.Process(self.processes[name].pid).status() == psutil.STATUS_STOPPED

    def calls_claimed_by(self, pid: int) -> int:
        """Return the number of calls that a worker has claimed."""
        return int(self.query(_CLAIMED_CALLS, str(pid))[0]["count"])

    def calls_claimed(self) -> int:
        """Return the number of calls that all workers have claimed."""
        return int(self.query(_CLAIMED_CALLS, "%")[0]["count"])

    def accepts(self) -> bool:
        """Return whether the API is ready; its status may be a second old, so it must also read the ledger."""
        return all(self.client.get(path).status_code == 200 for path in ("/health/ready", "/v1/collections"))

    def wait_until(self, condition: Callable[[], bool], failure: str, timeout: float = TIMEOUT_SECONDS) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                if condition():
                    return
            time.sleep(0.05)
        raise AssertionError(f"{failure} in {timeout:g} s\n{self.logs()}")

    def started(self, name: str) -> int:
        """Return how often a worker has started, or a scheduler has been elected."""
        return self.log(name).count("scheduler.elected" if name.startswith("scheduler") else "worker.started")

    def log(self, name: str) -> str:
        path = self.data_dir / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def query(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        """Query the ledger directly, without the proxy."""
        return asyncio.run(_query(self._url("FOREASK_DATABASE_URL"), statement, *arguments))

    @contextmanager
    def holding(self, statement: str, *arguments: object) -> Iterator[Callable[[], None]]:
        """Hold the locks of a statement within the block; yield a function that waits until they block another session.

        The transaction is rolled back at the end of the block.
        """
        with asyncio.Runner() as runner:
            connection = runner.run(asyncpg.connect(self._url("FOREASK_DATABASE_URL"), timeout=TIMEOUT_SECONDS))
            pid = connection.get_server_pid()
            try:
                runner.run(connection.execute("BEGIN"))
                runner.run(connection.fetch(statement, *arguments))
                yield lambda: self.wait_until(
                    lambda: self.query(_WAITING, pid)[0]["count"] > 0, "no session waits for the locks"
                )
            finally:
                runner.run(connection.close())

    def report(self, link: str) -> dict[str, int]:
        assert self.proxy is not None
        return self.proxy.report(link)

    def engine(self, name: str) -> int:
        """Return the process id of an engine, 0 while it is not running."""
        return self.stack.pids().get(name, 0)

    def kill_engine(self, name: str) -> None:
        os.kill(self.engine(name), signal.SIGKILL)

    def _url(self, variable: str) -> str:
        return self.stack.environment()[variable]

    def _start_processes(self) -> None:
        self.run("migrate", [sys.executable, "-m", "shared.ledger"]).wait()
        del self.processes["migrate"]
        self.assign("api", Job("api"))
        before = {name: self.started(name) for name in self.crew if not name.startswith("scheduler")}
        for name in self.crew:
            self.assign(name, worker(name))
        self._wait_for_api()
        self._wait_for_workers(before)

    def _wait_for_workers(self, before: Mapping[str, int]) -> None:
        """Wait until each worker has started more often than `before`."""
        self.wait_until(
            lambda: all(self.started(name) > times for name, times in before.items()),
            f"{', '.join(before)} did not start",
        )

    def _keep_running(self) -> None:
        while not self._ending.wait(_WATCH_SECONDS):
            with self._watched:
                for name, process in list(self.processes.items()):
                    if process.poll() is not None:
                        self.deaths.append(Death(name, process.pid, process.returncode, self._in_flight(process.pid)))
                        self.assign(name, self._next[name])

    def _in_flight(self, pid: int) -> int:
        """Return the number of calls that a worker had in flight or uncommitted; further claims wait for a commit."""
        slots = self.stack.settings.llm_max_in_flight
        try:
            return min(self.calls_claimed_by(pid), slots)
        except (OSError, asyncpg.PostgresError):
            return slots  # the ledger is unavailable: assume the maximum


def role_of(name: str) -> str:
    return name.partition("-")[0]


def worker(name: str, **settings: object) -> Job:
    """Return the job of a worker by its name, such as `generate-2`."""
    return Job("workers", (role_of(name),), settings)


async def _query(url: str, statement: str, *arguments: object) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(url, timeout=TIMEOUT_SECONDS)
    try:
        return [dict(row) for row in await connection.fetch(statement, *arguments)]
    finally:
        await connection.close()


def _address(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}"
