"""The work of the batch lane: `python -m bench batches [CHUNKS]`.

Chunks of 1,640 characters with due questions are planned, uploaded, created and collected by one process, over a real
PostgreSQL and a scripted provider in a process of its own. Printed are the processor time of this process and of
PostgreSQL for each chunk, and the growth of this process's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psutil

from embedded.stack import Stack
from shared.domain.chunks import ChunkContent
from shared.domain.collections import Collection, CollectionOptions
from shared.domain.documents import NewDocument
from shared.domain.lanes import Lane
from shared.domain.outcomes import IndexOutcome, ParseOutcome
from shared.domain.work import NewChunk
from shared.ingest.batches.lane import BatchLane
from shared.ingest.batches.lines import Lines
from shared.ingest.generate import content_key
from shared.ledger.postgres.schema import migrate
from shared.process import logging
from shared.services.generate import batch_lane_of
from shared.services.parts import Parts
from shared.settings import Settings
from shared.settings.tuning import Tuning

_CHUNKS = 5_000
_OF_DOCUMENT = 50
_CLAIMED = 256
_CHARACTERS = 1_640
_MODEL = "scripted"
_WORDS = [f"{start}{end}" for start in ("har", "ligh", "sto", "ma", "ves", "cap") for end in ("bour", "thouse", "rm")]
_SOON = timedelta(milliseconds=50)
_TERMS = {"min_lines": 1, "wait": _SOON, "poll": _SOON, "list_lag": _SOON}


class PhaseMeter:
    """Processor time and memory of a phase."""

    def __init__(self, chunks: int, engine: psutil.Process) -> None:
        self._chunks = chunks
        self._engine = engine
        self._seconds = 0.0
        self._own = self._engines = 0.0

    def begin(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak of the memory
        self._before = _status("VmRSS")
        self._seconds, self._own, self._engines = time.monotonic(), time.process_time(), _cpu(self._engine)

    def end(self, phase: str) -> None:
        seconds = time.monotonic() - self._seconds
        own, engines = time.process_time() - self._own, _cpu(self._engine) - self._engines
        grown = (_status("VmHWM") - self._before) / 1e6
        per_chunk = [f"{1e3 * each / self._chunks:6.2f}" for each in (own, engines)]
        print(
            f"{phase:8} {seconds:6.1f} s {per_chunk[0]} ms of CPU a chunk, {per_chunk[1]} in PostgreSQL,"
            f" memory +{grown:,.0f} MB",
            flush=True,
        )


def _cpu(process: psutil.Process) -> float:
    """Return the processor time of PostgreSQL, including the connections that have ended."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        times = each.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _status(name: str) -> int:
    """Return a number of bytes in this process's status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


async def run(settings: Settings, engine: int, count: int) -> None:
    async with AsyncExitStack() as stack:
        services = Parts(settings, stack)
        await migrate(services.database.engine)
        usual = batch_lane_of(services)
        lane = replace(usual, terms=replace(usual.terms, **_TERMS))
        while not await _count(services, "batches WHERE state = 'done'"):  # the probe
            await lane.work(asyncio.Event())
        await _fill(services, lane.lines, count)
        measured = PhaseMeter(count, psutil.Process(engine))
        print(f"{count:,} chunks; of each:")
        measured.begin()
        await _work_until(services, lane, "batches WHERE tenant IS NOT NULL AND provider_id IS NOT NULL", count)
        measured.end("submit")
        measured.begin()
        while await _count(services, "batch_lines"):
            await lane.work(asyncio.Event())
        measured.end("collect")
        generated = await _count(services, "completions")
        print(f"{generated:,} of {count:,} chunks have questions")


async def _work_until(services: Parts, lane: BatchLane, sent: str, count: int) -> None:
    """Plan and submit all chunks; a batch that was submitted is polled much later."""
    later = replace(lane, terms=replace(lane.terms, poll=timedelta(hours=1)))
    while await _lines(services, sent) < count:
        await later.work(asyncio.Event())
    async with services.database.begin() as connection:
        await connection.exec_driver_sql("UPDATE batches SET due_at = now()")


async def _lines(services: Parts, table: str) -> int:
    async with services.database.begin() as connection:
        return int((await connection.exec_driver_sql(f"SELECT coalesce(sum(lines), 0) FROM {table}")).scalar_one())


async def _count(services: Parts, table: str) -> int:
    async with services.database.begin() as connection:
        return int((await connection.exec_driver_sql(f"SELECT count(*) FROM {table}")).scalar_one())


async def _fill(services: Parts, lines: Lines, count: int) -> None:
    """Insert chunks whose texts are indexed."""
    ledger = services.ledger
    model = services.settings.embedding_model
    assert model is not None
    collection = await ledger.collections.ensure("default", "default", embedding_model=model)
    options = lines.defaults.generation_of(CollectionOptions())

    def chunks() -> Iterator[NewChunk]:
        for ordinal in range(_OF_DOCUMENT):
            content = ChunkContent.whole(_prose(_CHARACTERS), heading_path=("Heading", "A longer heading"))
            yield NewChunk(uuid4(), ordinal, content, content_key("default", _MODEL, content, options))

    for _ in range(count // _OF_DOCUMENT):
        await ledger.documents.submit(_document(collection))
    while documents := await ledger.work.claim_documents(8):
        await ledger.work.settle_parsed(
            [ParseOutcome(document, "Title", "text/markdown", list(chunks())) for document in documents]
        )
    while claimed := await ledger.work.claim_to_index(_CLAIMED):
        await ledger.work.settle_indexed([IndexOutcome(chunk, [], 0) for chunk in claimed])


def _document(collection: Collection) -> NewDocument:
    name = uuid4().hex
    content = (collection, name, "text.md", None, "text/markdown", {}, None, name, 25_000, uuid4().bytes)
    return NewDocument(*content, lane=Lane.BATCH)


def _prose(characters: int) -> str:
    return " ".join(random.choices(_WORDS, k=characters // 6))[:characters]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chunks", nargs="?", type=int, default=_CHUNKS, help="number of chunks; %(default)s by default")
    count = parser.parse_args().chunks
    logging.configure("bench", level="warning", line_format="console")
    command = [sys.executable, "-m", "tests.support.batch_provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as provider:
        assert provider.stdout is not None
        url = f"http://127.0.0.1:{int(provider.stdout.readline())}/v1"
        settings = Settings(
            _env_file=None,
            llm_base_url=url,
            llm_model=_MODEL,
            llm_api_key="scripted",
            llm_batches=True,
            embedding_base_url=url,
            embedding_model="embedding",
            tuning=Tuning(lease=timedelta(minutes=5)),
        )
        try:
            with (
                tempfile.TemporaryDirectory() as folder,
                Stack(settings, Path(folder), engines=["postgres", "valkey"]) as stack,
            ):
                asyncio.run(run(stack.settings, stack.pids()["postgres"], count))
        finally:
            provider.kill()


if __name__ == "__main__":
    main()
