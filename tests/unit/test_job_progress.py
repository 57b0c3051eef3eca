"""A job that makes no progress ends with a reason, and a pause that a server requests does not prolong it."""

import asyncio
from datetime import timedelta

import pytest

from shared.domain.errors import Permanent, Unavailable
from shared.maintenance.jobs.progress import JobTurn, JobYielded, watched
from shared.maintenance.jobs.retries import retried_while
from tests.support.clock import ManualClock, in_virtual_time
from tests.support.planted import guards


class Claims:
    """Claims that other jobs wait for; a released claim is counted."""

    def __init__(self):
        self.released = 0

    async def yield_claim(self, _, *, pause):
        self.released += 1
        self.pause = pause
        return True


@guards(
    "shared/maintenance/jobs/progress.py",
    "2 * first_part if first_part > _SHORT_SECONDS else 0",
    "0",
    means="a listing whose source takes long to open makes no progress between two turns",
)
@pytest.mark.parametrize(("first_part", "ends"), [(1, 120), (70, 140), (600, 1_200)])
async def test_turn_is_longer_than_first_part(first_part, ends):
    clock, claims = ManualClock(), Claims()
    turn = JobTurn(claims, None, timedelta(minutes=2), clock)
    clock.now = first_part
    while clock.now < ends:
        await turn.offer()
        clock.now += 1

    assert claims.released == 0
    with pytest.raises(JobYielded):
        await turn.offer()


def turn_of(claims):
    return JobTurn(claims, None, timedelta(minutes=1), asyncio.get_running_loop().time)


@guards(
    "shared/maintenance/jobs/progress.py",
    "if pause >= _WAITING_SECONDS:",
    "if False:",
    means="a run that waits for a slow server keeps its place until its turn is over",
)
@in_virtual_time
async def test_job_that_only_waits_gives_way_at_once():
    claims = Claims()
    turn, ended = turn_of(claims), asyncio.Event()

    async def part():
        try:
            await asyncio.sleep(300)
        finally:
            ended.set()

    with pytest.raises(JobYielded):
        await turn.during(part(), waiting_seconds=lambda: 290.0, is_resumable=False)

    assert asyncio.get_running_loop().time() <= 5
    assert claims.pause == timedelta(seconds=290)
    assert ended.is_set()


@guards(
    "shared/maintenance/jobs/progress.py",
    "self._now() + _LONGEST_PART * self._seconds",
    "self._started + self._seconds",
    means="a part that must be repeated never ends while other runs wait",
)
@pytest.mark.parametrize(("is_resumable", "seconds"), [(True, 60), (False, 300)])
@in_virtual_time
async def test_long_part_gives_way_by_its_kind(is_resumable, seconds):
    turn = turn_of(Claims())

    assert await turn.during(asyncio.sleep(seconds - 5, 7), waiting_seconds=float, is_resumable=is_resumable) == 7
    started = asyncio.get_running_loop().time()
    with pytest.raises(JobYielded):
        await turn.during(asyncio.sleep(600), waiting_seconds=float, is_resumable=is_resumable)
    assert asyncio.get_running_loop().time() - started <= (seconds + 5 if not is_resumable else 10)


@in_virtual_time
async def test_failing_job_gives_way_for_requested_pause():
    claims = Claims()

    async def fail():
        raise Unavailable("The server asks for a pause.", component="source", retry_after=timedelta(seconds=90))

    turn = turn_of(claims)
    with pytest.raises(JobYielded):
        await retried_while(lambda: 0.0, timedelta(minutes=2), turn.sleep)(fail)
    assert claims.pause >= timedelta(seconds=90)


@in_virtual_time
async def test_job_without_progress_fails_with_reason():
    with pytest.raises(Permanent, match="made no progress for 60 seconds, so it was stopped"):
        async with watched(timedelta(minutes=1)):
            await asyncio.sleep(100)


@guards(
    "shared/maintenance/jobs/progress.py",
    "timeout.reschedule(loop.time() + seconds)",
    "timeout.when()",
    means="a long run fails although it makes progress",
)
@in_virtual_time
async def test_job_with_progress_continues():
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
    "shared/maintenance/jobs/retries.py",
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
