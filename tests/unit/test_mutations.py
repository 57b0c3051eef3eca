"""Planted bugs fit the current tree: their texts and tests exist."""

import re

import pytest

from tests.support.deployment import ROOT
from tests.support.mutations import BUGS


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.means)
def test_planted_bug_fits_the_tree(bug):
    text = (ROOT / bug.file).read_text()
    file, _, test = bug.caught_by.partition("::")

    assert [text.count(old) for old, _ in bug.edits] == [1] * len(bug.edits)
    assert re.search(rf"def {test.partition('[')[0]}\b", (ROOT / file).read_text()), bug.caught_by
