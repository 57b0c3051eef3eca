"""Verification, as index workers, the scheduler and erasures use it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from shared.domain.jobs import JobKind
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.services.features import Feature, Step
from shared.services.parts import Parts

if TYPE_CHECKING:
    from features.verification.job import VerificationWork

_CHECK = 5  # times the pause of other steps, between two checks of indexes for lost points


def _work(parts: Parts) -> VerificationWork:
    from features.verification.job import VerificationWork
    from features.verification.ledger import Verifications
    from shared.ledger.documents.audit import Audit
    from shared.ledger.jobs.job_claims import JobClaims
    from shared.ledger.model.collections import Collections

    return VerificationWork(
        parts.ledger[Verifications],
        parts.ledger[Collections],
        parts.ledger[Audit],
        parts.index,
        parts.ledger[JobClaims],
        partial(parts.wakeups.wake, "index"),
    )


def _steps(parts: Parts) -> Sequence[Step]:
    from features.verification.damage_monitor import DamageMonitor
    from features.verification.ledger import Verifications
    from shared.ledger.documents.audit import Audit
    from shared.ledger.jobs.repairs import Repairs
    from shared.ledger.work.polls import SQL

    every = parts.settings.tuning.reconcile_interval
    monitor = DamageMonitor(
        database=parts.database,
        election=parts.election,
        repairs=parts.ledger[Repairs],
        verifications=parts.ledger[Verifications],
        audit=parts.ledger[Audit],
        index=parts.index,
        late_writes_end_after=parts.settings.tuning.lease * 2,
        wake_verifiers=partial(parts.wakeups.wake, "runs"),
    )
    return [
        Step("notice_failover", every, monitor.notice_failover),
        Step("check_indexes", every * _CHECK, monitor.check),
        Step("repair_indexes", every, monitor.repair, SQL.repair_indexes),
    ]


def _erased_tables() -> Sequence[ErasedTable]:
    from features.verification.ledger import ERASED_TABLES

    return ERASED_TABLES


VERIFICATION = Feature(steps=_steps, erased_tables=_erased_tables, jobs={JobKind.VERIFICATION: _work})
