"""`/v1/retrieve` over 100,000 points with three channels, at 1 and at 16 clients.

`python -m bench.retrieval [--points N]`: the API as a process, and the embedded engines of Qdrant and of embeddings.
The points are a sixth chunks, each with five questions; their vectors are random, which is the hardest case for the
engine's graph, and their texts are words drawn as in a language. Prints the median and the 95th percentile of the
client's latency and of its parts (embedding, Qdrant's two requests, the rest of the API, HTTP with the client), and the
processor's milliseconds by process, with its children. First directly after the load, while Qdrant builds the last
graphs, then after they are built.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx
import numpy as np

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.ids import chunk_id
from shared.domain.corpus.index_location import IndexLocation, IndexNames
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import Database
from shared.vectors.index import Index
from shared.vectors.schema.points import Point, PointContext, points_of
from tests.support.deployment import Deployment, ScriptedProvider

DIMENSIONS = 384
QUESTIONS = 5
WORDS = 20_000
WORDS_PER_CHUNK = 150
FIRST_REQUESTS, REQUESTS = 100, 400
BATCH = 200
GREEN_SECONDS = 25  # longer than the calm after which the embedded engine joins segments


class ZipfTexts:
    """Words by Zipf's law, as in a language."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._words = [f"w{number:x}" for number in range(WORDS)]
        self._weights = list(np.cumsum(1 / np.arange(1, WORDS + 1)))

    def draw(self, count: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))


def points(location: IndexLocation, chunks: int, texts: ZipfTexts) -> Iterator[list[Point]]:
    generator = np.random.default_rng(7)
    document_id = uuid4()
    for ordinal in range(chunks):
        vectors = generator.standard_normal((QUESTIONS + 1, DIMENSIONS)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        context = PointContext(
            location=location,
            document_id=document_id,
            chunk_id=chunk_id(document_id, document_id, str(ordinal), 0),
            version=1,
            token=0,
            ordinal=ordinal,
            external_id="document.md",
            created_at=datetime.now(UTC),
            filename="document.md",
        )
        content = ChunkContent.whole(texts.draw(WORDS_PER_CHUNK), "A document", ("Part",))
        questions = [texts.draw(9) for _ in range(QUESTIONS)]
        yield points_of(content, context, vectors[0], list(zip(questions, vectors[1:], strict=True)))


async def fill(deployment: Deployment, chunks: int, texts: ZipfTexts) -> str:
    """Write points without a model and return the name of their collection in Qdrant."""
    urls = deployment.stack.environment()
    database = Database(urls["FOREASK_DATABASE_URL"])
    index = Index(urls["FOREASK_QDRANT_URL"], api_key=deployment.stack.settings.qdrant_api_key)
    collection = await Collections(database, IndexNames("bench")).get("default", "bench")
    await index.ensure_collection(collection.index_name, DIMENSIONS)
    batch: list[Point] = []
    for number, written in enumerate(points(collection.location, chunks, texts), 1):
        batch += written
        if number % BATCH == 0 or number == chunks:
            await index.upsert(collection.index_name, batch)
            batch = []
    await index.aclose()
    await database.aclose()
    return collection.index_name


async def wait_for_graphs(deployment: Deployment, name: str) -> None:
    """Wait until Qdrant has indexed the loaded points and has joined its segments."""
    url = f"{deployment.stack.settings.qdrant_url}/collections/{name}"
    async with httpx.AsyncClient(trust_env=False, headers=deployment.qdrant_headers) as http:
        green = 0
        while green < GREEN_SECONDS:
            await asyncio.sleep(1)
            info = (await http.get(url)).raise_for_status().json()["result"]
            green = green + 1 if info["status"] == "green" else 0


async def ask(url: str, clients: int, requests: int, texts: ZipfTexts) -> list[dict[str, float]]:
    """Return the milliseconds of each request, by stage; `client` is the client's latency."""
    questions = iter([texts.draw(8) for _ in range(requests)])
    times: list[dict[str, float]] = []

    async def one(http: httpx.AsyncClient) -> None:
        for question in questions:
            started = time.perf_counter()
            reply = await http.post("/v1/retrieve", json={"question": question, "collection": "bench"})
            waited = (time.perf_counter() - started) * 1000
            times.append(reply.raise_for_status().json()["metadata"]["milliseconds"] | {"client": waited})

    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        await asyncio.gather(*(one(http) for _ in range(clients)))
    return times


def parts(times: dict[str, float]) -> dict[str, float]:
    """Return the milliseconds of one request, by component."""
    qdrant = times["search"] + times["fetch"]
    return {
        "embedding": times["embed"],
        "Qdrant": qdrant,
        "the API itself": times["total"] - times["embed"] - qdrant,
        "HTTP and client": times["client"] - times["total"],
        "whole": times["client"],
    }


def cpu_seconds(deployment: Deployment) -> dict[str, float]:
    """Return the processor seconds of each process until now, including its children's."""
    client = os.times()
    return {**deployment.cpu_seconds(), **deployment.engine_cpu_seconds(), "client": client.user + client.system}


def measure(deployment: Deployment, clients: int, requests: int, texts: ZipfTexts) -> None:
    before = cpu_seconds(deployment)
    times = asyncio.run(ask(str(deployment.client.base_url), clients, requests, texts))
    after = cpu_seconds(deployment)
    print(f"{clients} clients, {requests} requests")
    each = [parts(one) for one in times]
    for name in each[0]:
        median, late = np.quantile([one[name] for one in each], [0.5, 0.95])
        print(f"  {name:15} median {median:7.1f} ms   p95 {late:7.1f} ms")
    spent = {name: (after[name] - before[name]) * 1000 / requests for name in before.keys() & after.keys()}
    listed = ", ".join(f"{name} {ms:.1f}" for name, ms in sorted(spent.items(), key=lambda one: -one[1]) if ms >= 0.05)
    print(f"  CPU of a request {sum(spent.values()):.1f} ms: {listed}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    wanted = parser.parse_args().points
    provider = ScriptedProvider()
    texts = ZipfTexts()
    scripted = provider.settings()
    settings = scripted.model_copy(
        update={"embedding_base_url": None, "embedding_model": None, "embedding_api_key": None}
    )
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder), roles=()) as deployment:
            deployment.client.put("/v1/collections/bench", json={}).raise_for_status()
            started = time.perf_counter()
            name = asyncio.run(fill(deployment, wanted // (QUESTIONS + 1), texts))
            loaded = time.perf_counter()
            print(f"{wanted:,} points written in {loaded - started:.0f} s", flush=True)
            measure(deployment, 1, FIRST_REQUESTS, texts)  # the graphs of the last points are still built
            asyncio.run(wait_for_graphs(deployment, name))
            print(f"indexed and joined {time.perf_counter() - loaded:.0f} s after the load", flush=True)
            asyncio.run(ask(str(deployment.client.base_url), 4, FIRST_REQUESTS, texts))  # fill caches, open connections
            for clients in (1, 16):
                measure(deployment, clients, REQUESTS, texts)
    finally:
        provider.close()


if __name__ == "__main__":
    main()
