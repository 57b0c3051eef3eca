"""Storage of a chunk's text, vector and BM25 weights: four layouts of the same data in Qdrant's engine.

`python -m bench.layouts [CHUNKS]`: 5 questions a chunk, 2,000 characters of text. `on questions`: every question point
contains its complete chunk; `two kinds`: question points and chunk points in one collection; `two collections`: the
same in two; `groups`: in one, with one vector name and a group for each kind, as the product does it. Prints seconds to
write, bytes on disk a chunk, milliseconds of a search over three channels with the chunks of its ten best fetched, and
milliseconds to delete a document.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import uvloop
from qdrant_client import AsyncQdrantClient, models

from embedded.stack import Stack
from shared.domain.text.bm25 import document_vector, query_vector
from shared.settings import Settings
from tests.support.qdrant import headers_of

QUESTIONS, DIMENSIONS, PER_DOCUMENT, SEARCHES = 5, 384, 10, 100
LAYOUTS = ("on questions", "two kinds", "two collections", "groups")
KEYWORD = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False)
random = np.random.default_rng(7)
WORDS = [f"word{n}" for n in range(20_000)]


def vector() -> list[float]:
    v = random.standard_normal(DIMENSIONS)
    return [round(float(x), 6) for x in v / np.linalg.norm(v)]


def text() -> str:
    return " ".join(WORDS[int(n)] for n in random.zipf(1.3, 250) % len(WORDS))[:2000]


def sparse(words: str) -> dict[str, Any]:
    weights = document_vector(words)
    return {"indices": weights.indices, "values": weights.values}


class PointLayout:
    def __init__(self, client: AsyncQdrantClient, name: str) -> None:
        self.client = client
        self.name = name
        slug = name.replace(" ", "-")
        self.questions = slug
        self.chunks = f"{slug}-chunks" if name == "two collections" else slug

    async def create(self) -> None:
        dense = models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)
        both = {"question": dense, "text": dense}
        bm25 = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        if self.name == "groups":
            graphs = models.HnswConfigDiff(m=0, payload_m=16)
            await self.client.create_collection(self.questions, {"dense": dense}, bm25, hnsw_config=graphs)
            tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            await self.client.create_payload_index(self.questions, "group", tenant, wait=True)
        elif self.chunks == self.questions:
            await self.client.create_collection(self.questions, both, bm25)
        else:
            await self.client.create_collection(self.questions, {"question": dense})
            await self.client.create_collection(self.chunks, {"text": dense}, bm25)
        for name in {self.questions, self.chunks}:
            for field in ("document_id", "chunk_id"):
                await self.client.create_payload_index(name, field, KEYWORD, wait=True)

    def points(self, chunk: int) -> dict[str, list[models.PointStruct]]:
        """Return the points of a chunk by collection; ids count up."""
        words, own = text(), {"chunk_id": str(chunk), "document_id": str(chunk // PER_DOCUMENT)}
        whole: dict[str, Any] = {self.vector_of("text"): vector(), "bm25": sparse(words)}
        first = chunk * (QUESTIONS + 1)
        points: dict[str, list[models.PointStruct]] = {self.questions: [], self.chunks: []}
        for n in range(QUESTIONS):
            payload = own | {"group": "q", "question": f"When do we say, {words[n * 40 : n * 40 + 40]}?"}
            vectors: dict[str, Any] = {self.vector_of("question"): vector()}
            if self.name == "on questions":
                payload |= {"text": words}
                vectors |= whole
            points[self.questions].append(models.PointStruct(id=first + 1 + n, vector=vectors, payload=payload))
        if self.name != "on questions":
            payload = own | {"group": "t", "text": words}
            points[self.chunks].append(models.PointStruct(id=first, vector=whole, payload=payload))
        return points

    def vector_of(self, kind: str) -> str:
        return "dense" if self.name == "groups" else kind

    def within(self, group: str) -> dict[str, Any]:
        """Return the parameters that restrict a search to one group, if the layout has groups."""
        if self.name != "groups":
            return {}
        condition = models.FieldCondition(key="group", match=models.MatchValue(value=group))
        return {"filter": models.Filter(must=[condition])}

    async def search(self) -> None:
        weights = query_vector(" ".join(WORDS[int(n)] for n in random.zipf(1.3, 6) % len(WORDS)))
        bm25 = models.SparseVector(indices=weights.indices, values=weights.values)
        # If each question point contains the chunk, each channel needs as many points as k chunks may have questions.
        fold = 10 * QUESTIONS if self.name == "on questions" else 10
        payload = ["chunk_id"]
        of_questions, of_texts = self.within("q"), self.within("t")
        texts: dict[str, Any] = {"limit": fold, "with_payload": payload} | of_texts
        questions: dict[str, Any] = {"limit": 10 * QUESTIONS, "with_payload": payload} | of_questions
        q = models.QueryRequest(query=vector(), using=self.vector_of("question"), **questions)
        t = models.QueryRequest(query=vector(), using=self.vector_of("text"), **texts)
        if of_texts:
            texts["params"] = models.SearchParams(idf=models.IdfCorpusParams(corpus=of_texts["filter"]))
        b = models.QueryRequest(query=bm25, using="bm25", **texts)
        if self.chunks == self.questions:
            answers = await self.client.query_batch_points(self.questions, [q, t, b])
        else:
            both = await asyncio.gather(
                self.client.query_batch_points(self.questions, [q]),
                self.client.query_batch_points(self.chunks, [t, b]),
            )
            answers = [answer for part in both for answer in part]
        best = {p.payload["chunk_id"]: p.id for answer in answers for p in answer.points if p.payload}
        ids = [int(i) for i in best.values()][:10]
        if self.name != "on questions":
            ids = [int(chunk) * (QUESTIONS + 1) for chunk in list(best)[:10]]
        await self.client.retrieve(self.chunks, ids)

    async def delete(self, document: int) -> None:
        condition = models.FieldCondition(key="document_id", match=models.MatchValue(value=str(document)))
        selector = models.FilterSelector(filter=models.Filter(must=[condition]))
        for name in {self.questions, self.chunks}:
            await self.client.delete(name, selector, wait=True)


async def median_ms(action: Callable[[], Awaitable[None]], times: int) -> float:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        await action()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


async def measure(settings: Settings, folder: Path, name: str, chunks: int) -> None:
    client = AsyncQdrantClient(
        url=settings.qdrant_url, headers=headers_of(settings), timeout=300, check_compatibility=False
    )
    layout = PointLayout(client, name)
    await layout.create()
    before = used(folder)
    seconds = 0.0
    for start in range(0, chunks, 50):
        batch: dict[str, list[models.PointStruct]] = {}
        for chunk in range(start, min(start + 50, chunks)):
            for collection, points in layout.points(chunk).items():
                batch.setdefault(collection, []).extend(points)
        started = time.perf_counter()
        for collection, points in batch.items():
            await client.upsert(collection, points, wait=True)
        seconds += time.perf_counter() - started
    size = (used(folder) - before) / chunks
    searches = await median_ms(layout.search, SEARCHES)
    documents = iter(range(20))
    deletes = await median_ms(lambda: layout.delete(next(documents)), 20)
    print(f"{name:16} {seconds:7.1f} s {size:9.0f} B {searches:7.1f} ms {deletes:7.1f} ms", flush=True)
    await client.close()


def used(folder: Path) -> int:
    return sum(p.stat().st_blocks * 512 for p in folder.rglob("*") if p.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chunks", nargs="?", type=int, default=4000, help="number of chunks; %(default)s by default")
    chunks = parser.parse_args().chunks
    print(f"{chunks} chunks    write      disk/chunk  search     delete")
    for name in LAYOUTS:
        settings = Settings(_env_file=None)  # type: ignore[call-arg]
        with tempfile.TemporaryDirectory() as data, Stack(settings, Path(data), engines=["qdrant"]) as stack:
            uvloop.run(measure(stack.settings, Path(data) / "qdrant", name, chunks))


if __name__ == "__main__":
    main()
