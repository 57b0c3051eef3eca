"""Feedback, as the scheduler uses it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shared.services.features import Feature, Step
from shared.services.parts import Parts


def _steps(parts: Parts) -> Sequence[Step]:
    from features.feedback.ledger import feedback
    from features.feedback.retraction import delete_retracted

    work = partial(delete_retracted, parts.ledger[feedback.Feedback], parts.index)
    return [Step("delete_retracted", parts.settings.tuning.reconcile_interval, work, feedback.SQL.are_removals_due)]


FEEDBACK = Feature(steps=_steps)
