"""A parse worker: files become chunks in a sandbox. It calls no provider and no Qdrant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import structlog

from shared.confined import confinement
from shared.confined.reading import Readers, ReadLimits
from shared.domain.errors import InvalidInput, Permanent
from shared.domain.jobs import JobKind
from shared.domain.sources import SourceDefinition
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ingest.parse.stage import ParseStage
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.model.collections import Collections
from shared.ledger.sources.hints import Hints
from shared.ledger.sources.listings import Listings
from shared.ledger.sources.notes import Notes
from shared.ledger.sources.sources import Sources
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.pages import Pages
from shared.ledger.work.parsing import ParseWork
from shared.maintenance.jobs.runner import Runner
from shared.maintenance.syncing.intake import Intake
from shared.maintenance.syncing.lookups import Lookups
from shared.maintenance.syncing.originals import SourceOriginals
from shared.maintenance.syncing.quota import Quota, UploadLimits
from shared.maintenance.syncing.work import OpenSource, Syncing, SyncLimits
from shared.process.temporary_folders import remove_leftovers
from shared.services.ingest import slots_of_parser
from shared.services.ocr import log_if_off, ocr_of
from shared.services.parts import Parts
from shared.services.sources import SourceAccess
from shared.services.worker import WorkerServices
from shared.settings import Settings, require
from shared.sources.opening import FOLDER_PREFIXES
from shared.storage.uploads import FOLDER_PREFIX as OF_UPLOADS

if TYPE_CHECKING:
    from shared.sources.pages.source import Web

_RESERVED_SLOTS = 2  # for other tenants
log = structlog.get_logger()
_NO_PICTURES = "the parse workers cannot read pictures: install the extra, pip install 'foreask[ocr]'."


def assemble(parts: Parts) -> WorkerServices:
    require_isolation(parts.settings)
    log_if_off(parts.settings)
    readers = readers_of(parts)
    parser = parser_of(parts, readers)
    web = partial(_web_of, parts, parser.sandbox, readers)
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        heartbeats=parts.ledger[Heartbeats],
        stage=parser,
        warm_ups=(parts.database.warm, parser.sandbox.warm, remove_temporary_files),
        runner=sync_runner_of(parts, SourceAccess(parts.settings, readers, web).open),
        jobs_queue="syncs",
    )


def _web_of(parts: Parts, sandbox: ParsingSandbox, readers: Readers, source: SourceDefinition) -> Web:
    from shared.services.pages import web_of  # most workers never read pages

    return web_of(parts.settings, sandbox, readers, parts.ledger[Notes], source)


def readers_of(parts: Parts) -> Readers:
    """Return the readers of contents of sources; the stack ends their processes."""
    limits = ReadLimits(parts.settings.parse_timeout, parts.settings.tuning.parse_memory_bytes)
    readers = Readers(limits)
    parts.stack.push_async_callback(readers.aclose)
    return readers


async def remove_temporary_files() -> None:
    """Remove the temporary files of sources and uploads whose processes were killed."""
    for prefix in (*FOLDER_PREFIXES, OF_UPLOADS):
        await asyncio.to_thread(remove_leftovers, prefix)


def sync_runner_of(parts: Parts, open_source: OpenSource) -> Runner:
    """Return a runner of syncs and of hints; the stack stops it and releases its claims.

    Parse workers do syncs, because they have the store of uploads, and no key of a provider.
    """
    syncing = syncing_of(parts, open_source)
    parts.stack.push_async_callback(syncing.parked.aclose)
    runner = Runner(
        parts.ledger[JobClaims],
        {JobKind.SYNC: lambda: syncing, JobKind.LOOKUP: lambda: Lookups(parts.ledger[Hints], syncing)},
    )
    parts.stack.push_async_callback(runner.aclose)
    return runner


def syncing_of(parts: Parts, open_source: OpenSource) -> Syncing:
    ledger, tuning = parts.ledger, parts.settings.tuning
    quota = Quota(ledger[Documents], parts.tenant_use, partial(_upload_limits, parts.settings))
    return Syncing(
        listings=ledger[Listings],
        collections=ledger[Collections],
        claims=ledger[JobClaims],
        uploads=parts.uploads,
        intake=Intake(ledger[Listings], parts.uploads, quota, tuning.sync_open_chunks, tuning.sync_free_disk),
        open_source=open_source,
        wake_parsers=lambda: parts.wakeups.wake("parse"),
        limits=SyncLimits(
            parts.settings.max_upload_bytes,
            timeout=tuning.sync_timeout,
            pause=tuning.sync_pause,
            stalled=tuning.sync_stalled,
            turn=tuning.sync_time_slice,
        ),
    )


def _upload_limits(settings: Settings, tenant: str) -> UploadLimits:
    limits = settings.limits_of(tenant)
    return UploadLimits(limits.upload_bytes_per_day, limits.documents)


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


def originals_of(parts: Parts, open_source: OpenSource) -> SourceOriginals:
    """Return a reader of the bytes that remain in their sources; the stack closes it."""
    originals = SourceOriginals(
        parts.ledger[Sources],
        parts.ledger[Hints],
        open_source,
        parts.settings.max_upload_bytes,
    )
    parts.stack.push_async_callback(originals.aclose)
    return originals


def parser_of(parts: Parts, readers: Readers) -> ParseStage:
    settings = parts.settings
    ocr = ocr_of(settings)
    sandbox = ParsingSandbox(
        workers=settings.parse_workers,
        timeout=settings.parse_timeout,
        memory_bytes=settings.tuning.parse_memory_bytes,
        max_text_chars=settings.tuning.parse_max_text_chars,
        scans=ocr is not None,
    )
    parts.stack.push_async_callback(sandbox.close)
    return ParseStage(
        slots=slots_of_parser(settings) + _RESERVED_SLOTS,
        slots_of_tenant=slots_of_parser(settings),
        max_chunks=settings.tuning.parse_max_chunks,
        defaults=parts.ingest_defaults,
        work=parts.ledger[ParseWork],
        sandbox=sandbox,
        uploads=parts.uploads,
        originals=originals_of(parts, SourceAccess(parts.settings, readers).open),
        wakeups=parts.wakeups,
        model=require(settings.llm_model, "FOREASK_LLM_MODEL"),
        policy=parts.retries,
        pages=parts.ledger[Pages],
        ocr=ocr,
        pictures=pictures_of(settings),
    )


def pictures_of(settings: Settings) -> Callable[[bool | None], int]:
    """Return a function from a collection's option `captions` to the maximum number of pictures of a document.

    The function raises `Permanent` if a collection wants descriptions, but no library can read pictures.

    Raises:
        InvalidInput: the settings want descriptions, but no library can read pictures.
    """
    lacking = find_spec("PIL") is None or find_spec("pypdfium2") is None
    by_default = settings.captions == "on"
    if by_default and lacking:
        raise InvalidInput(f"FOREASK_CAPTIONS is on, but {_NO_PICTURES}", field="FOREASK_CAPTIONS")

    def most(option: bool | None) -> int:
        if not (by_default if option is None else option):
            return 0
        if lacking:
            raise Permanent(f"The collection's option captions is on, but {_NO_PICTURES}")
        return settings.captions_per_document

    return most
