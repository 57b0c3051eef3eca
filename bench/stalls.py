"""The longest time that one request delays all others: `python -m bench stalls`.

The API runs as `python -m api` runs it, its loop measures itself, and another process requests `/health/live` every 5
ms. Then one request is sent at a time, the largest ones possible. The table has the duration of each, the longest stall
of the loop (and the longest stall that no busy neighbour caused), and the 99th percentile and the longest latency of
the health check.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import orjson
from fastapi import FastAPI

import api.server as api
from tests.support.deployment import Deployment, Process, ScriptedProvider, corpus, execute
from tests.support.loopwatch import LoopWatch

DOCUMENTS = 60
SECTIONS = 10
QUESTIONS = 1_000
LISTENERS = 1_000
LISTENED_SECONDS = 10
JSON_BYTES = 20_000_000
FILES = 4_096  # two for each listener

_JSON = {"content-type": "application/json"}
_AT_REST = 100  # answers before the request is sent: left out


def serve() -> None:
    """Run the API with one more route, which returns the longest stalls of the loop since its last call."""
    create = api.create
    api.create = lambda *arguments, **named: _watched(create(*arguments, **named))
    api.main()


def _watched(app: FastAPI) -> FastAPI:
    watch = LoopWatch()
    watching: list[asyncio.Task[None]] = []

    @app.get("/stall")
    async def stall() -> tuple[float, float]:
        watching[:] = watching or [asyncio.create_task(watch.watch())]
        longest = watch.seconds, watch.wall_seconds
        watch.seconds = watch.wall_seconds = 0.0
        return longest

    return app


def probe(url: str) -> None:
    """Request the health until standard input ends; print a line after 100 replies, and at the end their seconds."""
    waited: list[float] = []
    ended = asyncio.Event()

    async def run() -> None:
        asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
            while not ended.is_set():
                before = time.perf_counter()
                await client.get("/health/live")
                waited.append(time.perf_counter() - before)
                if len(waited) == _AT_REST:
                    print(flush=True)
                await asyncio.sleep(0.005)

    asyncio.run(run())
    print(orjson.dumps(waited).decode())


class HealthProbe:
    """Measures the API's health latency during a request."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=600)

    def measure(self, name: str, ask: Callable[[httpx.Client], str]) -> None:
        command = [sys.executable, "-m", "bench.stalls", "probe", self._url]
        self._client.get("/stall")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as probing:
            assert probing.stdout is not None
            probing.stdout.readline()
            self._client.get("/stall")
            before = time.perf_counter()
            outcome = ask(self._client)
            seconds = time.perf_counter() - before
            time.sleep(0.3)
            waited, _ = probing.communicate()
        stall, by_the_wall = self._client.get("/stall").json()
        latencies = orjson.loads(waited)[_AT_REST:]
        p99 = statistics.quantiles(latencies, n=100)[98]
        print(
            f"{name:<30} {outcome:<12} {seconds:6.2f} s"
            f"   stall {by_the_wall * 1000:5.0f} ms, ours {stall * 1000:5.0f} ms"
            f"   health p99 {p99 * 1000:6.1f} ms   longest {max(latencies) * 1000:6.0f} ms",
            flush=True,
        )


def posting(path: str, body: bytes) -> Callable[[httpx.Client], str]:
    return lambda client: str(client.post(path, content=body, headers=_JSON).status_code)


def largest_bodies() -> Mapping[str, bytes]:
    """Return the JSON documents of the largest allowed size that cost the most to decode, to check or to refuse."""
    questions = [{"text": f"Who is number {n}?", "quote": "alpha " * 120} for n in range(20_000)]
    wrong = [{"a": n, "b": n} for n in range(20_000)]
    keys = b",".join(b'"x%d":1' % n for n in range(90_000))
    return {
        "20 MB of empty lists": b'{"text":"a","metadata":{"a":[' + b"[]," * (JSON_BYTES // 3) + b"[]]}}",
        "20 MB of base 64": orjson.dumps({"content_base64": base64.b64encode(b"alpha beta\n" * 1_300_000).decode()}),
        "20 MB of text": orjson.dumps({"text": 'Lorem "ipsum", dolor.\n' * (JSON_BYTES // 24)}),
        "20,000 questions with quotes": orjson.dumps({"text": "alpha " * 1000, "questions": questions}),
        "20,000 wrong questions": orjson.dumps({"text": "a", "questions": wrong}),
        "90,000 unknown fields": b'{"text":"a",' + keys + b"}",
    }


def labelled() -> list[dict[str, Any]]:
    names = [(number % DOCUMENTS, number % SECTIONS) for number in range(QUESTIONS)]
    return [{"question": f"What is topic{d}x{s} of {d * s}?", "external_ids": [f"report-{d}.md"]} for d, s in names]


async def listen(port: int) -> str:
    """Listen for a while, as many concurrent clients."""

    async def one() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            reply = await reader.readuntil(b"event: progress")
            await asyncio.sleep(LISTENED_SECONDS)
            return reply.startswith(b"HTTP/1.1 200")
        finally:
            writer.close()

    return f"{sum(await asyncio.gather(*(one() for _ in range(LISTENERS))))} received"


def launch(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
    serving = [sys.executable, "-m", "bench.stalls", "serve"]
    return execute(serving if command[1:] == ["-m", "api"] else command, environment, log)


def largest_forms() -> Mapping[str, dict[str, Any]]:
    """Return documents as forms, with as many bytes and fields as allowed."""
    questions = orjson.dumps([{"text": f"Who is number {n}?", "quote": "alpha " * 120} for n in range(20_000)])
    return {
        "form, 50 MB": {"files": {"file": ("a.txt", b"alpha beta\n" * 4_500_000)}},
        "form, 20,000 questions": {"files": {"file": ("b.txt", b"alpha")}, "data": {"questions": questions}},
    }


def queries() -> Mapping[str, bytes]:
    """Return the query with the largest reply, and the queries with the largest filters."""
    query = {"question": "What is topic1x1?", "top_k": 200, "max_tokens": 1_000_000, "explain": True}
    many = {f"field{n}": {"none": list(range(n, n + 1_000))} for n in range(32)}
    ids = [str(uuid4()) for _ in range(1_000)]
    return {
        "200 chunks explained": orjson.dumps(query),
        "32,000 values in a filter": orjson.dumps(query | {"filter": many}),
        "1,000 documents": orjson.dumps(query | {"document_ids": ids}),
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    provider = ScriptedProvider()
    with tempfile.TemporaryDirectory() as folder, Deployment(provider.settings(), Path(folder), launch=launch) as stack:
        stack.ingest(corpus(DOCUMENTS, SECTIONS))
        stack.wait_until_settled(DOCUMENTS, timeout=600)
        meter = HealthProbe(f"http://127.0.0.1:{stack.port}")
        meter.measure("at rest", _rest)
        path = "/v1/collections/default/"
        questions = orjson.dumps({"questions": labelled()})
        meter.measure("calibration, 1,000 questions", posting(path + "calibration", questions))
        meter.measure("calibration without labels", lambda client: _unlabelled(client, path))
        meter.measure("verify", posting(path + "verify", b"{}"))
        meter.measure("documents, 200 a page", lambda client: str(client.get("/v1/documents?limit=200").status_code))
        for name, body in queries().items():
            meter.measure(name, posting("/v1/retrieve", body))
        for name, body in largest_bodies().items():
            meter.measure(name, posting("/v1/documents", body))
        for name, form in largest_forms().items():
            meter.measure(name, lambda client, form=form: str(client.post("/v1/documents", **form).status_code))
        meter.measure("1,000 listeners", lambda _: asyncio.run(listen(stack.port)))
    provider.close()


def _rest(_: httpx.Client) -> str:
    time.sleep(3)
    return ""


def _unlabelled(client: httpx.Client, path: str) -> str:
    client.delete(path + "calibration").raise_for_status()
    return str(client.post(path + "calibration", json={}).status_code)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["probe", url]:
            probe(url)
        case _:
            argparse.ArgumentParser(
                description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
            ).parse_args()
            main()
