"""How long one request can hold up all others: `python -m bench stalls`.

The API runs as a process whose loop watches itself, and another process asks `/health/live` every 5 ms. Then comes one
request at a time, the largest that there are. The table has for each how long it took, the longest time in which the
loop served nobody, and the 99th percentile and the longest of what the health check waited for.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson
import uvicorn

from api.app import create
from bench.deployment import Deployment, Process, ScriptedProvider, corpus, execute
from shared.settings import load

DOCUMENTS = 60
SECTIONS = 10
QUESTIONS = 1_000
LISTENERS = 1_000
LISTENED_SECONDS = 10
JSON_BYTES = 20_000_000
FILES = 4_096  # two for each listener

_JSON = {"content-type": "application/json"}
_TICK_SECONDS = 0.002
_AT_REST = 100  # answers before the request is sent: left out


def serve() -> None:
    """The API with one more route, which tells the longest stand of the loop since it was last asked."""
    settings = load()
    app = create(settings)
    stands = [0.0]
    watches: list[asyncio.Task[None]] = []

    @app.get("/stand")
    async def stand() -> float:
        watches[:] = watches or [asyncio.create_task(_watch(stands))]
        longest, stands[0] = stands[0], 0.0
        return longest

    uvicorn.run(app, port=settings.api_port, loop="uvloop", log_config=None, access_log=False, ws="none")


async def _watch(stands: list[float]) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(_TICK_SECONDS)
        stands[0] = max(stands[0], time.perf_counter() - before - _TICK_SECONDS)


def probe(url: str) -> None:
    """Ask for the health until standard input ends; print a line after 100 answers, and in the end their seconds."""
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
    """Measures the API while something is asked of it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=600)

    def measure(self, name: str, ask: Callable[[httpx.Client], str]) -> None:
        command = [sys.executable, "-m", "bench.stalls", "probe", self._url]
        self._client.get("/stand")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as probing:
            assert probing.stdout is not None
            probing.stdout.readline()
            self._client.get("/stand")
            before = time.perf_counter()
            outcome = ask(self._client)
            seconds = time.perf_counter() - before
            time.sleep(0.3)
            waited, _ = probing.communicate()
        stand = self._client.get("/stand").json()
        latencies = orjson.loads(waited)[_AT_REST:]
        p99 = statistics.quantiles(latencies, n=100)[98]
        print(
            f"{name:<30} {outcome:<12} {seconds:6.2f} s   stand {stand * 1000:6.0f} ms"
            f"   health p99 {p99 * 1000:6.1f} ms   longest {max(latencies) * 1000:6.0f} ms",
            flush=True,
        )


def posting(path: str, body: bytes) -> Callable[[httpx.Client], str]:
    return lambda client: str(client.post(path, content=body, headers=_JSON).status_code)


def largest_bodies() -> Mapping[str, bytes]:
    """Documents in JSON, each as large as it may be, that cost the most to decode, to check or to refuse."""
    questions = [{"text": f"Who is number {n}?", "quote": "alpha " * 120} for n in range(20_000)]
    wrong = [{"a": n, "b": n} for n in range(20_000)]
    keys = b",".join(b'"x%d":1' % n for n in range(90_000))
    return {
        "20 MB of empty lists": b'{"text":"a","metadata":{"a":[' + b"[]," * (JSON_BYTES // 3) + b"[]]}}",
        "20 MB of text": orjson.dumps({"text": 'Lorem "ipsum", dolor.\n' * (JSON_BYTES // 24)}),
        "20,000 questions with quotes": orjson.dumps({"text": "alpha " * 1000, "questions": questions}),
        "20,000 wrong questions": orjson.dumps({"text": "a", "questions": wrong}),
        "90,000 unknown fields": b'{"text":"a",' + keys + b"}",
    }


def labelled() -> list[dict[str, Any]]:
    names = [(number % DOCUMENTS, number % SECTIONS) for number in range(QUESTIONS)]
    return [{"question": f"What is topic{d}x{s} of {d * s}?", "external_ids": [f"report-{d}.md"]} for d, s in names]


async def listen(port: int) -> str:
    """Listen for a while, as so many clients at once."""

    async def one() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            told = await reader.readuntil(b"event: progress")
            await asyncio.sleep(LISTENED_SECONDS)
            return told.startswith(b"HTTP/1.1 200")
        finally:
            writer.close()

    return f"{sum(await asyncio.gather(*(one() for _ in range(LISTENERS))))} told"


def launch(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
    serving = [sys.executable, "-m", "bench.stalls", "serve"]
    return execute(serving if command[1:] == ["-m", "api"] else command, environment, log)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    provider = ScriptedProvider()
    with tempfile.TemporaryDirectory() as folder, Deployment(provider.settings(), Path(folder), launch=launch) as api:
        api.ingest(corpus(DOCUMENTS, SECTIONS))
        api.wait_until_settled(DOCUMENTS, timeout=600)
        meter = HealthProbe(f"http://127.0.0.1:{api.port}")
        meter.measure("at rest", _rest)
        path = "/v1/collections/default/"
        questions = orjson.dumps({"questions": labelled()})
        meter.measure("calibration, 1,000 questions", posting(path + "calibration", questions))
        meter.measure("calibration without labels", lambda client: _unlabelled(client, path))
        meter.measure("verify", posting(path + "verify", b"{}"))
        meter.measure("documents, 200 a page", lambda client: str(client.get("/v1/documents?limit=200").status_code))
        query = orjson.dumps({"question": "What is topic1x1?", "top_k": 200, "max_tokens": 1_000_000, "explain": True})
        meter.measure("200 chunks explained", posting("/v1/retrieve", query))
        for name, body in largest_bodies().items():
            meter.measure(name, posting("/v1/documents", body))
        meter.measure("1,000 listeners", lambda _: asyncio.run(listen(api.port)))
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
            main()
