"""The size of documents in PostgreSQL, as uploads and in Qdrant: `python -m bench size [CHUNKS]`.

A deployment ingests documents of five chunks of 1,700 characters, with three questions each, from a scripted
model, at 384 and at 1,536 dimensions. The bytes of a chunk are the megabytes of a million chunks, and are printed as
these. Tables count with their indexes and TOAST, as the ingest left them. Qdrant counts when it is optimized, without
its write-ahead log, whose size does not grow.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from bench import texts
from shared.ledger.postgres.database import Database
from shared.settings import Settings
from tests.support.deployment import Deployment, ScriptedProvider
from tests.support.qdrant import headers_of

CHUNKS = 10_000
DIMENSIONS = (384, 1_536)
_OF_DOCUMENT = 5
_QUESTIONS = 3
_SLICE_DOCUMENTS = 200
_TIMEOUT_SECONDS = 1_800.0
_CALM_SECONDS = 5.0  # the optimizer starts in a pause
_BLOCK_BYTES = 512  # of `st_blocks`
_LEAST = 50  # bytes a chunk: smaller parts are not shown

_TABLES = """
    SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 2 DESC, 1
"""

Sizes = dict[str, float]


def measure(dimensions: int, chunks: int) -> Sizes:
    """Ingest `chunks` chunks; return the bytes of each part for one chunk, and the numbers of points and questions."""
    provider = ScriptedProvider(questions=_QUESTIONS)
    settings = provider.settings(embedding_dimensions=dimensions, questions_per_chunk=_QUESTIONS)
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder)) as deployment:
            documents = texts.documents(chunks // _OF_DOCUMENT, _OF_DOCUMENT)
            for part in _slices(documents):
                for reply in deployment.ingest(part):
                    reply.raise_for_status()
            settled = deployment.wait_until_settled(len(documents), timeout=_TIMEOUT_SECONDS)
            wait_until_optimized(deployment.stack.settings)
            written = sum(document["chunks"]["total"] for document in settled)
            bytes_of = {f"table {name}": size for name, size in asyncio.run(_tables(deployment))}
            bytes_of["PostgreSQL"] = sum(bytes_of.values())
            bytes_of["uploads"] = on_disk(Path(folder, "uploads"))
            bytes_of["Qdrant"] = on_disk(Path(folder, "qdrant"))
            counted = {"points a chunk": deployment.points(), "characters a chunk": _characters(documents)}
            return {name: value / written for name, value in (bytes_of | counted).items()}
    finally:
        provider.close()


def wait_until_optimized(settings: Settings) -> None:
    """Wait until no collection of Qdrant has changed its segments for some seconds, and all are green."""
    url, key = str(settings.qdrant_url), headers_of(settings)
    with httpx.Client(base_url=url, headers=key, trust_env=False, timeout=60) as qdrant:
        seen: object = None
        while True:
            time.sleep(_CALM_SECONDS)
            names = [each["name"] for each in qdrant.get("/collections").json()["result"]["collections"]]
            infos = [qdrant.get(f"/collections/{name}").json()["result"] for name in names]
            now = [(info["status"], info["segments_count"], info["indexed_vectors_count"]) for info in infos]
            if now == seen and all(info["status"] == "green" for info in infos):
                return
            seen = now


def _slices(documents: dict[str, str]) -> Iterator[dict[str, str]]:
    names = list(documents)
    for start in range(0, len(names), _SLICE_DOCUMENTS):
        yield {name: documents[name] for name in names[start : start + _SLICE_DOCUMENTS]}


async def _tables(deployment: Deployment) -> list[tuple[str, int]]:
    url = deployment.stack.settings.database_url
    assert url is not None
    database = Database(url.get_secret_value())
    try:
        async with database.begin() as connection:
            return [(name, int(size)) for name, size in await connection.execute_sql(_TABLES)]
    finally:
        await database.aclose()


def on_disk(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if path.is_file() and "wal" not in path.parts)
    return sum(path.stat().st_blocks * _BLOCK_BYTES for path in files)


def _characters(documents: dict[str, str]) -> int:
    return sum(map(len, documents.values()))


def show(columns: dict[int, Sizes], chunks: int) -> None:
    """Print one table: a row for each part, a column for each size of vectors."""
    print(f"megabytes of a million chunks, measured on {chunks:,}")
    print(f"{'':28}" + "".join(f"{f'{dimensions:,} dimensions':>18}" for dimensions in columns))
    names = {name: None for sizes in columns.values() for name in sizes}
    for name in names:
        values = [sizes.get(name, 0.0) for sizes in columns.values()]
        counted = name.endswith(" a chunk")
        if counted or max(values) >= _LEAST:
            print(f"{name:28}" + "".join(f"{value:18,.1f}" if counted else f"{value:18,.0f}" for value in values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chunks", nargs="?", type=int, default=CHUNKS, help="number of chunks; %(default)s by default")
    chunks = parser.parse_args().chunks
    show({dimensions: measure(dimensions, chunks) for dimensions in DIMENSIONS}, chunks)


if __name__ == "__main__":
    main()
