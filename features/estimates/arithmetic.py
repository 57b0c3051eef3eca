"""The arithmetic of estimates: quantities of work, multiplied by the past costs of similar work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil, sqrt

from features.estimates.domain import BilledChunk
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.spending.limit_use import LimitUse
from shared.domain.spending.usage import Usage
from shared.ingest.generate.generator import key_of, requests
from shared.ingest.generate.quality import filter_by_text
from shared.ingest.generate.types import GenerationOptions

_BATCH_CHUNKS = 32  # of one round of embedding
_BATCH_INPUTS = 256  # of one request
_CONTEXT_TOKENS = 90  # of 510 contexts by a large model: 324 characters of JSON
_CONTEXT_CHARS = 280  # of these without JSON
_MINUTE = 60.0
_BATCH_WINDOW = 24 * 3600.0  # within which a batch ends
_NINETY_PERCENT = 1.645  # standard errors on each side of the 90 % interval
_FEWEST_DOCUMENTS = 2  # of a sample with an interval
_FEWEST_CALLS = 10  # for a line to be found
_SURE = 0.1  # largest standard error of its slope, relative to the slope


@dataclass(frozen=True, slots=True)
class ExpectedCalls:
    """The calls for a chunk's questions, if these do not exist yet.

    Args:
        key: content key.
        calls: number of calls of the language model.
        prompt_chars: characters of all messages of these calls.
        questions: number of questions requested by the calls.
        context: whether the calls also write a context.
    """

    key: bytes
    calls: int
    prompt_chars: int
    questions: int
    context: bool


def expected_calls(tenant: str, model: str, content: ChunkContent, options: GenerationOptions) -> ExpectedCalls:
    calls = requests(content, options)
    return ExpectedCalls(
        key=key_of(tenant, model, content, options, calls),
        calls=len(calls),
        prompt_chars=sum(len(message.content) for call in calls for message in call.messages),
        questions=len(calls) if options.strategy == "per-question" else options.count_for(content),
        context=options.writes_context(content),
    )


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios measured with past chunks. The defaults are for English and a large model.

    Args:
        chars_per_token: characters per billed token.
        call_tokens: additional tokens billed per call, for example for its schema.
        reply_tokens: tokens of a reply per requested question, without a context.
        written: generated questions per requested one.
        embedded: share of these that is embedded; the text filter drops the others.
        passed: share of these that passed every filter.
        question_chars: characters of a question.
    """

    chars_per_token: float = 4.2
    call_tokens: float = 0.0
    reply_tokens: float = 20.0
    written: float = 1.0
    embedded: float = 1.0
    passed: float = 1.0
    question_chars: float = 65.0


def measured(
    billed: Sequence[BilledChunk], options_of: Callable[[CollectionOptions], GenerationOptions], model: str
) -> Ratios:
    """Return the ratios of chunks whose prompt follows from their collection's options and this model.

    Chunks with repaired replies, or with options that changed since, are excluded.
    """
    whole = []
    for chunk in billed:
        need = expected_calls(chunk.tenant, model, chunk.content, options_of(chunk.options))
        if need.key == chunk.content_key and need.calls == chunk.calls:
            whole.append((chunk, need))
    usage = sum((chunk.usage for chunk, _ in whole), Usage())
    written = sum(len(chunk.questions) for chunk, _ in whole)
    if not usage.prompt_tokens or not written:  # some servers report no usage
        return Ratios()
    requested = sum(need.questions for _, need in whole)
    contexts = sum(need.context for _, need in whole)
    sizes = [(need.prompt_chars / need.calls, chunk.usage.prompt_tokens / need.calls) for chunk, need in whole]
    call_tokens, tokens_per_char = line(sizes)
    passed_by_text = [q for chunk, _ in whole for q in filter_by_text(chunk.questions, chunk.content) if q.passed]
    return Ratios(
        chars_per_token=1 / tokens_per_char,
        call_tokens=call_tokens,
        reply_tokens=max(0, usage.completion_tokens - contexts * _CONTEXT_TOKENS) / requested,
        written=written / requested,
        embedded=len(passed_by_text) / written,
        passed=sum(chunk.passed for chunk, _ in whole) / written,
        question_chars=sum(len(q) for chunk, _ in whole for q in chunk.questions) / written,
    )


def line(sizes: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Fit a line to past calls; return the tokens per call and per character.

    The instructions and the schema are the same in every call. If the calls cannot separate both parts, because their
    sizes are equal, the line passes through the origin.
    """
    chars, tokens = (sum(values) / len(sizes) for values in zip(*sizes, strict=True))
    spread = sum((x - chars) ** 2 for x, _ in sizes)
    slope = sum((x - chars) * (y - tokens) for x, y in sizes) / spread if spread else 0.0
    left = sum((y - tokens - slope * (x - chars)) ** 2 for x, y in sizes)
    degrees = max(1, len(sizes) - 2)
    if len(sizes) < _FEWEST_CALLS or slope <= 0 or left / degrees > (_SURE * slope) ** 2 * spread:
        return 0.0, tokens / chars
    return tokens - slope * chars, slope


@dataclass(slots=True)
class Quantities:
    """Counts: documents and chunks, the calls that they need, and existing questions.

    `contexts` are the chunks with a context, and `context_calls` the calls that write one. `twins` are questions
    requested by other calls, for content shared by several chunks. `kept_chars` are the characters of `kept_texts`,
    whose vectors exist, and of `kept_questions`. `dropped` are questions that are embedded and filtered again, with the
    same result.
    """

    documents: float = 0
    chunks: float = 0
    text_chars: float = 0
    calls: float = 0
    prompt_chars: float = 0
    requested: float = 0
    contexts: float = 0
    context_calls: float = 0
    twins: float = 0
    ready: float = 0
    paid: float = 0
    paid_chunks: float = 0
    kept_texts: float = 0
    kept_chars: float = 0
    kept_questions: float = 0
    dropped: float = 0

    def keep_questions(self) -> None:
        """Count the paid questions of a chunk that is also counted."""
        self.paid_chunks += 1

    def keep_text(self, content: ChunkContent) -> None:
        """Count a text with an existing vector, of a chunk that is also counted."""
        self.kept_texts += 1
        self.kept_chars += len(content.text)

    def add(
        self, content: ChunkContent, need: ExpectedCalls | None = None, twins: int = 0, ready: int = 0, paid: int = 0
    ) -> None:
        """Count a chunk.

        Args:
            content: its content.
            need: calls for its questions; None if none are needed.
            twins: number of questions generated by the call for another chunk.
            ready: number of questions submitted with its document.
            paid: number of questions that were generated before.
        """
        self.chunks += 1
        self.text_chars += len(content.text)
        self.twins += twins
        self.ready += ready
        self.paid += paid
        if need is not None:
            self.calls += need.calls
            self.prompt_chars += need.prompt_chars
            self.requested += need.questions
            self.context_calls += need.context

    def times(self, factor: float) -> Quantities:
        return Quantities(*(getattr(self, field.name) * factor for field in fields(self)))

    def plus(self, other: Quantities) -> Quantities:
        return Quantities(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def since(self, earlier: Quantities) -> Quantities:
        """Return the difference to an earlier count."""
        return Quantities(*(getattr(self, field.name) - getattr(earlier, field.name) for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Amounts:
    """The result of a count, rounded to integers."""

    documents: int
    chunks: int
    paid_chunks: int
    calls: int
    generate: Usage
    embeddings: int
    embed: Usage
    points: int

    @property
    def embedding_requests(self) -> int:
        return max(ceil(self.embeddings / _BATCH_INPUTS), ceil(self.chunks / _BATCH_CHUNKS))


def amounts(count: Quantities, ratios: Ratios, *, prepends: bool) -> Amounts:
    """Return the result of a count; with `prepends`, each text is embedded again with its questions in front.

    A text with a context is embedded again with the context, or once with both.
    """
    written = count.paid + (count.requested + count.twins) * ratios.written
    questions = count.ready + count.dropped + written * ratios.embedded
    embeddings = count.chunks - count.kept_texts + questions
    embedded_chars = count.text_chars - count.kept_chars + questions * ratios.question_chars
    extended = count.chunks if prepends else count.contexts
    embeddings += extended
    embedded_chars += extended * count.text_chars / max(1, count.chunks) + count.contexts * _CONTEXT_CHARS
    if prepends:
        embedded_chars += (questions + count.kept_questions) * ratios.question_chars
    generated = Usage(round(_prompt_tokens(count, ratios)), round(_reply_tokens(count, ratios)))
    return Amounts(
        documents=round(count.documents),
        chunks=round(count.chunks),
        paid_chunks=round(count.paid_chunks),
        calls=round(count.calls),
        generate=generated,
        embeddings=round(embeddings),
        embed=Usage(round(embedded_chars / ratios.chars_per_token)),
        points=round(count.chunks + count.ready + count.kept_questions + written * ratios.passed),
    )


def tokens_of(count: Quantities, ratios: Ratios) -> float:
    """Return the tokens of all prompts and replies of a count."""
    return _prompt_tokens(count, ratios) + _reply_tokens(count, ratios)


def _prompt_tokens(count: Quantities, ratios: Ratios) -> float:
    return count.calls * ratios.call_tokens + count.prompt_chars / ratios.chars_per_token


def _reply_tokens(count: Quantities, ratios: Ratios) -> float:
    return count.requested * ratios.reply_tokens + count.context_calls * _CONTEXT_TOKENS


def margin(sample: Sequence[tuple[float, float]], documents: int) -> float | None:
    """Return half of the 90 % interval of a total that is extrapolated from a sample, relative to the total.

    The total is estimated by the ratio of both values, so documents vary only as far as they deviate from this ratio.

    Args:
        sample: value and size of each sampled document.
        documents: number of all documents.
    """
    value, size = (sum(values) for values in zip(*sample, strict=True)) if sample else (0.0, 0.0)
    if len(sample) < _FEWEST_DOCUMENTS or not value or not size:
        return None
    variance = sum((y - x * value / size) ** 2 for y, x in sample) / (len(sample) - 1)
    unsampled = max(0.0, 1 - len(sample) / documents)
    return _NINETY_PERCENT * sqrt(variance * unsampled * len(sample)) / value


def batch_duration(
    amounts: Amounts, limits: Sequence[LimitUse], queue_tokens: int | None
) -> tuple[float, str, int | None]:
    """Return the longest duration in seconds of the calls as batches, its limit, and the fills of the queue.

    Args:
        amounts: the calls and embeddings.
        limits: limits of the embedding model.
        queue_tokens: tokens of prompts that the provider accepts in all unfinished batches; None if unknown.
    """
    fills = None if queue_tokens is None else ceil(amounts.generate.prompt_tokens / queue_tokens)
    longest = (max(1, fills or 1) * _BATCH_WINDOW, "batch queue" if fills and fills > 1 else "batch window")
    of_embedding = duration(amounts, [limit for limit in limits if limit.component == "embedding"])
    seconds, bottleneck = max(longest, of_embedding or longest)
    return seconds, bottleneck, fills


def duration(amounts: Amounts, limits: Sequence[LimitUse]) -> tuple[float, str] | None:
    """Return the duration in seconds at the tightest limit, and the name of that limit; None without limits.

    The language model and the embedding model are called concurrently. If no rate of requests is declared, the calls in
    flight limit it, at the rate of the last calls.
    """
    units: Mapping[tuple[str, str], int] = {
        ("llm", "requests"): amounts.calls,
        ("llm", "tokens"): amounts.generate.prompt_tokens + amounts.generate.completion_tokens,
        ("embedding", "requests"): amounts.embedding_requests,
        ("embedding", "tokens"): amounts.embed.prompt_tokens,
    }
    times = []
    for limit in limits:
        units_of = units[limit.component, limit.unit]
        if limit.limit is not None:
            times.append((units_of / limit.limit * _MINUTE, limit.name))
        elif limit.unit == "requests" and limit.in_flight_limit and limit.latency is not None:
            seconds = units_of * limit.latency.total_seconds() / limit.in_flight_limit
            times.append((seconds, f"{limit.component} calls in flight"))
    return max(times, default=None)
