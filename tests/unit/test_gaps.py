"""The state, the trend and the order of gaps."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from features.gaps.domain import GapState
from features.gaps.gap import WEEK, Gap, gaps_of
from features.gaps.ledger import GapQuestion

NOW = datetime(2026, 10, 20, 12, tzinfo=UTC)
DOCUMENT = UUID(int=7)


def asked(
    question: str = "Who?", *ages: float, found: bool = False, helpful: bool | None = None, gap_id: UUID | None = None
) -> GapQuestion:
    """Return a question that was asked so many days ago, newest first."""
    times = [NOW - timedelta(days=age) for age in ages or (1,)]
    at = None if helpful is None else times[-1]
    return GapQuestion(uuid4(), question, [], None, found, helpful, None, gap_id=gap_id, helpful_at=at, asked_at=times)


def resolved(days_ago: float, assigned_to: str | None = None) -> GapState:
    return GapState(assigned_to, DOCUMENT, "a.md", NOW - timedelta(days=days_ago))


@pytest.mark.parametrize(
    ("questions", "stored", "state"),
    [
        ([asked()], GapState(), "open"),
        ([asked()], GapState("Ann"), "assigned"),
        ([asked("Who?", 3)], resolved(2), "resolved"),
        ([asked("Who?", 1, 3)], resolved(2), "open"),
        ([asked("Who?", 1, 3)], resolved(2, "Ann"), "assigned"),
        ([asked("Who?", 1, found=True)], resolved(2), "resolved"),
        ([asked("Who?", 1, found=True, helpful=False)], resolved(2), "open"),
        ([asked("Who?", 1, 3, found=True, helpful=False)], resolved(2), "resolved"),
        ([asked("Who?", 1, 3, helpful=False)], resolved(2), "open"),
        ([asked("Who?", 1, 3, found=True, helpful=False)], GapState(), "open"),
        ([asked("Who?", 3), asked("Who else?", 1)], resolved(2), "open"),
        ([asked("Who?", 1, found=True)], GapState(), "resolved"),
        ([asked("Who?", 1, found=True), asked("Who else?", 1)], GapState(), "open"),
    ],
)
def test_state_follows_answers_and_resolution(questions: list[GapQuestion], stored: GapState, state: str) -> None:
    assert Gap(uuid4(), questions, stored).state == state


def test_trend_counts_days_in_utc() -> None:
    gap = Gap(uuid4(), [asked("Who?", 0, 0.4, 0.6), asked("Who else?", 3, 40)])

    assert gap.per_day(5, NOW.date()) == [0, 1, 0, 1, 2]


def test_weeks_do_not_overlap() -> None:
    gap = Gap(uuid4(), [asked("Who?", 0, 6.9, 7, 13.9, 14)])

    assert (gap.asked_between(NOW - WEEK, NOW), gap.asked_between(NOW - 2 * WEEK, NOW - WEEK)) == (2, 2)


def test_gaps_start_with_the_most_asked() -> None:
    one, two = uuid4(), uuid4()
    questions = [asked("Who?", 1, gap_id=one), asked("Why?", 1, 2, gap_id=two), asked("When?"), asked(gap_id=one)]

    gaps = gaps_of([*questions, asked("Where?", 1, gap_id=one)], {one: GapState("Ann")})

    assert [(gap.id, gap.times, gap.stored.assigned_to) for gap in gaps] == [(one, 3, "Ann"), (two, 2, None)]


def test_question_of_a_gap_is_the_most_asked() -> None:
    gap_id = uuid4()
    (gap,) = gaps_of([asked("Who?", 1, gap_id=gap_id), asked("Who else?", 1, 2, gap_id=gap_id)], {})

    assert gap.question == "Who else?"
