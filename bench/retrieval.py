"""`/v1/retrieve` over 100,000 points with three channels, at 1 and at 16 clients.

`python -m bench retrieval [--points N] [--clients N...] [--runs 5] [--vectors text|random] [--reader-sets N]`: the API
as a process, and the embedded engines of Qdrant and of embeddings. The points are a sixth chunks, each with five
questions; texts and questions are real (`bench/text`). The embedding of 100,000 texts would take an hour, so their
vectors are composed from the vectors of the sentences and questions: a chunk has the mean of its sentences, and a
question is shifted by half the vector of a sentence. `--vectors random` is the hardest case for the engine's graph. The
clients ask people's questions, none of which the API has cached.

Prints the median and the 95th percentile of the client's latency and of its parts (embedding, Qdrant's two requests,
the rest of the API, HTTP with the client), and the processor's milliseconds by process, with its children. First
directly after the load, before Qdrant has built graphs, then after they are built.

With `--reader-sets N`, each document names one of N distinct sets of one to four groups out of 2,000, and each run is
repeated as a person in 200 groups, who reads about a quarter of the documents, and as one in 20.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import numpy as np
from numpy.typing import NDArray

from bench import texts
from bench.runs import CpuMeter, Numbers, add_options, repeat
from shared.domain.access.persons import NONE_NAMED
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.ids import chunk_id
from shared.domain.corpus.index_location import IndexLocation, IndexNames
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.vectors.index import Index
from shared.vectors.schema.points import Point, PointContext, points_of
from tests.support.deployment import Deployment, ScriptedProvider

QUESTIONS = 5
SENTENCES = 6  # of a chunk
OF_DOCUMENT = 10  # chunks
FIRST_REQUESTS, REQUESTS = 100, 400
BATCH = 200
GROUPS = 2_000
PERSONS = (200, 20)  # groups of the persons who ask
EMBEDDED_BATCH = 64
GREEN_SECONDS = 25  # longer than the calm after which the embedded engine joins segments
_SHIFT = 0.5

# Without these rows, queries would search again and again for the versions that replaced the found ones.
_DOCUMENTS = Statement("""
    WITH written AS (
        INSERT INTO documents (id, public_id, tenant, collection_id, external_id, live_version, state)
        SELECT id, id, 'default', CAST(:collection AS uuid), 'document-' || id, 1, 'ready'
        FROM unnest(CAST(:ids AS uuid[])) AS i(id) RETURNING id
    )
    INSERT INTO document_versions (document_id, version, filename, upload, size_bytes, content_hash, readable_by)
    SELECT w.id, 1, 'document.md', 'none', 1, decode(md5(w.id::text), 'hex'), string_to_array(r.readers, ' ')
    FROM written w JOIN unnest(CAST(:ids AS uuid[]), CAST(:readers AS text[])) AS r(id, readers) ON r.id = w.id
""")

Vectors = NDArray[np.float32]


class TextVectors:
    """Vectors of any number of chunks and questions, composed from the vectors of real sentences and questions.

    Args:
        sentences: vectors of `texts.sentences()`, shape (sentences, dimensions).
        questions: vectors of the asked questions, shape (questions, dimensions).
    """

    def __init__(self, sentences: Vectors, questions: Vectors) -> None:
        self.sentences, self.questions = sentences, questions

    def of_chunk(self, sentences: list[int], questions: list[int], chance: np.random.Generator) -> Vectors:
        """Return the unit vectors of a chunk and its questions, shape (1 + questions, dimensions)."""
        shifts = self.sentences[chance.integers(len(self.sentences), size=len(questions))]
        return _units(np.vstack([self.sentences[sentences].mean(axis=0), self.questions[questions] + _SHIFT * shifts]))


class RandomVectors(TextVectors):
    """Random vectors of the same shapes."""

    def of_chunk(self, sentences: list[int], questions: list[int], chance: np.random.Generator) -> Vectors:  # noqa: ARG002
        return _units(chance.standard_normal((1 + len(questions), self.sentences.shape[1])))


VECTORS = {"text": TextVectors, "random": RandomVectors}


def _units(vectors: NDArray[np.floating]) -> Vectors:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def embed(deployment: Deployment, inputs: list[str]) -> Vectors:
    """Embed texts with the model of the deployment."""
    settings = deployment.stack.settings
    assert settings.embedding_api_key is not None
    headers = {"authorization": f"Bearer {settings.embedding_api_key.get_secret_value()}"}
    rows: list[list[float]] = []
    with httpx.Client(trust_env=False, timeout=600, headers=headers) as http:
        for start in range(0, len(inputs), EMBEDDED_BATCH):
            body = {"model": settings.embedding_model, "input": inputs[start : start + EMBEDDED_BATCH]}
            reply = http.post(f"{settings.embedding_base_url}/embeddings", json=body).raise_for_status().json()
            rows += [each["embedding"] for each in reply["data"]]
    return np.array(rows, dtype=np.float32)


def reader_sets(number: int) -> list[tuple[str, ...]]:
    """Return distinct sets of one to four groups; one of no named readers if there are to be none."""
    order, sets = random.Random(11), set[tuple[str, ...]]()
    while len(sets) < number:
        chosen = order.sample(range(GROUPS), order.randint(1, 4))
        sets.add(tuple(sorted(f"group:g{group}" for group in chosen)))
    return sorted(sets) or [NONE_NAMED]


def person_in(groups: int) -> dict[str, str]:
    """Return the headers of a person who is in so many groups."""
    chosen = random.Random(12).sample(range(GROUPS), groups)
    return {"x-foreask-user": "ada", "x-foreask-groups": ",".join(f"g{group}" for group in chosen)}


def points(
    location: IndexLocation,
    documents: Sequence[UUID],
    chunks: int,
    vectors: TextVectors,
    readers: Sequence[Sequence[str]],
) -> Iterator[list[Point]]:
    order, chance = random.Random(7), np.random.default_rng(7)
    asked = texts.asked()
    for number in range(chunks):
        ordinal, document_id = number % OF_DOCUMENT, documents[number // OF_DOCUMENT]
        sentences = order.sample(range(len(texts.sentences())), SENTENCES)
        questions = order.sample(range(len(asked)), QUESTIONS)
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
            readable_by=readers[number // OF_DOCUMENT % len(readers)],
        )
        text = " ".join(texts.sentences()[sentence] for sentence in sentences)
        content = ChunkContent.whole(text, "A document", ("Part",))
        of_text, *of_questions = vectors.of_chunk(sentences, questions, chance)
        named = [asked[question] for question in questions]
        yield points_of(content, context, of_text, list(zip(named, of_questions, strict=True)))


async def fill(deployment: Deployment, chunks: int, vectors: TextVectors, sets: int = 0) -> str:
    """Write points without a model, of documents with so many sets of readers; return their collection in Qdrant."""
    urls = deployment.stack.environment()
    database = Database(urls["FOREASK_DATABASE_URL"])
    index = Index(urls["FOREASK_QDRANT_URL"], api_key=deployment.stack.settings.qdrant_api_key)
    collection = await Collections(database, IndexNames("bench")).get("default", "bench")
    documents = [uuid4() for _ in range(math.ceil(chunks / OF_DOCUMENT))]
    readers = reader_sets(sets)
    named = [" ".join(readers[number % len(readers)]) for number in range(len(documents))]
    async with database.begin() as connection:
        parameters = {"collection": collection.id, "ids": documents, "readers": named}
        await connection.execute(_DOCUMENTS, parameters)
    await index.ensure_collection(collection.index_name, vectors.sentences.shape[1])
    batch: list[Point] = []
    for number, written in enumerate(points(collection.location, documents, chunks, vectors, readers), 1):
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


async def ask(
    url: str, clients: int, requests: int, asked: Iterator[str], headers: Mapping[str, str] | None = None
) -> list[Numbers]:
    """Return the milliseconds of each request, by stage; `client` is the client's latency."""
    questions = iter([next(asked) for _ in range(requests)])
    times: list[Numbers] = []

    async def one(http: httpx.AsyncClient) -> None:
        for question in questions:
            started = time.perf_counter()
            reply = await http.post("/v1/retrieve", json={"question": question, "collection": "bench"})
            waited = (time.perf_counter() - started) * 1000
            body = reply.raise_for_status().json()
            assert body["chunks"], f"no chunk was found for: {question}"
            times.append(body["metadata"]["milliseconds"] | {"client": waited})

    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60, headers=headers) as http:
        await asyncio.gather(*(one(http) for _ in range(clients)))
    return times


def parts(times: Numbers) -> Numbers:
    """Return the milliseconds of one request, by component."""
    qdrant = times["search"] + times["fetch"]
    return {
        "embedding": times["embed"],
        "Qdrant": qdrant,
        "the API itself": times["total"] - times["embed"] - qdrant,
        "HTTP and client": times["client"] - times["total"],
        "whole": times["client"],
    }


def measure(
    deployment: Deployment,
    clients: int,
    requests: int,
    asked: Iterator[str],
    headers: Mapping[str, str] | None = None,
) -> Numbers:
    meter, own = CpuMeter(deployment), time.process_time()
    times = asyncio.run(ask(str(deployment.client.base_url), clients, requests, asked, headers))
    cpu = meter.milliseconds(requests, "query")
    client = {"client, CPU ms a query": (time.process_time() - own) * 1000 / requests}
    each, numbers = [parts(one) for one in times], Numbers()
    for name in each[0]:
        median, late = np.quantile([one[name] for one in each], [0.5, 0.95])
        numbers |= {f"{name}, p50 ms": float(median), f"{name}, p95 ms": float(late)}
    return cpu | client | numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000, help="%(default)s by default")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16], help="1 and 16 by default")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of each run; %(default)s by default")
    parser.add_argument("--vectors", choices=VECTORS, default="text", help="%(default)s by default")
    parser.add_argument("--reader-sets", type=int, default=0, help="of documents; none by default")
    add_options(parser)
    options = parser.parse_args()
    provider = ScriptedProvider()
    settings = provider.settings().model_copy(
        update={"embedding_base_url": None, "embedding_model": None, "embedding_api_key": None}
    )
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder), roles=()) as deployment:
            deployment.client.put("/v1/collections/bench", json={}).raise_for_status()
            _measure_all(deployment, options)
    finally:
        provider.close()


def _measure_all(deployment: Deployment, options: argparse.Namespace) -> None:
    vectors = VECTORS[options.vectors](embed(deployment, list(texts.sentences())), embed(deployment, texts.asked()))
    asked, title = texts.questions(), f"{options.points:,} points with vectors of {options.vectors}"
    started = time.perf_counter()
    name = asyncio.run(fill(deployment, options.points // (QUESTIONS + 1), vectors, options.reader_sets))
    loaded = time.perf_counter()
    print(f"{title} written in {loaded - started:.0f} s", flush=True)
    first = argparse.Namespace(runs=1, json=options.json)  # graphs are built after a calm
    repeat(
        f"{title}, before the graphs are built, 1 client", partial(measure, deployment, 1, FIRST_REQUESTS, asked), first
    )
    asyncio.run(wait_for_graphs(deployment, name))
    print(f"indexed and joined {time.perf_counter() - loaded:.0f} s after the load", flush=True)
    asyncio.run(ask(str(deployment.client.base_url), 4, FIRST_REQUESTS, asked))  # fill caches, open connections
    for clients in options.clients:
        run = partial(measure, deployment, clients, options.requests, asked)
        repeat(f"{title}, {clients} clients, {options.requests} queries a run", run, options)
        for groups in PERSONS if options.reader_sets else ():
            as_person = partial(run, person_in(groups))
            of = f"{options.reader_sets:,} reader sets, a person in {groups} groups"
            repeat(f"{title}, {of}, {clients} clients", as_person, options)


if __name__ == "__main__":
    main()
