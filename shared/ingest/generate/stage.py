"""Generate: a model writes the questions that a chunk answers; the paid reply is committed before anything else."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from shared.broker.wakeups import Wakeups
from shared.domain.errors import ForeaskError
from shared.domain.retry import Retry, RetryPolicy, decide
from shared.domain.spending.budgets import Reserve
from shared.domain.spending.usage import with_cost
from shared.domain.stages import poison
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.generation import ChunkToGenerate, GenerateOutcome, generate_cost
from shared.domain.stages.work import Lease, LeaseExtension
from shared.ingest.drain import Stage
from shared.ingest.faults import Fault, failure_of
from shared.ingest.generate.bills import BilledChat, ChunkBill, highest_usage
from shared.ingest.generate.generator import content_key, generate_questions, requests
from shared.ingest.generate.paid_replies import PaidReplies
from shared.ingest.generate.types import BadQuestions, GenerationOptions
from shared.ingest.options import IngestDefaults
from shared.ledger.work.generation import GenerateWork
from shared.providers.chat import ChatModel
from shared.providers.limiter.endings import USABLE
from shared.providers.limiter.limited_chat import LimitedChat
from shared.providers.limiter.limiter import FLEX, INGEST, Limiter, MaxWait


def _held() -> None:
    """No-op lease check for callers without a drain."""


@dataclass(eq=False)
class GenerateStage(Stage[ChunkToGenerate, GenerateOutcome | FailedAttempt]):
    """The stage of a generate worker.

    Args:
        slots: maximum chunks in progress.
        defaults: default options of collections.
        work: the ledger's claims and settlements.
        model: the language model in the standard tier.
        limiter: limiter of its provider.
        wakeups: wakes index workers.
        policy: policy of retries.
        flex: the same model in the tier flex, if the ingest uses this tier.
        flex_wait: time without any capacity in the tier flex after which calls are made in the standard tier; None:
            they wait.
    """

    name = "generate"
    linger = timedelta(milliseconds=100)
    claims_ahead = True

    slots: int
    defaults: IngestDefaults
    work: GenerateWork
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

    async def claim(self, limit: int, held: Mapping[str, int]) -> list[ChunkToGenerate] | None:
        del held
        return await self._claim(limit)

    async def claim_suspect(self) -> list[ChunkToGenerate] | None:
        return await self._claim(1, suspects=True)

    async def _claim(self, limit: int, *, suspects: bool = False) -> list[ChunkToGenerate] | None:
        _, wait = self.model_now()
        if await self.limiter.paused(wait.kind):
            return []
        limit = self.limiter.capacity(limit)
        if not limit:
            return []
        endings = self.limiter.endings
        claimed = await self.work.claim(
            limit, key_of=self._key_of, reserve_of=self._reserve_of, suspects=suspects, bounds=await endings.bounds()
        )
        await endings.claimed((chunk.tenant, chunk.lease.token) for chunk in claimed.chunks)
        if claimed.paid_already:
            self.wakeups.wake("index")
        moved = claimed.paid_already or claimed.left or claimed.refused
        return claimed.chunks or (None if moved else [])

    def _key_of(self, chunk: ChunkToGenerate) -> bytes:
        """Return the key of the current request: prompt or model may have changed since the chunk was parsed."""
        return content_key(chunk.tenant, self.model.name, chunk.content, self._options(chunk))

    def _reserve_of(self, chunk: ChunkToGenerate) -> Reserve:
        """Return the highest use of the first call for a chunk."""
        calls = [highest_usage(call) for call in requests(chunk.content, self._options(chunk))]
        return Reserve(self.model.name, max(calls, key=lambda usage: usage.prompt_tokens))

    def _options(self, chunk: ChunkToGenerate) -> GenerationOptions:
        return self.defaults.generation_of(chunk.options)

    async def process(
        self, chunk: ChunkToGenerate, require_lease: Callable[[], None] = _held
    ) -> GenerateOutcome | FailedAttempt:
        """Generate a chunk's questions; `require_lease` ends the attempt before a call whose lease may have expired."""
        chat, wait = self.model_now()
        bill = ChunkBill(chunk.usage, chunk.calls)
        endings = self.limiter.endings

        def before_call() -> None:
            require_lease()
            endings.require(chunk.tenant, chunk.lease.token)

        billed = BilledChat(chat, bill)
        model = LimitedChat(billed, self.limiter, chunk.tenant, wait, before_call=before_call, neutral=chat)
        paid = PaidReplies(model, chunk, bill, partial(self.work.keep_replies, chunk))
        try:
            poison.check(chunk.lost_leases)
            generated = await generate_questions(paid, chunk.content, self._options(chunk), chunk.picture)
        except Exception as raised:  # noqa: BLE001 - a bug costs one attempt of one chunk, with the calls that it has paid
            error = failure_of(raised)
            await endings.record(chunk.tenant, chunk.lease.token, _endings(error, bill))
            decision = decide(error, chunk.attempts, self.policy, random.random)
            cost = generate_cost(
                chunk, self.model.name, bill.usage, bill.calls, bill.tier, is_estimated=bill.is_estimated
            )
            return FailedAttempt(
                chunk.lease,
                decision,
                bill.usage,
                bill.calls,
                chunk.content_key,
                chunk.tenant,
                paid.replies,
                cost,
                by_tier=with_cost(chunk.by_tier, cost),
            )
        of_calls = [*generated.faults, USABLE]
        await endings.record(chunk.tenant, chunk.lease.token, of_calls[len(of_calls) - len(bill.endings) :])
        return GenerateOutcome(
            chunk,
            self.model.name,
            generated.questions,
            bill.usage,
            bill.calls,
            bill.tier,
            generated.text,
            generated.context,
            is_estimated=bill.is_estimated,
        )

    async def settle(self, outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> None:
        await self.work.settle(outcomes)
        if not all(map(_is_repeated, outcomes)):
            self.wakeups.wake("index")

    def leases_of(self, chunk: ChunkToGenerate) -> list[Lease]:
        return [chunk.lease]

    def describe(self, chunk: ChunkToGenerate) -> dict[str, str]:
        ids = {"chunk_id": str(chunk.lease.id), "document_id": str(chunk.document_id)}
        return ids | {"collection_id": str(chunk.collection_id), "tenant": chunk.tenant}

    def traced(self, chunk: ChunkToGenerate) -> dict[str, dict[str, str]]:
        return {chunk.traceparent: self.describe(chunk)} if chunk.traceparent else {}

    async def extend(self, leases: Sequence[Lease]) -> LeaseExtension:
        return await self.work.extend(leases)

    async def release(self, leases: Sequence[Lease], called: Sequence[Lease] = ()) -> None:
        await self.work.release(leases, called=called)

    async def expire(self, leases: Sequence[Lease]) -> None:
        await self.work.release(leases, lost=True)

    def full(self) -> None:
        self.wakeups.wake("generate")


def _endings(error: ForeaskError, bill: ChunkBill) -> Sequence[str]:
    """Return the endings of a failed attempt's calls; the faults of readable replies are known to their reader only."""
    if isinstance(error, BadQuestions):
        return error.faults[len(error.faults) - len(bill.endings) :]
    endings = [ending for ending in bill.endings if ending != USABLE]
    return [*endings, error.message] if isinstance(error, Fault) else endings


def _is_repeated(outcome: GenerateOutcome | FailedAttempt) -> bool:
    """Return whether nothing is to be indexed. Many calls in the tier flex may be refused each second."""
    return isinstance(outcome, FailedAttempt) and isinstance(outcome.decision, Retry)
