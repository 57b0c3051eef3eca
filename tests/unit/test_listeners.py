"""Open event streams: their number is limited by tenant and by key, and the streams of a job share its reads."""

import asyncio
from contextlib import ExitStack
from uuid import UUID

import orjson
import pytest

from api.progress.job_feeds import CACHE_SECONDS, JobFeeds
from api.progress.listeners import Listeners
from shared.domain.access.keys import Owner
from shared.http.problems import TooManyRequests
from shared.http.schemas.common import example_of
from shared.http.schemas.jobs import JobView
from shared.settings import Settings, TenantLimits
from tests.support.clock import ManualClock
from tests.support.planted import guards

WEBSITE, OFFICE, OTHER = Owner("acme", "website"), Owner("acme", "office"), Owner("beta", "website")


def listeners(most):
    return Listeners(Settings(_env_file=None, tenant_limits={"*": TenantLimits(listeners=most)}))


@guards(
    "api/progress/listeners.py",
    "if self._of_keys[key] >=",
    "if self._of_keys[key] > most >=",
    means="one key opens all event streams of its tenant",
)
def test_key_opens_at_most_half_of_streams():
    counted = listeners(4)
    with ExitStack() as streams:
        for key in (WEBSITE, WEBSITE):
            streams.enter_context(counted.counted(key))
        with pytest.raises(TooManyRequests, match="2 clients with this key"):
            counted.require_room(WEBSITE)
        for key in (OFFICE, OFFICE):
            streams.enter_context(counted.counted(key))
        with pytest.raises(TooManyRequests, match="4 clients of this tenant"):
            counted.require_room(Owner("acme", "third"))
        counted.require_room(OTHER)

    counted.require_room(WEBSITE)


def test_stream_without_room_is_refused_at_its_start():
    counted = listeners(1)
    counted.require_room(WEBSITE)
    with counted.counted(WEBSITE), pytest.raises(TooManyRequests), counted.counted(WEBSITE):
        raise AssertionError("two streams are open")


def test_streams_without_limit_are_not_refused():
    counted = listeners(None)
    with ExitStack() as streams:
        for _ in range(2_000):
            streams.enter_context(counted.counted(WEBSITE))
        counted.require_room(WEBSITE)


@guards(
    "api/progress/job_feeds.py",
    "if self._now() - self._read_at >= CACHE_SECONDS:",
    "if self._now() - self._read_at >= 0:",
    means="each stream of a job reads the ledger for itself",
)
async def test_streams_of_one_job_share_its_reads():
    clock, reads = ManualClock(), []

    async def read(tenant, job_id):
        reads.append((tenant, job_id))
        state = "running" if len(reads) < 3 else "done"
        fields = example_of(JobView) | {"state": state, "done": len(reads) // 2}
        return JobView.model_validate_json(orjson.dumps(fields))

    feeds, job = JobFeeds(read, clock), UUID(int=1)
    with ExitStack() as streams:
        opened = [streams.enter_context(feeds.joined("acme", job)) for _ in range(300)]
        rounds = []
        for _ in range(3):
            rounds.append(await asyncio.gather(*(feed.latest() for feed in opened)))
            clock.now += 2 * CACHE_SECONDS

    assert reads == [("acme", job)] * 3
    assert [{is_open for _, is_open in each} for each in rounds] == [{True}, {True}, {False}]
    assert [len({id(piece) for piece, _ in each}) for each in rounds] == [1, 1, 1]
    with feeds.joined("acme", job) as feed:  # a new listener starts with a read
        await feed.latest()
    assert len(reads) == 4
