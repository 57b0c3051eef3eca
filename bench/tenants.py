"""The effect on one tenant of another that sends 20 times its limit.

`python -m bench tenants [--seconds N] [--runs N]`.

All processes of a deployment run, with a scripted model without latency. A quiet tenant uploads and queries at a steady
rate, first without other tenants and then concurrently with a loud tenant (`bench.loud_tenant`) that has limits. Prints
the quiet tenant's latencies in both cases, also by part of a query, the loud tenant's replies, and the usage of each
process. The clients of both run on the machine that is measured. A request's time is measured from the moment at which
it was due, so that a delayed client skips no measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import psutil

from bench import texts
from bench.loud_tenant import TIMES
from bench.retrieval import parts
from bench.runs import Numbers, add_options, repeat
from shared.settings import ApiKey, TenantLimits
from tests.support.deployment import ROOT, Deployment, ScriptedProvider, execute

SECONDS = 60.0
_UPLOADS, _QUERIES = 2.0, 10.0  # a second, of the quiet tenant
_DOCUMENTS, _SECTIONS = 100, 5  # documents of the quiet tenant, ingested before the measurement
_ASKED = texts.questions()
_UPLOADED = 1_000  # characters of an uploaded document
_POLL_SECONDS, _SLOWER = 0.05, 1.2
_TIMEOUT_SECONDS = 60.0
_KEYS = {tenant: f"{tenant}-0123456789abcdef0123456789abcdef" for tenant in ("quiet", "loud")}
_LIMITS = TenantLimits(
    requests_per_second=10,
    burst=20,
    upload_bytes_per_day=512 * 1024 * 1024,
    documents=1_000,
    collections=5,
    listeners=20,
    llm_requests_per_minute=600,
)


@dataclass
class Quiet:
    """The quiet tenant's requests, each at its time."""

    url: str
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    parts: list[dict[str, float]] = field(default_factory=list)

    async def run(self, seconds: float, phase: str) -> None:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        headers = {"x-api-key": _KEYS["quiet"]}
        async with aiohttp.ClientSession(self.url, headers=headers, timeout=timeout) as session:
            await asyncio.gather(
                self._repeat(seconds, _QUERIES, lambda _, due: self._query(session, due)),
                self._repeat(seconds, _UPLOADS, lambda number, due: self._upload(session, f"{phase}-{number}", due)),
            )

    async def _repeat(self, seconds: float, rate: float, act: Callable[[int, float], Awaitable[None]]) -> None:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(seconds * rate)):
                due = started + number / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                tasks.create_task(self._run_one(act, number, due))

    async def _run_one(self, act: Callable[[int, float], Awaitable[None]], number: int, due: float) -> None:
        try:
            await act(number, due)
        except (aiohttp.ClientError, TimeoutError) as error:
            self.statuses[type(error).__name__] += 1

    async def _query(self, session: aiohttp.ClientSession, due: float) -> None:
        asked = {"question": next(_ASKED)}
        body = await self._ask(session, "queries", due, "POST", "/v1/retrieve", json=asked)
        if "metadata" in body:
            whole = (time.perf_counter() - due) * 1000
            self.parts.append(parts(body["metadata"]["milliseconds"] | {"client": whole}))

    async def _upload(self, session: aiohttp.ClientSession, name: str, due: float) -> None:
        body = {"external_id": name, "text": f"# Report {name}\n\n{texts.paragraph(name, _UPLOADED)}"}
        reply = await self._ask(session, "uploads", due, "POST", "/v1/documents", json=body)
        if "id" not in reply:
            return
        pause = _POLL_SECONDS
        while time.perf_counter() - due < _TIMEOUT_SECONDS:
            async with session.get(f"/v1/documents/{reply['id']}") as response:
                if (await response.json()).get("live_version") is not None:
                    self.milliseconds.setdefault("found after", []).append((time.perf_counter() - due) * 1000)
                    return
            await asyncio.sleep(pause)
            pause *= _SLOWER  # polls of many waiting documents would be a load of their own
        self.statuses["not found"] += 1

    async def _ask(
        self, session: aiohttp.ClientSession, name: str, due: float, method: str, path: str, **more: Any
    ) -> dict[str, Any]:
        async with session.request(method, path, **more) as reply:
            body: dict[str, Any] = orjson.loads(await reply.read())
        self.statuses[f"{name} {reply.status}"] += 1
        if reply.ok:
            self.milliseconds.setdefault(name, []).append((time.perf_counter() - due) * 1000)
        return body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each of both cases; %(default)s by default")
    add_options(parser)
    options = parser.parse_args()
    title = f"Queries and uploads of a quiet tenant for {options.seconds:g} s, alone and with a loud one"
    repeat(title, partial(run, options.seconds), options)


def run(seconds: float) -> Numbers:
    """Measure in a new deployment, because the loud tenant leaves a backlog."""
    provider = ScriptedProvider()
    keys = tuple(ApiKey.parse(f"{tenant}:{key}") for tenant, key in _KEYS.items())
    settings = provider.settings(api_keys=keys, tenant_limits={"loud": _LIMITS})
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Deployment(settings, Path(folder), launch=partial(execute, apart=True)) as deployment,
        ):
            deployment.client.headers["x-api-key"] = _KEYS["quiet"]
            deployment.wait_for_workers()
            deployment.ingest(texts.documents(_DOCUMENTS, _SECTIONS))
            deployment.wait_until_settled(_DOCUMENTS)
            return measure(deployment, provider, seconds)
    finally:
        provider.close()


def measure(deployment: Deployment, provider: ScriptedProvider, seconds: float) -> Numbers:
    url = str(deployment.client.base_url)
    alone, together = Quiet(url), Quiet(url)
    print_use(deployment, provider, lambda: asyncio.run(alone.run(seconds, "alone")), "alone")
    command = [sys.executable, "-m", "bench.loud_tenant"]
    arguments = [str(deployment.port), _KEYS["loud"], str(_LIMITS.requests_per_second), str(seconds + 2)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, cwd=ROOT) as loud:
        print_use(deployment, provider, lambda: asyncio.run(together.run(seconds, "together")), "with the loud tenant")
        result = orjson.loads(loud.communicate()[0])
    print_replies(result)
    return print_waits(alone, together)


def print_use(deployment: Deployment, provider: ScriptedProvider, act: Callable[[], None], name: str) -> None:
    """Print the usage of the processes during an action."""
    before, started = _used(deployment, provider), time.perf_counter()
    act()
    took, after = time.perf_counter() - started, _used(deployment, provider)
    cores = ", ".join(f"{process} {(after[process] - before[process]) / took:.2f}" for process in after)
    print(f"{name}: {took:.0f} s, cores used: {cores}")
    print("  peak MB:", ", ".join(f"{process} {size / 1e6:.0f}" for process, size in deployment.peak_bytes().items()))
    sys.stdout.flush()


def _used(deployment: Deployment, provider: ScriptedProvider) -> dict[str, float]:
    model = psutil.Process(provider.pid).cpu_times()
    return {
        "quiet client": time.process_time(),
        **deployment.cpu_seconds(),
        **deployment.engine_cpu_seconds(),
        "model": model.user + model.system,
    }


def print_waits(alone: Quiet, together: Quiet) -> Numbers:
    """Print the parts of the quiet tenant's queries; return its latencies in both cases."""
    numbers = Numbers()
    for name in ("queries", "uploads", "found after"):
        before, meanwhile = alone.milliseconds.get(name, []), together.milliseconds.get(name, [])
        if min(len(before), len(meanwhile)) < 2:
            print(f"{name:<12} {len(before)} and {len(meanwhile)} measured")
            continue
        for percent in (50, 95):
            first, second = _percentile(before, percent), _percentile(meanwhile, percent)
            numbers |= {f"{name} p{percent}, ms alone": first, f"{name} p{percent}, ms together": second}
            numbers[f"{name} p{percent}, together / alone"] = second / first
    for name, quiet in (("alone", alone), ("together", together)):
        for part in quiet.parts[0] if quiet.parts else ():
            values = [one[part] for one in quiet.parts]
            middle, late = _percentile(values, 50), _percentile(values, 95)
            print(f"  a query {name}: {part:<16} p50 {middle:8.1f} ms   p95 {late:8.1f} ms")
        print(f"  answers {name}: {_listed(quiet.statuses)}")
    return numbers


def print_replies(result: Mapping[str, Any]) -> None:
    """Print the loud tenant's replies by status and by request kind."""
    statuses, kinds = Counter[str](), dict[str, Counter[str]]()
    for name, count in result["replies"].items():
        kind, _, outcome = name.rpartition(": ")
        statuses[outcome] += count
        kinds.setdefault(kind, Counter())[outcome] += count
    rate = sum(statuses.values()) / result["seconds"]
    may = _LIMITS.requests_per_second
    print(f"the loud tenant was to send {TIMES} times its limit of {may:g} requests a second; answered {rate:.0f}")
    print(f"  client used {result['cpu_seconds'] / result['seconds']:.2f} cores; {result['late']} found none idle")
    print(f"  in all: {_listed(statuses)}")
    for kind, outcomes in sorted(kinds.items()):
        print(f"  {kind + ':':<24} {_listed(outcomes)}")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    main()
