"""Every role in one process, over the same parts: for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from shared.ingest.batches.lane import BatchLane
from shared.ingest.drain import Stage
from shared.ingest.generate.stage import GenerateStage
from shared.ingest.index.stage import Indexer, IndexStage
from shared.ingest.parse.stage import ParseStage
from shared.ingest.read.stage import ReadStage
from shared.maintenance.cleanup import Cleaner
from shared.maintenance.jobs.runner import Runner
from shared.maintenance.orphans import Orphans
from shared.maintenance.wanted import WantedWorkers
from shared.services import api, generate, index, parse, read, scheduler
from shared.services.batches import batch_lane_of
from shared.services.parts import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class AllServices(api.ApiServices):
    """The dependencies of every role; `make_runner` returns a new runner, because a stopped one starts nothing."""

    parser: ParseStage
    reader: ReadStage
    generator: GenerateStage
    batch_lane: BatchLane
    indexers: Mapping[str, Indexer]
    make_runner: Callable[[], Runner]
    cleaner: Cleaner
    orphans: Orphans
    wanted: WantedWorkers

    @property
    def indexer(self) -> Indexer:
        """The indexer of the default embedding."""
        return next(iter(self.indexers.values()))

    async def ingest(self, drain: Callable[[Stage[Any, Any]], Awaitable[int]]) -> None:
        """Take all due documents from their bytes to visible questions: the path of a document, stage after stage.

        Workers run the same stages concurrently, each in a process of its own, and wake each other.

        Args:
            drain: claims, processes and settles all due work of a stage; returns the number of processed items.
        """
        await drain(self.parser)  # a file becomes chunks, or pages without text
        if await drain(self.reader):  # a page becomes text by OCR
            await drain(self.parser)  # texts of pages become chunks
        await drain(IndexStage(self.indexers.values()))  # texts become points; the version becomes live
        await drain(self.generator)  # a chunk gets questions
        await drain(IndexStage(self.indexers.values()))  # questions become points; the document is ready


def assemble(parts: Parts) -> AllServices:
    served = api.assemble(parts)
    return AllServices(
        **{field.name: getattr(served, field.name) for field in fields(served)},
        parser=parse.parser_of(parts),
        reader=read.reader_of(parts),
        generator=generate.generator_of(parts),
        batch_lane=batch_lane_of(parts),
        indexers=index.indexers_of(parts),
        make_runner=partial(index.runner_of, parts),
        cleaner=scheduler.cleaner_of(parts),
        orphans=parts.orphans,
        wanted=scheduler.wanted_of(parts),
    )
