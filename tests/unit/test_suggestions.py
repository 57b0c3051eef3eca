"""Suggested questions come from all parts of a collection."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from features.feedback.ledger.suggestions import in_turns, spread

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)


def row(part, number):
    return {"part": part, "id": UUID(int=number), "public_id": UUID(int=number), "live_version": 1}


def test_every_part_of_a_span_gets_one_time():
    *times, last = spread(FIRST, FIRST + YEAR, "a day")

    assert sorted(int(8 * (time - FIRST) / YEAR) for time in times) == list(range(8))
    assert last == FIRST  # a collection with few documents is complete
    assert times == spread(FIRST, FIRST + YEAR, "a day")[:-1]
    assert times != spread(FIRST, FIRST + YEAR, "another day")[:-1]


def test_documents_of_one_moment_have_one_time():
    assert set(spread(FIRST, FIRST, "a day")) == {FIRST}


def test_parts_contribute_in_turns_and_documents_once():
    listed = [row(1, 1), row(1, 2), row(1, 3), row(2, 4), row(2, 5), row(3, 6), row(4, 6), row(4, 1)]

    ordered = in_turns(listed, "a day")

    assert sorted(each["id"].int for each in ordered) == [1, 2, 3, 4, 5, 6]
    assert [{1, 2, 3}, {4, 5}, {6}] == [
        group for group in ({1, 2, 3}, {4, 5}, {6}) if group & {each["id"].int for each in ordered[:3]}
    ]
