"""The API, the workers and the scheduler as supervised child processes."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from embedded.supervisor import Child, Supervisor
from shared.domain.database_roles import APP_ROLE, PARSE_ROLE, SCALE_ROLE
from shared.domain.errors import Unavailable
from shared.settings import Settings
from shared.settings.sources import secrets, variables_of

_TIMEOUT_SECONDS = 2.0
_OF_FILES = (("workers", "parse"), ("workers", "read"))  # programs that process untrusted files
_SECRETS_OF_PARSERS = {"database_url", "redis_url", "store_options"}
_PASSWORDS = {
    APP_ROLE: "FOREASK_APP_DATABASE_PASSWORD",
    PARSE_ROLE: "FOREASK_PARSE_DATABASE_PASSWORD",
    SCALE_ROLE: "FOREASK_SCALE_DATABASE_PASSWORD",
}
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class Crew:
    """Numbers of worker processes of each kind."""

    parse: int = 1
    read: int = 1  # none if OCR is off
    generate: int = 1
    index: int = 1


class Programs:
    """Children that are supervised and stopped concurrently.

    Args:
        children: processes to start; the first one is started before the others.
        on_failure: function that receives the error of a child that cannot be restarted; called from another thread.
    """

    def __init__(self, children: Sequence[Child], on_failure: Callable[[Unavailable], None]) -> None:
        self.names = [child.name for child in children]
        self._supervisors = [Supervisor([child], on_failure) for child in children]

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

    def pids(self) -> dict[str, int]:
        return {name: pid for supervisor in self._supervisors for name, pid in supervisor.pids().items()}


def children(
    environment: Mapping[str, str], logs: Path, crew: Crew, *, host: str, port: int, grace: timedelta
) -> Iterator[Child]:
    """Yield the API, the workers and the scheduler.

    Args:
        environment: settings for all children.
        logs: folder of the log files.
        crew: numbers of workers.
        host: address on which the API listens.
        port: port on which the API listens.
        grace: longest time that a stopping worker waits for its open calls.
    """
    serving, parsing = as_role(environment, APP_ROLE), as_role(environment, PARSE_ROLE)

    def child(name: str, *command: str) -> Child:
        return Child(
            name=name,
            command=[sys.executable, "-m", *command],
            log=logs / f"{name}.log",
            environment=without_keys(parsing) if command in _OF_FILES else serving,
            healthy=(lambda: is_live(host, port)) if name == "api" else lambda: True,
            stop_timeout=grace + timedelta(seconds=5),
        )

    yield child("api", "api", "--checked")
    for queue, count in (
        ("parse", crew.parse),
        ("read", crew.read),
        ("generate", crew.generate),
        ("index", crew.index),
    ):
        for number in range(1, count + 1):
            yield child(f"worker-{queue}" + (f"-{number}" if count > 1 else ""), "workers", queue)
    yield child("scheduler", "workers", "scheduler")


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a worker that handles untrusted files, without keys that it does not use."""
    unused = (field for field in secrets(Settings) if field[0] not in _SECRETS_OF_PARSERS)
    return {**environment, **{variable: "" for name, field in unused for variable in variables_of(name, field)}}


def as_role(environment: Mapping[str, str], role: str) -> dict[str, str]:
    """Return the settings with the role in PostgreSQL's URL, if its password is set, and without other passwords."""
    result = {**environment, **dict.fromkeys(_PASSWORDS.values(), "")}
    if password := environment.get(_PASSWORDS[role]):
        url = urlsplit(environment["FOREASK_DATABASE_URL"])
        address = f"{role}:{quote(password, safe='')}@{url.netloc.rpartition('@')[2]}"
        result["FOREASK_DATABASE_URL"] = urlunsplit(url._replace(netloc=address))
    return result


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
