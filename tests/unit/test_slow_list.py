"""The list of slow tests names only tests that exist: a renamed one would silently be fast again."""

from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()


def test_listed_slow_tests_exist():
    tests = [line.partition("[")[0].partition("::") for line in LISTED]
    missing = []
    for file, listed in groupby(tests, key=lambda test: test[0]):
        text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else None
        missing += [(file, name) for _, _, name in listed if text is None or (name and f"def {name}(" not in text)]

    assert missing == []


def test_slow_list_is_sorted_without_duplicates():
    assert sorted(set(LISTED)) == LISTED
