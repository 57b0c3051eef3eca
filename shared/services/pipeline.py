"""An ingest worker: it generates and indexes in one process."""

from __future__ import annotations

from dataclasses import replace

from shared.services import generate, index
from shared.services.parts import Parts
from shared.services.worker import WorkerServices


def assemble(parts: Parts) -> WorkerServices:
    generator, indexer = generate.assemble(parts), index.assemble(parts)
    return replace(
        indexer,
        stages={**generator.stages, **indexer.stages},
        limiters=(*generator.limiters, *indexer.limiters),
        make_batch_lane=generator.make_batch_lane,
    )
