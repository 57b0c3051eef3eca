"""The API, the workers and the scheduler as supervised child processes."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from embedded.forks import Forks
from embedded.supervisor import Child, Supervisor, execute
from shared.domain.access.database_roles import APP_ROLE, PARSE_ROLE
from shared.domain.errors import Unavailable
from shared.settings import secrets_of_roles

# The modules that each program imports until it works; workers need late imports of libraries, too.
_OF_WORKERS = (
    "workers.process",
    "shared.broker.transport",
    "celery.app.amqp",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.thread",
    "celery.worker.consumer",
)
MODULES: Mapping[str, Sequence[str]] = {
    "api": ("api.server", "shared.services.api"),
    "parse": (*_OF_WORKERS, "shared.services.parse"),
    "read": (*_OF_WORKERS, "shared.services.read"),
    "ingest": (*_OF_WORKERS, "shared.services.pipeline"),
    "scheduler": ("workers.process", "workers.scheduler", "shared.services.scheduler"),
}
_TIMEOUT_SECONDS = 2.0
_DATABASE_ROLES = {"parse": PARSE_ROLE, "read": PARSE_ROLE}  # they process untrusted files
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """Numbers of worker processes by role."""

    parse: int = 1
    read: int = 1  # none if OCR is off
    ingest: int = 1


class Programs:
    """Children that are supervised and stopped concurrently.

    Args:
        children: processes to start; the first one is started before the others.
        on_failure: function that receives the error of a child that cannot be restarted; called from another thread.
        forks: the process that forks the children, which ends after them; None if each child imports its modules.
    """

    def __init__(
        self, children: Sequence[Child], on_failure: Callable[[Unavailable], None], forks: Forks | None = None
    ) -> None:
        self.names = [child.name for child in children]
        self._supervisors = [Supervisor([child], on_failure) for child in children]
        self._forks = forks

    def start(self) -> None:
        """Start the first child, then all others, and wait until all are healthy.

        The API starts first: on two cores it then answers in a third of the time, and accepted work is queued.

        Raises:
            Unavailable: a child did not start; the message contains the end of its log.
        """
        self._supervisors[0].start()
        with ThreadPoolExecutor(len(self._supervisors)) as pool:
            list(pool.map(Supervisor.start, self._supervisors[1:]))

    def stop(self) -> None:
        """Stop all children concurrently, so that none waits for a worker that finishes its calls."""
        with ThreadPoolExecutor(len(self._supervisors)) as pool:
            list(pool.map(Supervisor.stop, self._supervisors))
        if self._forks is not None:
            self._forks.close()

    def pids(self) -> dict[str, int]:
        return {name: pid for supervisor in self._supervisors for name, pid in supervisor.pids().items()}


def children(
    environment: Mapping[str, str],
    logs: Path,
    worker_counts: WorkerCounts,
    *,
    host: str,
    port: int,
    grace: timedelta,
    forks: Forks | None = None,
) -> Iterator[Child]:
    """Yield the API, the workers and the scheduler.

    Args:
        environment: settings for all children.
        logs: folder of the log files.
        worker_counts: numbers of workers.
        host: address on which the API listens.
        port: port on which the API listens.
        grace: longest time that a stopping worker waits for its open calls.
        forks: the process that forks the children; None if each child imports its modules.
    """

    def child(name: str, role: str, *command: str) -> Child:
        return Child(
            name=name,
            command=[sys.executable, "-m", *command],
            log=logs / f"{name}.log",
            environment=environment_of(role, environment),
            healthy=(lambda: is_live(host, port)) if name == "api" else lambda: True,
            stop_timeout=grace + timedelta(seconds=5),
            launch=execute if forks is None else forks.launch,
            modules=MODULES[role],
        )

    yield child("api", "api", "api", "--checked")
    for role, count in asdict(worker_counts).items():
        for number in range(1, count + 1):
            yield child(f"worker-{role}" + (f"-{number}" if count > 1 else ""), role, "workers", role)
    yield child("scheduler", "scheduler", "workers", "scheduler")


def forks_of(logs: Path) -> Forks | None:
    """Return the process that forks the programs; None where a fork is unsafe, such as on macOS."""
    return Forks(logs / "fork-server.log") if sys.platform == "linux" else None


def environment_of(role: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a process with only the secrets of its role, and with its role in PostgreSQL."""
    return secrets_of_roles.environment_of(role, as_database_role(_DATABASE_ROLES.get(role, APP_ROLE), environment))


def as_database_role(role: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with a role in PostgreSQL's URL, if the role's password is set."""
    password = environment.get(f"{role}_database_password".upper())
    if not password:
        return dict(environment)
    url = urlsplit(environment["FOREASK_DATABASE_URL"])
    address = f"{role}:{quote(password, safe='')}@{url.netloc.rpartition('@')[2]}"
    return {**environment, "FOREASK_DATABASE_URL": urlunsplit(url._replace(netloc=address))}


def is_live(host: str, port: int) -> bool:
    """Return whether the API answers at an address. Raise OSError if no process listens there."""
    connection = http.client.HTTPConnection(reachable(host), port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status == http.client.OK
    except http.client.HTTPException:
        return False
    finally:
        connection.close()


def reachable(host: str) -> str:
    """Return the address at which this machine reaches a server that listens on `host`."""
    return _ANY_ADDRESS.get(host, host)
