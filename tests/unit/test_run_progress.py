"""A run that makes no progress ends with a reason, and a pause that a server requests does not prolong it."""

import asyncio
from datetime import timedelta

import pytest

from shared.domain.errors import Permanent, Unavailable
from shared.maintenance.runs.progress import GaveWay, RunTurn, watched
from shared.maintenance.runs.retries import retried_while
from tests.support.clock import ManualClock, in_virtual_time
from tests.support.planted import guards


class Claims:
    """Claims that other runs wait for; a released claim is counted."""

    def __init__(self):
        self.released = 0

    async def give_way(self, _):
        self.released += 1
        return True


@guards(
    "shared/maintenance/runs/progress.py",
    "2 * first_part if first_part > _SHORT_SECONDS else 0",
    "0",
    means="a listing whose source takes long to open makes no progress between two turns",
)
@pytest.mark.parametrize(("first_part", "ends"), [(1, 120), (70, 140), (600, 1_200)])
async def test_turn_is_longer_than_first_part(first_part, ends):
    clock, claims = ManualClock(), Claims()
    turn = RunTurn(claims, None, timedelta(minutes=2), clock)
    clock.now = first_part
    while clock.now < ends:
        await turn.offer()
        clock.now += 1

    assert claims.released == 0
    with pytest.raises(GaveWay):
        await turn.offer()


@in_virtual_time
async def test_run_without_progress_fails_with_reason():
    with pytest.raises(Permanent, match="made no progress for 60 seconds, so it was stopped"):
        async with watched(timedelta(minutes=1)):
            await asyncio.sleep(100)


@guards(
    "shared/maintenance/runs/progress.py",
    "timeout.reschedule(loop.time() + seconds)",
    "timeout.when()",
    means="a long run fails although it makes progress",
)
@in_virtual_time
async def test_run_with_progress_continues():
    async with watched(timedelta(minutes=1)) as progressed:
        for _ in range(10):
            await asyncio.sleep(50)
            progressed()


@in_virtual_time
async def test_timeout_of_work_itself_is_raised_unchanged():
    with pytest.raises(TimeoutError):
        async with watched(timedelta(minutes=1)), asyncio.timeout(1):
            await asyncio.sleep(2)


@guards(
    "shared/maintenance/runs/retries.py",
    "idle_seconds() + state.upcoming_sleep",
    "idle_seconds()",
    means="a run waits for as long as a server requests",
)
@in_virtual_time
async def test_requested_pause_beyond_timeout_ends_retries():
    loop, calls = asyncio.get_running_loop(), 0

    async def fail():
        nonlocal calls
        calls += 1
        raise Unavailable("The server asks for a pause.", component="source", retry_after=timedelta(days=104))

    with pytest.raises(Unavailable, match="asks for a pause"):
        await retried_while(loop.time, timedelta(minutes=2))(fail)
    assert (calls, loop.time()) == (1, 0)
