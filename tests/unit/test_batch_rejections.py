"""The decision about a rejected batch: which lines fail, and into how many batches the others are divided."""

import pytest

from shared.ingest.batches.rejections import MOST_FAILURES, MOST_LINES, MOST_REFUSED, Verdict, decide
from tests.support.planted import guards

HALVED, LIVE = Verdict((), 300), Verdict((), 0)


def decided(named=(), *, lines=600, min_lines=1, failures=1):
    return decide(named, lines=lines, min_lines=min_lines, failures=failures)


def test_named_lines_fail_and_others_stay_together():
    assert decided([600]) == Verdict((600,), 599)
    assert decided([7, 3]) == Verdict((3, 7), 598)


def test_named_line_alone_fails_by_its_error():
    assert decided([1], lines=1) == Verdict((1,), 0)


@pytest.mark.parametrize("named", [(), (0, 5), (5, 601), (-1,), (1, 2), (1, 2, 3)])
def test_unusable_numbers_halve_batch(named):
    assert decided(named) == HALVED


@pytest.mark.parametrize(("lines", "min_lines"), [(1, 1), (499, 500), (1, 500)])
def test_small_batch_is_generated_live(lines, min_lines):
    assert decided(lines=lines, min_lines=min_lines) == LIVE


@pytest.mark.parametrize(("lines", "min_lines"), [(2, 1), (500, 500)])
def test_batch_of_minimum_size_is_halved(lines, min_lines):
    assert decided(lines=lines, min_lines=min_lines) == Verdict((), lines // 2)


@guards(
    "shared/ingest/batches/rejections.py",
    "failures >= MOST_FAILURES or ",
    "",
    means="divisions of a batch that always fails do not end early",
)
def test_many_failures_of_one_root_end_divisions():
    assert decided(failures=MOST_FAILURES - 1) == HALVED
    assert decided(failures=MOST_FAILURES) == LIVE
    assert decided([7], failures=MOST_FAILURES) == Verdict((7,), 0)


def test_most_named_lines_fail_in_one_transaction():
    verdict = decided(range(2, 5_000), lines=50_000)

    assert verdict == Verdict(tuple(range(2, MOST_REFUSED + 2)), MOST_LINES)


@guards(
    "shared/ingest/batches/rejections.py",
    "ceil(others / 2)",
    "others - 1",
    means="a rejected batch is sent again as a whole",
)
@pytest.mark.parametrize("poisonous", [1, 2, 300, 599, 600])
def test_halving_isolates_line_within_log2_rounds(poisonous):
    lines = list(range(1, 601))
    for rounds in range(10):
        half = decided(lines=len(lines), failures=rounds + 1).part_lines
        lines = next(part for part in (lines[:half], lines[half:]) if poisonous in part)

    assert lines == [poisonous]


def test_part_is_moved_in_one_transaction():
    assert decided(lines=50_000) == Verdict((), MOST_LINES)
    assert decided([7], lines=50_000) == Verdict((7,), MOST_LINES)
    assert decided(lines=9_999) == Verdict((), MOST_LINES)
