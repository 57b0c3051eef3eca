"""Two servers of PostgreSQL: a primary, and a standby that follows it by streaming replication and may replace it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import asyncpg
import psutil

from embedded import postgres
from embedded.ports import free_port
from embedded.supervisor import Child
from tests.support.fleet import Proxy
from tests.support.waiting import TIMEOUT_SECONDS

_REPLICATING = ("--wal_level=replica", "--max_wal_senders=8", "--hot_standby=on", "--wal_receiver_timeout=60s")


class ReplicatedPostgres:
    """A primary and its standby; a context manager that starts and stops them.

    Args:
        folder: folder of both clusters.
        synchronous: whether a commit waits for the standby.
    """

    def __init__(self, folder: Path, *, synchronous: bool) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            _kill(process)
        if hasattr(self, "_replication"):
            self._replication.close()

    def _start(self) -> None:
        first = self._child("primary")
        self._primary = self._run(first)
        self.url = postgres.url(self._folder / "primary", self._port)
        _wait_for(self.url)
        self._replication = Proxy({"replication": urlsplit(self.url).netloc.rpartition("@")[2]})
        over_proxy = self.url.replace(f":{self._port}/", f":{self._replication.ports['replication']}/")
        standby = self._folder / "standby" / "cluster"
        standby.mkdir(parents=True, mode=0o700)
        if first.user is not None:
            os.chown(standby, *first.user)
        backup = [str(postgres.binary("pg_basebackup")), "-D", "/proc/self/cwd", "-R", "-X", "stream", "-c", "fast"]
        self._run_once([*backup, "-d", over_proxy], replace(first, directory=standby))
        (self._folder / "standby" / "password").write_text((self._folder / "primary" / "password").read_text())
        self._run(self._child("standby"))
        self.standby_url = postgres.url(self._folder / "standby", self._port)
        _wait_for(self.standby_url)
        if self._synchronous:
            _execute(self.url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            _execute(self.url, "SELECT pg_reload_conf()")
        _until(lambda: _value(self.url, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1)

    def lag(self) -> None:
        """Send nothing to the standby from now on."""
        self._replication.change("replication", "hole")

    def kill_primary(self) -> None:
        """Send SIGKILL to the primary and all of its processes."""
        _kill(self._primary)

    def promote(self) -> None:
        """Make the standby the primary. Commits that it has not received are lost."""
        self._replication.change("replication", "cut")
        _execute(self.standby_url, "SELECT pg_promote(true, 60)")
        self.url = self.standby_url

    def _child(self, name: str) -> Child:
        self._port = free_port()
        child = postgres.child(self._folder / name, self._port, self._folder / f"{name}.log", durable=False)
        return replace(child, command=[*child.command, *_REPLICATING])

    def _run(self, child: Child) -> subprocess.Popen[bytes]:
        with child.log.open("ab") as log:
            process = subprocess.Popen(child.command, stdout=log, stderr=log, **_options(child))
        self._running.append(process)
        return process

    def _run_once(self, command: list[str], child: Child) -> None:
        subprocess.run(command, check=True, capture_output=True, **_options(child))


def _options(child: Child) -> dict[str, Any]:
    uid, gid = child.user or (None, None)
    groups = None if uid is None else []
    return {"cwd": child.directory, "env": child.environment, "user": uid, "group": gid, "extra_groups": groups}


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(psutil.NoSuchProcess):
        server = psutil.Process(process.pid)
        for each in (server, *server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()


def _execute(url: str, statement: str) -> None:
    _value(url, statement)


def _value(url: str, statement: str) -> Any:
    async def fetch() -> Any:
        connection = await asyncpg.connect(url, timeout=TIMEOUT_SECONDS)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(fetch())


def _wait_for(url: str) -> None:
    def answers() -> bool:
        with suppress(OSError, asyncpg.PostgresError):
            return bool(_value(url, "SELECT 1"))
        return False

    _until(answers)


def _until(condition: Any) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "PostgreSQL did not start, or the standby does not follow"
        time.sleep(0.05)
