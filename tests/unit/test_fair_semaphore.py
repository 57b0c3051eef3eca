"""Fair assignment of parse slots to tenants."""

import asyncio

import pytest

from shared.confined.fair_semaphore import FairSemaphore
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS


async def parsed_in_turn(slots, tenants, order):
    async def parse(tenant):
        async with slots.one(tenant):
            order.append(tenant)
            await asyncio.sleep(0)

    return [asyncio.create_task(parse(tenant)) for tenant in tenants]


async def test_tenant_with_fewest_slots_gets_free_slot():
    order = []
    tasks = await parsed_in_turn(FairSemaphore(2), ["loud"] * 6 + ["quiet", "other", "quiet"], order)
    await asyncio.gather(*tasks)

    assert order[:5] == ["loud", "loud", "quiet", "loud", "other"]
    assert sorted(order) == ["loud"] * 6 + ["other"] + ["quiet"] * 2


@guards(
    "shared/confined/fair_semaphore.py",
    "if not turn.comes.done()]:",
    "if not turn.comes.done() and self._free > 0]:",
    means="files of a quiet tenant wait for the slow files of another",
)
async def test_slow_file_does_not_delay_other_tenant():
    slots = FairSemaphore(2)
    held = [slots.one("slow"), slots.one("slow")]
    for slot in held:
        await slot.__aenter__()
    waiting = asyncio.create_task(_held_once(slots, "slow"))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        async with slots.one("other"):
            again = asyncio.create_task(_held_once(slots, "other"))
            await asyncio.sleep(0)
            assert (again.done(), waiting.done()) == (False, False)
        await asyncio.sleep(0)
        assert again.done()  # the next file of the other tenant does not wait for a slow file
    assert not waiting.done()  # the additional slot is not given to a tenant that holds the others
    for slot in held:
        await slot.__aexit__(None, None, None)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await waiting


async def _held_once(slots, tenant):
    async with slots.one(tenant):
        pass


async def test_slot_is_not_given_to_cancelled_file():
    slots = FairSemaphore(1)
    held = slots.one("a")
    await held.__aenter__()
    first, second = (asyncio.create_task(_held_once(slots, "a")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await held.__aexit__(None, None, None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert (first.cancelled(), second.done()) == (True, True)


@pytest.mark.parametrize("passes", [0, 1, 2])
async def test_cancelled_waiter_releases_no_slot(passes):
    slots, order = FairSemaphore(1), []
    tasks = await parsed_in_turn(slots, ["a", "b", "c"], order)
    for _ in range(passes):
        await asyncio.sleep(0)
    tasks[1].cancel()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await asyncio.gather(*tasks, return_exceptions=True)
        async with slots.one("d"):
            assert {"a", "c"} <= set(order)
