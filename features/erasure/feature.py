"""Erasures, as the scheduler uses them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from shared.services.features import Feature, Step, erased_tables
from shared.services.parts import Parts

_RECHECK_EVERY = timedelta(minutes=1)


def _steps(parts: Parts) -> Sequence[Step]:
    from features.erasure.eraser import Eraser
    from features.erasure.ledger import erasures

    eraser = Eraser(parts.ledger[erasures.Erasures], erased_tables(parts.features), parts.tenant_keys, parts.index)
    return [
        Step("erase", parts.settings.tuning.reconcile_interval, eraser.erase, erasures.SQL.are_open),
        Step("recheck_erasures", _RECHECK_EVERY, eraser.recheck),
    ]


ERASURE = Feature(steps=_steps)
