"""The lines of a batch: from chunks to requests, and from replies to outcomes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import orjson

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import ForeaskError, Misconfigured, Refused, Transient, UnusableReply
from shared.domain.retry import Dead, Decision, Retry
from shared.domain.spending.budgets import Reserve
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage, with_cost
from shared.domain.stages.attempts import FailedAttempt, PaidReply
from shared.domain.stages.batches import Batch, LineContent, PlannedLine
from shared.domain.stages.generation import ChunkToGenerate, GenerateOutcome, SentLine, generate_cost
from shared.ingest.faults import failure_of
from shared.ingest.generate import question_list
from shared.ingest.generate.bills import highest_usage
from shared.ingest.generate.generator import content_key, key_of, requests
from shared.ingest.generate.replies import context_in, storable
from shared.ingest.options import IngestDefaults
from shared.providers.adapt import ModelQuirks
from shared.providers.batches import BatchReply, NotDone, request_line
from shared.providers.chat import ChatRequest, Completion
from shared.providers.limiter.judge import is_doubtful
from shared.providers.replies.estimates import BYTES_PER_TOKEN
from shared.providers.replies.json_replies import MalformedReply

# The widest `custom_id`: the planned size of a line does not depend on its token.
_WIDEST = "0" * 19


@dataclass(frozen=True, slots=True)
class Lines:
    """Converts between chunks, lines and outcomes.

    Args:
        model: the model of all lines.
        defaults: default options of collections.
        quirks: the optional fields that the model has refused.
    """

    model: str
    defaults: IngestDefaults
    quirks: ModelQuirks

    def key_of(self, chunk: ChunkToGenerate) -> bytes:
        """Return the content key of a chunk's current request."""
        return content_key(chunk.tenant, self.model, chunk.content, self.defaults.generation_of(chunk.options))

    def reserve_of(self, chunk: ChunkToGenerate) -> Reserve:
        """Return the highest use of a chunk's line: the same as of its live call."""
        (call,) = requests(chunk.content, self.defaults.generation_of(chunk.options))
        return Reserve(self.model, highest_usage(call))

    def planned(self, chunk: ChunkToGenerate) -> PlannedLine:
        """Return the line of a claimed chunk."""
        options = self.defaults.generation_of(chunk.options)
        (call,) = requests(chunk.content, options)
        return PlannedLine(
            chunk.lease,
            chunk.document_id,
            chunk.collection_id,
            chunk.content_key,
            options.count_for(chunk.content),
            options.writes_context(chunk.content),
            len(request_line(_WIDEST, call.body(self.model))),
        )

    def rendered(self, tenant: str, line: LineContent) -> bytes | None:
        """Return a line of the input file; None if the chunk, its prompt or its lease has changed."""
        call = self._request(tenant, line)
        return None if call is None else request_line(str(line.token), self.quirks.adapted(call.body(self.model)))

    def learn(self, refusals: Sequence[BatchReply]) -> bool:
        """Omit a field from later lines if all refusals name the same one; return whether they do."""
        sample, *_ = requests(ChunkContent.whole("A text."), self.defaults.generation)
        sent = self.quirks.adapted(sample.body(self.model))
        steps = {self.quirks.next_step(reply.status, reply.body, sent) for reply in refusals}
        step = steps.pop() if len(steps) == 1 else None
        if step is not None:
            self.quirks.learn({step: None}, model=self.model)
        return step is not None

    def _request(self, tenant: str, line: LineContent) -> ChatRequest | None:
        """Return the request that was planned, if it is still the request for this content."""
        if line.content is None or line.options is None:
            return None
        options = self.defaults.generation_of(line.options)
        calls = requests(line.content, options)
        key = key_of(tenant, self.model, line.content, options, calls)
        return calls[0] if key == line.content_key else None

    def paid_reply(self, tenant: str, line: LineContent | None, completion: Completion) -> PaidReply | None:
        """Return a useless reply as the first of the replies with which a live call continues.

        None if the request has changed since: its reply is of no use.
        """
        call = None if line is None else self._request(tenant, line)
        if call is None:
            return None
        digest = hashlib.sha256(orjson.dumps(call.body(self.model))).hexdigest()
        return PaidReply(digest, storable(completion.text), completion.finish_reason, completion.usage)


def token_of(reply: BatchReply) -> int | None:
    """Return the fencing token that a reply names; None if it names none of ours."""
    return int(reply.custom_id) if reply.custom_id.isascii() and reply.custom_id.isdecimal() else None


def with_prompt(result: Completion | ForeaskError, batch: Batch) -> Completion | ForeaskError:
    """Return the result of a line; an estimate of its tokens gets the share of the batch's prompts."""
    if not isinstance(result, Completion | Refused) or not result.is_estimated:
        return result
    prompt = Usage(batch.bytes // max(1, batch.lines) // BYTES_PER_TOKEN)
    if isinstance(result, Completion):
        return replace(result, usage=result.usage + prompt)
    result.usage = (result.usage or Usage()) + prompt
    return result


def questions_in(completion: Completion, line: SentLine) -> tuple[str, ...] | MalformedReply:
    """Return the questions of a reply, or the reason why it has none."""
    try:
        return question_list.questions_of(completion, line.questions)
    except MalformedReply as fault:
        return fault
    except Exception as error:  # noqa: BLE001 - a bug costs one line, not the batch
        return MalformedReply(failure_of(error).message)


def generated(line: SentLine, model: str, questions: tuple[str, ...], completion: Completion) -> GenerateOutcome:
    """Return the outcome of a good reply."""
    return GenerateOutcome(
        line,
        model,
        questions,
        line.usage + completion.usage,
        line.calls + 1,
        Tier.BATCH,
        context=context_in(completion.text) if line.context else None,
        is_estimated=completion.is_estimated,
    )


def malformed(
    line: SentLine, model: str, fault: MalformedReply, completion: Completion, reply: PaidReply | None
) -> FailedAttempt:
    """Return the outcome of a reply without questions: a live call repairs it, and the reply is not paid for again."""
    decision = Retry(timedelta(), f"the reply in the batch was malformed: {fault}", burns_attempt=False)
    replies = () if reply is None else (reply,)
    return _failed(line, model, decision, completion.usage, replies, is_estimated=completion.is_estimated)


def failed(line: SentLine, model: str, error: ForeaskError) -> FailedAttempt:
    """Return the outcome of an error: another attempt, or a dead letter if the request itself is the reason."""
    if isinstance(error, Transient):
        usage = error.usage if isinstance(error, UnusableReply) else None
        return _failed(line, model, Retry(timedelta(), error.message, burns_attempt=True), usage)
    dead = Dead(error.message, type(error).__name__)
    if isinstance(error, Refused):
        return _failed(line, model, dead, error.usage, is_estimated=error.is_estimated)
    return _failed(line, model, dead)


def ending_of(error: ForeaskError) -> list[str]:
    """Return the ending of a line with an error, as of `Endings`, if the line was paid for."""
    is_paid = isinstance(error, UnusableReply) or (isinstance(error, Refused) and error.usage is not None)
    return [error.message] if is_paid else []


def is_refusal_of_any(result: Completion | ForeaskError) -> bool:
    """Return whether the configuration may be the reason of a line's error: the live call of its chunk decides."""
    return isinstance(result, Refused | Misconfigured) and is_doubtful(result)


def retry_live(line: SentLine, model: str, error: ForeaskError) -> FailedAttempt:
    """Return the outcome of a refusal that a live call decides."""
    return _failed(line, model, Retry(timedelta(), error.message, burns_attempt=False))


def unanswered(
    line: SentLine, model: str, *, after: timedelta, counts: bool, is_bill_incomplete: bool
) -> FailedAttempt:
    """Return the outcome of a line without a result.

    Args:
        line: the line.
        model: its model.
        after: pause before the next attempt.
        counts: whether it counts as a failed attempt of the chunk.
        is_bill_incomplete: whether the provider may have charged for it.
    """
    reason = NotDone("the batch ended without a result for this request").message
    attempt = _failed(line, model, Retry(after, reason, burns_attempt=counts))
    return replace(attempt, is_bill_incomplete=is_bill_incomplete)


def _failed(
    line: SentLine,
    model: str,
    decision: Decision,
    usage: Usage | None = None,
    replies: tuple[PaidReply, ...] = (),
    *,
    is_estimated: bool = False,
) -> FailedAttempt:
    """Return a failed attempt; `usage` is the bill of the line, None if nothing was billed."""
    billed = line.usage + (usage or Usage())
    calls = line.calls + (usage is not None)
    cost = generate_cost(line, model, billed, calls, Tier.BATCH, is_estimated=is_estimated)
    return FailedAttempt(
        line.lease,
        decision,
        billed,
        calls,
        line.content_key,
        line.tenant,
        replies,
        cost,
        by_tier=with_cost(line.by_tier, cost),
    )
