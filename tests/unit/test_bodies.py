"""Bodies of replies are unpacked no further than their limit."""

import gzip

import pytest

from features.sources.web.bodies import BodyTooLarge, _pieces
from tests.support.planted import guards


@guards(
    "features/sources/web/bodies.py",
    "            if left < 0:",
    "            if False:",
    means="a packed page is unpacked without a limit",
)
def test_unpacking_ends_at_its_limit():
    unpacked = list[int]()

    def unpack():
        for piece in _pieces(gzip.compress(bytes(20_000_000)), 100_000):
            unpacked.append(len(piece))

    with pytest.raises(BodyTooLarge):
        unpack()
    assert sum(unpacked) <= 100_000
