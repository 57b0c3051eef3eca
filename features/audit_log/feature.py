"""The audit log, as the scheduler and erasures use it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from shared.ledger.erasure.erased_tables import ErasedTable
from shared.services.features import Feature, Step
from shared.services.parts import Parts
from shared.settings import Settings

if TYPE_CHECKING:
    from features.audit_log.ledger import AuditLog

_FORGET_EVERY = timedelta(hours=1)


async def forget(audit_log: AuditLog, settings: Settings) -> bool:
    """Delete some recorded changes whose retention is over; return whether more may be left."""
    return await audit_log.forget(timedelta(days=settings.audit_retention_days))


def _steps(parts: Parts) -> Sequence[Step]:
    from features.audit_log.ledger import AuditLog

    return [Step("forget_changes", _FORGET_EVERY, partial(forget, parts.ledger[AuditLog], parts.settings))]


def _erased_tables() -> Sequence[ErasedTable]:
    from features.audit_log.ledger import ERASED_TABLES

    return ERASED_TABLES


AUDIT_LOG = Feature(steps=_steps, erased_tables=_erased_tables)
