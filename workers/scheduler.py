"""The scheduler: it wakes workers for whatever is due, so that a lost wake-up or a dead worker costs seconds.

It also cleans up. Each of its steps is a loop of its own, so that none waits for another one: a Qdrant or a network
file system that hangs ends no wake-ups. Of several schedulers one works at a time.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from shared.domain.errors import ForeaskError
from shared.domain.queues import WORK_QUEUES
from shared.ledger.postgres.election import LEASE
from shared.process import metrics
from shared.services import build
from shared.services.scheduler import SchedulerServices
from shared.services.start import begin
from shared.settings import Settings

_TIDY_EVERY = timedelta(hours=1)
_FOLD_EVERY = timedelta(seconds=10)
_NUDGE_EVERY = timedelta(minutes=1)
_SURVEY_EVERY = timedelta(seconds=15)  # as often as Prometheus looks, by most configurations
_FORGET_ATTEMPTS_AFTER = timedelta(hours=1)  # a settlement is repeated within seconds
_FORGET_REPLIES_AFTER = timedelta(days=7)
_FORGET_DELIVERIES_AFTER = timedelta(days=30)  # of webhooks: an owner may look at them, and send them again
_EXTEND_EVERY = LEASE / 5
_GIVE_UP_SECONDS = 2
_LONGEST_PAUSE = timedelta(seconds=30)  # after failures
_REST = 4  # a step that found no more rests for so many times as long as it worked

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is done again and again.

    Args:
        name: for the log.
        every: the pause after a round that found no more.
        work: does some of it, and returns true where more may wait. It may be cancelled, and done by two at once.
    """

    name: str
    every: timedelta
    work: Callable[[], Awaitable[object]]


async def run(settings: Settings) -> None:
    """Wake and clean until the process is asked to end.

    Raises:
        InvalidInput: a setting that the scheduler needs is missing, or the ledger's schema is not this code's.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with build("scheduler", settings) as services:
        await begin(settings, "scheduler")
        beating = services.ledger.heartbeats.beating("scheduler", lambda: 0)
        async with metrics.serving(settings, "scheduler"), beating:
            await work_while_elected(services, steps_of(services), stopping)


def steps_of(services: SchedulerServices) -> list[Step]:
    """Return what a scheduler does. A step begins when the scheduler is elected."""
    settings, cleaner, ledger = services.settings, services.cleaner, services.ledger
    every = settings.tuning.reconcile_every
    return [
        Step("wake", every, partial(wake, services)),
        *(Step(name, every, work) for name, work in cleaner.steps.items()),
        Step("reindex", every, ledger.documents.continue_reindex),
        Step("fill", every, ledger.builds.fill),
        Step("deliver", every, services.deliverer.deliver),
        Step("nudge", _NUDGE_EVERY, cleaner.nudge_optimizers),
        Step("forget_queries", _TIDY_EVERY, partial(forget_queries, services)),
        Step("forget_replies", _TIDY_EVERY, partial(ledger.work.forget_replies, _FORGET_REPLIES_AFTER)),
        Step("forget_completions", _TIDY_EVERY, partial(forget_completions, services)),
        Step("fold_tallies", _FOLD_EVERY, ledger.counters.fold),
        Step("fold_costs", _FOLD_EVERY, ledger.costs.fold),
        Step("forget_minutes", _TIDY_EVERY, ledger.counters.forget_minutes),
        Step("forget_attempts", _TIDY_EVERY, partial(ledger.costs.forget, _FORGET_ATTEMPTS_AFTER)),
        Step("forget_deliveries", _TIDY_EVERY, partial(ledger.webhooks.forget, _FORGET_DELIVERIES_AFTER)),
        Step("forget_workers", _TIDY_EVERY, ledger.heartbeats.forget),
        Step("tidy_uploads", _TIDY_EVERY, partial(tidy_uploads, services)),
        *([] if settings.metrics_port is None else [Step("survey", _SURVEY_EVERY, partial(survey, services))]),
    ]


async def wake(services: SchedulerServices) -> None:
    """Wake a worker of every queue on which something is due.

    Raises:
        Unavailable: the ledger cannot be reached.
    """
    for queue in await services.ledger.work.due():
        services.wakeups.wake(queue)
    if services.settings.calibrate and await services.ledger.calibrations.due():
        services.wakeups.wake("calibrate")


async def survey(services: SchedulerServices) -> None:
    """Show how much work the whole deployment has."""
    found = await services.ledger.backlogs.survey()
    for (kind, state), rows in found.rows.items():
        metrics.ROWS.labels(kind, state).set(rows)
    for stage in WORK_QUEUES:
        for lane in (0, 1):
            age = found.oldest.get((stage, lane), timedelta())
            metrics.OLDEST_SECONDS.labels(stage, lane).set(age.total_seconds())


async def forget_queries(services: SchedulerServices) -> bool:
    """Delete some of users' questions whose retention is over; return whether more may wait."""
    return await services.ledger.query_log.purge(timedelta(days=services.settings.query_retention_days))


async def forget_completions(services: SchedulerServices) -> bool:
    """Delete some paid questions that no chunk has needed for their retention; return whether more may wait."""
    return await services.ledger.completions.forget(timedelta(days=services.settings.completion_retention_days))


async def tidy_uploads(services: SchedulerServices) -> None:
    """Delete uploads that a crash left without a document."""
    await services.orphans.tidy()


async def work_while_elected(services: SchedulerServices, steps: Iterable[Step], stopping: asyncio.Event) -> None:
    """Repeat the steps whenever this scheduler is the elected one."""
    steps, tasks = list(steps), list[asyncio.Task[None]]()
    try:
        while not stopping.is_set():
            elected = await _elected(services, before=bool(tasks))
            metrics.ELECTED.set(elected)
            if elected and not tasks:
                log.info("scheduler.elected")
                tasks = [asyncio.create_task(repeat(step, stopping), name=step.name) for step in steps]
            elif tasks and not elected:
                log.warning("scheduler.replaced")
                tasks = await _ended(tasks)
                _show_nothing()
            await _pause(stopping, _EXTEND_EVERY.total_seconds())
    finally:
        await _ended(tasks)
        with suppress(ForeaskError, TimeoutError):  # a ledger that is away holds up no end: the lease ends by itself
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                await services.election.give_up()


def _show_nothing() -> None:
    """Leave the numbers of the deployment to the scheduler that is elected now: old ones would be added to them."""
    metrics.ROWS.clear()
    metrics.OLDEST_SECONDS.clear()


async def _elected(services: SchedulerServices, *, before: bool) -> bool:
    """Whether this scheduler may work. While the ledger is away nobody else can be elected: all stays as it was."""
    try:
        return await services.election.take()
    except ForeaskError as error:
        log.warning("election.failed", reason=str(error))
        return before


async def repeat(step: Step, stopping: asyncio.Event) -> None:
    """Do a step again and again; where it fails, the next time makes up for it.

    While it is full it works for half of the time; else it rests for longer.
    """
    failures = 0
    while not stopping.is_set():
        began = time.monotonic()
        try:
            full = await step.work()
        except Exception as error:  # whatever it is, the step is needed again
            failures += 1
            pause = _after(failures, step.every)
            known = isinstance(error, (ForeaskError, OSError))
            log.warning("step.failed", step=step.name, reason=str(error), again_in_seconds=pause, exc_info=not known)
        else:
            failures, took = 0, time.monotonic() - began
            pause = took if full is True else max(step.every.total_seconds(), _REST * took)
        await _pause(stopping, pause)


def _after(failures: int, every: timedelta) -> float:
    """The seconds of the pause after so many failures, one after the other."""
    doubled = every * (1 << min(failures - 1, 10))
    return max(every, min(doubled, _LONGEST_PAUSE)).total_seconds()


async def _ended(tasks: Iterable[asyncio.Task[None]]) -> list[asyncio.Task[None]]:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return []


async def _pause(stopping: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stopping.wait(), timeout=seconds)
    except TimeoutError:
        return
