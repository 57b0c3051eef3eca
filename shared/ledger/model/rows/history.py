"""Rows with the failed attempts of a dead letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.domain.corpus.dead_letters import PastAttempt
from shared.domain.stored import known_fields


def attempts_of(values: Sequence[Mapping[str, Any]]) -> tuple[PastAttempt, ...]:
    """Return the failed attempts of a row's history."""
    return tuple(PastAttempt(**known_fields(value, PastAttempt.__dataclass_fields__)) for value in values)
