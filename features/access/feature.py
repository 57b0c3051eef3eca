"""Access of persons, as the scheduler and erasures use it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from shared.ledger.erasure.erased_tables import ErasedTable
from shared.services.features import Feature, Step
from shared.services.parts import Parts

_FORGET_EVERY = timedelta(hours=1)
_GROUPS_REMEMBERED = timedelta(days=90)


def _steps(parts: Parts) -> Sequence[Step]:
    from shared.ledger.tenants.persons import Persons

    return [Step("forget_groups", _FORGET_EVERY, partial(parts.ledger[Persons].forget_groups, _GROUPS_REMEMBERED))]


def _erased_tables() -> Sequence[ErasedTable]:
    from shared.ledger.tenants.persons import ERASED_TABLES

    return ERASED_TABLES


ACCESS = Feature(steps=_steps, erased_tables=_erased_tables)
