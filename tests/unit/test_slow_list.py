"""The list of slow tests names only tests that exist: a renamed one would silently be fast again."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", LISTED)
def test_listed_slow_test_exists(line):
    file, _, name = line.partition("[")[0].partition("::")

    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8") if name else (ROOT / file).is_file()


def test_slow_list_is_sorted_without_duplicates():
    assert sorted(set(LISTED)) == LISTED
