"""A parse worker: files become chunks in a sandbox. It calls no provider and no Qdrant."""

from __future__ import annotations

from shared.ingest.parse.sandbox import ParsingSandbox
from shared.ingest.parse.stage import Parser, parse_stage
from shared.services.parts import Parts
from shared.services.worker import WorkerServices
from shared.settings import require


def assemble(parts: Parts) -> WorkerServices:
    parser = parser_of(parts)
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        stage=parse_stage(parser),
        warm_ups=(parts.database.warm, parser.sandbox.warm),
    )


def parser_of(parts: Parts) -> Parser:
    settings = parts.settings
    sandbox = ParsingSandbox(
        workers=settings.parse_workers,
        timeout=settings.parse_timeout,
        memory_bytes=settings.tuning.parse_memory_bytes,
        max_text_chars=settings.tuning.parse_max_text_chars,
    )
    parts.stack.push_async_callback(sandbox.close)
    return Parser(
        settings=settings,
        work=parts.ledger.work,
        sandbox=sandbox,
        uploads=parts.uploads,
        wakeups=parts.wakeups,
        model=require(settings.llm_model, "FOREASK_LLM_MODEL"),  # a part of the key under which its questions are paid
        policy=parts.retries,
    )
