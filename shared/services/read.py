"""A read worker: OCR reads pages without a text layer in a sandbox. It calls no provider and no Qdrant."""

from __future__ import annotations

from functools import partial

from shared.ingest.parse import scans
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ingest.read.stage import ReadStage
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.pages import Pages
from shared.services.ingest import slots_of_reader
from shared.services.parse import remove_temporary_files, require_isolation
from shared.services.parts import Parts
from shared.services.worker import WorkerServices


def assemble(parts: Parts) -> WorkerServices:
    require_isolation(parts.settings)
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        heartbeats=parts.ledger[Heartbeats],
        stages={"read": reader_of(parts)},
        warm_ups=(parts.database.warm, partial(remove_temporary_files, parts.features)),
    )


def reader_of(parts: Parts) -> ReadStage:
    settings = parts.settings
    sandbox = ParsingSandbox(
        workers=settings.parse_workers,
        timeout=settings.parse_timeout,
        memory_bytes=settings.tuning.parse_memory_bytes,
        max_text_chars=settings.tuning.parse_max_text_chars,
        scans=True,
    )
    parts.stack.push_async_callback(sandbox.close)
    return ReadStage(
        slots=slots_of_reader(settings),
        pages=parts.ledger[Pages],
        engine=sandbox,
        uploads=parts.uploads,
        originals=parts.originals,
        languages=scans.installed,
        wakeups=parts.wakeups,
        policy=parts.retries,
    )
