"""The bytes that the ledger writes for a chunk, and PostgreSQL's processor time: `python -m bench wal [CHUNKS]`.

Each chunk passes all stages, through the ledger's own claims and settlements over a real PostgreSQL: parsed, text
indexed, generated and indexed. A chunk has 1,640 characters and 8 questions. No lease is extended. The log is counted
in bytes that PostgreSQL inserts, and the tables with their indexes and TOAST.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from embedded.stack import Stack
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.documents import NewDocument
from shared.domain.corpus.index_location import IndexNames
from shared.domain.spending.usage import Usage
from shared.domain.stages.generation import GenerateOutcome
from shared.domain.stages.indexing import IndexOutcome
from shared.domain.stages.parsing import NewChunk, ParseOutcome
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.schema import migrate
from shared.ledger.work.finishing import Finishing
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from shared.settings import Settings
from tests.support.deployment import processor_seconds

_CHUNKS = 3_000
_OF_DOCUMENT = 15
_BATCH = 64
_CHARACTERS = 1_640
_MODEL = "embedding"

_WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'"
_SIZES = """
    SELECT c.relname, pg_total_relation_size(c.oid) AS bytes FROM pg_class c
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 2 DESC, 1
"""
_WORDS = [f"{start}{end}" for start in ("har", "ligh", "sto", "ma", "ves", "cap") for end in ("bour", "thouse", "rm")]


class Measured:
    """The bytes that PostgreSQL has written for each chunk, and its processor time."""

    def __init__(self, database: Database, pid: int, chunks: int) -> None:
        self._database = database
        self._pid = pid
        self._chunks = chunks
        self._start = self._last = (0, 0.0)

    async def begin(self) -> None:
        self._start = self._last = await self._used()

    async def end(self, stage: str) -> None:
        used = await self._used()
        self._print(stage, self._last, used)
        self._last = used

    async def together(self) -> None:
        self._print("together", self._start, await self._used())

    async def _used(self) -> tuple[int, float]:
        """Return the bytes of the log and the processor seconds until now."""
        async with self._database.begin() as connection:
            written = int((await connection.execute_sql(_WAL)).scalar_one())
        return written, processor_seconds(self._pid)

    def _print(self, stage: str, before: tuple[int, float], after: tuple[int, float]) -> None:
        written, seconds = (after[0] - before[0]) / self._chunks, (after[1] - before[1]) / self._chunks
        print(f"{stage:18}  {written:8,.0f} bytes of log  {seconds * 1e3:6.2f} CPU ms", flush=True)

    async def sizes(self) -> None:
        async with self._database.begin() as connection:
            for name, size in await connection.execute_sql(_SIZES):
                if size >= self._chunks * 10:
                    print(f"{name:18}  {size / self._chunks:8,.0f} bytes of table and indexes", flush=True)


async def run(url: str, pid: int, count: int) -> None:
    database = Database(url)
    await migrate(database)
    worker: dict[str, Any] = {"worker": "bench:1", "lease": timedelta(seconds=30)}
    parsing, generation = ParseWork(database, **worker), GenerateWork(database, **worker)
    indexing, finishing = IndexWork(database, embeddings=[_MODEL], **worker), Finishing(database)
    measured = Measured(database, pid, count)
    print(f"{count:,} chunks; of each:")
    await measured.begin()
    collection = await Collections(database, IndexNames("bench")).ensure("default", "default", embedding_model=_MODEL)
    for _ in range(count // _OF_DOCUMENT):
        await Documents(database).submit(_document(collection))
    await measured.end("submit")
    await _parse(parsing)
    await measured.end("parse")
    await _texts(indexing, finishing)
    await measured.end("texts")
    await _generate(generation)
    await measured.end("generate")
    await _questions(indexing)
    await measured.end("questions")
    await finishing.finish(await finishing.find_ended())
    await measured.end("finish")
    await measured.together()
    await measured.sizes()
    await database.aclose()


async def _parse(work: ParseWork) -> None:
    while claimed := await work.claim(8):
        await work.settle([ParseOutcome(d, "Title", "text/markdown", list(_chunks())) for d in claimed])


async def _texts(work: IndexWork, finishing: Finishing) -> None:
    while claimed := await work.claim(_BATCH):
        await work.settle([IndexOutcome(chunk, [], 0) for chunk in claimed])
        await finishing.finish(list({chunk.document_id for chunk in claimed}))


async def _generate(work: GenerateWork) -> None:
    while claimed := (await work.claim(_BATCH)).chunks:
        await work.settle([GenerateOutcome(c, "scripted", _asked(), Usage(500, 150), 1) for c in claimed])


async def _questions(work: IndexWork) -> None:
    while claimed := await work.claim(_BATCH):
        outcomes = []
        for chunk in claimed:
            judged = [
                {"text": question, "passed": True, "reason": None, "similarity": 0.8} for question in chunk.questions
            ]
            outcomes.append(IndexOutcome(chunk, judged, len(judged)))
        await work.settle(outcomes)


def _document(collection: Collection) -> NewDocument:
    name = uuid4().hex
    return NewDocument(collection, name, "text.md", None, "text/markdown", {}, None, name, 25_000, uuid4().bytes)


def _chunks() -> Iterator[NewChunk]:
    for ordinal in range(_OF_DOCUMENT):
        content = ChunkContent.whole(_prose(_CHARACTERS), heading_path=("Heading", "A longer heading"))
        yield NewChunk(uuid4(), ordinal, content, uuid4().bytes + uuid4().bytes)


def _asked() -> tuple[str, ...]:
    return tuple(f"Where do we use {_prose(45)}?" for _ in range(8))


def _prose(characters: int) -> str:
    return " ".join(random.choices(_WORDS, k=characters // 6))[:characters]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chunks", nargs="?", type=int, default=_CHUNKS, help="number of chunks; %(default)s by default")
    count = parser.parse_args().chunks
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Settings(_env_file=None), Path(folder), engines=["postgres"]) as stack,
    ):
        assert stack.settings.database_url is not None
        asyncio.run(run(stack.settings.database_url.get_secret_value(), stack.pids()["postgres"], count))


if __name__ == "__main__":
    main()
