"""The scheduler wakes workers for due work, so that a lost wake-up or a dead worker costs seconds.

It also cleans up. Each step runs in a separate loop, so that no step waits for another: a hanging Qdrant or network
file system does not stop wake-ups. One statement finds the steps that may have work; only these run. If there are
several schedulers, only one works at a time.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

import structlog

from features.all import FEATURES
from shared.domain.errors import ForeaskError
from shared.domain.jobs import JOBS_OF_PARSERS
from shared.domain.lanes import Lane
from shared.domain.queues import WORK_QUEUES
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.builds.builds import Builds
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.documents.completions import Completions
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.page_texts import PageTexts
from shared.ledger.feedback.query_log import QueryLog
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.counters import Counters
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.election import LEASE
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.batches import Batches
from shared.ledger.work.costs import Costs
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.pages import Pages
from shared.ledger.work.polls import SQL, Poll
from shared.process import gc
from shared.process.telemetry import metrics
from shared.services import build
from shared.services.features import Step
from shared.services.scheduler import SchedulerServices
from shared.services.start import check_start
from shared.settings import Settings

_TIDY_EVERY = timedelta(hours=1)
_FOLD_EVERY = timedelta(seconds=10)
_NUDGE_EVERY = timedelta(minutes=1)
_RECHECK_EVERY = timedelta(minutes=1)
_SURVEY_EVERY = timedelta(seconds=15)  # the usual scrape interval of Prometheus
_FORGET_ATTEMPTS_AFTER = timedelta(hours=1)  # a settlement is repeated within seconds
_FORGET_REPLIES_AFTER = timedelta(days=7)
_FORGET_BATCHES_AFTER = timedelta(days=30)
_EXTEND_EVERY = LEASE / 5
_GIVE_UP_SECONDS = 2
_LONGEST_PAUSE = timedelta(seconds=30)  # after failures
_APART_SECONDS = 0.05  # between the first runs of two steps
_REST = 4  # pause of an idle step as a multiple of its working time

NO_READER = (
    "Its pages wait, because no read worker with OCR is running. Install the extra ocr and Tesseract's language data,"
    " remove FOREASK_OCR=off, and start `foreask worker read`."
)
log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Run the steps until the process is asked to stop.

    Raises:
        InvalidInput: a setting required by the scheduler is missing, or this code cannot run on the ledger's schema.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with build("scheduler", settings, FEATURES) as services:
        await check_start(settings, "scheduler")
        gc.freeze()
        beating = services.ledger[Heartbeats].beating("scheduler", lambda: 0)
        async with metrics.serving("scheduler", settings.metrics_host, settings.metrics_port), beating:
            await work_while_elected(services, steps_of(services), stopping)


def steps_of(services: SchedulerServices) -> list[Step]:
    """Return the scheduler's steps. A step starts when the scheduler is elected."""
    settings, cleaner, ledger = services.settings, services.cleaner, services.ledger
    every = settings.tuning.reconcile_interval
    return [
        Step("wake", every, partial(wake, services)),
        Step("wake_calibrations", every, partial(wake_calibrations, services), SQL.wake_calibrations),
        Step("wake_jobs", every, partial(wake_jobs, services), SQL.wake_jobs),
        Step("wake_batches", every, partial(wake_batches, services), SQL.wake_batches),
        *(Step(name, every, work, getattr(SQL, name)) for name, work in cleaner.steps.items()),
        Step("reindex", every, ledger[Documents].continue_reindex, SQL.reindex),
        Step("jobs", every, ledger[Jobs].settle, SQL.jobs),
        Step("forget_jobs", _TIDY_EVERY, partial(forget_jobs, services)),
        Step("fill", every, ledger[Builds].fill, SQL.fill),
        Step("yield_batches", every, ledger[Batches].yield_to_uploads, SQL.yield_batches),
        Step("forget_batches", _TIDY_EVERY, partial(ledger[Batches].forget, _FORGET_BATCHES_AFTER)),
        Step("nudge", _NUDGE_EVERY, cleaner.nudge_optimizers),
        Step("book_lost_calls", every, ledger[Budgets].book_lost, SQL.book_lost_calls),
        Step("follow_settings", _NUDGE_EVERY, ledger[Budgets].follow_settings),
        Step("forget_calls", _TIDY_EVERY, ledger[Budgets].forget),
        Step("forget_queries", _TIDY_EVERY, partial(forget_queries, services)),
        Step("forget_replies", _TIDY_EVERY, partial(ledger[GenerateWork].forget_replies, _FORGET_REPLIES_AFTER)),
        Step("forget_completions", _TIDY_EVERY, partial(forget_completions, services)),
        Step("forget_page_texts", _TIDY_EVERY, partial(forget_page_texts, services)),
        Step("forget_page_days", _TIDY_EVERY, ledger[Pages].forget_days),
        Step("readmit_pages", _RECHECK_EVERY, ledger[Pages].readmit),
        Step("explain_waiting_pages", _RECHECK_EVERY, partial(explain_waiting_pages, services)),
        Step("fold_tallies", _FOLD_EVERY, ledger[Counters].fold, SQL.fold_tallies),
        Step("fold_costs", _FOLD_EVERY, ledger[Costs].fold, SQL.fold_costs),
        Step("forget_minutes", _TIDY_EVERY, ledger[Counters].forget_minutes),
        Step("forget_attempts", _TIDY_EVERY, partial(ledger[Costs].forget, _FORGET_ATTEMPTS_AFTER)),
        Step("forget_workers", _TIDY_EVERY, ledger[Heartbeats].forget),
        Step("tidy_uploads", _TIDY_EVERY, partial(tidy_uploads, services)),
        *services.feature_steps,
        Step("count_wanted", _SURVEY_EVERY, partial(count_wanted, services)),
        *([] if settings.metrics_port is None else [Step("survey", _SURVEY_EVERY, partial(survey, services))]),
    ]


async def wake(services: SchedulerServices) -> None:
    """Wake a worker of every stage with due work.

    Raises:
        Unavailable: the ledger cannot be reached.
    """
    services.wakeups.wake(*await services.ledger[Backlogs].due())


async def wake_batches(services: SchedulerServices) -> None:
    """Wake a worker for due batches."""
    if await services.ledger[Batches].due():
        services.wakeups.wake("batches")


async def wake_calibrations(services: SchedulerServices) -> None:
    """Wake a worker for due calibrations."""
    if services.settings.calibrate and await services.ledger[Calibrations].due():
        services.wakeups.wake("calibrate")


async def wake_jobs(services: SchedulerServices) -> None:
    """Wake a worker of each queue with due jobs."""
    due = await services.ledger[JobClaims].due()
    services.wakeups.wake(*{"syncs" if kind in JOBS_OF_PARSERS else "runs" for kind in due})


async def survey(services: SchedulerServices) -> None:
    """Export the amount of open work, and the number of exhausted budgets, of all tenants."""
    found = await services.ledger[Backlogs].survey()
    for (kind, state), rows in found.rows.items():
        metrics.ROWS.labels(kind, state).set(rows)
    for stage in WORK_QUEUES:
        for lane in Lane:
            age = found.oldest.get((stage, lane), timedelta())
            metrics.OLDEST_SECONDS.labels(stage, lane.value).set(age.total_seconds())
    for period, (budgets, exhausted) in (await services.ledger[Budgets].count()).items():
        metrics.BUDGETS.labels(period, "open").set(budgets - exhausted)
        metrics.BUDGETS.labels(period, "exhausted").set(exhausted)


async def count_wanted(services: SchedulerServices) -> None:
    """Compute, store and export the number of workers that each stage can use."""
    wanted = await services.wanted.update()
    for stage in WORK_QUEUES:
        metrics.WORKERS_WANTED.labels(stage).set(wanted.get(stage, 0))


async def forget_queries(services: SchedulerServices) -> bool:
    """Delete some users' questions whose retention is over; return whether more may be left."""
    return await services.ledger[QueryLog].purge(timedelta(days=services.settings.query_retention_days))


async def forget_completions(services: SchedulerServices) -> bool:
    """Delete some paid questions that no chunk has needed for their retention; return whether more may wait."""
    return await services.ledger[Completions].forget(timedelta(days=services.settings.completion_retention_days))


async def forget_page_texts(services: SchedulerServices) -> bool:
    """Delete some texts of pages, which are retained like paid questions; return whether more may wait."""
    return await services.ledger[PageTexts].forget(timedelta(days=services.settings.completion_retention_days))


async def explain_waiting_pages(services: SchedulerServices) -> bool:
    """Record in documents with waiting pages that no read worker is alive; return whether more are left.

    The pages remain in the queue: they are read when a worker has started, and a worker may be started only at night.
    """
    pages = services.ledger[Pages]
    if await services.ledger[Heartbeats].beats("read"):
        return await pages.withdraw(NO_READER)
    if explained := await pages.explain(NO_READER):
        log.warning("pages.unclaimed", documents=explained, reason=NO_READER)
    return explained > 0


async def forget_jobs(services: SchedulerServices) -> bool:
    """Delete some jobs whose retention is over; return whether more may be left."""
    return await services.ledger[Jobs].forget(timedelta(days=services.settings.job_retention_days))


async def tidy_uploads(services: SchedulerServices) -> None:
    """Delete uploads without a document, which remain after crashes."""
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
                tasks = _repeated(services, steps, stopping)
            elif tasks and not elected:
                log.warning("scheduler.replaced")
                tasks = await _ended(tasks)
                _show_nothing()
            await _pause(stopping, _EXTEND_EVERY.total_seconds())
    finally:
        await _ended(tasks)
        # do not block shutdown if the ledger is unavailable: the lease expires
        with suppress(ForeaskError, TimeoutError):
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                await services.election.resign()


def _repeated(services: SchedulerServices, steps: Sequence[Step], stopping: asyncio.Event) -> list[asyncio.Task[None]]:
    """Start the steps, and first the poll that finds those with a condition that may have work."""
    conditions = {step.name: step.only_if for step in steps if step.only_if is not None}
    due = {name: asyncio.Event() for name in conditions}
    if conditions:
        poll = partial(_poll, services.database, Poll(conditions), due)
        steps = [Step("poll", services.settings.tuning.reconcile_interval, poll), *steps]
    return [
        asyncio.create_task(repeat(step, stopping, number * _APART_SECONDS, due.get(step.name)), name=step.name)
        for number, step in enumerate(steps)
    ]


async def _poll(database: Database, poll: Poll, due: Mapping[str, asyncio.Event]) -> None:
    """Start the steps that may have work; if that is unknown, all, so that one condition in error stops no step."""
    found: Collection[str] = due
    try:
        found = await poll.due(database)
    finally:
        for name in found:
            due[name].set()


def _show_nothing() -> None:
    """Remove the deployment's numbers, which the newly elected scheduler exports now."""
    metrics.ROWS.clear()
    metrics.OLDEST_SECONDS.clear()
    metrics.WORKERS_WANTED.clear()
    metrics.BUDGETS.clear()


async def _elected(services: SchedulerServices, *, before: bool) -> bool:
    """Return whether this scheduler may work.

    While the ledger is unavailable, no other scheduler can be elected, so the last result stays valid.
    """
    try:
        return await services.election.take()
    except ForeaskError as error:
        log.warning("election.failed", reason=str(error))
        return before


async def repeat(
    step: Step, stopping: asyncio.Event, first_pause_seconds: float = 0.0, due: asyncio.Event | None = None
) -> None:
    """Repeat a step; after a failure, the next run catches up.

    While more work is left, it pauses as long as it works; otherwise it pauses longer. Steps that start together would
    poll together for ever: each would need a connection of its own to the ledger, which plans its statements again.

    Args:
        step: the step.
        stopping: ends the repetition.
        first_pause_seconds: pause before the first run.
        due: set by a poll when the step may have work; the step waits for it unless its last run failed or left work.
    """
    failures, waits = 0, due is not None
    await _pause(stopping, first_pause_seconds)
    while not stopping.is_set():
        if due is not None:
            if waits:
                await due.wait()
            due.clear()
        started = time.monotonic()
        try:
            full = await step.work()
        except Exception as error:  # the step must continue after any error
            failures, waits = failures + 1, False
            pause = _after(failures, step.every)
            expected = isinstance(error, (ForeaskError, OSError))
            log.warning("step.failed", step=step.name, reason=str(error), again_in_seconds=pause, exc_info=not expected)
        else:
            failures, waits, took = 0, full is not True, time.monotonic() - started
            pause = took if full is True else max(step.every.total_seconds(), _REST * took)
        await _pause(stopping, pause)


def _after(failures: int, every: timedelta) -> float:
    """Return the pause in seconds after this many consecutive failures."""
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
