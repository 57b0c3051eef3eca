"""Liveness: a process reports whether its event loop runs; the report needs neither the loop nor an engine."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager

import httpx
import pytest

from embedded.ports import free_port
from shared.process import liveness
from shared.process.liveness import LIVE_SECONDS, LoopHeartbeat, answering, local_processes
from shared.process.telemetry import metrics
from tests.support.api import WITHOUT_CERTIFICATES
from tests.support.clock import ManualClock
from tests.support.deployment import ROOT
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, wait_until

ROLE = f"test{os.getpid()}"  # no other process of this machine has it


class LoopThread:
    """A process's event loop in a thread, so that it can be blocked."""

    def __init__(self, port):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._release = threading.Event()
        self._serving = metrics.serving(ROLE, "127.0.0.1", port)

    def __enter__(self):
        self._thread.start()
        self.port = self._run(self._serving.__aenter__())
        return self

    def __exit__(self, *_):
        self._release.set()
        self._run(self._serving.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def block(self):
        self._loop.call_soon_threadsafe(self._release.wait)

    def release(self):
        self._release.set()

    def reply(self):
        with client_without_proxy() as client:
            return client.get(f"http://127.0.0.1:{self.port}/health/live")


@pytest.fixture
def short(monkeypatch):
    """A loop counts as blocked after half a second."""
    monkeypatch.setattr(liveness, "LIVE_SECONDS", 0.5)
    monkeypatch.setattr(metrics, "_LAG_EVERY_SECONDS", 0.01)


def test_loop_without_heartbeats_is_dead_after_thirty_seconds():
    clock = ManualClock()
    heartbeat = LoopHeartbeat("parse", clock)
    clock.now = LIVE_SECONDS
    assert heartbeat.is_live
    clock.now += 0.1
    assert not heartbeat.is_live
    heartbeat.beat()
    assert heartbeat.is_live


@guards(
    "shared/process/telemetry/metrics.py",
    "if heartbeat.is_live else",
    "if True else",
    means="a process with a blocked loop is reported as live",
)
def test_blocked_loop_is_reported_by_port_and_socket(short):
    with LoopThread(0) as process:
        wait_until(lambda: process.reply().status_code == 200)
        assert process.reply().json()["role"] == ROLE
        assert [each.is_live for each in local_processes(ROLE)] == [True]

        process.block()
        wait_until(lambda: process.reply().status_code == 503)
        assert process.reply().json()["status"] == "blocked"
        assert process.reply().json()["silent_seconds"] >= 0.5
        wait_until(lambda: [(each.pid, each.is_live) for each in local_processes(ROLE)] == [(os.getpid(), False)])

        process.release()
        wait_until(lambda: process.reply().status_code == 200)


def test_process_of_another_deployment_is_not_found(monkeypatch):
    monkeypatch.setenv("FOREASK_DATABASE_URL", "postgresql://app:a@one/foreask")
    with LoopThread(None):
        monkeypatch.setenv("FOREASK_DATABASE_URL", "postgresql://app:a@two/foreask")
        assert not list(local_processes(ROLE))
        monkeypatch.setenv("FOREASK_DATABASE_URL", "postgresql://owner:b@one/foreask")
        assert [each.is_live for each in local_processes(ROLE)] == [True]


def test_process_without_port_is_found_while_it_runs():
    with LoopThread(None) as process:
        assert process.port is None
        assert [each.is_live for each in local_processes(ROLE)] == [True]
        assert not list(local_processes("test"))
    assert not list(local_processes(ROLE))
    assert "liveness" not in {thread.name for thread in threading.enumerate()}


@asynccontextmanager
async def frozen():
    """Yield a process whose threads do not answer, as after SIGSTOP."""
    code = (
        "import sys, time; from shared.process.liveness import *; from shared.process import liveness\n"
        "liveness._answer_all = lambda *_: time.sleep(3600)\n"
        f"with answering(LoopHeartbeat({ROLE!r})): print('ready', flush=True); time.sleep(3600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def test_frozen_process_does_not_count_as_live(monkeypatch):
    monkeypatch.setattr(liveness, "_TIMEOUT_SECONDS", 0.05)
    async with frozen() as process:
        assert [(each.pid, each.silent_seconds) for each in local_processes(ROLE)] == [(process.pid, None)]


@contextmanager
def worker(log, **variables):
    """Start a read worker, whose ledger does not exist, and yield the process."""
    with log.open("wb") as file:
        command, environment = [sys.executable, "-m", "workers", "read"], {**os.environ, **variables}
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_read_worker_without_ocr_stays_healthy_and_idle(tmp_path, monkeypatch):
    log, port = tmp_path / "log", free_port()
    ledger = f"postgresql://a:b@127.0.0.1:{free_port()}/c"
    monkeypatch.setenv("FOREASK_DATABASE_URL", ledger)
    with worker(log, FOREASK_OCR="off", FOREASK_METRICS_PORT=str(port)) as process, client_without_proxy() as client:
        wait_until(lambda: "worker.idle" in log.read_text() or process.poll() is not None)
        address = f"http://127.0.0.1:{port}"
        assert client.get(f"{address}/health/live").status_code == 200, log.read_text()
        assert health("read")[0] == 0
        assert "foreask_process_info{" not in client.get(f"{address}/metrics").text  # so that alerts report its absence
        process.terminate()
        assert process.wait(TIMEOUT_SECONDS) == 0

    assert log.read_text().count("FOREASK_OCR is off.") == 1


def client_without_proxy():
    return httpx.Client(trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=TIMEOUT_SECONDS)


def health(*arguments, **variables):
    """Run `foreask health` in a process, with the modules that it has imported."""
    code = "import json, sys; from cli.__main__ import run\ntry: run()\nfinally: print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code, "health", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr, set(json.loads(done.stdout.splitlines()[-1]))


def test_health_command_asks_process_and_imports_little():
    with answering(LoopHeartbeat(ROLE)):
        code, _, imported = health(ROLE)
    assert code == 0
    unused = {"asyncio", "asyncpg", "sqlalchemy", "pydantic", "shared.settings", "structlog", "typer"}
    assert imported.isdisjoint(unused)


def test_health_command_names_blocked_process():
    clock = ManualClock()
    with answering(LoopHeartbeat(ROLE, clock)):
        clock.now = 45
        code, said, _ = health(ROLE)
    assert (code, said) == (1, f"The {ROLE} process {os.getpid()} has not responded for 45 s.\n")


def test_health_command_without_process_reads_ledger():
    code, _, imported = health(ROLE, FOREASK_DATABASE_URL=f"postgresql://a:b@127.0.0.1:{free_port()}/c")
    assert code == 0  # the ledger is unavailable, so the state is unknown
    assert "asyncpg" in imported
    assert "sqlalchemy" not in imported  # only migrations need it
