"""Latency of queries while points are written to the embedded Qdrant: `python -m bench flushes [SECONDS] [--before D]`.

A server with 60,000 points receives five queries a second and two thousand points a second, so that it flushes and
optimizes meanwhile. With `--before`, a folder with another version of foreask, a server of that version receives the
same, in turns of 20 s. Latencies are in milliseconds; CPU is the processor time of a server with its children, in
seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import orjson
from pydantic import SecretStr

from embedded.ports import free_port
from embedded.qdrant import process
from embedded.supervisor import Supervisor
from tests.support.deployment import processor_seconds

SECONDS = 200
_TURN_SECONDS = 20.0
_STORED_POINTS = 60_000
_DIMENSIONS = 384
_POINTS_AT_ONCE = 128
_POINTS_A_SECOND = 2_000
_QUERIES_A_SECOND = 5.0
_DISTINCT = 200  # vectors
_COLLECTION = {
    "vectors": {"text": {"size": _DIMENSIONS, "distance": "Cosine"}},
    "sparse_vectors": {"words": {"modifier": "idf"}},
}


@dataclass
class MeasuredServer:
    """A server and the latencies of its queries.

    Args:
        name: name of the row.
        url: its address.
        key: its key.
        points: number of points written.
        cpu: processor time of its processes during the turns, in seconds.
        seconds: latencies of its queries.
    """

    name: str
    url: str
    key: SecretStr
    points: int = 0
    cpu: float = 0.0
    seconds: list[float] = field(default_factory=list)

    @property
    def headers(self) -> dict[str, str]:
        return {"api-key": self.key.get_secret_value()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS, help="duration; %(default)s by default")
    parser.add_argument("--before", type=Path, help="folder with another version of foreask")
    options = parser.parse_args()
    versions = {"now": Path.cwd()} | ({"before": options.before} if options.before else {})
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        children, servers = [], []
        for name, version in versions.items():
            port = free_port()
            child = process.child(directory / name, port, directory / f"{name}.log")
            children.append(replace(child, name=name, directory=version))
            servers.append(MeasuredServer(name, process.url(port), process.key(directory / name)))
        with Supervisor(children) as supervisor:
            asyncio.run(measure(servers, options.seconds, supervisor))


async def measure(servers: Sequence[MeasuredServer], total: float, supervisor: Supervisor) -> None:
    """Load the servers in turns and print a row for each."""
    vectors = [[random.gauss(0, 1) for _ in range(_DIMENSIONS)] for _ in range(_DISTINCT)]
    for server in servers:
        async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as client:
            (await client.put("/collections/c", json=_COLLECTION)).raise_for_status()
            while server.points < _STORED_POINTS:
                await write(client, server, vectors)
    ended = time.monotonic() + total
    while time.monotonic() < ended:
        for server in servers:
            async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as client:
                until = time.monotonic() + _TURN_SECONDS
                before = processor_seconds(supervisor.pids()[server.name])
                await asyncio.gather(write_until(until, client, server, vectors), query_until(until, server, vectors))
                server.cpu += processor_seconds(supervisor.pids()[server.name]) - before
    print(f"{'':<15}{'queries':>8}{'p50':>8}{'p95':>8}{'p99':>8}{'max':>8}{'points':>10}{'CPU':>8}")
    for server in servers:
        percentiles = statistics.quantiles(server.seconds, n=100, method="inclusive")
        cells = [1000 * s for s in (percentiles[49], percentiles[94], percentiles[98], max(server.seconds))]
        latencies = "".join(f"{cell:>8.0f}" for cell in cells)
        print(f"{server.name:<15}{len(server.seconds):>8}{latencies}{server.points:>10}{server.cpu:>8.1f}")


async def write_until(
    until: float, client: httpx.AsyncClient, server: MeasuredServer, vectors: list[list[float]]
) -> None:
    due = time.monotonic()
    while time.monotonic() < until:
        await write(client, server, vectors)
        due = max(due + _POINTS_AT_ONCE / _POINTS_A_SECOND, time.monotonic() - 1)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def write(client: httpx.AsyncClient, server: MeasuredServer, vectors: list[list[float]]) -> None:
    numbers = range(server.points, server.points + _POINTS_AT_ONCE)
    body = orjson.dumps({"points": [point(number, vectors) for number in numbers]})
    (await client.put("/collections/c/points", params={"wait": "true"}, content=body)).raise_for_status()
    server.points += _POINTS_AT_ONCE


def point(number: int, vectors: list[list[float]]) -> dict[str, Any]:
    terms = [(number * 31 + term * 7919) % 100_003 for term in range(80)]
    sparse = {"indices": terms, "values": [1.0] * len(terms)}
    payload = {"n": number, "tenant": str(number % 10), "text": f"The text of point {number}. " * 20}
    return {"id": number, "vector": {"text": vectors[number % _DISTINCT], "words": sparse}, "payload": payload}


async def query_until(until: float, server: MeasuredServer, vectors: list[list[float]]) -> None:
    async with (
        httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as client,
        asyncio.TaskGroup() as group,
    ):
        while time.monotonic() < until:
            group.create_task(query(client, server, random.choice(vectors)))
            await asyncio.sleep(random.expovariate(_QUERIES_A_SECOND))


async def query(client: httpx.AsyncClient, server: MeasuredServer, vector: list[float]) -> None:
    body = {"searches": [{"query": vector, "using": "text", "limit": 10, "with_payload": True}]}
    started = time.perf_counter()
    (await client.post("/collections/c/points/query/batch", json=body)).raise_for_status()
    server.seconds.append(time.perf_counter() - started)


if __name__ == "__main__":
    main()
