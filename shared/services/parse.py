"""A parse worker: files become chunks in a sandbox. It calls no provider and no Qdrant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec

import structlog

from shared.confined import confinement
from shared.domain.errors import InvalidInput, Permanent
from shared.domain.jobs import JOBS_OF_PARSERS
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ingest.parse.stage import ParseStage
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.pages import Pages
from shared.ledger.work.parsing import ParseWork
from shared.maintenance.jobs.runner import Runner
from shared.process.temporary_folders import remove_leftovers
from shared.services.features import Feature
from shared.services.ingest import SLOTS_OF_SMALL, slots_of_parser
from shared.services.ocr import log_if_off, ocr_of
from shared.services.parts import Parts
from shared.services.worker import WorkerServices
from shared.settings import Settings, require
from shared.storage.uploads import FOLDER_PREFIX as OF_UPLOADS

_RESERVED_SLOTS = 2  # for other tenants
log = structlog.get_logger()
_NO_PICTURES = "the parse workers cannot read pictures: install foreask with its extra 'ocr'."


def assemble(parts: Parts) -> WorkerServices:
    require_isolation(parts.settings)
    log_if_off(parts.settings)
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        heartbeats=parts.ledger[Heartbeats],
        stages={"parse": parser_of(parts)},
        warm_ups=(parts.database.warm, parts.sandbox.warm, partial(remove_temporary_files, parts.features)),
        runner=runner_of(parts),
        jobs_queue="syncs",
    )


async def remove_temporary_files(features: Iterable[Feature]) -> None:
    """Remove the temporary files of features and uploads whose processes were killed."""
    of_features = [prefix for feature in features for prefix in feature.temporary_folders()]
    for prefix in (*of_features, OF_UPLOADS):
        await asyncio.to_thread(remove_leftovers, prefix)


def runner_of(parts: Parts) -> Runner:
    """Return a runner of the jobs of parsers; the stack stops it and releases its claims.

    Parse workers do syncs, because they have the store of uploads, and no key of a provider.
    """
    works = {kind: make for feature in parts.features for kind, make in feature.jobs.items()}
    made = {kind: partial(make, parts) for kind, make in works.items() if kind in JOBS_OF_PARSERS}
    runner = Runner(parts.ledger[JobClaims], made)
    parts.stack.push_async_callback(runner.aclose)
    return runner


def require_isolation(settings: Settings) -> None:
    """Report kernel features that are missing for the confinement of parsers.

    Raises:
        InvalidInput: a feature is missing, and the settings require all.
    """
    lacking = confinement.lacking()
    if lacking and settings.parse_isolation == "require":
        variable = "FOREASK_PARSE_ISOLATION"
        raise InvalidInput(f"{variable} is `require`. {confinement.sentence(lacking)}", field=variable)
    if lacking:
        log.warning("sandbox.incomplete", missing=lacking, reason=confinement.sentence(lacking))


def sandbox_of(parts: Parts) -> ParsingSandbox:
    """Return a sandbox that finds pages without text if they can be read; the stack closes it."""
    settings = parts.settings
    sandbox = ParsingSandbox(
        workers=settings.parse_workers,
        timeout=settings.parse_timeout,
        memory_bytes=settings.tuning.parse_memory_bytes,
        max_text_chars=settings.tuning.parse_max_text_chars,
        scans=ocr_of(settings) is not None,
    )
    parts.stack.push_async_callback(sandbox.close)
    return sandbox


def parser_of(parts: Parts) -> ParseStage:
    settings = parts.settings
    return ParseStage(
        slots=max(SLOTS_OF_SMALL, slots_of_parser(settings)) + _RESERVED_SLOTS,
        slots_of_large=slots_of_parser(settings) + _RESERVED_SLOTS,
        reserved=_RESERVED_SLOTS,
        max_chunks=settings.tuning.parse_max_chunks,
        defaults=parts.ingest_defaults,
        work=parts.ledger[ParseWork],
        sandbox=parts.sandbox,
        uploads=parts.uploads,
        originals=parts.originals,
        wakeups=parts.wakeups,
        model=require(settings.llm_model, "FOREASK_LLM_MODEL"),
        policy=parts.retries,
        pages=parts.ledger[Pages],
        ocr=ocr_of(settings),
        pictures=pictures_of(settings),
    )


def describes_pictures(settings: Settings, option: bool | None) -> bool:
    """Return whether pictures are described in a collection with this option."""
    return settings.captions == "on" if option is None else option


def pictures_of(settings: Settings) -> Callable[[bool | None], int]:
    """Return a function from a collection's option `captions` to the maximum number of pictures of a document.

    The function raises `Permanent` if a collection wants descriptions, but no library can read pictures.

    Raises:
        InvalidInput: the settings want descriptions, but no library can read pictures.
    """
    lacking = find_spec("PIL") is None or find_spec("pypdfium2") is None
    if describes_pictures(settings, None) and lacking:
        raise InvalidInput(f"FOREASK_CAPTIONS is on, but {_NO_PICTURES}", field="FOREASK_CAPTIONS")

    def most(option: bool | None) -> int:
        if not describes_pictures(settings, option):
            return 0
        if lacking:
            raise Permanent(f"The collection's option captions is on, but {_NO_PICTURES}")
        return settings.captions_per_document

    return most
