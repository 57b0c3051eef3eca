"""Gaps, as the scheduler and erasures use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from shared.ledger.erasure.erased_tables import ErasedTable
from shared.services.features import Feature, Step
from shared.services.parts import Parts

_FORGET_EVERY = timedelta(hours=1)


def _steps(parts: Parts) -> Sequence[Step]:
    from features.gaps.ledger import Gaps

    return [Step("forget_gaps", _FORGET_EVERY, parts.ledger[Gaps].forget)]


def _erased_tables() -> Sequence[ErasedTable]:
    from features.gaps.ledger import ERASED_TABLES

    return ERASED_TABLES


GAPS = Feature(steps=_steps, erased_tables=_erased_tables)
