"""Requests for many items: an item whose request fails is not confirmed, and other items are not affected."""

import pytest

from shared.domain.errors import Permanent, Unavailable
from shared.ingest.index.finish import confirmed


@pytest.mark.parametrize(
    "error", [Unavailable("unavailable", component="qdrant"), Permanent("rejected"), KeyError("section")]
)
async def test_failing_request_does_not_affect_other_requests(error):
    async def request(item):
        if item == 2:
            raise error

    assert await confirmed([1, 2, 3], request) == [1, 3]
