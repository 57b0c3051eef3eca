"""Shared answers, as the scheduler and erasures use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from features.shared_answers.ledger import ERASED_TABLES, SharedAnswers
from shared.services.features import Feature, Step
from shared.services.parts import Parts
from shared.settings import Settings

_FORGET_EVERY = timedelta(minutes=1)


def retention_days(settings: Settings) -> int:
    """Return the number of days for which answers are shared; 0 without the query log, because none can be opened."""
    return settings.shared_answer_retention_days if settings.query_retention_days else 0


async def forget(answers: SharedAnswers, settings: Settings) -> bool:
    """Delete some shared answers that have expired or cite a deleted passage; return whether more may be due."""
    return await answers.forget(timedelta(days=retention_days(settings)))


def _steps(parts: Parts) -> Sequence[Step]:
    return [Step("forget_answers", _FORGET_EVERY, partial(forget, parts.ledger[SharedAnswers], parts.settings))]


SHARED_ANSWERS = Feature(steps=_steps, erased_tables=ERASED_TABLES)
