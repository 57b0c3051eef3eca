"""Sources, as the scheduler, workers and erasures use them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from shared.domain.jobs import JobKind
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.maintenance.jobs.runner import JobWork
from shared.services.features import Feature, Step
from shared.services.parts import Parts

if TYPE_CHECKING:  # an index worker opens no original
    from shared.storage.references import Originals


def _steps(parts: Parts) -> Sequence[Step]:
    from features.sources.ledger import hints, sources
    from features.sources.syncing.scheduled import start_due_syncs

    every, ledger = parts.settings.tuning.reconcile_interval, parts.ledger
    return [
        Step("start_syncs", every, partial(start_due_syncs, ledger, parts.wakeups), sources.SQL.are_syncs_due),
        Step("retry_lookups", every, ledger[hints.Hints].reopen, hints.SQL.exist),
        Step("remove_sources", every, ledger[sources.Sources].continue_removal, sources.SQL.are_any_removed),
    ]


def _erased_tables() -> Sequence[ErasedTable]:
    from features.sources.ledger.erased_tables import ERASED_TABLES

    return ERASED_TABLES


def _syncing(parts: Parts) -> JobWork:
    from features.sources.services import syncing

    return parts.once(syncing)


def _lookups(parts: Parts) -> JobWork:
    from features.sources.services import lookups

    return lookups(parts)


def _checking(parts: Parts) -> JobWork:
    from features.sources.services import checking

    return checking(parts)


def _originals(parts: Parts) -> Originals:
    from features.sources.services import originals

    return originals(parts)


def _temporary_folders() -> Sequence[str]:
    from features.sources.opening import FOLDER_PREFIXES

    return FOLDER_PREFIXES


SOURCES = Feature(
    steps=_steps,
    erased_tables=_erased_tables,
    jobs={JobKind.SYNC: _syncing, JobKind.LOOKUP: _lookups, JobKind.SOURCE_CHECK: _checking},
    originals=_originals,
    temporary_folders=_temporary_folders,
)
