"""Shared answers, as the scheduler and erasures use them."""

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
    from features.shared_answers.ledger import SharedAnswers

_FORGET_EVERY = timedelta(minutes=1)


def retention_days(settings: Settings) -> int:
    """Return the number of days for which answers are shared; 0 without the query log, because none can be opened."""
    return settings.shared_answer_retention_days if settings.query_retention_days else 0


async def forget(answers: SharedAnswers, settings: Settings) -> bool:
    """Delete some shared answers that have expired or cite a deleted passage; return whether more may be due."""
    return await answers.forget(timedelta(days=retention_days(settings)))


def _steps(parts: Parts) -> Sequence[Step]:
    from features.shared_answers.ledger import SharedAnswers

    return [Step("forget_answers", _FORGET_EVERY, partial(forget, parts.ledger[SharedAnswers], parts.settings))]


def _erased_tables() -> Sequence[ErasedTable]:
    from features.shared_answers.ledger import ERASED_TABLES

    return ERASED_TABLES


SHARED_ANSWERS = Feature(steps=_steps, erased_tables=_erased_tables)
