"""Projects of containers: docker-compose.yml with a scripted provider, used through its API and broken from outside."""

from __future__ import annotations

import json
import secrets
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from cli import keys
from embedded.ports import free_port
from tests.support.deployment import ROOT

ENGINES = ("docker", "podman")
PROJECT = "foreask-compose-test"
COLLECTION = "default"
TIMEOUT_SECONDS = 300.0
QUERIES = ("/v1/retrieve", "/v1/query")  # a query waits for an answer of the model
SECRETS = (
    "POSTGRES_PASSWORD",
    "VALKEY_PASSWORD",
    "QDRANT_API_KEY",
    "FOREASK_APP_DATABASE_PASSWORD",
    "FOREASK_PARSE_DATABASE_PASSWORD",
)
# Counts the documents of the ledger by their state.
STATES = "SELECT state, count(*) FROM documents GROUP BY state"
# Counts the calls that the processes of a container have claimed; its name in the ledger is the start of its id.
CLAIMED_CALLS = "SELECT count(*) FROM chunks WHERE state = 'generating' AND leased_by LIKE '{host}:%'"


def engine(*needed: str) -> str | None:
    """Return the first container engine that answers and has the needed commands, such as `compose`, or None."""
    for name in ENGINES:
        if all(_answers(name, *arguments) for arguments in (("info",), *((each, "version") for each in needed))):
            return name
    return None


def _answers(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}    {line}", flush=True)


def eventually(description: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"timeout after {TIMEOUT_SECONDS:g} s: {description}"
        time.sleep(0.5)
    say(description)


def run(command: Sequence[str]) -> str:
    """Run a command and return its output.

    Raises:
        AssertionError: the command failed; the message has its output and errors.
    """
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command[-6:])} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Access:
    """The settings of a deployment, for `--env-file` and `env_file`, and the key of its API.

    Args:
        values: variables by name.
        key: API key.
    """

    values: Mapping[str, str]
    key: str

    @classmethod
    def new(cls, **more: str) -> Access:
        key = keys.make("default")
        values = {name: secrets.token_hex(24) for name in SECRETS}
        values |= {
            "FOREASK_API_KEYS": key.setting,
            "FOREASK_PORT": str(free_port()),
            "FOREASK_LLM_BASE_URL": "http://provider:8080/v1",
            "FOREASK_LLM_API_KEY": "scripted",
            "FOREASK_LLM_MODEL": "scripted",
            "FOREASK_EMBEDDING_MODEL": "scripted-embedding",
            "PROVIDER_PORT": str(free_port()),
        }
        return cls(values | more, key.key)

    @property
    def ports(self) -> list[int]:
        """The ports of the APIs."""
        first, _, last = self.values["FOREASK_PORT"].partition("-")
        return list(range(int(first), int(last or first) + 1))

    def elsewhere(self) -> Access:
        """Return the same settings for another machine's project, whose API has its own port."""
        return Access({**self.values, "FOREASK_PORT": str(free_port())}, self.key)


class Api:
    """A client of the API of a deployment in containers.

    Args:
        url: address of the API.
        key: API key.
    """

    def __init__(self, url: str, key: str) -> None:
        self.client = httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {key}"}, trust_env=False, timeout=60
        )

    def upload(self, name: str, content: bytes) -> None:
        reply = self.client.post("/v1/documents", files={"file": (name, content)})
        assert reply.status_code == 202, reply.text

    def upload_reports(self, numbers: range) -> None:
        """Upload documents of one chunk each; repeat the request until every document is accepted."""
        lines = [
            {"external_id": f"report-{number}", "text": f"# Report {number}\n\nIts number is {number * number}."}
            for number in numbers
        ]
        eventually(f"{numbers.stop} documents are accepted", lambda: self._accepts(lines))

    def _accepts(self, lines: Sequence[Mapping[str, str]]) -> bool:
        try:
            reply = self.client.post(
                f"/v1/documents:batch?collection={COLLECTION}",
                content="".join(json.dumps(line) + "\n" for line in lines),
                headers={"content-type": "application/x-ndjson"},
            )
        except httpx.TransportError:
            return False
        if reply.status_code == 503:
            return False
        statuses = {json.loads(line)["status"] for line in reply.raise_for_status().text.splitlines()}
        assert statuses <= {200, 202, 503}, reply.text[:1000]
        return 503 not in statuses

    def states(self) -> Counter[str]:
        """Return the number of documents in each state."""
        states, parameters = Counter[str](), {"limit": "200"}
        while True:
            page = self.client.get("/v1/documents", params=parameters).raise_for_status().json()
            states.update(document["state"] for document in page["items"])
            if page["next_cursor"] is None:
                return states
            parameters = {"limit": "200", "cursor": page["next_cursor"]}

    def all_ready(self, count: int) -> bool:
        states = self.states()
        assert not states["failed"], states
        assert not states["degraded"], states
        return states == {"ready": count}

    def is_ready(self) -> bool:
        try:
            return self.client.get("/health/ready").json().get("status") == "ready"
        except httpx.TransportError:
            return False


class Containers(Api):
    """The services of docker-compose.yml as containers of their own project, and clients of their API and provider.

    Args:
        engine: command of the container engine.
        access: settings and API key.
        folder: folder for the file of the settings.
        project: name of the project.
        files: files that are added to docker-compose.yml.
    """

    def __init__(
        self, engine: str, access: Access, folder: Path, project: str = PROJECT, files: Sequence[str] = ()
    ) -> None:
        super().__init__(f"http://127.0.0.1:{access.ports[0]}", access.key)
        self.engine, self.project = engine, project
        self.key = access.key
        environment = folder / f"{project}.env"
        values = {**access.values, "FOREASK_ENV_FILE": str(environment)}
        self._environment, self._values = environment, values
        self._write_settings()
        self._compose = [engine, "compose", "--project-name", project, "--env-file", str(environment)]
        added = [f"tests/acceptance/{file}" for file in ("containers.yml", *files)]
        self._compose += [word for file in ("docker-compose.yml", *added) for word in ("--file", str(ROOT / file))]
        self.provider = httpx.Client(
            base_url=f"http://127.0.0.1:{values['PROVIDER_PORT']}", trust_env=False, timeout=30
        )

    def _write_settings(self) -> None:
        self._environment.write_text("".join(f"{name}={value}\n" for name, value in self._values.items()))

    def use_image(self, image: str) -> None:
        """Create foreask's containers from this image from now on."""
        self._values["FOREASK_IMAGE"] = image
        self._write_settings()

    def image_id(self, image: str) -> str:
        return self.command("image", "inspect", "--format", "{{.Id}}", image).strip()

    def images(self, *services: str) -> set[str]:
        """Return the ids of the images of these services' containers."""
        ids = [container for service in services for container in self.containers(service)]
        return set(self.command("inspect", "--format", "{{.Image}}", *ids).split())

    def healthy(self, service: str) -> int:
        """Return the number of a service's containers that pass their health check."""
        states = self.command("inspect", "--format", "{{.State.Health.Status}}", *self.containers(service))
        return states.split().count("healthy")

    def compose(self, *arguments: str) -> str:
        print("$ compose", *arguments, flush=True)
        return run([*self._compose, *arguments])

    def command(self, *arguments: str) -> str:
        """Run a command of the container engine."""
        return run([self.engine, *arguments])

    def containers(self, service: str) -> list[str]:
        """Return the ids of a service's containers."""
        label = f"label=com.docker.compose.project={self.project}"
        of_service = f"label=com.docker.compose.service={service}"
        return self.command("ps", "--all", "--quiet", "--filter", label, "--filter", of_service).split()

    def script(self, **changes: Any) -> None:
        """Change the provider's behaviour."""
        self.provider.post("/script", json=changes).raise_for_status()

    def calls(self) -> dict[str, Any]:
        """Return the provider's counts of the calls that write questions, without the calls of queries."""
        return self.provider.get("/stats", params={"containing": "<chunk>"}).raise_for_status().json()

    def compare(self, documents: int) -> dict[str, int]:
        """Compare Qdrant with the ledger by `foreask verify`, which fails if there is a difference."""
        key = f"FOREASK_API_KEY={self.key}"
        (api, *_) = self.containers("api")
        verified = json.loads(self.command("exec", "--env", key, api, "foreask", "verify", "--json"))[COLLECTION]
        assert not verified["findings"], verified["findings"][:5]
        assert verified["documents"] == documents, verified
        say(f"foreask verify: {verified['documents']} documents, {verified['points']} points, no difference")
        return verified

    def ledger(self) -> str:
        """Return the number of the ledger's documents in each state."""
        return ", ".join(self._query(STATES).split())

    def claimed_calls(self, container: str) -> int:
        """Return the number of calls that a container's worker has claimed."""
        return int(self._query(CLAIMED_CALLS.format(host=container[:12])))

    def _query(self, statement: str) -> str:
        (postgres,) = self.containers("postgres")
        psql = 'PGPASSWORD="$POSTGRES_PASSWORD" psql --host=127.0.0.1 --username=foreask -At --command="$0" foreask'
        return self.command("exec", postgres, "sh", "-c", psql, statement)


class Traffic:
    """Requests to each path, one after another, while containers of a project are replaced.

    A request whose connection fails is repeated at the next API, as a proxy in front of both would do.

    Args:
        access: settings and API key.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._statuses = {path: Counter[int]() for path in QUERIES}
        self._repeated = dict.fromkeys(QUERIES, 0)
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(path,)) for path in QUERIES]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def __str__(self) -> str:
        return "; ".join(
            f"{path}: {dict(statuses)} by status, {self._repeated[path]} repeated at the other API"
            for path, statuses in self._statuses.items()
        )

    def check(self) -> None:
        """Check that each path was requested, and that every request was answered 200."""
        assert all(statuses.keys() == {200} for statuses in self._statuses.values()), str(self)

    def _ask(self, path: str) -> None:
        headers = {"authorization": f"Bearer {self._access.key}"}
        addresses = deque(f"http://127.0.0.1:{port}{path}" for port in self._access.ports)
        with httpx.Client(headers=headers, trust_env=False, timeout=60) as client:
            while not self._stopping.is_set():
                try:
                    reply = client.post(addresses[0], json={"question": "What is the number of report 7?"})
                except httpx.TransportError:
                    self._repeated[path] += 1
                else:
                    self._statuses[path][reply.status_code] += 1
                addresses.rotate()


@contextmanager
def running(
    containers: Containers,
    *more: Containers,
    prepare: Callable[[], None] = lambda: None,
    scale: Mapping[str, int] | None = None,
) -> Iterator[Containers]:
    """Build the images, prepare and start the project; at the end remove it and `more` with their volumes."""
    scaled = [word for service, number in (scale or {}).items() for word in ("--scale", f"{service}={number}")]
    try:
        containers.compose("build")
        prepare()
        containers.compose("up", "--detach", *scaled)
        eventually("everything is ready", containers.is_ready)
        yield containers
    except BaseException:
        for project in (containers, *more):
            print(project.compose("logs", "--tail", "50"))
        raise
    finally:
        for project in more:
            project.compose("rm", "--force", "--stop", "-v")
        containers.compose("down", "--volumes", "--remove-orphans", "--timeout", "5")
        for project in more:  # removes its volumes; its networks belonged to the first project
            project.compose("down", "--volumes", "--timeout", "5")
        for project in (containers, *more):
            project.client.close()
            project.provider.close()
