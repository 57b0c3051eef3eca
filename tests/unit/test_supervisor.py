"""The supervisor reports every failure of a child to its caller."""

import os
import signal
import subprocess
import threading
from datetime import timedelta
from queue import SimpleQueue

import pytest
from rich.console import Console

from cli.launcher import Launcher, LaunchPlan, stoppable
from cli.programs import WorkerCounts
from embedded import health
from embedded.supervisor import Backoff, Child, RestartPolicy, Supervisor
from shared.domain.errors import Unavailable
from shared.settings import Settings
from tests.support.waiting import TIMEOUT_SECONDS, wait_until

QUICK = RestartPolicy(base=timedelta(milliseconds=1), ceiling=timedelta(milliseconds=1))


@pytest.fixture
def abandoned():
    return SimpleQueue()


@pytest.fixture
def supervised(tmp_path, abandoned):
    """A function that starts a sleeping child, which is stopped at the end."""
    started = []

    def supervised(healthy, log=tmp_path / "log", seconds=10.0, restart=QUICK):
        child = Child(
            name="sleeper",
            command=["/bin/sleep", "60"],
            log=log,
            healthy=healthy,
            start_timeout=timedelta(seconds=seconds),
            restart=restart,
        )
        started.append(Supervisor([child], abandoned.put))
        started[0].start()
        return started[0]

    yield supervised
    for supervisor in started:
        supervisor.stop()


def test_failing_health_check_is_repeated(supervised):
    answers = iter([subprocess.TimeoutExpired("check", 10), ValueError("unexpected"), ConnectionRefusedError()])

    def healthy():
        if (error := next(answers, None)) is not None:
            raise error
        return True

    assert supervised(healthy).pids().keys() == {"sleeper"}


def test_unstartable_child_is_reported_to_waiter(supervised, tmp_path):
    (tmp_path / "file").write_text("no folder")

    with pytest.raises(Unavailable, match="sleeper could not be started"):
        supervised(lambda: True, log=tmp_path / "file" / "log")


def test_child_that_stays_unhealthy_is_abandoned(supervised, abandoned):
    answers = iter([True])
    supervisor = supervised(lambda: next(answers, False), seconds=0.2)

    os.kill(supervisor.pids()["sleeper"], signal.SIGKILL)

    error = abandoned.get(timeout=TIMEOUT_SECONDS)
    assert error.message.startswith("sleeper was not healthy after 0.2 s")
    assert error.component == "sleeper"


def test_child_that_cannot_restart_is_abandoned(supervised, abandoned, tmp_path):
    folder = tmp_path / "logs"
    supervisor = supervised(lambda: True, log=folder / "log")
    folder.rename(tmp_path / "moved")
    folder.write_text("no folder")

    os.kill(supervisor.pids()["sleeper"], signal.SIGKILL)

    assert "could not be started" in abandoned.get(timeout=TIMEOUT_SECONDS).message


def test_serving_child_is_restarted_repeatedly(supervised, abandoned):
    supervisor = supervised(lambda: True)
    known_pids = set()
    for _ in range(6):  # more often than a child may fail to start
        while not (pids := set(supervisor.pids().values()) - known_pids):
            assert abandoned.empty()
        known_pids |= pids
        os.kill(*pids, signal.SIGKILL)


def test_repeatedly_killed_child_restarts_without_delay(supervised):
    any_run_is_useful = RestartPolicy(
        base=timedelta(milliseconds=50),
        ceiling=timedelta(hours=1),
        early=timedelta(),
        forgotten_after=timedelta(hours=1),
    )
    supervisor = supervised(lambda: True, restart=any_run_is_useful)
    for _ in range(14):  # if each exit doubled the delay, the last one would be seven minutes
        (pid,) = supervisor.pids().values()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda killed=pid: set(supervisor.pids().values()) - {killed})


@pytest.mark.parametrize(
    ("runs", "delays"),
    [
        ([7] * 16, [1] * 16),
        ([5, 5], [1, 1]),  # an early exit is before five seconds
        ([0, 0, 0, 0, 0], [1, 2, 4, 8, 8]),
        ([0, 0, 0, 7, 0], [1, 2, 4, 4, 8]),  # a short useful run does not show that the cause is repaired
        ([0, 0, 0, 30, 30, 0], [1, 2, 4, 4, 1, 1]),
        ([0, 0, 0, 30, 0, 30, 0], [1, 2, 4, 4, 8, 8, 8]),
        ([0, 0, 0, 60, 0], [1, 2, 4, 1, 1]),
    ],
)
def test_only_early_exits_lengthen_restart_delay(runs, delays):
    policy = RestartPolicy(base=timedelta(seconds=1), ceiling=timedelta(seconds=8))
    backoff = Backoff(policy)

    assert [backoff.after_exit(seconds) for seconds in runs] == delays


def test_unresponsive_postgres_is_not_ready(monkeypatch):
    def hangs(*_, timeout, **__):
        raise subprocess.TimeoutExpired("pg_isready", timeout)

    monkeypatch.setattr(subprocess, "run", hangs)
    assert not health.postgres_ready("pg_isready", 5432)


@pytest.fixture
def launcher(tmp_path):
    return Launcher(
        LaunchPlan(Settings(_env_file=None, data_dir=tmp_path), WorkerCounts(), port=0), Console(quiet=True)
    )


def test_launcher_exits_with_message_of_failed_part(launcher):
    threading.Timer(0.05, launcher._failures.put, [Unavailable("qdrant exited", component="qdrant")]).start()

    with pytest.raises(Unavailable, match="qdrant exited"):
        launcher.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_waiting_launcher(launcher, number):
    threading.Timer(0.05, os.kill, [os.getpid(), number]).start()

    with stoppable():
        launcher.wait()
