"""Generate: a model writes the questions that a chunk answers; the paid reply is committed before anything else."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from shared.broker.wakeups import Wakeups
from shared.domain import poison
from shared.domain.budgets import Reserve
from shared.domain.errors import ForeaskError
from shared.domain.outcomes import FailedAttempt, GenerateOutcome, generate_cost
from shared.domain.retry import Retry, RetryPolicy, decide
from shared.domain.usage import with_cost
from shared.domain.work import ChunkToGenerate
from shared.ingest.drain import Stage
from shared.ingest.generate import GenerationOptions, content_key, generate_questions, requests
from shared.ingest.generate.bills import highest_usage, may_be_billed
from shared.ingest.generate.paid_replies import PaidReplies
from shared.ingest.options import IngestDefaults
from shared.ledger.work.work import Work
from shared.providers.chat import ChatModel
from shared.providers.limiter.limiter import FLEX, INGEST, Limiter, MaxWait
from shared.providers.limiter.models import LimitedChat


@dataclass(frozen=True, slots=True)
class Generator:
    """The dependencies of the stage.

    Args:
        slots: maximum chunks in progress.
        defaults: default options of collections.
        model: the language model in the standard tier.
        flex: the same model in the tier flex, if the ingest uses this tier.
        flex_wait: time without any capacity in the tier flex after which calls are made in the standard tier; None:
            they wait.
    """

    slots: int
    defaults: IngestDefaults
    work: Work
    model: ChatModel
    limiter: Limiter
    wakeups: Wakeups
    policy: RetryPolicy
    flex: ChatModel | None = None
    flex_wait: timedelta | None = None

    def model_now(self) -> tuple[ChatModel, MaxWait]:
        """Return the model in the tier in which a call is made now, and the longest wait for its permit."""
        if self.flex is None or (self.flex_wait is not None and self.limiter.has_no_flex(self.flex_wait)):
            return self.model, INGEST
        return self.flex, FLEX


def generate_stage(generator: Generator) -> Stage[ChunkToGenerate, GenerateOutcome | FailedAttempt]:
    work = generator.work
    return Stage(
        name="generate",
        slots=generator.slots,
        linger=timedelta(milliseconds=100),
        claim=lambda limit, _: _claim(generator, limit),
        claim_suspect=partial(_claim, generator, 1, suspects=True),
        work=partial(generate, generator),
        settle=partial(_settle, generator),
        leases_of=lambda chunk: [chunk.lease],
        describe=_describe,
        traced=lambda chunk: {chunk.traceparent: _describe(chunk)} if chunk.traceparent else {},
        extend=partial(work.extend, "chunks"),
        release=lambda leases, called=(): work.release("chunks", leases, called=called),
        expire=partial(work.release, "chunks", lost=True),
        full=lambda: generator.wakeups.wake("generate"),
    )


def _describe(chunk: ChunkToGenerate) -> dict[str, str]:
    ids = {"chunk_id": str(chunk.lease.id), "document_id": str(chunk.document_id)}
    return ids | {"collection_id": str(chunk.collection_id), "tenant": chunk.tenant}


async def _claim(generator: Generator, limit: int, *, suspects: bool = False) -> list[ChunkToGenerate] | None:
    _, wait = generator.model_now()
    if await generator.limiter.paused(wait.kind):
        return []
    limit = generator.limiter.capacity(limit)
    if not limit:
        return []
    claimed = await generator.work.claim_to_generate(
        limit, key_of=partial(_key_of, generator), reserve_of=partial(_reserve_of, generator), suspects=suspects
    )
    if claimed.paid_already:
        generator.wakeups.wake("index")
    moved = claimed.paid_already or claimed.left or claimed.refused
    return claimed.chunks or (None if moved else [])


def _key_of(generator: Generator, chunk: ChunkToGenerate) -> bytes:
    """Return the key of the current request: prompt or model may have changed since the chunk was parsed."""
    return content_key(chunk.tenant, generator.model.name, chunk.content, _options(generator, chunk))


def _reserve_of(generator: Generator, chunk: ChunkToGenerate) -> Reserve:
    """Return the highest use of the first call for a chunk."""
    calls = [highest_usage(call) for call in requests(chunk.content, _options(generator, chunk))]
    return Reserve(generator.model.name, max(calls, key=lambda usage: usage.prompt_tokens))


def _options(generator: Generator, chunk: ChunkToGenerate) -> GenerationOptions:
    return generator.defaults.generation_of(chunk.options)


def _held() -> None:
    """No-op lease check for callers without a drain."""


async def generate(
    generator: Generator, chunk: ChunkToGenerate, require_lease: Callable[[], None] = _held
) -> GenerateOutcome | FailedAttempt:
    """Generate a chunk's questions; `require_lease` ends the attempt before a call whose lease may have expired."""
    chat, wait = generator.model_now()
    model = LimitedChat(chat, generator.limiter, chunk.tenant, wait, before_call=require_lease)
    paid = PaidReplies(model, chunk, partial(generator.work.keep_replies, chunk))
    try:
        poison.check(chunk.lost_leases)
        generated = await generate_questions(paid, chunk.content, _options(generator, chunk), chunk.picture)
    except ForeaskError as error:
        decision = decide(error, chunk.attempts, generator.policy, random.random)
        cost = generate_cost(chunk, generator.model.name, paid.usage, paid.calls, paid.tier)
        return FailedAttempt(
            chunk.lease,
            decision,
            paid.usage,
            paid.calls,
            chunk.content_key,
            chunk.tenant,
            paid.replies,
            cost,
            is_bill_incomplete=may_be_billed(error),
            by_tier=with_cost(chunk.by_tier, cost),
        )
    return GenerateOutcome(
        chunk, generator.model.name, generated.questions, paid.usage, paid.calls, paid.tier, generated.text
    )


async def _settle(generator: Generator, outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> None:
    await generator.work.settle_generated(outcomes)
    if not all(map(_is_repeated, outcomes)):
        generator.wakeups.wake("index")


def _is_repeated(outcome: GenerateOutcome | FailedAttempt) -> bool:
    """Return whether nothing is to be indexed. Many calls in the tier flex may be refused each second."""
    return isinstance(outcome, FailedAttempt) and isinstance(outcome.decision, Retry)
