"""Ask: a model writes the questions that a chunk answers, and what was paid for is committed before anything else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from shared.broker.wakeups import Doorbell
from shared.domain import poison
from shared.domain.errors import ForeaskError
from shared.domain.outcomes import Failed, Paid
from shared.domain.records import PendingChunk
from shared.domain.retry import RetryPolicy, decide
from shared.ingest.drain import Stage
from shared.ingest.generate import BadQuestions, Subject, ask
from shared.ingest.generate.options import asking_options
from shared.ledger.work import Work
from shared.providers.chat import ChatModel, Usage
from shared.providers.limiter import LimitedChat, Limiter
from shared.settings import Settings


@dataclass(frozen=True, slots=True)
class Questioner:
    """What the stage needs."""

    settings: Settings
    work: Work
    model: ChatModel
    limiter: Limiter
    doorbell: Doorbell
    policy: RetryPolicy


def asking_stage(questioner: Questioner) -> Stage[PendingChunk, Paid | Failed]:
    work = questioner.work
    return Stage(
        name="ask",
        slots=questioner.settings.llm_max_in_flight,
        linger=timedelta(milliseconds=100),
        claim=partial(_claim, questioner),
        claim_suspect=partial(_claim, questioner, 1, suspects=True),
        work=partial(write_questions, questioner),
        settle=partial(_settle, questioner),
        leases_of=lambda chunk: [chunk.lease],
        extend=partial(work.extend, "chunks"),
        give_back=partial(work.give_back, "chunks"),
        full=lambda: questioner.doorbell.ring("ask"),
    )


async def _claim(questioner: Questioner, limit: int, *, suspects: bool = False) -> list[PendingChunk]:
    if await questioner.limiter.paused():
        return []
    limit = questioner.limiter.room(limit)
    while limit:
        claimed = await questioner.work.claim_pending(limit, suspects=suspects)
        if claimed.paid_already:
            questioner.doorbell.ring("index")
        if claimed.chunks or not claimed.paid_already:
            return claimed.chunks
    return []


async def write_questions(questioner: Questioner, chunk: PendingChunk) -> Paid | Failed:
    """Have a chunk's questions written."""
    options = asking_options(questioner.settings, chunk.options, questioner.model.name)
    subject = Subject(chunk.text, chunk.title, chunk.heading_path)
    try:
        poison.check(chunk.kills)
        asked = await ask(LimitedChat(questioner.model, questioner.limiter, chunk.tenant), subject, options)
    except ForeaskError as error:
        decision = decide(error, chunk.attempts, questioner.policy, random.random)
        usage, calls = (error.usage, error.calls) if isinstance(error, BadQuestions) else (Usage(), 0)
        return Failed(chunk.lease, decision, usage, calls)
    return Paid(chunk, questioner.model.name, asked.questions, asked.usage, asked.calls)


async def _settle(questioner: Questioner, outcomes: Sequence[Paid | Failed]) -> None:
    await questioner.work.settle_asked(outcomes)
    questioner.doorbell.ring("index")
