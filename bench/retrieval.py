"""`/v1/retrieve` over 100,000 points with three channels, at 1 and at 16 clients.

`python -m bench.retrieval [--points N]`: the API as a process, and the embedded engines of Qdrant and of embeddings.
The points are a sixth chunks, each with five questions; their vectors are random, which is the hardest case for the
engine's graph, and their texts are words drawn as in a language. Prints the median and the 95th percentile of what a
client waits for, and apart the embedding call, Qdrant's two requests and all else.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx
import numpy as np

from bench.deployment import Deployment, ScriptedProvider
from shared.domain.chunks import ChunkContent
from shared.domain.places import Place
from shared.ledger import Collections
from shared.ledger.database import Database
from shared.vectors.index import Index
from shared.vectors.points import Point, PointContext, points_of

DIMENSIONS = 384
QUESTIONS = 5
WORDS = 20_000
WORDS_PER_CHUNK = 150
REQUESTS = 400
BATCH = 200


class Texts:
    """Words by Zipf's law, as in a language."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._words = [f"w{number:x}" for number in range(WORDS)]
        self._weights = list(np.cumsum(1 / np.arange(1, WORDS + 1)))

    def draw(self, count: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))


def points(place: Place, chunks: int, texts: Texts) -> Iterator[list[Point]]:
    generator = np.random.default_rng(7)
    document_id = uuid4()
    for ordinal in range(chunks):
        vectors = generator.standard_normal((QUESTIONS + 1, DIMENSIONS)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        context = PointContext(
            place=place,
            document_id=document_id,
            chunk_id=uuid4(),
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


async def fill(deployment: Deployment, chunks: int, texts: Texts) -> None:
    urls = deployment.stack.environment()
    database = Database(urls["FOREASK_DATABASE_URL"])
    index = Index(urls["FOREASK_QDRANT_URL"], api_key=deployment.stack.settings.qdrant_api_key)
    collection = await Collections(database, "bench", DIMENSIONS).get("default", "bench")
    await index.ensure_collection(collection.index_name, DIMENSIONS)
    batch: list[Point] = []
    for number, written in enumerate(points(collection.place, chunks, texts), 1):
        batch += written
        if number % BATCH == 0 or number == chunks:
            await index.upsert(collection.index_name, batch)
            batch = []
    await index.aclose()
    await database.aclose()


async def ask(url: str, clients: int, texts: Texts) -> list[dict[str, float]]:
    """The milliseconds of each request, by stage; `client` is what the client waited for."""
    questions = iter([texts.draw(8) for _ in range(REQUESTS)])
    times: list[dict[str, float]] = []

    async def one(http: httpx.AsyncClient) -> None:
        for question in questions:
            began = time.perf_counter()
            reply = await http.post("/v1/retrieve", json={"question": question, "collection": "bench"})
            waited = (time.perf_counter() - began) * 1000
            times.append(reply.raise_for_status().json()["metadata"]["milliseconds"] | {"client": waited})

    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        await asyncio.gather(*(one(http) for _ in range(clients)))
    return times


async def ask_nothing(url: str, clients: int) -> list[float]:
    """The milliseconds of requests for which the API does nothing: what HTTP, this client and the processors take."""
    requests = iter(range(REQUESTS))
    times: list[float] = []

    async def one(http: httpx.AsyncClient) -> None:
        for _ in requests:
            began = time.perf_counter()
            (await http.get("/health/live")).raise_for_status()
            times.append((time.perf_counter() - began) * 1000)

    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        await asyncio.gather(*(one(http) for _ in range(clients)))
    return times


def show(clients: int, times: list[dict[str, float]], empty: list[float]) -> None:
    parts = {
        "total": [t["client"] for t in times],
        "embedding": [t["embed"] for t in times],
        "Qdrant": [t["search"] + t["fetch"] for t in times],
        "rest": [t["client"] - t["embed"] - t["search"] - t["fetch"] for t in times],
        "of it in the API": [t["total"] - t["embed"] - t["search"] - t["fetch"] for t in times],
        "an empty request": empty,
    }
    print(f"{clients} clients, {len(times)} requests")
    for name, values in parts.items():
        median, late = np.quantile(values, [0.5, 0.95])
        print(f"  {name:17} median {median:7.1f} ms   p95 {late:7.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    wanted = parser.parse_args().points
    provider = ScriptedProvider()
    texts = Texts()
    scripted = provider.settings()
    settings = scripted.model_copy(
        update={"embedding_base_url": None, "embedding_model": None, "embedding_api_key": None}
    )
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder), roles=()) as deployment:
            deployment.client.put("/v1/collections/bench", json={}).raise_for_status()
            began = time.perf_counter()
            asyncio.run(fill(deployment, wanted // (QUESTIONS + 1), texts))
            print(f"{wanted:,} points written in {time.perf_counter() - began:.0f} s", flush=True)
            url = str(deployment.client.base_url)
            asyncio.run(ask(url, 4, texts))  # caches and connections
            for clients in (1, 16):
                show(clients, asyncio.run(ask(url, clients, texts)), asyncio.run(ask_nothing(url, clients)))
    finally:
        provider.close()


if __name__ == "__main__":
    main()
