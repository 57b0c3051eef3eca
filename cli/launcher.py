"""The product on one machine: embedded engines for all URLs that are not set, then the programs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

import structlog
from pydantic import SecretStr
from rich.console import Console

from cli.first_check import FirstCheck
from cli.first_minute import watched
from cli.programs import Programs, WorkerCounts, children, environment_of, forks_of, reachable
from embedded import llama
from embedded.ports import free_port
from embedded.secret import stored_password
from embedded.stack import ENGINES, Engine, Stack, make_private
from shared.confined import confinement
from shared.domain.errors import InvalidInput, Unavailable
from shared.process import hardening, peers
from shared.process.network import hosts_of
from shared.services.ocr import off_because
from shared.services.start import check_network
from shared.settings import ApiKey, Settings, secrets_of_roles
from shared.settings.source_roots import EVERYTHING
from shared.settings.tenant_limits import OTHERS

# Calls of the embedded model are free, so a stopping worker waits for them only briefly.
_EMBEDDED_GRACE = timedelta(seconds=3)
# It yields the processor, so a call takes many times longer while texts are embedded or other programs use all cores.
_EMBEDDED_TIMEOUT = timedelta(minutes=30)
# llama.cpp's threads wait for each other by spinning. If the cores are busy, each thread spins through its whole time
# slice. Measured with SmolLM2 on two cores, seconds per passage, on idle cores and on cores busy with two other
# processes: 3.9 and 36 by default, 5.6 and 5.6 if threads sleep immediately, 4.6 and 8.6 with this number of spins.
SPINS_OF_OPENMP = {"GOMP_SPINCOUNT": "1000"}
DEFAULT_PORT = 8350
TENANT = "default"  # of a server without keys
_LABELS: dict[Engine, tuple[str, str]] = {
    "postgres": ("PostgreSQL", "database_url"),
    "valkey": ("Valkey", "redis_url"),
    "qdrant": ("Qdrant", "qdrant_url"),
    "llm": ("LLM", "llm_base_url"),
    "embedding": ("Embeddings", "embedding_base_url"),
}


class StopRequested(BaseException):
    """Ctrl-C or SIGTERM; not an `Exception`, so that no error handler catches it."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The processes that `up` starts.

    Args:
        settings: settings of the user.
        worker_counts: numbers of workers of each kind.
        port: port of the API; None: the settings' port; 0: any free port.
    """

    settings: Settings
    worker_counts: WorkerCounts
    port: int | None = None


class Launcher:
    """The running product; a context manager."""

    def __init__(self, plan: LaunchPlan, console: Console) -> None:
        self._console = console
        self._worker_counts = plan.worker_counts
        settings = plan.settings
        port = settings.api_port if plan.port is None else plan.port
        port = port or free_port()
        self._failures: SimpleQueue[Unavailable] = SimpleQueue()
        self.key_file = None if peers.are_known() or not settings.is_keyless else drawn_key(settings.data_dir)
        own = own_roots(settings) | ({} if self.key_file is None else key_of(self.key_file))
        self._stack = Stack(
            settings.model_copy(update={"api_port": port} | embedded_llm_settings(settings) | own),
            on_failure=self._failures.put,
        )
        self._programs: Programs | None = None
        self._check: FirstCheck | None = None
        self.url = f"http://{reachable(settings.api_host)}:{port}"

    @property
    def settings(self) -> Settings:
        return self._stack.settings

    @property
    def lacks_llm(self) -> bool:
        return self._stack.lacks_llm

    @property
    def key(self) -> str | None:
        """The key that was drawn because this system does not report the users of connections."""
        return None if self.key_file is None else self.key_file.read_text()

    def __enter__(self) -> Self:
        _require_models(self.settings)
        check_network(self.settings)
        _require_free(self.settings.api_host, self.settings.api_port)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the programs, then the engines."""
        if self._check is not None:
            self._check.stop()
            self._check = None
        if self._programs is not None:
            self._programs.stop()
            self._programs = None
        self._stack.stop()

    def wait(self) -> NoReturn:
        """Block until a signal handler raises an exception.

        Raises:
            Unavailable: an engine or a program cannot be restarted; the message contains the end of its log.
        """
        raise self._failures.get()

    def pids(self) -> dict[str, int]:
        return self._stack.pids() | ({} if self._programs is None else self._programs.pids())

    def _start(self) -> None:
        for name, value in SPINS_OF_OPENMP.items():
            os.environ.setdefault(name, value)  # the engines inherit it
        with self._step("engines") as note:
            self._stack.start()
            note.append(", ".join(_LABELS[engine][0] for engine in self._stack.started) or "none: all URLs are set")
        for engine in ENGINES:
            self._console.print(f"    {_LABELS[engine][0]:<11}{self._address(engine)}", highlight=False)
        if self.lacks_llm:
            sentence = (
                f"{llama.missing()}\n  and start foreask again. Until then, documents are found only by their texts."
            )
            self._console.print(f"! {sentence}", style="yellow", markup=False, highlight=False, soft_wrap=True)
        with self._step("schema") as note:
            _migrate(secrets_of_roles.environment_of("schema", self._stack.environment()))
            note.append("up to date")
        self._check = FirstCheck(environment_of("check", self._stack.environment()), self._console)
        with self._step("programs") as note:
            self._programs = self._new_programs()
            self._programs.start()
            note.append(", ".join(self._programs.names))
        warn_about_confinement(self._console)

    def _new_programs(self) -> Programs:
        settings = self.settings
        logs = self._stack.data_dir / "logs"
        host, port = settings.api_host, settings.api_port
        environment = self._stack.environment()
        read = 0 if off_because(settings) else self._worker_counts.read
        forks = forks_of(logs)
        processes = children(
            environment,
            logs,
            replace(self._worker_counts, read=read),
            host=host,
            port=port,
            grace=settings.shutdown_timeout,
            forks=forks,
        )
        return Programs(list(processes), self._failures.put, forks)

    def _address(self, engine: Engine) -> str:
        """Return where an engine runs, its hosts and its model."""
        if engine == "llm" and self.lacks_llm:
            return "not installed"
        value = getattr(self.settings, _LABELS[engine][1])
        url = value.get_secret_value() if isinstance(value, SecretStr) else value or ""
        model = getattr(self.settings, f"{engine}_model", None)
        address = hosts_of(url) or "the provider's default address"
        kind = "embedded" if engine in self._stack.engines else "external"
        return f"{kind:<9} {address}" + (f"  {model}" if model else "")

    @contextmanager
    def _step(self, name: str) -> Iterator[list[str]]:
        """Show a step while it runs, then its notes and duration."""
        started, note = time.monotonic(), list[str]()
        with self._console.status(f"starting {name} …"):
            yield note
        seconds = time.monotonic() - started
        line = f"[green]✓[/green] {name:<9} [dim]{seconds:5.1f} s[/dim]  {' '.join(note)}"
        self._console.print(line, highlight=False)


@contextmanager
def stoppable(launcher: Launcher | None = None) -> Iterator[None]:
    """Raise `StopRequested` in the block on the first SIGINT or SIGTERM, and kill all processes on the second.

    `StopRequested` ends the block and is not raised further.
    """
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        nonlocal stopping
        if stopping:
            _kill(launcher, number)
        stopping = True
        raise StopRequested

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except StopRequested:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def up(plan: LaunchPlan, console: Console) -> None:
    """Start everything and run until a stop is requested."""
    hardening.close_memory()
    launcher = Launcher(plan, console)
    announce_restarts(console)
    with stoppable(launcher), hardening.private_files():
        try:
            with launcher:
                _welcome(launcher, console)
                with watched(launcher.url, console):
                    launcher.wait()
        except StopRequested:
            data_dir = launcher.settings.data_dir
            console.print(f"stopped; the data stays in {data_dir}", markup=False, highlight=False, soft_wrap=True)


def announce_restarts(console: Console) -> None:
    """Print the supervisors' log events as lines of the console."""

    def show(_: Any, method: str, event: MutableMapping[str, Any]) -> NoReturn:
        details = ", ".join(f"{name} {value}" for name, value in event.items() if name != "event")
        console.print(f"[yellow]! {event['event']}[/yellow] ({details})", highlight=False)
        del method
        raise structlog.DropEvent

    structlog.configure(processors=[show])


def warn_about_confinement(console: Console) -> None:
    """Print the kernel features for confining parse processes that this system lacks."""
    if lacking := confinement.lacking():
        console.print(f"[yellow]! {confinement.sentence(lacking)}[/yellow]", highlight=False, soft_wrap=True)


def _migrate(environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "shared.ledger"]
    done = subprocess.run(  # noqa: S603
        command, check=False, capture_output=True, text=True, env={**os.environ, **environment}
    )
    if done.returncode != 0:
        raise Unavailable(
            (done.stderr.strip().splitlines() or ["The schema is not up to date."])[-1], component="ledger"
        )


def _welcome(launcher: Launcher, console: Console) -> None:
    url, logs = launcher.url, launcher.settings.data_dir / "logs"
    option = "" if launcher.settings.api_port == DEFAULT_PORT else f" --url {url}"
    header = '-H "Authorization: Bearer $FOREASK_API_KEY" ' if launcher.settings.api_keys else ""
    body = '{"collection": "default", "question": "What does it say?"}'
    lines = (
        *([f"\nexport FOREASK_API_KEY=$(cat {launcher.key_file})"] if launcher.key_file else []),
        f"\nforeask answers at {url}, API reference: {url}/docs",
        *([f"  {url}/ask is its page in the browser"] if launcher.settings.web_ui else []),
        f"  foreask ingest{option} PATH",
        f"  foreask ask{option} 'What does it say?'",
        f"  curl {header}-H 'content-type: application/json' -d '{body}' {url}/v1/query",
        f"Logs are in {logs}. Ctrl-C stops everything.",
    )
    for line in lines:  # unwrapped, because a user copies them
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def embedded_llm_settings(settings: Settings) -> dict[str, Any]:
    """Return settings for the embedded LLM, without the settings of the user."""
    if not _has_embedded_llm(settings):
        return {}
    defaults = {"llm_max_in_flight": llama.SLOTS, "llm_timeout": _EMBEDDED_TIMEOUT, "shutdown_timeout": _EMBEDDED_GRACE}
    return {name: value for name, value in defaults.items() if name not in settings.model_fields_set}


def drawn_key(data_dir: Path) -> Path:
    """Return the file of the key that the API requires if it cannot know the users of connections.

    The first call draws the key. Only its owner can read the file.
    """
    make_private(data_dir)
    path = data_dir.resolve() / "api-key"
    stored_password(path)
    return path


def key_of(file: Path) -> dict[str, Any]:
    """Return the settings that require the key in a file."""
    return {"api_keys": (ApiKey.parse(f"{TENANT}:{file.read_text()}"),)}


def own_roots(settings: Settings) -> dict[str, Any]:
    """Return the settings that allow every source, if only this user is served."""
    return {"source_roots": {OTHERS: (EVERYTHING,)}} if settings.is_keyless and not settings.source_roots else {}


def _has_embedded_llm(settings: Settings) -> bool:
    return settings.llm_base_url is None and settings.llm_model in (None, llama.MODEL)


def _require_models(settings: Settings) -> None:
    """Reject a model server without a model, because every program would fail with it.

    Raises:
        InvalidInput: the URL of a server is set, but not the name of a model.
    """
    for kind in ("llm", "embedding"):
        if getattr(settings, f"{kind}_base_url") and getattr(settings, f"{kind}_model") is None:
            name = f"FOREASK_{kind.upper()}"
            message = f"{name}_BASE_URL is set, so {name}_MODEL must name one of its models."
            raise InvalidInput(message, field=f"{kind}_model")


def _require_free(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            message = f"The API cannot listen on {host}:{port} ({error.strerror}): choose another port with --port."
            raise InvalidInput(message, field="api_port") from error


def _kill(launcher: Launcher | None, number: int) -> NoReturn:
    """Kill the children and exit, because not every kernel kills them together with this process."""
    for pid in (launcher.pids() if launcher else {}).values():
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    os._exit(128 + number)


def in_data_dir(settings: Settings, data_dir: Path | None) -> Settings:
    return settings if data_dir is None else settings.model_copy(update={"data_dir": data_dir})
