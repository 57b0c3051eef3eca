"""The work on sources in a process: syncs, lookups of hints, and originals, made of the process's parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from features.sources.access import SourceAccess
from features.sources.domain import SourceDefinition
from features.sources.ledger.checks import SourceChecks
from features.sources.ledger.hints import Hints
from features.sources.ledger.listings import Listings
from features.sources.ledger.notes import SourceNotes
from features.sources.ledger.pushes import Pushes
from features.sources.ledger.references import WaitingReferences
from features.sources.ledger.sources import Sources
from features.sources.syncing.checks import Checking
from features.sources.syncing.intake import Intake
from features.sources.syncing.lookups import Lookups
from features.sources.syncing.originals import SourceOriginals
from features.sources.syncing.quota import Quota, UploadLimits
from features.sources.syncing.work import OpenSource, Syncing, SyncLimits
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.model.collections import Collections
from shared.services.parts import Parts
from shared.settings import Settings

if TYPE_CHECKING:
    from features.sources.git.stored_packs import Packs, SharedPacks
    from features.sources.web.source import Web


def syncing(parts: Parts) -> Syncing:
    """Return the work on syncs, which opens sources as the settings allow."""
    return syncing_of(
        parts, SourceAccess(parts.settings, parts.readers, partial(_web_of, parts), partial(_packs_of, parts)).open
    )


def lookups(parts: Parts) -> Lookups:
    """Return the work on lookups of hints, with the sources that syncs have parked."""
    return Lookups(parts.ledger[Hints], parts.once(syncing))


def checking(parts: Parts) -> Checking:
    """Return the work on checks, which opens sources as syncs do."""
    return Checking(parts.ledger[SourceChecks], parts.once(syncing).open_source)


def originals(parts: Parts) -> SourceOriginals:
    """Return the reader of bytes that remain in their sources, which it opens as the settings allow."""
    return originals_of(parts, SourceAccess(parts.settings, parts.readers, packs=partial(_packs_of, parts)).open)


def syncing_of(parts: Parts, open_source: OpenSource) -> Syncing:
    ledger, tuning = parts.ledger, parts.settings.tuning
    return Syncing(
        listings=ledger[Listings],
        pushes=ledger[Pushes],
        collections=ledger[Collections],
        claims=ledger[JobClaims],
        uploads=parts.uploads,
        intake=intake_of(parts, parts.settings),
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


def intake_of(parts: Parts, settings: Settings) -> Intake:
    """Return the decision whether sources of a tenant may add more documents now."""
    ledger, tuning = parts.ledger, settings.tuning
    quota = Quota(ledger[Documents], parts.tenant_use, partial(_upload_limits, settings))
    return Intake(ledger[Listings], parts.uploads, quota, tuning.sync_open_chunks, tuning.sync_free_disk)


def originals_of(parts: Parts, open_source: OpenSource) -> SourceOriginals:
    """Return a reader of bytes that remain in their sources; the stack closes it."""
    ledger, max_bytes = parts.ledger, parts.settings.max_upload_bytes
    made = SourceOriginals(ledger[Sources], ledger[Hints], ledger[WaitingReferences], open_source, max_bytes=max_bytes)
    parts.stack.push_async_callback(made.aclose)
    return made


def _packs_of(parts: Parts, source_id: UUID) -> Packs | None:
    return parts.once(_shared_packs).of(source_id)


def _shared_packs(parts: Parts) -> SharedPacks:
    from features.sources.git.stored_packs import SharedPacks  # most workers never read a repository

    made = SharedPacks()
    parts.stack.push_async_callback(made.aclose)
    return made


def _web_of(parts: Parts, source: SourceDefinition) -> Web:
    from features.sources.web.services import web_of  # most workers never read pages

    return web_of(parts.settings, parts.sandbox, parts.readers, parts.ledger[SourceNotes], source)


def _upload_limits(settings: Settings, tenant: str) -> UploadLimits:
    limits = settings.limits_of(tenant)
    return UploadLimits(limits.upload_bytes_per_day, limits.documents)
