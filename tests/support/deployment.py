"""A complete deployment of local processes (engines, a scripted provider, the API, workers) and its use of resources.

Benchmarks measure it, and tests break it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

import httpx
import orjson
import psutil

from embedded.ports import free_port
from embedded.stack import Stack
from shared.domain.corpus.index_location import IndexLocation
from shared.settings import Settings
from shared.vectors.schema.filters import collection_points
from tests.support.qdrant import headers_of
from tests.support.waiting import TIMEOUT_SECONDS

ROOT = Path(__file__).resolve().parents[2]
ROLES = ("parse", "generate", "index", "scheduler")
ONE_HOST = ("parse", "ingest", "scheduler")
_POLL_SECONDS, _POLL_LATER_SECONDS = 0.05, 0.25  # pauses between polls, because polling must not distort measurements


class Process(Protocol):
    """The part of `subprocess.Popen` that a deployment uses."""

    pid: int

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


Launch = Callable[[Sequence[str], Mapping[str, str], Path], Process]


def execute(command: Sequence[str], environment: Mapping[str, str], log: Path, *, apart: bool = False) -> Process:
    """Run a command, in a session of its own if `apart`; its output is appended to a file."""
    with log.open("ab") as file:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file, start_new_session=apart)


class ScriptedProvider:
    """`tests.support.provider` as a process, and its remote control."""

    def __init__(self, **script: Any) -> None:
        command = [sys.executable, "-m", "tests.support.provider", "--script", orjson.dumps(script).decode()]
        self.is_scripted = False  # whether its behaviour has changed since its start or `restore`
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=TIMEOUT_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def settings(self, **more: Any) -> Settings:
        return Settings(
            _env_file=None,
            llm_base_url=self.url,
            llm_model="scripted",
            llm_api_key="scripted",
            embedding_base_url=self.url,
            embedding_model="scripted-embedding",
            embedding_api_key="scripted",
            **more,
        )

    def script(self, **changes: Any) -> None:
        self.is_scripted = True
        self._client.post("/script", json=changes).raise_for_status()

    def stats(self, containing: str | None = None) -> dict[str, Any]:
        """Return the counted calls; with `containing`, only the calls whose prompts contain that text."""
        parameters = {} if containing is None else {"containing": containing}
        return self._client.get("/stats", params=parameters).json()

    def reset(self) -> None:
        self._client.post("/reset").raise_for_status()

    def batch_script(self, **changes: Any) -> None:
        """Change the behaviour of the batch API."""
        self.is_scripted = True
        self._client.post("/batch-script", json=changes).raise_for_status()

    def batch_stats(self, containing: str = "") -> dict[str, Any]:
        """Return the counts of the batch API; `lines` counts only prompts that contain the text."""
        return self._client.get("/batch-stats", params={"containing": containing}).json()

    def restore(self) -> None:
        """Reset all counts and faults."""
        self.is_scripted = False
        self._client.post("/restore").raise_for_status()

    def close(self) -> None:
        self._client.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Deployment:
    """The API and workers over embedded engines; a context manager that starts and stops them.

    Args:
        launch: function that starts a process.
        durable: True if rows must survive a power failure; tests that never cut the power use False.
    """

    def __init__(
        self,
        settings: Settings,
        data_dir: Path,
        *,
        roles: Iterable[str] = ROLES,
        launch: Launch = execute,
        durable: bool = True,
    ) -> None:
        self.data_dir = data_dir
        self.stack = Stack(settings, data_dir, durable=durable)
        self.launch = launch
        self._roles = tuple(roles)
        self.processes: dict[str, Process] = {}
        self.port = free_port()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=60)

    @property
    def qdrant_headers(self) -> dict[str, str]:
        """The headers that Qdrant requires."""
        key = self.stack.settings.qdrant_api_key
        return {} if key is None else {"api-key": key.get_secret_value()}

    def start(self) -> Self:
        self.stack.start()
        self.run("migrate", [sys.executable, "-m", "shared.ledger"]).wait()
        self.run("api", [sys.executable, "-m", "api"])
        for role in self._roles:
            self.worker(role)
        self._wait_for_api()
        return self

    def worker(self, role: str, name: str | None = None, **settings: object) -> Process:
        return self.run(name or role, [sys.executable, "-m", "workers", role], **settings)

    def run(self, name: str, command: Sequence[str], **settings: object) -> Process:
        """Start a process; `settings` override the deployment's settings for this process."""
        log = self.data_dir / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        overrides = {f"FOREASK_{setting.upper()}": str(value) for setting, value in settings.items()}
        process = self.launcher(name)(command, {**self.environment(), **overrides}, log)
        self.processes[name] = process
        return process

    def launcher(self, name: str) -> Launch:
        """Return the function that starts the process of this name."""
        return self.launch

    def environment(self) -> Mapping[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("FOREASK_", "OPENAI_"))}
        temporary = self.data_dir / "tmp"  # killed processes leave files
        temporary.mkdir(parents=True, exist_ok=True)
        own = {"FOREASK_API_PORT": str(self.port), "TMPDIR": str(temporary)}
        return clean | self.stack.environment() | own

    def kill_everything(self) -> None:
        """Send SIGKILL to every process, including engines and supervisors."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                process.kill()
        for pid in self.stack.pids().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()
        self.processes.clear()
        self.stack.stop()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
        self.client.close()
        self.stack.stop()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Requests

    def ingest(self, documents: Mapping[str, str], collection: str = "default", **more: Any) -> list[httpx.Response]:
        """Upload texts by their external ids, eight at a time."""

        def one(document: tuple[str, str]) -> httpx.Response:
            name, text = document
            body = {"collection": collection, "external_id": name, "filename": name, "text": text, **more}
            return self.client.post("/v1/documents", json=body)

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(one, documents.items()))

    def documents(self, collection: str = "default") -> list[dict[str, Any]]:
        items, cursor = [], None
        while True:
            parameters = {"collection": collection, "limit": 200} | ({"cursor": cursor} if cursor else {})
            page = self.client.get("/v1/documents", params=parameters).raise_for_status().json()
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return items

    def wait_until_settled(
        self, count: int, collection: str = "default", timeout: float = 2 * TIMEOUT_SECONDS
    ) -> list[dict[str, Any]]:
        """Wait until the collection has `count` documents and none of them is being processed."""
        deadline, unfinished = time.monotonic() + timeout, 1.0
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                states = self.states(collection)
                settled = sum(states.get(state, 0) for state in ("ready", "degraded", "failed"))
                if sum(states.values()) == settled == count:
                    return self.documents(collection)
                unfinished = max(0.0, 1 - settled / max(1, count))
            time.sleep(_POLL_SECONDS + unfinished * _POLL_LATER_SECONDS)
        open_ = [
            (d["external_id"], d["state"], d["chunks"]) for d in self.documents(collection) if d["state"] != "ready"
        ]
        raise AssertionError(f"not settled after {timeout} s: {open_[:10]}\n{self.logs()}")

    def states(self, collection: str = "default") -> dict[str, int]:
        """Return the number of documents of a collection by state."""
        reply = self.client.get(f"/v1/collections/{collection}").raise_for_status().json()
        return dict(reply["documents"])

    def points(self, collection: str = "default") -> int:
        return int(self.client.get(f"/v1/collections/{collection}").raise_for_status().json()["points"])

    def stored_points(self, location: IndexLocation) -> dict[str, dict[str, Any]]:
        """Return the payload of every point of a collection, hidden ones included, by id."""
        selected = collection_points(location)
        stored, offset = {}, None
        qdrant_url, key = str(self.stack.settings.qdrant_url), headers_of(self.stack.settings)
        with httpx.Client(base_url=qdrant_url, headers=key, trust_env=False, timeout=60) as qdrant:
            while True:
                body = {"limit": 1000, "with_payload": True, "offset": offset, "filter": selected}
                reply = qdrant.post(f"/collections/{location.index_name}/points/scroll", json=body).raise_for_status()
                page = reply.json()["result"]
                stored |= {str(p["id"]): p["payload"] for p in page["points"]}
                offset = page["next_page_offset"]
                if offset is None:
                    return stored

    def logs(self) -> str:
        paths = sorted((self.data_dir / "logs").glob("*.log"))
        return "\n".join(f"--- {path.name}\n{_tail(path)}" for path in paths)

    # Use of resources

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor seconds of the API and each worker, including their children."""
        return {
            name: processor_seconds(process.pid) for name, process in self.processes.items() if process.poll() is None
        }

    def engine_cpu_seconds(self) -> dict[str, float]:
        """Return the processor seconds of each embedded engine, including its children."""
        return {name: processor_seconds(pid) for name, pid in self.stack.pids().items()}

    def peak_bytes(self) -> dict[str, int]:
        return {name: _peak(process.pid) for name, process in self.processes.items() if process.poll() is None}

    def wait_for_workers(self) -> None:
        """Wait until every worker and the scheduler have started, so that no measurement includes their start."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not all(_has_started(self.data_dir / "logs" / f"{role}.log") for role in self._roles):
            if time.monotonic() > deadline:
                raise AssertionError(f"a worker did not start\n{self.logs()}")
            time.sleep(0.05)

    def _wait_for_api(self) -> None:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):
                if self.client.get("/health/ready").status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"the API did not start\n{self.logs()}")


def corpus(documents: int = 200, sections: int = 5, words: int = 200) -> dict[str, str]:
    """Return distinct Markdown documents by name; each of their sections becomes one chunk."""
    texts = {}
    for d in range(documents):
        parts = [f"# Report {d}"]
        for s in range(sections):
            body = " ".join(f"topic{d}x{s} item{(d * 31 + s * 17 + w) % 977}" for w in range(words // 2))
            parts.append(f"## Section {s} of report {d}\n\n{body}.")
        texts[f"report-{d}.md"] = "\n\n".join(parts)
    return texts


def _has_started(path: Path) -> bool:
    return any(event in path.read_text(errors="replace") for event in ("worker.started", "scheduler.elected"))


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-15:])


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of a process with its children, also of the ended ones."""
    process = psutil.Process(pid)
    times = [process.cpu_times()]
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it exited, and its time is counted in its parent's
            times.append(child.cpu_times())
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def _peak(pid: int) -> int:
    total = 0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(FileNotFoundError):  # it exited
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    total += int(line.split()[1]) * 1024
    return total
