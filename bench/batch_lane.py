"""The batch lane: `python -m bench batch_lane [CHUNKS]`.

Chunks of 1,640 characters with due questions are planned, uploaded, created, polled and collected by one process, over
a real PostgreSQL and a scripted provider in a process of its own. Of the lines, 2 % get malformed replies, 3 % expire,
and 1 % are rejected; one batch is cancelled after half of it. Live calls of the same process generate the rest.

Printed are the processor time of this process and of PostgreSQL for each chunk and kind of step, the highest memory of
this process above its memory at the start, the calls and dead letters, and the booked and the billed money.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from embedded.stack import Stack
from features.erasure.ledger.erasures import Erasures
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import Collection, CollectionOptions
from shared.domain.corpus.documents import NewDocument
from shared.domain.lanes import Lane
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.domain.stages.batches import Batch
from shared.domain.stages.indexing import IndexOutcome
from shared.domain.stages.parsing import DocumentToParse, NewChunk, ParseOutcome
from shared.domain.states import BatchState
from shared.ingest.batches.lane import BatchLane
from shared.ingest.batches.lines import Lines
from shared.ingest.drain import Drain, DrainLimits
from shared.ingest.generate.generator import content_key
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.schema import migrate
from shared.ledger.work.costs import Costs
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from shared.process.telemetry import logging
from shared.services.batches import batch_lane_of
from shared.services.generate import generator_of
from shared.services.parts import Parts
from shared.services.prices import price
from shared.settings import Settings
from shared.settings.tuning import Tuning
from tests.support.deployment import ScriptedProvider

_CHUNKS = 10_000
_OF_DOCUMENT = 50
_CLAIMED = 256
_CHARACTERS = 1_640
_WORDS = [f"{start}{end}" for start in ("har", "ligh", "sto", "ma", "ves", "cap") for end in ("bour", "thouse", "rm")]
_SOON = timedelta(milliseconds=50)
_TERMS = {"min_lines": 1, "wait": _SOON, "poll": _SOON, "list_lag": _SOON}
_FAULTS = {"share_malformed": 0.02, "share_expired": 0.03, "share_refused": 0.01}
_HOUR = 3_600.0
_ERASED = "erased"
_PRICES = {"llm_input_price": 0.15, "llm_output_price": 0.60}  # of a million tokens

_STEPS: Mapping[BatchState, str] = {
    BatchState.PLANNING: "plan",
    BatchState.PLANNED: "submit",
    BatchState.CREATING: "submit",
    BatchState.RUNNING: "poll",
    BatchState.COLLECTING: "collect",
}


@dataclass
class Used:
    """The use of a kind of step: seconds, processor seconds of this process and of PostgreSQL, and bytes of memory."""

    steps: int = 0
    seconds: float = 0.0
    own: float = 0.0
    engine: float = 0.0
    bytes: int = 0


@dataclass
class StepCosts:
    """Adds up the use of each kind of step.

    Args:
        engine: PostgreSQL.
    """

    engine: psutil.Process
    start_bytes: int = field(default_factory=lambda: _status("VmRSS"))
    used: dict[str, Used] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak of the memory
        engine, own, started = _cpu(self.engine), time.process_time(), time.monotonic()
        try:
            yield
        finally:
            used = self.used.setdefault(name, Used())
            used.steps += 1
            used.own += time.process_time() - own
            used.seconds += time.monotonic() - started
            used.engine += _cpu(self.engine) - engine
            used.bytes = max(used.bytes, _status("VmHWM") - self.start_bytes)

    def report(self, chunks: int) -> None:
        for name, used in self.used.items():
            own, engine = (f"{1e3 * cpu / chunks:6.3f}" for cpu in (used.own, used.engine))
            print(
                f"{name:8} {used.steps:6,} steps {used.seconds:7.1f} s {own} ms of CPU a chunk, {engine} in PostgreSQL,"
                f" memory +{used.bytes / 1e6:,.0f} MB"
            )
        lane = [used.own for name, used in self.used.items() if name in _STEPS.values()]
        print(f"lane     {1e3 * sum(lane) / chunks:37.3f} ms of CPU a chunk", flush=True)


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


@dataclass(frozen=True)
class MeteredLane(BatchLane):
    """The product's lane; each step is measured."""

    meter: StepCosts

    async def _step(self, batch: Batch, require_lease: Callable[[], None]) -> None:
        with self.meter.step(_STEPS[batch.state]):
            await super()._step(batch, require_lease)


@dataclass(frozen=True)
class Load:
    """A load in the batch lane.

    Args:
        services: services over an empty ledger.
        provider: the scripted provider.
        lane: the measured lane.
        count: number of chunks.
    """

    services: Parts
    provider: ScriptedProvider
    lane: MeteredLane
    count: int

    async def run(self) -> None:
        self.provider.batch_script(**_FAULTS, running_seconds=_HOUR, done_share=0.5)
        await self._submit()
        await self._cancel_one()
        self.provider.batch_script(running_seconds=0.0, done_share=1.0)
        while await self.number("count(*)", "chunks WHERE state = 'generating'"):
            await self.lane.work(asyncio.Event())
            with self.lane.meter.step("live"):
                await self._generate_live()

    async def _submit(self) -> None:
        """Plan and submit all chunks; a batch that was submitted is polled much later."""
        later = replace(self.lane, terms=replace(self.lane.terms, poll=timedelta(hours=1)))
        sent = "batches WHERE tenant IS NOT NULL AND provider_id IS NOT NULL"
        while await self.number("coalesce(sum(lines), 0)", sent) < self.count:
            await later.work(asyncio.Event())
        await self._execute("UPDATE batches SET due_at = now()")

    async def _cancel_one(self) -> None:
        """Erase the additional document, which cancels the batch with its chunk."""
        (document,) = await self._rows("SELECT public_id FROM documents WHERE external_id = 'erased'")
        await self.services.ledger[Erasures].start_document(document.public_id)
        while not self.provider.batch_stats()["cancels"]:
            await self.lane.work(asyncio.Event())

    async def _generate_live(self) -> None:
        tuning, settings = self.services.settings.tuning, self.services.settings
        limits = DrainLimits(lease=tuning.lease, budget=tuning.drain, grace=settings.shutdown_timeout)
        await Drain(generator_of(self.services), limits, asyncio.Event()).run()

    async def report(self) -> None:
        self.lane.meter.report(self.count)
        batches, live = self.provider.batch_stats("Number of questions"), self.provider.stats()
        faults = batches["faults"]
        counts = await self._rows("SELECT calls, count(*) AS chunks FROM chunks GROUP BY calls ORDER BY calls")
        calls = ", ".join(f"{row.chunks:,} with {row.calls}" for row in counts)
        sent = await self.number("count(*)", "batches WHERE tenant IS NOT NULL")
        dead = await self.number("count(*)", "chunks WHERE error IS NOT NULL")
        asked = await self.number("count(*)", "chunks WHERE state = 'generated' AND error IS NULL")
        print(f"{sent} batches, {batches['cancels']} cancelled, {batches['second_batches']} created twice")
        print(f"malformed lines: {faults.get('malformed', 0):,}; chunks by their paid calls: {calls}")
        print(f"rejected lines: {faults.get('refused', 0):,}; dead chunks: {dead:,}; chunks with questions: {asked:,}")
        await self._report_money(batches, live)

    async def _report_money(self, batches: Mapping[str, Any], live: Mapping[str, Any]) -> None:
        sums = [each for each in await self.services.ledger[Costs].sums("default") if each.kind == "generate"]
        booked = [(each.tier, each.usage) for each in sums]
        billed = [
            (Tier.BATCH, Usage(batches["prompt_tokens"], batches["completion_tokens"])),
            (Tier.STANDARD, Usage(live["prompt_tokens"], live["completion_tokens"])),
        ]
        print(f"booked:  ${self._money(booked):.4f} by {sum(each.calls for each in sums):,} calls")
        print(f"billed:  ${self._money(billed):.4f} by {batches['lines'] + live['calls']:,} calls", flush=True)

    def _money(self, costs: Sequence[tuple[Tier, Usage]]) -> float:
        return sum(price(self.services.settings, "generate", usage, tier=tier) or 0.0 for tier, usage in costs)

    async def _execute(self, statement: str) -> None:
        async with self.services.database.begin() as connection:
            await connection.execute_sql(statement)

    async def _rows(self, statement: str) -> Sequence[Any]:
        async with self.services.database.begin() as connection:
            return (await connection.execute_sql(statement)).all()

    async def number(self, expression: str, table: str) -> int:
        ((number,),) = await self._rows(f"SELECT {expression} FROM {table}")
        return int(number)


async def measure(settings: Settings, provider: ScriptedProvider, engine: int, count: int) -> None:
    async with AsyncExitStack() as stack:
        services = Parts(settings, stack)
        await migrate(services.database)
        usual = batch_lane_of(services)
        values = {each.name: getattr(usual, each.name) for each in fields(usual)}
        terms = replace(usual.terms, **_TERMS)
        lane = MeteredLane(**values | {"terms": terms, "meter": StepCosts(psutil.Process(engine))})
        load = Load(services, provider, lane, count)
        while not await load.number("count(*)", "batches WHERE state = 'done'"):  # the probe
            await lane.work(asyncio.Event())
        lane.meter.used.clear()
        started = time.monotonic()
        await fill(services, lane.lines, count)
        print(f"{count:,} chunks made in {time.monotonic() - started:.0f} s; in the lane:", flush=True)
        await load.run()
        await load.report()


async def fill(services: Parts, lines: Lines, count: int) -> None:
    """Insert chunks whose texts are indexed, and one more in the document `erased`."""
    ledger = services.ledger
    model = services.settings.embedding_model
    assert model is not None
    collection = await ledger[Collections].ensure("default", "default", embedding_model=model)
    options = lines.defaults.generation_of(CollectionOptions())

    def chunks(document: DocumentToParse) -> Iterator[NewChunk]:
        for ordinal in range(1 if document.upload == _ERASED else _OF_DOCUMENT):
            content = ChunkContent.whole(_prose(_CHARACTERS), heading_path=("Heading", "A longer heading"))
            yield NewChunk(uuid4(), ordinal, content, content_key("default", lines.model, content, options))

    for number in range(count // _OF_DOCUMENT):
        await ledger[Documents].submit(_document(collection, f"document-{number}"))
    await ledger[Documents].submit(_document(collection, _ERASED))
    while documents := await ledger[ParseWork].claim(8):
        await ledger[ParseWork].settle(
            [ParseOutcome(document, "Title", "text/markdown", list(chunks(document))) for document in documents]
        )
    while claimed := await ledger[IndexWork].claim(_CLAIMED):
        await ledger[IndexWork].settle([IndexOutcome(chunk, [], 0) for chunk in claimed])


def _document(collection: Collection, name: str) -> NewDocument:
    content = (collection, name, "text.md", None, "text/markdown", {}, None, name, 25_000, uuid4().bytes)
    return NewDocument(*content, lane=Lane.BATCH)


def _prose(characters: int) -> str:
    return " ".join(random.choices(_WORDS, k=characters // 6))[:characters]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chunks", nargs="?", type=int, default=_CHUNKS, help="number of chunks; %(default)s by default")
    count = parser.parse_args().chunks
    logging.configure("bench", level="error", line_format="console")
    provider = ScriptedProvider(questions=0)
    settings = provider.settings(llm_batches=True, tuning=Tuning(lease=timedelta(minutes=5)), **_PRICES)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Stack(settings, Path(folder), engines=["postgres", "valkey"]) as stack,
        ):
            asyncio.run(measure(stack.settings, provider, stack.pids()["postgres"], count))
    finally:
        provider.close()


if __name__ == "__main__":
    main()
