import asyncio
import time
from collections import deque
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from shared.domain.errors import LeaseLost, Permanent, Unavailable
from shared.domain.work import Lease, LeaseExtension
from shared.ingest.drain import Drain, DrainLimits, Stage, SuspectPolls
from shared.ledger.postgres.database import Collided
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS

LIMITS = DrainLimits(lease=timedelta(seconds=60), budget=timedelta(seconds=5), grace=timedelta(seconds=0.05))
# A busy machine takes seconds to log each traceback, and a drain without budget ends without the error.
LOGGING = DrainLimits(lease=LIMITS.lease, budget=timedelta(seconds=TIMEOUT_SECONDS), grace=LIMITS.grace)


class Shop:
    """A stage over a queue in memory that records the steps of a drain."""

    def __init__(self, items, slots=4):
        self.due = deque(range(items))
        self.suspects = deque()
        self.polls = 0
        self.slots = slots
        self.started = 0
        self.in_work = 0
        self.peak = 0
        self.settled = []
        self.groups = []
        self.released = []
        self.called = []
        self.expired = []
        self.extended = []
        self.calls_for_help = 0
        self.settle_failures = 0
        self.blocker = None

    def stage(self):
        return Stage(
            name="shop",
            slots=self.slots,
            linger=timedelta(milliseconds=1),
            claim=self.claim,
            claim_suspect=self.claim_suspect,
            work=self.work,
            settle=self.settle,
            leases_of=lambda item: [Lease(UUID(int=item), 1, item)],
            describe=lambda item: {"document_id": str(UUID(int=item))},
            traced=lambda _: {},
            extend=self.extend,
            release=self.release,
            expire=self.expire,
            full=self.full,
        )

    async def claim(self, limit, _):
        return [self.due.popleft() for _ in range(min(limit, len(self.due)))]

    async def claim_suspect(self):
        self.polls += 1
        return [self.suspects.popleft()] if self.suspects else []

    async def work(self, item, _):
        self.started += 1
        self.in_work += 1
        self.peak = max(self.peak, self.in_work)
        if self.blocker is not None:
            await self.blocker.wait()
        await asyncio.sleep(0.001)
        self.in_work -= 1
        if item == 666:
            raise ZeroDivisionError
        return item

    async def settle(self, outcomes):
        if self.settle_failures:
            self.settle_failures -= 1
            raise Unavailable("unavailable", component="ledger")
        self.groups.append(len(outcomes))
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


async def drain(shop, limits=LIMITS, stopping=None):
    drain = Drain(shop.stage(), limits, stopping or asyncio.Event())
    more = await drain.run()
    await drain.close()
    return more


async def test_due_work_is_processed_and_settled_once():
    shop = Shop(100)

    more = await drain(shop)

    assert not more
    assert sorted(shop.settled) == list(range(100))


async def test_running_items_never_exceed_slots():
    shop = Shop(50, slots=4)

    await drain(shop)

    assert shop.peak == 4


async def test_slot_is_held_until_commit():
    shop = Shop(20, slots=2)
    committing = asyncio.Event()

    async def slow_settle(outcomes):
        await committing.wait()
        shop.settled += outcomes

    stage = shop.stage()
    object.__setattr__(stage, "settle", slow_settle)
    running = asyncio.create_task(Drain(stage, LIMITS, asyncio.Event()).run())
    await asyncio.sleep(0.05)

    assert shop.started == 2  # two calls were paid and not committed, so no third one has started
    assert len(shop.due) == 16  # but the next two are claimed
    committing.set()
    await running
    assert len(shop.settled) == 20


async def test_other_workers_are_woken_once_for_backlog():
    busy, idle = Shop(50, slots=4), Shop(2, slots=4)

    await drain(busy)
    await drain(idle)

    assert (busy.calls_for_help, idle.calls_for_help) == (1, 0)


async def test_outcomes_wait_for_unavailable_ledger():
    shop = Shop(3)
    shop.settle_failures = 1

    await drain(shop)

    assert sorted(shop.settled) == [0, 1, 2]


async def test_budget_stops_claims_not_running_work():
    shop = Shop(1000, slots=1)

    more = await drain(shop, DrainLimits(lease=LIMITS.lease, budget=timedelta(seconds=0.05), grace=LIMITS.grace))

    assert more
    assert sorted(shop.settled) == list(range(1000 - len(shop.due)))


async def test_stop_settles_finished_work_and_claims_nothing():
    shop = Shop(1000, slots=8)
    stopping = asyncio.Event()
    running = asyncio.create_task(drain(shop, stopping=stopping))
    await asyncio.sleep(0.02)
    stopping.set()

    assert await running
    assert sorted(shop.settled) == list(range(1000 - len(shop.due)))
    assert shop.released == []


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


async def test_stop_names_released_leases_with_calls():
    shop, stopping, started = Shop(4), asyncio.Event(), asyncio.Event()

    async def call(item, require_lease):
        if item % 2:
            require_lease()
        if item == 3:
            started.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(Drain(replace(shop.stage(), work=call), LIMITS, stopping).run())
    await started.wait()
    stopping.set()
    await running

    assert sorted(shop.released) == [0, 1, 2, 3]
    assert sorted(shop.called) == [1, 3]


async def test_leases_are_extended_while_working():
    shop = Shop(2)
    shop.blocker = asyncio.Event()
    limits = DrainLimits(lease=timedelta(seconds=0.06), budget=LIMITS.budget, grace=LIMITS.grace)
    running = asyncio.create_task(drain(shop, limits))
    await asyncio.sleep(0.1)
    shop.blocker.set()
    await running

    assert len(shop.extended) >= 2
    assert all(sorted(tokens) == [0, 1] for tokens in shop.extended)


async def test_bug_in_one_item_does_not_affect_others():
    shop = Shop(10, slots=2)
    shop.due.appendleft(666)

    await drain(shop)

    assert sorted(shop.settled) == list(range(10))
    assert 666 not in shop.released


async def test_failed_claim_ends_drain_after_running_work():
    shop = Shop(4, slots=4)
    stage = shop.stage()
    first = stage.claim

    async def claim_once(limit, held):
        if not shop.due:
            raise Unavailable("unavailable", component="ledger")
        return await first(limit, held)

    object.__setattr__(stage, "claim", claim_once)

    with pytest.raises(Unavailable):
        await Drain(stage, LIMITS, asyncio.Event()).run()
    assert sorted(shop.settled) == [0, 1, 2, 3]


async def test_rejected_outcome_does_not_block_others():
    shop = Shop(10, slots=10)
    stage = shop.stage()

    async def settle(outcomes):
        if 4 in outcomes:
            raise Permanent("it does not fit")
        shop.settled += outcomes

    object.__setattr__(stage, "settle", settle)

    await Drain(stage, LIMITS, asyncio.Event()).run()

    assert sorted(shop.settled) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert 4 not in shop.released  # its claim expires, so that it is finally set aside


async def test_outcome_with_settlement_bug_does_not_block_others():
    shop = Shop(10, slots=10)
    stage = shop.stage()

    async def settle(outcomes):
        if 4 in outcomes:
            raise TypeError("unhashable type: 'dict'")
        shop.settled += outcomes

    object.__setattr__(stage, "settle", settle)

    assert not await Drain(stage, LIMITS, asyncio.Event()).run()

    assert sorted(shop.settled) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert (shop.released, shop.expired) == ([], [])  # its claim expires, so that it finally becomes poison


@guards(
    "shared/ingest/drain.py",
    "await self._stage.expire(leases)",
    "await self._stage.release(leases)",
    means="an item whose settlements fail is released as if its worker were sound",
)
async def test_failed_drain_counts_its_leases_as_lost():
    shop = Shop(100, slots=4)
    stage = shop.stage()

    async def settle(outcomes):
        raise ZeroDivisionError

    object.__setattr__(stage, "settle", settle)

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Drain(stage, LOGGING, asyncio.Event()).run(), timeout=TIMEOUT_SECONDS)
    assert shop.released == []
    assert shop.expired
    assert len(shop.due) > 50  # the drain stopped early, because its calls may cost money


async def test_occasional_settlement_errors_do_not_end_drain(monkeypatch):
    monkeypatch.setattr("shared.ingest.drain._MOST_RAISES", 2)
    shop = Shop(10, slots=4)
    stage = shop.stage()

    async def settle(outcomes):
        if any(outcome % 2 for outcome in outcomes):
            raise ZeroDivisionError
        shop.settled += outcomes

    object.__setattr__(stage, "settle", settle)
    object.__setattr__(stage, "slots", 1)

    assert not await asyncio.wait_for(Drain(stage, LIMITS, asyncio.Event()).run(), timeout=TIMEOUT_SECONDS)
    assert shop.settled == list(range(0, 10, 2))


async def test_extension_that_raises_is_retried_before_expiry():
    shop = Shop(2)
    raised = 0

    async def extend(leases):
        nonlocal raised
        if raised < 1:
            raised += 1
            raise ZeroDivisionError
        return LeaseExtension([lease.token for lease in leases])

    calls = await extending(shop, extend, lease=3.0, seconds=4.0)

    assert (raised, calls.lost) == (1, 0)


async def test_unanswered_extension_is_repeated_before_expiry(monkeypatch):
    monkeypatch.setattr("shared.ingest.drain._EXTEND_SECONDS", 0.1)
    shop = Shop(2)
    requests = 0

    async def extend(leases):
        nonlocal requests
        requests += 1
        if requests == 1:
            await asyncio.Event().wait()  # like a connection that never answers
        return LeaseExtension([lease.token for lease in leases])

    calls = await extending(shop, extend, lease=3, seconds=4)

    assert (requests > 1, calls.lost) == (True, 0)


async def test_oversized_group_is_settled_separately(monkeypatch):
    monkeypatch.setattr("shared.ingest.drain._LEDGER_PAUSE_SECONDS", 0.001)
    shop = Shop(12, slots=12)
    stage = shop.stage()

    async def settle(outcomes):
        if len(outcomes) > 3:
            raise Unavailable("it took too long", component="ledger")
        shop.settled += outcomes

    object.__setattr__(stage, "settle", settle)

    stopping = asyncio.Event()
    run = asyncio.create_task(Drain(stage, LIMITS, stopping).run())
    await asyncio.wait([run], timeout=30)
    stopping.set()
    await run

    assert sorted(shop.settled) == list(range(12))


async def test_near_simultaneous_outcomes_are_settled_together():
    shop = Shop(8, slots=9)
    shop.due.append(1000)  # so that work is always in progress
    stage = shop.stage()

    async def work(item, _):
        await asyncio.sleep(0.2 if item == 1000 else 0.001 * item)
        return item

    object.__setattr__(stage, "work", work)

    await Drain(stage, LIMITS, asyncio.Event()).run()

    assert len(shop.groups) <= 3  # nine if each were settled separately


async def test_last_outcome_is_settled_at_once(monkeypatch):
    monkeypatch.setattr("shared.ingest.drain._GATHER_SECONDS", 60)
    shop = Shop(1)

    await asyncio.wait_for(drain(shop), timeout=TIMEOUT_SECONDS)

    assert shop.settled == [0]


async def test_settlement_bug_ends_drain_instead_of_hanging():
    shop = Shop(100, slots=4)
    stage = shop.stage()

    async def settle(outcomes):
        raise ZeroDivisionError

    object.__setattr__(stage, "settle", settle)

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Drain(stage, LOGGING, asyncio.Event()).run(), timeout=TIMEOUT_SECONDS)


async def test_suspect_is_processed_without_other_items():
    shop = Shop(20, slots=4)
    shop.suspects.extend([100, 101, 102])
    concurrent = []

    async def work(item, _):
        shop.in_work += 1
        if item >= 100:
            concurrent.append(shop.in_work - 1)
        await asyncio.sleep(0.001)
        concurrent.extend([shop.in_work - 1] if item >= 100 else [])
        shop.in_work -= 1
        return item

    stage = shop.stage()
    object.__setattr__(stage, "work", work)

    assert not await Drain(stage, LIMITS, asyncio.Event()).run()

    assert concurrent == [0] * 6
    assert sorted(shop.settled) == [*range(20), 100, 101, 102]
    # One suspect comes first, the others after all other work.
    assert (shop.settled[0], sorted(shop.settled[-2:])) == (100, [101, 102])


async def test_items_claimed_during_commit_start_after_it():
    shop = Shop(8, slots=4)
    stage = shop.stage()
    committing, go_on = asyncio.Event(), asyncio.Event()

    async def settle(outcomes):
        committing.set()
        await go_on.wait()
        await shop.settle(outcomes)

    object.__setattr__(stage, "settle", settle)
    running = asyncio.create_task(Drain(stage, LIMITS, asyncio.Event()).run())
    await committing.wait()
    await asyncio.sleep(0.03)
    started, remaining = shop.started, len(shop.due)
    go_on.set()
    await running

    assert (started, remaining) == (4, 0)
    assert (sorted(shop.settled), shop.peak) == (list(range(8)), 4)


BRIEF = DrainLimits(lease=LIMITS.lease, budget=timedelta(seconds=0.05), grace=LIMITS.grace)


@guards(
    "shared/ingest/drain.py",
    "continues = more and not self._stopping.is_set()",
    "continues = False",
    means="a run of a drain waits for its slowest item",
)
async def test_next_run_does_not_wait_for_running_items():
    shop = Shop(4, slots=4)
    slow = asyncio.Event()

    async def work(item, _):
        if item == 0:
            await slow.wait()
        return item

    drain = Drain(replace(shop.stage(), work=work), BRIEF, asyncio.Event())
    running = asyncio.create_task(drain.run())
    while not running.done() and not drain.has_ended:
        await asyncio.sleep(0.01)
    assert not drain.has_ended
    assert await running
    assert (sorted(shop.settled), drain.in_work) == ([1, 2, 3], 1)

    shop.due.extend(range(4, 8))
    assert await asyncio.wait_for(drain.run(), timeout=TIMEOUT_SECONDS)
    assert (sorted(shop.settled), drain.in_work) == ([1, 2, 3, 4, 5, 6, 7], 1)

    slow.set()
    assert not await asyncio.wait_for(drain.run(), timeout=TIMEOUT_SECONDS)
    assert (sorted(shop.settled), drain.has_ended) == (list(range(8)), True)


async def test_running_items_keep_their_slots_in_next_run():
    shop = Shop(10, slots=4)
    shop.blocker = asyncio.Event()
    drain = Drain(shop.stage(), BRIEF, asyncio.Event())
    assert await drain.run()
    assert await drain.run()
    assert (shop.started, len(shop.due)) == (4, 6)

    shop.blocker.set()
    await drain.close()
    assert (len(shop.settled), shop.peak, drain.has_ended) == (4, 4, True)


async def test_close_after_stop_releases_unfinished_items():
    shop, stopping = Shop(2, slots=2), asyncio.Event()
    shop.blocker = asyncio.Event()
    drain = Drain(shop.stage(), BRIEF, stopping)
    assert await drain.run()
    stopping.set()
    await asyncio.wait_for(drain.close(), timeout=TIMEOUT_SECONDS)

    assert (sorted(shop.released), shop.expired, shop.settled) == ([0, 1], [], [])


async def test_suspect_waits_for_running_items():
    shop = Shop(1, slots=4)
    shop.blocker = asyncio.Event()
    polls = SuspectPolls()
    drain = Drain(shop.stage(), BRIEF, asyncio.Event(), polls)
    assert await drain.run()
    shop.suspects.append(100)
    shop.due.append(1)
    polls._next = 0  # as after a second
    running = asyncio.create_task(drain.run())
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while shop.suspects:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert (shop.started, len(shop.due)) == (1, 1)
        shop.blocker.set()
        await running
        await drain.close()
    assert (shop.settled[:2], shop.peak) == ([0, 100], 1)


async def test_failed_settlement_between_runs_ends_leases():
    shop = Shop(12, slots=12)
    shop.blocker = asyncio.Event()
    failed = asyncio.Event()

    async def settle(outcomes):
        if len(outcomes) == 1:
            failed.set()
        raise ZeroDivisionError

    polls = SuspectPolls()
    limits = DrainLimits(lease=timedelta(seconds=0.06), budget=BRIEF.budget, grace=BRIEF.grace)
    drain = Drain(replace(shop.stage(), settle=settle), limits, asyncio.Event(), polls)
    assert await drain.run()
    shop.blocker.set()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await failed.wait()
        while not drain._extending.done():
            await asyncio.sleep(0.01)
    shop.suspects.append(100)
    polls._next = 0

    with pytest.raises(ZeroDivisionError):
        await drain.run()

    assert list(shop.suspects) == [100]  # a suspect that is claimed now would lose another lease
    assert shop.expired
    assert drain.has_ended


async def test_claim_knows_items_of_each_tenant():
    shop = Shop(4, slots=4)
    shop.blocker = asyncio.Event()
    seen = []

    async def claim(limit, held):
        seen.append({tenant: count for tenant, count in held.items() if count})
        return await shop.claim(min(limit, 2), held)

    describe = {"describe": lambda item: {"tenant": "odd" if item % 2 else "even"}}
    drain = Drain(replace(shop.stage(), claim=claim, **describe), BRIEF, asyncio.Event())
    assert await drain.run()
    assert seen[:2] == [{}, {"even": 1, "odd": 1}]
    assert set(drain._tenants) == {"even", "odd"}

    shop.blocker.set()
    shop.due.clear()
    assert not await drain.run()
    assert (seen[-1], drain._tenants) == ({}, {})


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

    stage = replace(shop.stage(), claim=claim, settle=settle)

    assert not await asyncio.wait_for(Drain(stage, LIMITS, asyncio.Event()).run(), timeout=TIMEOUT_SECONDS)

    assert sorted(shop.settled) == [0, 1, 2, 3]


@guards(
    "shared/ingest/drain.py",
    "if self._stage.is_large(outcome)",
    "if False",
    means="the commit of a large document delays the others",
)
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

    stage = replace(shop.stage(), settle=settle, is_large=lambda outcome: outcome == 1000)

    more = await asyncio.wait_for(Drain(stage, LIMITS, asyncio.Event()).run(), timeout=TIMEOUT_SECONDS)

    assert not more
    assert (sorted(shop.settled[:8]), shop.settled[8:], shop.peak) == (list(range(8)), [1000], 4)


async def test_failure_of_large_commit_ends_drain():
    shop = Shop(100, slots=4)

    async def settle(outcomes):
        raise ZeroDivisionError

    stage = replace(shop.stage(), settle=settle, is_large=lambda _: True)

    before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Drain(stage, LOGGING, asyncio.Event()).run(), timeout=TIMEOUT_SECONDS)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while any("Drain." in repr(task) for task in asyncio.all_tasks() - before):  # no loop of the drain survives it
            await asyncio.sleep(0.01)


async def test_suspect_search_repeats_after_a_second(monkeypatch):
    polls = SuspectPolls()
    shop = Shop(4)

    await Drain(shop.stage(), LIMITS, asyncio.Event(), polls).run()
    shop.suspects.append(100)
    shop.due.append(4)
    await Drain(shop.stage(), LIMITS, asyncio.Event(), polls).run()
    assert (shop.polls, sorted(shop.settled)) == (1, [0, 1, 2, 3, 4])

    monkeypatch.setattr(polls, "_next", time.monotonic())
    await Drain(shop.stage(), LIMITS, asyncio.Event(), polls).run()
    assert (shop.polls, shop.settled[-1]) == (3, 100)


async def test_claim_older_than_lease_is_not_started():
    shop = Shop(4)
    stage = shop.stage()

    async def late_claim(limit, held):
        items = await shop.claim(limit, held)
        await asyncio.sleep(0.1)
        return items

    object.__setattr__(stage, "claim", late_claim)
    limits = DrainLimits(lease=timedelta(seconds=0.09), budget=timedelta(seconds=1), grace=timedelta())

    assert not await Drain(stage, limits, asyncio.Event()).run()
    assert (shop.settled, shop.released) == ([], [0, 1, 2, 3])


async def test_colliding_claims_are_retried():
    shop = Shop(20, slots=4)
    stage = shop.stage()
    collisions = 0

    async def claim(limit, held):
        nonlocal collisions
        if collisions < 6 and len(shop.due) <= 12:
            collisions += 1
            raise Collided("another claim", component="ledger")
        return await shop.claim(limit, held)

    object.__setattr__(stage, "claim", claim)

    assert not await Drain(stage, LIMITS, asyncio.Event()).run()
    assert (collisions, sorted(shop.settled)) == (6, list(range(20)))


async def test_claim_that_only_advances_rows_is_repeated():
    shop = Shop(3)
    stage = shop.stage()
    answers = [None, None]

    async def claim(limit, held):
        return answers.pop() if answers else await shop.claim(limit, held)

    object.__setattr__(stage, "claim", claim)

    assert not await Drain(stage, LIMITS, asyncio.Event()).run()
    assert sorted(shop.settled) == [0, 1, 2]


async def test_stop_ends_claims_that_only_advance_rows():
    stage = Shop(0).stage()
    stopping = asyncio.Event()

    async def claim(limit, held):
        await asyncio.sleep(0.001)

    object.__setattr__(stage, "claim", claim)
    running = asyncio.create_task(Drain(stage, LIMITS, stopping).run())
    await asyncio.sleep(0.02)
    stopping.set()

    assert await asyncio.wait_for(running, timeout=TIMEOUT_SECONDS)


class Calls:
    """Work that makes a paid call every few milliseconds while its lease permits."""

    def __init__(self, shop):
        self.shop = shop
        self.first = self.last = 0.0
        self.lost = 0

    async def work(self, item, require_lease):
        while not self.shop.blocker.is_set():
            try:
                require_lease()
            except LeaseLost:
                self.lost += 1
                return item
            self.last = time.monotonic()
            self.first = self.first or self.last
            await asyncio.sleep(0.005)
        return item


async def extending(shop, extend, lease, seconds):
    """Run a drain over the shop with `extend` as the extension of leases; return its calls."""
    shop.blocker = asyncio.Event()
    calls = Calls(shop)
    stage = shop.stage()
    object.__setattr__(stage, "work", calls.work)
    object.__setattr__(stage, "extend", extend)
    limits = DrainLimits(lease=timedelta(seconds=lease), budget=LIMITS.budget, grace=LIMITS.grace)
    running = asyncio.create_task(Drain(stage, limits, asyncio.Event()).run())
    await asyncio.sleep(seconds)
    shop.blocker.set()
    await running
    return calls


async def test_no_payment_after_possible_lease_expiry():

    async def unavailable(_):
        raise Unavailable("unavailable", component="ledger")

    calls = await extending(Shop(2), unavailable, lease=0.2, seconds=0.3)

    assert calls.lost == 2
    assert calls.last - calls.first < 0.25


async def test_no_payment_after_reported_lease_loss():
    async def lost(_):
        return LeaseExtension(())

    calls = await extending(Shop(2), lost, lease=0.3, seconds=0.2)

    assert calls.lost == 2


async def test_failed_extension_is_retried_before_expiry():
    shop = Shop(2)
    failures = 0

    async def extend(leases):
        nonlocal failures
        if failures < 1:
            failures += 1
            raise Unavailable("unavailable", component="ledger")
        return LeaseExtension([lease.token for lease in leases])

    calls = await extending(shop, extend, lease=1.2, seconds=1.6)

    assert (failures, calls.lost) == (1, 0)


async def test_extension_of_locked_rows_is_repeated_before_expiry():
    shop = Shop(2)
    answers = []

    async def extend(leases):
        tokens = [lease.token for lease in leases]
        answers.append(LeaseExtension(tokens[1:], locked=tokens[:1]) if not answers else LeaseExtension(tokens))
        return answers[-1]

    calls = await extending(shop, extend, lease=1.2, seconds=1.6)

    assert len(answers) > 1
    assert calls.lost == 0


@guards(
    "shared/ingest/drain.py",
    "if not tokens.isdisjoint(extension.locked):\n            return\n",
    "until += 60 * len(extension.locked)\n",
    "if tokens.isdisjoint(extension.extended) else",
    "if not tokens else",
    means="a lease whose row is locked counts as extended",
)
async def test_no_payment_under_lease_that_stays_locked():
    async def locked(leases):
        return LeaseExtension((), locked=[lease.token for lease in leases])

    calls = await extending(Shop(2), locked, lease=0.2, seconds=0.3)

    assert calls.lost == 2
