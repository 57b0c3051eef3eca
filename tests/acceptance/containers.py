"""`make compose-test`: docker-compose.yml in real containers, used, broken, and removed with its volumes.

Without a container engine it runs tests/acceptance/test_compose.py instead, which needs none.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from cli import keys
from embedded.ports import free_port
from tests.support.deployment import ROOT

ENGINES = ("docker", "podman")
PROJECT = "foreask-compose-test"
TIMEOUT_SECONDS = 300.0


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


class Containers:
    """The services of docker-compose.yml as containers of their own project, and a client of their API."""

    def __init__(self, engine: str, environment: Path, client: httpx.Client) -> None:
        self.engine = engine
        self.client = client
        files = ("docker-compose.yml", "tests/acceptance/containers.yml")
        self._compose = [engine, "compose", "--project-name", PROJECT, "--env-file", str(environment)]
        self._compose += [word for file in files for word in ("--file", str(ROOT / file))]

    def compose(self, *arguments: str) -> str:
        print("$ compose", *arguments, flush=True)
        done = subprocess.run([*self._compose, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def upload(self, name: str, content: bytes) -> None:
        reply = self.client.post("/v1/documents", files={"file": (name, content)})
        assert reply.status_code == 202, reply.text

    def all_ready(self, count: int) -> bool:
        documents = self.client.get("/v1/documents", params={"limit": 200}).raise_for_status().json()["items"]
        bad = [each for each in documents if each["state"] in {"failed", "degraded"}]
        assert not bad, bad
        return [each["state"] for each in documents] == ["ready"] * count

    def is_ready(self) -> bool:
        try:
            return self.client.get("/health/ready").json().get("status") == "ready"
        except httpx.TransportError:
            return False


SECRETS = (
    "POSTGRES_PASSWORD",
    "VALKEY_PASSWORD",
    "QDRANT_API_KEY",
    "FOREASK_APP_DATABASE_PASSWORD",
    "FOREASK_PARSE_DATABASE_PASSWORD",
)


@contextmanager
def running(engine: str) -> Iterator[Containers]:
    """Build the image, bring everything up, and take everything down, volumes included."""
    key = keys.make("default")
    port = free_port()
    values = {name: secrets.token_hex(24) for name in SECRETS}
    values |= {
        "FOREASK_API_KEYS": key.setting,
        "FOREASK_PORT": str(port),
        "FOREASK_LLM_BASE_URL": "http://provider:8080/v1",
        "FOREASK_LLM_API_KEY": "scripted",
        "FOREASK_LLM_MODEL": "scripted",
        "FOREASK_EMBEDDING_MODEL": "scripted-embedding",
    }
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "env")
        values["FOREASK_ENV_FILE"] = str(environment)
        environment.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"authorization": f"Bearer {key.key}"},
            trust_env=False,
            timeout=60,
        )
        with client:
            containers = Containers(engine, environment, client)
            try:
                containers.compose("build")
                containers.compose("up", "--detach")
                eventually("everything is ready", containers.is_ready)
                yield containers
            except BaseException:
                print(containers.compose("logs", "--tail", "50"))
                raise
            finally:
                containers.compose("down", "--volumes", "--remove-orphans", "--timeout", "5")


def eventually(description: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"timeout after {TIMEOUT_SECONDS:g} s: {description}"
        time.sleep(0.5)
    print(f"  {description}", flush=True)


def use(containers: Containers) -> None:
    containers.upload("leave.md", b"# Leave\n\nEmployees have thirty days of leave a year.\n")
    containers.upload("text.pdf", (ROOT / "tests/files/good/docling_text_document.pdf").read_bytes())
    eventually("a text and a PDF are ready", lambda: containers.all_ready(2))
    reply = containers.client.post("/v1/query", json={"question": "How many days of leave are there?"})
    assert reply.status_code == 200, reply.text
    assert "thirty days" in " ".join(chunk["text"] for chunk in reply.json()["chunks"])
    print("  a question is answered", flush=True)


def scale_and_kill(containers: Containers) -> None:
    containers.compose("up", "--detach", "--no-recreate", "--scale", "worker-generate=2")
    for number in range(60):
        containers.upload(f"report-{number}.md", f"# Report {number}\n\nIts number is {number * number}.".encode())
    one, _ = containers.compose("ps", "--quiet", "worker-generate").split()
    subprocess.run([containers.engine, "kill", one], check=True, stdout=subprocess.DEVNULL)
    eventually("60 documents are ready though a generate worker was killed", lambda: containers.all_ready(62))


def repair_volume(containers: Containers) -> None:
    """Give the volume to root, as an older image did; the API must report it, and the next start must repair it."""
    chown = ("--user", "root", "--entrypoint", "chown", "uploads", "-R", "root", "/data/uploads")
    containers.compose("run", "--rm", "--no-deps", *chown)  # of these services, `uploads` alone may change owners
    eventually("the API is not ready with a read-only folder", lambda: not containers.is_ready())
    containers.compose("up", "--detach", "--force-recreate", "uploads")
    eventually("the folder belongs to the image's user again", containers.is_ready)
    print(containers.compose("exec", "-T", "api", "foreask", "uploads", "check"))


def main() -> int:
    available = engine()
    if available is None:
        print(f"No container engine with compose ({', '.join(ENGINES)}) answers, so no container was started.")
        command = [sys.executable, "-m", "pytest", "tests/acceptance/test_compose.py"]
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    with running(available) as containers:
        use(containers)
        scale_and_kill(containers)
        repair_volume(containers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
