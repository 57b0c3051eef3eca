import asyncio
import time
from collections import deque
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from shared.domain.errors import LeaseLost, Permanent, Unavailable
from shared.domain.retry import Dead, Retry
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.work import Lease, LeaseExtension
from shared.ingest.drain import Drain, DrainLimits, Exclusion, Stage, SuspectPolls
from shared.ledger.postgres.database import TransactionConflict
from tests.support.clock import in_virtual_time
from tests.support.planted import guards
from tests.support.stages import Changed

LIMITS = DrainLimits(lease=timedelta(seconds=60), budget=timedelta(seconds=5), grace=timedelta(seconds=0.05))

WORK_SECONDS = 0.001


class Shop(Stage):
    """A stage over a queue in memory that records the steps of a drain."""

    name = "shop"
    linger = timedelta(seconds=0.2)

    def __init__(self, items, slots=4):
        self.due = deque(range(items))
        self.suspects = deque()
        self.polls = 0
        self.slots = slots
        self.started = 0
        self.in_progress = 0
        self.peak = 0
        self.settled = []
        self.settled_at = []
        self.groups = []
        self.released = []
        self.called = []
        self.expired = []
        self.extended = []
        self.calls_for_help = 0
        self.settle_failures = 0
        self.blocker = None

    def leases_of(self, item):
        return [Lease(UUID(int=item), 1, item)]

    def describe(self, item):
        return {"document_id": str(UUID(int=item))}

    def traced(self, _):
        return {}

    async def claim(self, limit, _):
        return [self.due.popleft() for _ in range(min(limit, len(self.due)))]

    async def claim_suspect(self):
        self.polls += 1
        return [self.suspects.popleft()] if self.suspects else []

    async def process(self, item, _):
        self.started += 1
        self.in_progress += 1
        self.peak = max(self.peak, self.in_progress)
        if self.blocker is not None:
            await self.blocker.wait()
        await asyncio.sleep(WORK_SECONDS)
        self.in_progress -= 1
        if item == 666:
            raise ZeroDivisionError
        return item

    async def settle(self, outcomes):
        if self.settle_failures:
            self.settle_failures -= 1
            raise Unavailable("unavailable", component="ledger")
        self.groups.append(len(outcomes))
        self.settled_at.append(now())
        self.settled += outcomes

    async def extend(self, leases):
        self.extended.append([lease.token for lease in leases])
        return LeaseExtension([lease.token for lease in leases])

    async def release(self, leases, called=()):
        self.released += [lease.token for lease in leases]
        self.called += [lease.token for lease in called]

    async def expire(self, leases):
        self.expired += [lease.token for lease in leases]

    def full(self):
        self.calls_for_help += 1


def now():
    return asyncio.get_running_loop().time()


def drain_of(stage, limits=LIMITS, stopping=None, polls=None, exclusion=None):
    return Drain(stage, limits, stopping or asyncio.Event(), polls, now, exclusion=exclusion)


async def drain(shop, limits=LIMITS, stopping=None):
    drain = drain_of(shop, limits, stopping)
    more = await drain.run()
    await drain.close()
    return more


@in_virtual_time
async def test_due_work_is_processed_and_settled_once():
    shop = Shop(100)

    more = await drain(shop)

    assert not more
    assert sorted(shop.settled) == list(range(100))


@in_virtual_time
async def test_running_items_never_exceed_slots():
    shop = Shop(50, slots=4)

    await drain(shop)

    assert shop.peak == 4


@in_virtual_time
async def test_slot_is_held_until_commit():
    shop = Shop(20, slots=2)
    committing = asyncio.Event()

    async def slow_settle(outcomes):
        await committing.wait()
        shop.settled += outcomes

    stage = Changed(shop, settle=slow_settle)
    running = asyncio.create_task(drain_of(stage).run())
    await asyncio.sleep(0.05)

    assert shop.started == 2  # two calls were paid and not committed, so no third one has started
    assert len(shop.due) == 16  # but the next two are claimed
    committing.set()
    await running
    assert len(shop.settled) == 20


@in_virtual_time
async def test_other_workers_are_woken_once_for_backlog():
    busy, idle = Shop(50, slots=4), Shop(2, slots=4)

    await drain(busy)
    await drain(idle)

    assert (busy.calls_for_help, idle.calls_for_help) == (1, 0)


@in_virtual_time
async def test_outcomes_wait_for_unavailable_ledger():
    shop = Shop(3)
    shop.settle_failures = 1

    await drain(shop)

    assert sorted(shop.settled) == [0, 1, 2]


@in_virtual_time
async def test_budget_stops_claims_not_running_work():
    shop = Shop(1000, slots=1)

    more = await drain(shop, DrainLimits(lease=LIMITS.lease, budget=timedelta(seconds=0.05), grace=LIMITS.grace))

    assert more
    assert sorted(shop.settled) == list(range(1000 - len(shop.due)))


@in_virtual_time
async def test_stop_settles_finished_work_and_claims_nothing():
    shop = Shop(1000, slots=8)
    stopping = asyncio.Event()
    running = asyncio.create_task(drain(shop, stopping=stopping))
    await asyncio.sleep(0.02)
    stopping.set()

    assert await running
    assert sorted([*shop.settled, *shop.released]) == list(range(1000 - len(shop.due)))
    assert shop.started == len(shop.settled)


@in_virtual_time
async def test_stop_releases_unfinished_work():
    shop = Shop(5, slots=8)
    shop.blocker = asyncio.Event()
    stopping = asyncio.Event()
    running = asyncio.create_task(drain(shop, stopping=stopping))
    await asyncio.sleep(0.02)
    stopping.set()
    await running

    assert sorted(shop.released) == [0, 1, 2, 3, 4]
    assert shop.settled == []


@in_virtual_time
async def test_stop_names_released_leases_with_calls():
    shop, stopping, started = Shop(4), asyncio.Event(), asyncio.Event()

    async def call(item, require_lease):
        if item % 2:
            require_lease()
        if item == 3:
            started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(drain_of(Changed(shop, process=call), LIMITS, stopping).run())
    await started.wait()
    stopping.set()
    await running

    assert sorted(shop.released) == [0, 1, 2, 3]
    assert sorted(shop.called) == [1, 3]


@in_virtual_time
async def test_leases_are_extended_while_working():
    shop = Shop(2)
    shop.blocker = asyncio.Event()
    running = asyncio.create_task(drain(shop))
    await asyncio.sleep(50)
    shop.blocker.set()
    await running

    assert shop.extended == [[0, 1], [0, 1]]  # after a third and two thirds of the lease


@in_virtual_time
async def test_bug_in_one_item_does_not_affect_others():
    shop = Shop(10, slots=2)
    shop.due.appendleft(666)

    await drain(shop)

    assert sorted(shop.settled) == list(range(10))
    assert 666 not in shop.released


@in_virtual_time
async def test_failed_claim_ends_drain_after_running_work():
    shop = Shop(4, slots=4)

    async def claim_once(limit, held):
        if not shop.due:
            raise Unavailable("unavailable", component="ledger")
        return await shop.claim(limit, held)

    stage = Changed(shop, claim=claim_once)

    with pytest.raises(Unavailable):
        await drain_of(stage).run()
    assert sorted(shop.settled) == [0, 1, 2, 3]


@in_virtual_time
async def test_rejected_outcome_does_not_block_others():
    shop = Shop(10, slots=10)

    async def settle(outcomes):
        if 4 in outcomes:
            raise Permanent("it does not fit")
        shop.settled += outcomes

    stage = Changed(shop, settle=settle)

    await drain_of(stage).run()

    assert sorted(shop.settled) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert 4 not in shop.released  # its claim expires, so that it is finally set aside


@guards(
    "shared/ingest/drain.py",
    "        if failure is not None:",
    "        if False:",
    means="the call of an outcome that the ledger cannot store is paid again",
    case="one by one",
)
@pytest.mark.parametrize("form", ["one by one", "in batches"])
@in_virtual_time
async def test_failure_is_stored_instead_of_rejected_outcome(form):
    shop = Shop(10, slots=10)
    settled = []

    async def process(item, _):
        attempt = FailedAttempt(Lease(UUID(int=item), 1, item), Retry(timedelta(), "busy"), calls=1)
        return attempt if form == "one by one" else [attempt, replace(attempt, calls=2)]

    async def settle(outcomes):
        attempts = [part for one in outcomes for part in (one if isinstance(one, list) else [one])]
        if any(part.lease.token == 4 and isinstance(part.decision, Retry) and part.calls == 1 for part in attempts):
            raise Permanent("it does not fit")
        settled.extend(attempts)

    stage = Changed(shop, process=process, settle=settle)

    await drain_of(stage).run()

    assert len(settled) == (10 if form == "one by one" else 20)
    dead = [(part.lease.token, part.calls) for part in settled if part.decision == Dead("it does not fit")]
    assert dead == [(4, 1)]


@in_virtual_time
async def test_outcome_with_settlement_bug_does_not_block_others():
    shop = Shop(10, slots=10)

    async def settle(outcomes):
        if 4 in outcomes:
            raise TypeError("unhashable type: 'dict'")
        shop.settled += outcomes

    stage = Changed(shop, settle=settle)

    assert not await drain_of(stage).run()

    assert sorted(shop.settled) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert (shop.released, shop.expired) == ([], [])  # its claim expires, so that it finally becomes poison


@guards(
    "shared/ingest/drain.py",
    "await self._stage.expire(leases)",
    "await self._stage.release(leases)",
    means="an item whose settlements fail is released as if its worker were sound",
)
@in_virtual_time
async def test_failed_drain_counts_its_leases_as_lost():
    shop = Shop(100, slots=4)

    async def settle(outcomes):
        raise ZeroDivisionError

    stage = Changed(shop, settle=settle)

    with pytest.raises(ZeroDivisionError):
        await drain_of(stage).run()
    assert shop.released == []
    assert shop.expired
    assert len(shop.due) > 50  # the drain stopped early, because its calls may cost money


@in_virtual_time
async def test_occasional_settlement_errors_do_not_end_drain(monkeypatch):
    monkeypatch.setattr("shared.ingest.drain._MOST_RAISES", 2)
    shop = Shop(10, slots=4)

    async def settle(outcomes):
        if any(outcome % 2 for outcome in outcomes):
            raise ZeroDivisionError
        shop.settled += outcomes

    stage = Changed(shop, settle=settle, slots=1)

    assert not await drain_of(stage).run()
    assert shop.settled == list(range(0, 10, 2))


@in_virtual_time
async def test_extension_that_raises_is_retried_before_expiry():
    shop = Shop(2)
    raised = 0

    async def extend(leases):
        nonlocal raised
        if raised < 1:
            raised += 1
            raise ZeroDivisionError
        return LeaseExtension([lease.token for lease in leases])

    calls = await extending(shop, extend)

    assert (raised, calls.lost) == (1, 0)


@guards(
    "shared/ingest/drain.py",
    "asyncio.timeout(max(_EXTEND_SECONDS, term / 3))",
    "asyncio.timeout(None)",
    means="an extension of leases waits for its reply longer than the leases last",
)
@in_virtual_time
async def test_unanswered_extension_is_repeated_before_expiry():
    shop = Shop(2)
    requests = 0

    async def extend(leases):
        nonlocal requests
        requests += 1
        if requests == 1:
            await asyncio.Event().wait()  # like a connection that never answers
        return LeaseExtension([lease.token for lease in leases])

    calls = await extending(shop, extend)

    assert (requests > 1, calls.lost) == (True, 0)


@in_virtual_time
async def test_oversized_group_is_settled_separately():
    shop = Shop(12, slots=12)

    async def settle(outcomes):
        if len(outcomes) > 3:
            raise Unavailable("it took too long", component="ledger")
        shop.settled += outcomes

    stage = Changed(shop, settle=settle)

    assert not await drain_of(stage).run()

    assert sorted(shop.settled) == list(range(12))


@in_virtual_time
async def test_near_simultaneous_outcomes_are_settled_together():
    shop = Shop(8, slots=9)
    shop.due.append(1000)  # so that work is always in progress

    async def process(item, _):
        await asyncio.sleep(0.2 if item == 1000 else 0.001 * item)
        return item

    stage = Changed(shop, process=process)

    await drain_of(stage).run()

    assert len(shop.groups) <= 3  # nine if each were settled separately


@in_virtual_time
async def test_last_outcome_is_settled_at_once():
    shop = Shop(1)

    await drain(shop)

    assert shop.settled_at == [WORK_SECONDS]


@in_virtual_time
async def test_settlement_bug_ends_drain_instead_of_hanging():
    shop = Shop(100, slots=4)

    async def settle(outcomes):
        raise ZeroDivisionError

    stage = Changed(shop, settle=settle)

    with pytest.raises(ZeroDivisionError):
        await drain_of(stage).run()


@in_virtual_time
async def test_suspect_is_processed_without_other_items():
    shop = Shop(20, slots=4)
    shop.suspects.extend([100, 101, 102])
    concurrent = []

    async def process(item, _):
        shop.in_progress += 1
        if item >= 100:
            concurrent.append(shop.in_progress - 1)
        await asyncio.sleep(0.001)
        concurrent.extend([shop.in_progress - 1] if item >= 100 else [])
        shop.in_progress -= 1
        return item

    stage = Changed(shop, process=process)

    assert not await drain_of(stage).run()

    assert concurrent == [0] * 6
    assert sorted(shop.settled) == [*range(20), 100, 101, 102]
    # One suspect comes first, the others after all other work.
    assert (shop.settled[0], sorted(shop.settled[-2:])) == (100, [101, 102])


@in_virtual_time
async def test_items_claimed_during_commit_start_after_it():
    shop = Shop(8, slots=4)
    committing, go_on = asyncio.Event(), asyncio.Event()

    async def settle(outcomes):
        committing.set()
        await go_on.wait()
        await shop.settle(outcomes)

    stage = Changed(shop, settle=settle)
    running = asyncio.create_task(drain_of(stage).run())
    await committing.wait()
    await asyncio.sleep(0.03)
    started, remaining = shop.started, len(shop.due)
    go_on.set()
    await running

    assert (started, remaining) == (4, 0)
    assert (sorted(shop.settled), shop.peak) == (list(range(8)), 4)


BRIEF = replace(LIMITS, budget=timedelta(seconds=0.5))


@guards(
    "shared/ingest/drain.py",
    "continues = more and not self._stopping.is_set()",
    "continues = False",
    means="a run of a drain waits for its slowest item",
)
@in_virtual_time
async def test_next_run_does_not_wait_for_running_items():
    shop = Shop(4, slots=4)
    slow = asyncio.Event()

    async def process(item, _):
        if item == 0:
            await slow.wait()
        return item

    drain = drain_of(Changed(shop, process=process), BRIEF)
    assert await drain.run()
    assert not drain.has_ended
    assert (sorted(shop.settled), drain.in_progress) == ([1, 2, 3], 1)

    shop.due.extend(range(4, 8))
    assert await drain.run()
    assert (sorted(shop.settled), drain.in_progress) == ([1, 2, 3, 4, 5, 6, 7], 1)

    slow.set()
    assert not await drain.run()
    assert (sorted(shop.settled), drain.has_ended) == (list(range(8)), True)


@in_virtual_time
async def test_running_items_keep_their_slots_in_next_run():
    shop = Shop(10, slots=4)
    shop.blocker = asyncio.Event()
    drain = drain_of(shop, BRIEF)
    assert await drain.run()
    assert await drain.run()
    assert (shop.started, len(shop.due)) == (4, 6)

    shop.blocker.set()
    await drain.close()
    assert (len(shop.settled), shop.peak, drain.has_ended) == (4, 4, True)


@in_virtual_time
async def test_close_after_stop_releases_unfinished_items():
    shop, stopping = Shop(2, slots=2), asyncio.Event()
    shop.blocker = asyncio.Event()
    drain = drain_of(shop, BRIEF, stopping)
    assert await drain.run()
    stopping.set()
    await drain.close()

    assert (sorted(shop.released), shop.expired, shop.settled) == ([0, 1], [], [])


@in_virtual_time
async def test_suspect_waits_for_running_items():
    shop = Shop(1, slots=4)
    shop.blocker = asyncio.Event()
    polls = SuspectPolls(now)
    drain = drain_of(shop, BRIEF, polls=polls)
    assert await drain.run()
    shop.suspects.append(100)
    shop.due.append(1)
    await asyncio.sleep(1)  # the pause between two polls for suspects
    running = asyncio.create_task(drain.run())
    await asyncio.sleep(1)
    assert (shop.started, len(shop.due), len(shop.suspects)) == (1, 1, 0)
    shop.blocker.set()
    await running
    await drain.close()
    assert (shop.settled[:2], shop.peak) == ([0, 100], 1)


@guards(
    "shared/ingest/drain.py",
    "while alone and self._exclusion.held > 1:",
    "while alone and len(self._held) > 1:",
    means="a suspect that kills its process takes items of another stage with it",
)
@guards(
    "shared/ingest/drain.py",
    "return self._owner not in {None, drain}",
    "return False",
    means="items of another stage start while a suspect is processed",
)
@in_virtual_time
async def test_suspect_is_alone_among_stages():
    crowd, shop, exclusion = Shop(40, slots=4), Shop(0), Exclusion()
    shop.suspects.append(100)
    beside = []

    async def process(item, _):
        beside.extend([crowd.in_progress, len(crowd.due) == 0])
        await asyncio.sleep(1)
        beside.append(crowd.in_progress)
        return item

    others = asyncio.create_task(drain_of(crowd, exclusion=exclusion).run())
    while not crowd.in_progress:
        await asyncio.sleep(0)
    assert not await drain_of(Changed(shop, process=process), exclusion=exclusion).run()
    assert not await others

    assert beside == [0, False, 0]
    assert (shop.settled, sorted(crowd.settled)) == ([100], list(range(40)))


@in_virtual_time
async def test_suspects_of_two_stages_take_turns():
    shops, exclusion = [Shop(0), Shop(0)], Exclusion()
    for shop in shops:
        shop.suspects.append(100)
    drains = [drain_of(shop, polls=SuspectPolls(now), exclusion=exclusion) for shop in shops]

    while not all(shop.settled for shop in shops):
        await asyncio.gather(*(drain.run() for drain in drains if not drain.has_ended))
        drains = [drain_of(shop, exclusion=exclusion) for shop in shops if not shop.settled]

    assert [shop.peak for shop in shops] == [1, 1]


@in_virtual_time
async def test_lost_items_of_ended_drain_hinder_no_suspect():
    broken, shop, exclusion = Shop(12, slots=12), Shop(0), Exclusion()
    shop.suspects.append(100)

    async def settle(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await drain_of(Changed(broken, settle=settle), exclusion=exclusion).run()
    async with asyncio.timeout(600):
        assert not await drain_of(shop, exclusion=exclusion).run()

    assert (len(broken.expired) > 0, shop.settled) == (True, [100])


@in_virtual_time
async def test_failed_settlement_between_runs_ends_leases():
    shop = Shop(12, slots=12)
    shop.blocker = asyncio.Event()
    failed = asyncio.Event()

    async def settle(outcomes):
        if len(outcomes) == 1:
            failed.set()
        raise ZeroDivisionError

    polls = SuspectPolls(now)
    drain = drain_of(Changed(shop, settle=settle), BRIEF, polls=polls)
    assert await drain.run()
    shop.blocker.set()
    await failed.wait()
    await asyncio.sleep(BRIEF.lease.total_seconds())  # no extension is due any more
    shop.suspects.append(100)

    with pytest.raises(ZeroDivisionError):
        await drain.run()

    assert list(shop.suspects) == [100]  # a suspect that is claimed now would lose another lease
    assert shop.expired
    assert drain.has_ended


@in_virtual_time
async def test_claim_knows_items_of_each_tenant():
    shop = Shop(4, slots=4)
    shop.blocker = asyncio.Event()
    seen = []

    async def claim(limit, held):
        seen.append({tenant: count for tenant, count in held.items() if count})
        return await shop.claim(min(limit, 2), held)

    describe = {"describe": lambda item: {"tenant": "odd" if item % 2 else "even"}}
    drain = drain_of(Changed(shop, claim=claim, **describe), BRIEF)
    assert await drain.run()
    assert seen[:2] == [{}, {"even": 1, "odd": 1}]
    assert set(drain._tenants) == {"even", "odd"}

    shop.blocker.set()
    shop.due.clear()
    assert not await drain.run()
    assert (seen[-1], drain._tenants) == ({}, {})


@in_virtual_time
async def test_claim_refused_because_of_held_items_is_repeated():
    shop = Shop(4, slots=4)
    claiming, settled = asyncio.Event(), asyncio.Event()

    async def claim(limit, held):
        if not held["None"]:
            return await shop.claim(2, held)
        claiming.set()
        await settled.wait()  # the held items are settled while the ledger refuses to give it more
        return []

    async def settle(outcomes):
        await claiming.wait()
        await shop.settle(outcomes)
        asyncio.get_running_loop().call_later(0.01, settled.set)

    stage = Changed(shop, claim=claim, settle=settle)

    assert not await drain_of(stage).run()

    assert sorted(shop.settled) == [0, 1, 2, 3]


@guards(
    "shared/ingest/drain.py",
    "if self._stage.is_large(outcome)",
    "if False",
    means="the commit of a large document delays the others",
)
@in_virtual_time
async def test_large_outcome_delays_no_other_commit():
    shop = Shop(8, slots=4)
    shop.due.appendleft(1000)
    others = asyncio.Event()

    async def settle(outcomes):
        if 1000 in outcomes:
            assert len(outcomes) == 1
            await others.wait()
        await shop.settle(outcomes)
        if len(shop.settled) == 8:
            others.set()

    stage = Changed(shop, settle=settle, is_large=lambda outcome: outcome == 1000)

    more = await drain_of(stage).run()

    assert not more
    assert (sorted(shop.settled[:8]), shop.settled[8:], shop.peak) == (list(range(8)), [1000], 4)


@in_virtual_time
async def test_failure_of_large_commit_ends_drain():
    shop = Shop(100, slots=4)

    async def settle(outcomes):
        raise ZeroDivisionError

    stage = Changed(shop, settle=settle, is_large=lambda _: True)

    before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError):
        await drain_of(stage).run()
    while any("Drain." in repr(task) for task in asyncio.all_tasks() - before):  # no loop of the drain survives it
        await asyncio.sleep(1)


@in_virtual_time
async def test_suspect_search_repeats_after_a_second():
    polls = SuspectPolls(now)
    shop = Shop(4)

    await drain_of(shop, LIMITS, polls=polls).run()
    shop.suspects.append(100)
    shop.due.append(4)
    await drain_of(shop, LIMITS, polls=polls).run()
    assert (shop.polls, sorted(shop.settled)) == (1, [0, 1, 2, 3, 4])

    await asyncio.sleep(1)
    await drain_of(shop, LIMITS, polls=polls).run()
    assert (shop.polls, shop.settled[-1]) == (3, 100)


@in_virtual_time
async def test_claim_older_than_lease_is_not_started():
    shop = Shop(4)

    async def late_claim(limit, held):
        items = await shop.claim(limit, held)
        await asyncio.sleep(LIMITS.lease.total_seconds())
        return items

    stage = Changed(shop, claim=late_claim)
    limits = replace(LIMITS, budget=2 * LIMITS.lease)

    assert not await drain_of(stage, limits).run()
    assert (shop.settled, shop.released) == ([], [0, 1, 2, 3])


@in_virtual_time
async def test_colliding_claims_are_retried():
    shop = Shop(20, slots=4)
    collisions = 0

    async def claim(limit, held):
        nonlocal collisions
        if collisions < 6 and len(shop.due) <= 12:
            collisions += 1
            raise TransactionConflict("another claim", component="ledger")
        return await shop.claim(limit, held)

    stage = Changed(shop, claim=claim)

    assert not await drain_of(stage).run()
    assert (collisions, sorted(shop.settled)) == (6, list(range(20)))


@in_virtual_time
async def test_claim_that_only_advances_rows_is_repeated():
    shop = Shop(3)
    answers = [None, None]

    async def claim(limit, held):
        return answers.pop() if answers else await shop.claim(limit, held)

    stage = Changed(shop, claim=claim)

    assert not await drain_of(stage).run()
    assert sorted(shop.settled) == [0, 1, 2]


@in_virtual_time
async def test_stop_ends_claims_that_only_advance_rows():
    shop = Shop(0)
    stopping = asyncio.Event()

    async def claim(limit, held):
        await asyncio.sleep(0.001)

    stage = Changed(shop, claim=claim)
    running = asyncio.create_task(drain_of(stage, LIMITS, stopping).run())
    await asyncio.sleep(0.02)
    stopping.set()

    assert await running


class Calls:
    """Work that makes a paid call each second while its lease permits."""

    def __init__(self, shop):
        self.shop = shop
        self.times = []
        self.lost = 0

    async def process(self, item, require_lease):
        while not self.shop.blocker.is_set():
            try:
                require_lease()
            except LeaseLost:
                self.lost += 1
                return item
            self.times.append(now())
            await asyncio.sleep(1)
        return item


async def extending(shop, extend):
    """Run a drain over the shop for longer than a lease, with `extend` as the extension of leases; return its calls."""
    shop.blocker = asyncio.Event()
    calls = Calls(shop)
    running = asyncio.create_task(drain_of(Changed(shop, process=calls.process, extend=extend)).run())
    await asyncio.sleep(1.5 * LIMITS.lease.total_seconds())
    shop.blocker.set()
    await running
    return calls


@in_virtual_time
async def test_no_payment_after_possible_lease_expiry():
    async def unavailable(_):
        raise Unavailable("unavailable", component="ledger")

    calls = await extending(Shop(2), unavailable)

    assert calls.lost == 2
    assert max(calls.times) == LIMITS.lease.total_seconds() - 1


@guards(
    "shared/process/clock.py",
    'getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)',
    "time.CLOCK_MONOTONIC",
    means="the clock of leases stands still while the machine sleeps",
)
@guards(
    "shared/ingest/drain.py",
    "now: Callable[[], float] = elapsed_seconds,",
    "now: Callable[[], float] = lambda: asyncio.get_running_loop().time(),",
    means="a machine that slept pays under leases that ended during its sleep",
)
@in_virtual_time
async def test_no_payment_after_machine_slept(monkeypatch):
    slept, counts_sleep = 0.0, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    monkeypatch.setattr(time, "clock_gettime", lambda clock: now() + (slept if clock == counts_sleep else 0.0))
    shop = Shop(2)
    shop.blocker = asyncio.Event()
    calls = Calls(shop)
    drain = Drain(Changed(shop, process=calls.process), LIMITS, asyncio.Event())
    running = asyncio.create_task(drain.run())
    await asyncio.sleep(3.5)

    slept = 600.0

    await asyncio.sleep(2)
    assert (calls.lost, max(calls.times)) == (2, 3)
    shop.blocker.set()
    await running
    await drain.close()


@in_virtual_time
async def test_no_payment_after_reported_lease_loss():
    async def lost(_):
        return LeaseExtension(())

    calls = await extending(Shop(2), lost)

    assert calls.lost == 2
    assert max(calls.times) < LIMITS.lease.total_seconds() / 2  # the first extension follows a third of the lease


@in_virtual_time
async def test_extended_lease_starts_with_the_request():
    requests = 0

    async def extend(leases):
        nonlocal requests
        requests += 1
        if requests > 1:
            raise Unavailable("unavailable", component="ledger")
        await asyncio.sleep(10)  # the ledger may have extended them before that
        return LeaseExtension([lease.token for lease in leases])

    calls = await extending(Shop(2), extend)

    assert calls.lost == 2
    assert max(calls.times) == 79  # extended after a third of the lease


@in_virtual_time
async def test_failed_extension_is_retried_before_expiry():
    shop = Shop(2)
    times = []

    async def extend(leases):
        times.append(now())
        if len(times) == 1:
            raise Unavailable("unavailable", component="ledger")
        return LeaseExtension([lease.token for lease in leases])

    calls = await extending(shop, extend)

    assert times == [20, 20.5, 40.5, 60.5, 80.5]
    assert calls.lost == 0


@in_virtual_time
async def test_extension_of_locked_rows_is_repeated_before_expiry():
    shop = Shop(2)
    times = []

    async def extend(leases):
        tokens = [lease.token for lease in leases]
        times.append(now())
        return LeaseExtension(tokens[1:], locked=tokens[:1]) if len(times) == 1 else LeaseExtension(tokens)

    calls = await extending(shop, extend)

    assert times[:3] == [20, 20.5, 40.5]
    assert calls.lost == 0


@guards(
    "shared/ingest/drain.py",
    "if not tokens.isdisjoint(extension.locked):\n            return\n",
    "until += 60 * len(extension.locked)\n",
    "if tokens.isdisjoint(extension.extended) else",
    "if not tokens else",
    means="a lease whose row is locked counts as extended",
)
@in_virtual_time
async def test_no_payment_under_lease_that_stays_locked():
    async def locked(leases):
        return LeaseExtension((), locked=[lease.token for lease in leases])

    calls = await extending(Shop(2), locked)

    assert calls.lost == 2
    assert max(calls.times) == LIMITS.lease.total_seconds() - 1


class Busy(Shop):
    """A shop whose items are claimed ahead; an item runs for a given time.

    Args:
        seconds: duration of an item.
    """

    claims_ahead = True

    def __init__(self, items, slots, seconds=0.5):
        super().__init__(items, slots)
        self.seconds = seconds
        self.claims = []
        self.waiting = []  # the number of claimed items without a slot, after each claim

    async def claim(self, limit, held):
        claimed = await super().claim(limit, held)
        self.claims.append(len(claimed))
        self.waiting.append(held.total() + len(claimed) - self.slots)
        return claimed

    async def process(self, item, _):
        self.started += 1
        self.in_progress += 1
        self.peak = max(self.peak, self.in_progress)
        await asyncio.sleep(self.seconds * (0.5 + item % self.slots / self.slots))
        self.in_progress -= 1
        return item


@guards(
    "shared/ingest/drain.py",
    "if self._stage.claims_ahead and self._has_backlog:",
    "if False:",
    means="every few free slots cost a claim",
)
@in_virtual_time
async def test_claims_ahead_take_half_of_slots():
    shop = Busy(3_200, slots=64)

    await drain_of(shop, replace(LIMITS, budget=timedelta(minutes=5))).run()

    assert sorted(shop.settled) == list(range(3_200))
    assert (shop.peak, max(shop.waiting)) == (64, 64)
    assert sorted(shop.claims)[len(shop.claims) // 2] >= 32  # the median


@guards(
    "shared/ingest/drain.py",
    "int(slots * _AHEAD_SECONDS / max(_AHEAD_SECONDS, self._mean_seconds))",
    "slots",
    means="items claimed ahead wait for seconds while another worker is idle",
)
@in_virtual_time
async def test_slow_items_are_claimed_half_second_ahead():
    shop = Busy(1_000, slots=64, seconds=8)

    await drain_of(shop, replace(LIMITS, budget=timedelta(minutes=5))).run()

    assert sorted(shop.settled) == list(range(1_000))
    assert 0 < max(shop.waiting) <= 8  # 64 slots start 4 items in half a second


@guards(
    "shared/ingest/drain.py",
    "            self._ahead = 0\n",
    "            pass\n",
    means="a worker takes the work of an idle one",
)
@in_virtual_time
async def test_idle_worker_claims_before_others_claim_ahead():
    busy, idle = Busy(200, slots=64), Busy(0, slots=64)
    last = asyncio.Event()

    async def process(item, require_lease):
        if item == 0:
            await last.wait()
        return await busy.process(item, require_lease)

    running = asyncio.create_task(drain_of(Changed(busy, process=process)).run())
    while len(busy.settled) < 199:
        await asyncio.sleep(0.01)
    busy.due.extend(range(200, 326))
    idle.due = busy.due
    while len(busy.due) == 126:
        await asyncio.sleep(0.01)
    await drain_of(idle).run()
    last.set()
    await running

    assert (len(busy.settled), len(idle.settled)) == (200 + 63, 63)


@guards(
    "shared/ingest/drain.py",
    "if self._stage.claims_ahead and self._has_backlog:",
    "if self._stage.claims_ahead:",
    means="workers look for work that does not exist",
)
@in_virtual_time
async def test_nothing_is_claimed_ahead_without_backlog():
    shop = Busy(60, slots=64)

    async def claim(limit, held):
        shop.claims.append(limit)
        return await Shop.claim(shop, limit, held)

    await drain_of(Changed(shop, claim=claim)).run()

    assert max(shop.claims) == 64


@guards(
    "shared/ingest/drain.py",
    "last = [asyncio.create_task(self._release_waiting()), *",
    "last = [asyncio.create_task(asyncio.sleep(0)), *",
    means="a stopping worker keeps items that others could process",
)
@in_virtual_time
async def test_stop_releases_items_claimed_ahead_at_once():
    shop, stopping, released_at = Busy(1_000, slots=8), asyncio.Event(), []

    async def release(leases, called=()):
        released_at.append(now())
        await shop.release(leases, called)

    limits = replace(LIMITS, grace=timedelta(seconds=60))
    drain = drain_of(Changed(shop, release=release), limits, stopping)
    running = asyncio.create_task(drain.run())
    await asyncio.sleep(3.2)
    stopping.set()
    await running

    assert len(shop.released) >= 4
    assert released_at[0] < shop.settled_at[-1]
    assert shop.called == []
    assert shop.started == len(shop.settled)
    assert sorted([*shop.settled, *shop.released]) == list(range(1_000 - len(shop.due)))


@in_virtual_time
async def test_failed_settlements_expire_no_waiting_item():
    shop = Busy(1_000, slots=4)
    settled = 0

    async def settle(outcomes):
        nonlocal settled
        settled += len(outcomes)
        if settled > 16:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await drain_of(Changed(shop, settle=settle)).run()

    assert shop.expired
    assert shop.released
    assert len(shop.expired) <= shop.started
    assert set(shop.expired).isdisjoint(shop.released)


@in_virtual_time
async def test_waiting_items_are_not_counted_as_running():
    shop = Busy(1_000, slots=8)
    drain = drain_of(shop)
    running = asyncio.create_task(drain.run())
    seen = []
    for _ in range(100):
        await asyncio.sleep(0.03)
        seen.append(drain.in_progress)
    await running

    assert max(seen) == 8
