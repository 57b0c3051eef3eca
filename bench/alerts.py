"""Test of the dashboard and the alerts with a real Prometheus: each panel has data, and each alert fires for its cause.

    python -m bench alerts [--minutes 10] [--hurry 10]

It needs the machine's `prometheus` and `promtool` (`apt install prometheus`) and is skipped if they are missing. First
promtool checks the rules and tests them with `deploy/alerts.test.yml`. Then a deployment works for some minutes:
it handles uploads of both lanes, unreadable files and searches, while its provider at times limits calls or fails, and
a worker dies. Prometheus scrapes every process; the output says which expressions of the dashboard had no data, and
which alerts were active meanwhile. Last, the cause of each alert is created in turn, and removed when the alert fires.

With the rules' durations this would take two hours, so Prometheus gets a copy of them in which `for`, the windows and
the time between two scrapes are divided by `--hurry`. Thresholds do not change. The exit code is 1 if a panel had no
data, or if an alert did not fire or did not end.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import asyncpg
import httpx
import orjson

from embedded.ports import free_port
from tests.support.deployment import ROLES, ROOT, Deployment, Process, ScriptedProvider, corpus
from tests.support.fleet import Proxy

RULES, RULE_TESTS, DASHBOARD = (ROOT / "deploy" / name for name in ("alerts.yml", "alerts.test.yml", "dashboard.json"))
SCRAPE_SECONDS = 15.0
TIMEOUT_SECONDS = 300.0
_POLL_SECONDS = 0.25
_LINKS = {"ledger": "FOREASK_DATABASE_URL", "qdrant": "FOREASK_QDRANT_URL"}
_BROKEN = b"%PDF-1.7 broken "

# Make the waiting uploads ten minutes older.
_MAKE_OLD = "UPDATE documents SET due_at = due_at - interval '10 minutes' WHERE state = 'queued'"


class WatchedDeployment(Deployment):
    """A deployment whose processes export metrics, and connect to PostgreSQL and Qdrant through links that can fail."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.metrics = {name: free_port() for name in ("api", *ROLES)}

    @cached_property
    def proxy(self) -> Proxy:
        environment = self.stack.environment()
        return Proxy({link: _address(environment[variable]) for link, variable in _LINKS.items()})

    def environment(self) -> dict[str, str]:
        environment = dict(super().environment())
        for link, variable in _LINKS.items():
            url = environment[variable]
            environment[variable] = url.replace(_address(url), f"127.0.0.1:{self.proxy.ports[link]}")
        return environment

    def run(self, name: str, command: Any, **settings: object) -> Process:
        port = {"metrics_port": self.metrics[name]} if name in self.metrics else {}
        return super().run(name, command, **port, **settings)

    def kill(self, *names: str) -> None:
        for name in names:
            self.processes[name].kill()
            self.processes.pop(name).wait()

    def stop(self) -> None:
        super().stop()
        if "proxy" in vars(self):
            self.proxy.close()

    def execute(self, statement: str) -> None:
        """Execute a statement in the ledger, bypassing the link."""
        asyncio.run(_execute(self.stack.environment()[_LINKS["ledger"]], statement))


class Prometheus:
    """The machine's Prometheus, which scrapes a deployment and evaluates rules; a context manager."""

    def __init__(self, ports: dict[str, int], folder: Path, hurry: float) -> None:
        self.every_seconds = SCRAPE_SECONDS / hurry
        every = f"{self.every_seconds * 1000:.0f}ms"
        rules = folder / "alerts.yml"
        rules.write_text(hurried(RULES.read_text(), hurry))
        scraped = {"job_name": "foreask", "static_configs": [{"targets": [f"127.0.0.1:{p}" for p in ports.values()]}]}
        at = {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every}
        config = folder / "prometheus.yml"
        config.write_bytes(orjson.dumps({"global": at, "rule_files": [str(rules)], "scrape_configs": [scraped]}))
        subprocess.run(["promtool", "check", "config", str(config)], check=True, stdout=subprocess.DEVNULL)
        self.port = free_port()
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=warn",
            ],
            stdout=self._log,
            stderr=self._log,
        )
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=30)

    def get(self, path: str, **parameters: Any) -> Any:
        reply = self._client.get(f"/api/v1/{path}", params=parameters)
        if reply.status_code != 200:
            raise ValueError(f"{parameters}: {reply.text}")
        return reply.json()["data"]

    def has_data(self, expression: str, since: float) -> bool:
        """Return whether an expression had a number since then, with any labels."""
        step = max(self.every_seconds, (time.time() - since) / 5_000)
        found = self.get("query_range", query=expression, start=since, end=time.time(), step=step)["result"]
        return any(not math.isnan(float(value)) for series in found for _, value in series["values"])

    def number(self, expression: str) -> float:
        """Return the value of an expression with one series."""
        ((_, value),) = (series["value"] for series in self.get("query", query=expression)["result"])
        return float(value)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError, ValueError):
                if self._client.get("/-/ready").status_code == 200:
                    return
            time.sleep(_POLL_SECONDS)
        raise AssertionError("prometheus did not start")

    def __enter__(self) -> Self:
        self.wait_until_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._process.terminate()
        self._process.wait()
        self._log.close()


class AlertWatch:
    """Polls the alerts of Prometheus continuously, and records when each became pending, fired and ended."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self.firing: dict[str, int] = {}  # number of firing alerts by name
        self.active: set[str] = set()
        self.history: list[tuple[float, str, str]] = []
        self._states: dict[str, str] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._ending.wait(_POLL_SECONDS):
            with suppress(httpx.HTTPError, ValueError):
                self._poll(self._prometheus.get("alerts")["alerts"])

    def _poll(self, alerts: list[dict[str, Any]]) -> None:
        now, states, firing = time.monotonic(), dict[str, str](), dict[str, int]()
        for alert in alerts:
            name, is_firing = alert["labels"]["alertname"], alert["state"] == "firing"
            firing[name] = firing.get(name, 0) + is_firing
            states[name] = "firing" if firing[name] else "pending"
        for name in states | self._states:
            if (state := states.get(name, "ended")) != self._states.get(name, "ended"):
                self.history.append((now, name, state))
        self._states, self.active, self.firing = states, set(states), firing

    def first(self, name: str, states: set[str], since: float) -> float | None:
        """Return how many seconds after `since` an alert first entered one of these states."""
        times = (at for at, alert, state in self.history if alert == name and state in states and at >= since)
        return next((at - since for at in times), None)

    def reset(self) -> None:
        """Wait until each process was scraped and no alert is active, then clear the history."""
        time.sleep(4 * self._prometheus.every_seconds)
        if not self.wait_until(lambda: not self.active):
            raise AssertionError(f"active at the start: {self.active}")
        self.history.clear()

    def wait_until(self, holds: Callable[[], bool], timeout: float = TIMEOUT_SECONDS) -> bool:
        deadline = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


class AlertTraffic:
    """Uploads of both lanes, unreadable files and searches, a few a second, until it is stopped."""

    def __init__(self, port: int) -> None:
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30)
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=work, daemon=True)
            for work in ((self._upload, 1.0), (self._ask, 0.25), (self._ask, 0.25))
        ]
        self._counting = threading.Lock()
        self.answers = Counter[str]()

    def _repeat(self, work: Callable[[int], httpx.Response], every_seconds: float) -> None:
        for number in itertools.count():
            if self._ending.wait(every_seconds):
                return
            try:
                outcome = str(work(number).status_code)
            except httpx.HTTPError as error:
                outcome = type(error).__name__
            with self._counting:
                self.answers[outcome] += 1

    def _upload(self, number: int) -> httpx.Response:
        if number % 20 == 5:
            return self._client.post("/v1/documents", files={"file": (f"{number}.pdf", _BROKEN + b"%d" % number)})
        lane = "bulk" if number % 3 else "interactive"
        body = {"external_id": f"load-{number}", "text": text_of(number), "lane": lane}
        return self._client.post("/v1/documents", json=body)

    def _ask(self, number: int) -> httpx.Response:
        return self._client.post("/v1/retrieve", json={"question": f"What is item{number % 977} of topic{number}x1?"})

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()
        self._client.close()


@dataclass(frozen=True)
class Site:
    """The deployment and the provider in which causes are created."""

    deployment: WatchedDeployment
    provider: ScriptedProvider
    names: Iterator[int] = field(default_factory=itertools.count)

    def upload(self, documents: int, sections: int = 5) -> None:
        texts = {f"{next(self.names)}-{name}": text for name, text in corpus(documents, sections).items()}
        self.deployment.ingest({name: f"{name}\n\n{text.replace('topic', name)}" for name, text in texts.items()})

    @contextmanager
    def scripted(self, **script: Any) -> Iterator[None]:
        self.provider.script(**script)
        try:
            yield
        finally:
            self.provider.restore()

    @contextmanager
    def link(self, name: str, mode: str = "pass", **fault: Any) -> Iterator[None]:
        self.deployment.proxy.change(name, mode, **fault)
        try:
            yield
        finally:
            self.deployment.proxy.change(name)

    @contextmanager
    def without(self, *roles: str) -> Iterator[None]:
        self.deployment.kill(*roles)
        try:
            yield
        finally:
            for role in roles:
                self.deployment.worker(role)

    @contextmanager
    def old_backlog(self) -> Iterator[None]:
        with self.without("parse"):
            self.upload(3)
            self.deployment.execute(_MAKE_OLD)
            yield

    @contextmanager
    def unreadable(self) -> Iterator[None]:
        for number in range(40):
            file = (f"{number}.pdf", _BROKEN + b"again %d" % number)
            self.deployment.client.post("/v1/documents", files={"file": file}).raise_for_status()
        yield

    @contextmanager
    def killed_at_work(self) -> Iterator[None]:
        """Kill the generate worker during its calls for 24 chunks, and start it again."""
        with self.scripted(latency_seconds=30):
            self.provider.reset()
            self.upload(8)
            deadline = time.monotonic() + 60
            while self.provider.stats()["in_flight"] < 20 and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            self.deployment.kill("generate")
        self.deployment.worker("generate")
        yield

    @contextmanager
    def narrow_limit(self) -> Iterator[None]:
        """Restart the generate worker with a limit of 40 calls a minute, and give it work for ten minutes."""
        self.deployment.kill("generate")
        command = [sys.executable, "-m", "workers", "generate"]
        self.deployment.run("generate", command, llm_requests_per_minute=40)
        try:
            self.upload(80)
            yield
        finally:
            self.deployment.kill("generate")
            self.deployment.worker("generate")

    @contextmanager
    def stopped_now_and_then(self) -> Iterator[None]:
        """Stop the index worker for three quarters of each second."""
        process, ending = self.deployment.processes["index"], threading.Event()

        def stop() -> None:
            while not ending.wait(0.25):
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.75)
                process.send_signal(signal.SIGCONT)

        thread = threading.Thread(target=stop, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()


@dataclass(frozen=True)
class Cause:
    """A fault that makes an alert fire.

    Args:
        alert: name of the alert.
        text: description of the fault.
        make: creates the fault, and removes it at the end.
        firing: number of alerts of that name, with different labels, that must fire.
    """

    alert: str
    text: str
    make: Callable[[Site], AbstractContextManager[None]]
    firing: int = 1


CAUSES = (
    Cause("ForeaskNoScheduler", "kill -9 of the scheduler", lambda g: g.without("scheduler")),
    Cause("ForeaskNoWorkers", "kill -9 of the three workers", lambda g: g.without("parse", "generate", "index"), 3),
    Cause("ForeaskBacklogOld", "no parse worker; uploads made 10 min older", Site.old_backlog),
    Cause("ForeaskDeadGrowing", "40 broken PDFs", Site.unreadable),
    Cause("ForeaskLeasesLost", "kill -9 of a generate worker with 20 calls", Site.killed_at_work),
    Cause("ForeaskBreakerOpen", "the provider answers 503", lambda g: g.scripted(down=True)),
    Cause("ForeaskErrors", "connections to PostgreSQL are cut", lambda g: g.link("ledger", "cut")),
    Cause("ForeaskQueriesSlow", "embeddings take 2 s", lambda g: g.scripted(embedding_latency_seconds=2)),
    Cause("ForeaskLimiterWaits", "40 calls a minute, 400 chunks", Site.narrow_limit),
    Cause("ForeaskQdrantSlow", "1 s more each way to Qdrant", lambda g: g.link("qdrant", latency_seconds=1)),
    Cause("ForeaskQdrantFails", "connections to Qdrant are cut", lambda g: g.link("qdrant", "cut")),
    Cause("ForeaskLedgerSlow", "0.3 s more each way to PostgreSQL", lambda g: g.link("ledger", latency_seconds=0.3)),
    Cause("ForeaskLoopLate", "SIGSTOP of the index worker, 0.75 s of each", Site.stopped_now_and_then),
)


def hurried(rules: str, factor: float) -> str:
    """Return rules with shorter windows and durations of `for`; the original ones are given in minutes."""

    def divided(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) * 60_000 / factor:.0f}ms{match[3]}"

    return re.sub(r"(\[|for: )(\d+)m(\]|$)", divided, rules, flags=re.MULTILINE)


def text_of(number: int) -> str:
    words = " ".join(f"topic{number}x{n % 3} item{(number * 31 + n) % 977}" for n in range(120))
    return f"# Load {number}\n\n{words}."


def expressions() -> Iterator[tuple[str, str]]:
    """Yield the title of each panel with each of its expressions."""
    for panel in orjson.loads(DASHBOARD.read_bytes())["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])


def work(site: Site, minutes: float) -> None:
    """Wait while the load runs, and inject each fault for a tenth of the time."""
    tenth = minutes * 60 / 10
    time.sleep(3 * tenth)
    with site.scripted(latency_seconds=0.1, requests_per_minute=30, window_seconds=10):
        time.sleep(tenth)
    time.sleep(tenth)
    with site.scripted(latency_seconds=0.1, share_500=0.3, share_malformed=0.1):
        time.sleep(tenth)
    with site.without("generate"):
        pass
    time.sleep(4 * tenth)


def show_scrapes(prometheus: Prometheus, ports: dict[str, int], since: float) -> None:
    """Print how many scrapes of each process succeeded."""
    window, answered = f"[{time.time() - since:.0f}s]", []
    for name, port in ports.items():
        up = f'up{{instance="127.0.0.1:{port}"}}{window}'
        scrapes, good = (prometheus.number(f"{function}_over_time({up})") for function in ("count", "sum"))
        answered.append(f"{name} {good:.0f} of {scrapes:.0f}")
    print(f"scrapes: {', '.join(answered)}", flush=True)


def show_panels(prometheus: Prometheus, since: float) -> bool:
    """Print the dashboard expressions without data; return whether there are none."""
    interval = f"{4 * prometheus.every_seconds * 1000:.0f}ms"
    found = [
        (title, e, prometheus.has_data(e.replace("$__rate_interval", interval), since)) for title, e in expressions()
    ]
    print(f"dashboard: {sum(has for *_, has in found)} of {len(found)} expressions have data", flush=True)
    for title, expression, has in found:
        if not has:
            print(f"  none: {title}: {expression}", flush=True)
    return all(has for *_, has in found)


def fire(cause: Cause, site: Site, watch: AlertWatch) -> bool:
    """Create a cause, print a line of the table, and remove the cause; return whether the alert fired."""
    calm = watch.wait_until(lambda: cause.alert not in watch.active)
    since = time.monotonic()
    with cause.make(site):
        fired = watch.wait_until(lambda: watch.firing.get(cause.alert, 0) >= cause.firing)
        firing = f"{time.monotonic() - since:.0f} s" if fired else "never"
        others = sorted(name for name, number in watch.firing.items() if number and name != cause.alert)
    pending = watch.first(cause.alert, {"pending", "firing"}, since)
    print(
        f"{cause.alert:<20} {cause.text:<44} {'never' if pending is None else f'{pending:.0f} s':>8} {firing:>8}"
        f"   {', '.join(others)}{'' if calm else ' (active before)'}",
        flush=True,
    )
    return fired and calm


def causes(site: Site, watch: AlertWatch, chosen: str) -> bool:
    print(f"\n{'alert':<20} {'cause':<44} {'pending':>8} {'firing':>8}   others that fired then", flush=True)
    fired = [fire(cause, site, watch) for cause in CAUSES if chosen in cause.alert]
    started = time.monotonic()
    calm = watch.wait_until(lambda: not watch.active)
    print(f"\n{sum(fired)} of {len(fired)} fired; ", end="")
    print(f"none active {time.monotonic() - started:.0f} s later" if calm else f"still active: {sorted(watch.active)}")
    return all(fired) and calm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="minutes of load before causes are created")
    parser.add_argument("--hurry", type=float, default=10, help="divisor of the rules' durations")
    parser.add_argument("--only", default="", help="causes of alerts whose names contain this")
    options = parser.parse_args()
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        print("skipped: prometheus and promtool are not installed (apt install prometheus)")
        return 0
    for command in (["check", "rules", RULES], ["test", "rules", RULE_TESTS]):
        subprocess.run(["promtool", *map(str, command)], check=True)
    print(f"durations of rules, and {SCRAPE_SECONDS:g} s between scrapes, are divided by {options.hurry:g}", flush=True)
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
        provider = ScriptedProvider(latency_seconds=0.1)
        exits.callback(provider.close)
        deployment = exits.enter_context(WatchedDeployment(provider.settings(), folder / "deployment"))
        deployment.wait_for_workers()
        prometheus = exits.enter_context(Prometheus(deployment.metrics, folder, options.hurry))
        watch = exits.enter_context(AlertWatch(prometheus))
        watch.reset()
        load, since = exits.enter_context(AlertTraffic(deployment.port)), time.time()
        site = Site(deployment, provider)
        work(site, options.minutes)
        print(f"{options.minutes:g} minutes of load: answers {dict(load.answers)}")
        print(f"alerts meanwhile: {sorted({(name, state) for _, name, state in watch.history if state != 'ended'})}")
        show_scrapes(prometheus, deployment.metrics, since)
        whole = show_panels(prometheus, since)
        return 0 if causes(site, watch, options.only) and whole else 1


def _address(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}"


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url, timeout=5)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


if __name__ == "__main__":
    sys.exit(main())
