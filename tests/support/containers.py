"""Projects of containers: docker-compose.yml with a scripted provider, used through its API and broken from outside."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cli import keys
from embedded.ports import free_port
from tests.support.deployment import ROOT

ENGINES = ("docker", "podman")
PROJECT = "foreask-compose-test"
COLLECTION = "default"
TIMEOUT_SECONDS = 300.0
SECRETS = (
    "POSTGRES_PASSWORD",
    "VALKEY_PASSWORD",
    "QDRANT_API_KEY",
    "FOREASK_APP_DATABASE_PASSWORD",
    "FOREASK_PARSE_DATABASE_PASSWORD",
)
# Counts the documents of the ledger by their state.
STATES = "SELECT state, count(*) FROM documents GROUP BY state"


def engine() -> str | None:
    """Return the first container engine that answers and has `compose`, or None."""
    for name in ENGINES:
        if all(_answers(name, *arguments) for arguments in (("info",), ("compose", "version"))):
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

    def elsewhere(self) -> Access:
        """Return the same settings for another machine's project, whose API has its own port."""
        return Access({**self.values, "FOREASK_PORT": str(free_port())}, self.key)


class Containers:
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
        self.engine, self.project = engine, project
        self.key = access.key
        environment = folder / f"{project}.env"
        values = {**access.values, "FOREASK_ENV_FILE": str(environment)}
        environment.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        self._compose = [engine, "compose", "--project-name", project, "--env-file", str(environment)]
        added = [f"tests/acceptance/{file}" for file in ("containers.yml", *files)]
        self._compose += [word for file in ("docker-compose.yml", *added) for word in ("--file", str(ROOT / file))]
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{values['FOREASK_PORT']}",
            headers={"authorization": f"Bearer {access.key}"},
            trust_env=False,
            timeout=60,
        )
        self.provider = httpx.Client(
            base_url=f"http://127.0.0.1:{values['PROVIDER_PORT']}", trust_env=False, timeout=30
        )

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

    def script(self, **changes: Any) -> None:
        """Change the provider's behaviour."""
        self.provider.post("/script", json=changes).raise_for_status()

    def calls(self) -> dict[str, Any]:
        """Return the provider's counts."""
        return self.provider.get("/stats").raise_for_status().json()

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
        (postgres,) = self.containers("postgres")
        psql = (
            f'PGPASSWORD="$POSTGRES_PASSWORD" psql --host=127.0.0.1 --username=foreask -At --command="{STATES}" foreask'
        )
        return ", ".join(self.command("exec", postgres, "sh", "-c", psql).split())


@contextmanager
def running(
    containers: Containers, *more: Containers, prepare: Callable[[], None] = lambda: None
) -> Iterator[Containers]:
    """Build the images, prepare, bring the project up, and at the end take it and `more` down, volumes included."""
    try:
        containers.compose("build")
        prepare()
        containers.compose("up", "--detach")
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
        for project in more:  # its volumes; its networks were the first project's
            project.compose("down", "--volumes", "--timeout", "5")
        for project in (containers, *more):
            project.client.close()
            project.provider.close()
