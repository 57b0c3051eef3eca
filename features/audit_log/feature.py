"""The audit log, as the scheduler and erasures use it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from features.audit_log.ledger import ERASED_TABLES, AuditLog
from shared.services.features import Feature, Step
from shared.services.parts import Parts
from shared.settings import Settings

_FORGET_EVERY = timedelta(hours=1)


async def forget(audit_log: AuditLog, settings: Settings) -> bool:
    """Delete some recorded changes whose retention is over; return whether more may be left."""
    return await audit_log.forget(timedelta(days=settings.audit_retention_days))


def _steps(parts: Parts) -> Sequence[Step]:
    return [Step("forget_changes", _FORGET_EVERY, partial(forget, parts.ledger[AuditLog], parts.settings))]


AUDIT_LOG = Feature(steps=_steps, erased_tables=ERASED_TABLES)
