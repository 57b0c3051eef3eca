"""A gap: questions that mean the same and that the documents did not answer, with its state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal
from uuid import UUID

from features.gaps.domain import GapState
from features.gaps.ledger import GapQuestion

StateName = Literal["open", "assigned", "resolved"]

WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap.

    Args:
        questions: its questions, most often asked first.
        stored: its assignment and its resolution.
    """

    id: UUID
    questions: Sequence[GapQuestion]
    stored: GapState = GapState()

    @property
    def question(self) -> str:
        """The question that was asked most often."""
        return self.questions[0].question

    @property
    def times(self) -> int:
        return sum(question.times for question in self.questions)

    @property
    def first_at(self) -> datetime:
        return min(question.first_at for question in self.questions)

    @property
    def last_at(self) -> datetime:
        return max(question.last_at for question in self.questions)

    @property
    def nearest(self) -> list[GapQuestion]:
        """The questions that found a passage, best score first."""
        scored = [each for each in self.questions if each.best_score is not None and each.chunk_ids]
        return sorted(scored, key=lambda each: -(each.best_score or 0.0))

    @property
    def state(self) -> StateName:
        """`resolved` until one of its questions is asked without an answer after the resolution.

        A gap is also resolved if each of its questions was answered when it was asked last. Feedback on an older answer
        does not count after the resolution.
        """
        resolved_at = self.stored.resolved_at
        unanswered = [each.unanswered_at for each in self.questions if each.unanswered_at is not None]
        if all(resolved_at is not None and at <= resolved_at for at in unanswered):
            return "resolved"
        return "open" if self.stored.assigned_to is None else "assigned"

    def per_day(self, days: int, today: date) -> list[int]:
        """Return the number of its queries on each of the last days in UTC; the last item is today."""
        counts = Counter(
            (today - at.astimezone(UTC).date()).days for question in self.questions for at in question.asked_at
        )
        return [counts[age] for age in range(days - 1, -1, -1)]

    def asked_between(self, start: datetime, end: datetime) -> int:
        """Return the number of its queries after `start` and until `end`."""
        return sum(start < at <= end for question in self.questions for at in question.asked_at)


def gaps_of(asked: Sequence[GapQuestion], stored: Mapping[UUID, GapState]) -> list[Gap]:
    """Return the gaps of a collection's questions, most often asked first.

    Args:
        asked: questions, most recently asked first.
        stored: states of the gaps that have been assigned or resolved.
    """
    members = defaultdict[UUID, list[GapQuestion]](list)
    for question in asked:
        if question.gap_id is not None:
            members[question.gap_id].append(question)
    gaps = [
        Gap(gap_id, sorted(questions, key=lambda each: -each.times), stored.get(gap_id, GapState()))
        for gap_id, questions in members.items()
    ]
    return sorted(gaps, key=order_of)


def order_of(gap: Gap) -> tuple[int, str]:
    """Return the key that sorts gaps: most often asked first."""
    return -gap.times, str(gap.id)
