"""Counts of a collection's points."""

import asyncio

import pytest

from shared.domain.errors import Unavailable
from shared.domain.index_location import IndexLocation
from shared.vectors.sizes import Sizes

HERE, THERE = IndexLocation("index", "acme", "here"), IndexLocation("index", "acme", "there")


class Slow:
    """Counts that take time on a simulated clock and record the requested locations."""

    def __init__(self, seconds):
        self.seconds, self.now, self.number, self.requested = seconds, 100.0, 7, []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def count(self, location):
        self.requested.append(location)
        await self.may_end.wait()
        self.now += self.seconds
        if self.number is None:
            raise Unavailable("unavailable", component="qdrant")
        return self.number

    def clock(self):
        return self.now


async def test_concurrent_callers_wait_for_running_count():
    slow = Slow(seconds=1)
    sizes = Sizes(slow.count, now=slow.clock)
    assert await asyncio.gather(*(sizes.of(location) for location in (HERE, THERE, HERE, HERE))) == [7, 7, 7, 7]
    assert slow.requested == [HERE, THERE]


async def test_count_is_cached_twenty_times_its_duration():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, now=slow.clock)
    await sizes.of(HERE)
    slow.now, slow.number = slow.now + 9.9, 8
    assert await sizes.of(HERE) == 7
    slow.now += 0.2
    assert await sizes.of(HERE) == 8


async def test_count_is_cached_for_minimum_seconds():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, seconds=60, now=slow.clock)
    await sizes.of(HERE)
    slow.now, slow.number = slow.now + 59, 8
    assert await sizes.of(HERE) == 7


async def test_approximate_size_uses_last_count_during_recount():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, now=slow.clock)
    assert await sizes.about(HERE) == 7
    slow.now, slow.number = slow.now + 60, 8
    slow.may_end.clear()
    assert await sizes.about(HERE) == 7
    exact = asyncio.create_task(sizes.of(HERE))
    slow.may_end.set()
    assert (await exact, len(slow.requested)) == (8, 2)


async def test_cancelled_caller_does_not_cancel_shared_count():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, now=slow.clock)
    slow.may_end.clear()
    hasty, patient = (asyncio.create_task(sizes.of(HERE)) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    slow.may_end.set()
    assert (await patient, len(slow.requested)) == (7, 1)


async def test_failed_count_is_repeated():
    slow = Slow(seconds=0.5)
    slow.number = None
    sizes = Sizes(slow.count, now=slow.clock)
    with pytest.raises(Unavailable):
        await sizes.of(HERE)
    slow.number = 9
    assert await sizes.of(HERE) == 9
