"""Counts of a collection's points."""

import asyncio
from datetime import timedelta

import pytest

from shared.domain.corpus.index_location import IndexLocation
from shared.domain.errors import Unavailable
from shared.vectors.sizes import CachedCount, Sizes
from tests.support.waiting import eventually

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
    assert await asyncio.gather(*(sizes.count(location) for location in (HERE, THERE, HERE, HERE))) == [7, 7, 7, 7]
    assert slow.requested == [HERE, THERE]


async def test_count_is_cached_twenty_times_its_duration():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, now=slow.clock)
    await sizes.count(HERE)
    slow.now, slow.number = slow.now + 9.9, 8
    assert await sizes.count(HERE) == 7
    slow.now += 0.2
    assert await sizes.count(HERE) == 8


async def test_count_is_cached_for_minimum_seconds():
    slow = Slow(seconds=0.5)
    slow.number = 5_000
    sizes = Sizes(slow.count, seconds=60, now=slow.clock)
    await sizes.count(HERE)
    slow.now, slow.number = slow.now + 59, 8
    assert await sizes.count(HERE) == 5_000


async def test_empty_collection_is_counted_again_soon():
    slow = Slow(seconds=0.01)
    slow.number = 0
    sizes = Sizes(slow.count, seconds=60, now=slow.clock)
    await sizes.count(HERE)
    slow.now, slow.number = slow.now + 1, 6_000
    assert await sizes.count(HERE) == 6_000


async def test_approximate_size_uses_last_count_during_recount():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, now=slow.clock)
    assert await sizes.about(HERE) == 7
    slow.now, slow.number = slow.now + 60, 8
    slow.may_end.clear()
    assert await sizes.about(HERE) == 7
    exact = asyncio.create_task(sizes.count(HERE))
    slow.may_end.set()
    assert (await exact, len(slow.requested)) == (8, 2)


async def test_cancelled_caller_does_not_cancel_shared_count():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, now=slow.clock)
    slow.may_end.clear()
    hasty, patient = (asyncio.create_task(sizes.count(HERE)) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    slow.may_end.set()
    assert (await patient, len(slow.requested)) == (7, 1)


async def test_failed_count_is_repeated():
    slow = Slow(seconds=0.5)
    slow.number = None
    sizes = Sizes(slow.count, now=slow.clock)
    with pytest.raises(Unavailable):
        await sizes.count(HERE)
    slow.number = 9
    assert await sizes.count(HERE) == 9


async def test_changed_collection_is_recounted_after_a_pause():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, now=slow.clock)
    assert await sizes.at(HERE, "one document") == CachedCount(7, timedelta(seconds=0.5), is_current=True)
    slow.now, slow.number = slow.now + 1, 8
    assert (await sizes.at(HERE, "one document")).is_current  # it is valid for 20 times its duration

    outdated = await sizes.at(HERE, "two documents")
    assert outdated == CachedCount(7, timedelta(seconds=1.5), is_current=False)
    slow.now += 1.5
    assert await sizes.at(HERE, "two documents") == CachedCount(8, timedelta(seconds=0.5), is_current=True)
    assert slow.requested == [HERE, HERE]


async def test_count_of_earlier_state_is_not_current():
    slow = Slow(seconds=0.5)
    sizes = Sizes(slow.count, now=slow.clock)
    assert sizes.last(HERE) is None
    slow.may_end.clear()
    earlier = asyncio.create_task(sizes.at(HERE, "one document"))
    await eventually(lambda: slow.requested)
    slow.now += 1
    later = asyncio.create_task(sizes.at(HERE, "two documents"))
    await asyncio.sleep(0)
    slow.may_end.set()

    assert (await earlier).is_current
    assert not (await later).is_current
    assert sizes.last(HERE) == CachedCount(7, timedelta(seconds=1.5), is_current=False)
