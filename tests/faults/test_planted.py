"""The deliberate bugs fit the code as it is now; `make planted` sees that each is caught."""

import pytest

from tests.deployment import ROOT
from tests.faults.planted import BUGS, found


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.means)
def test_its_text_stands_where_it_is_planted(bug):
    file, _, test = bug.caught_by.partition("::")

    assert found(bug) == 1
    assert test.partition("[")[0] in (ROOT / file).read_text()
