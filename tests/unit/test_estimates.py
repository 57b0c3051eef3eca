"""Calculation of estimates: prices, tokens, times, and reassembled texts."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from features.estimates.arithmetic import Amounts, Quantities, Ratios, amounts, batch_duration, duration, line, margin
from features.estimates.texts import restored
from shared.domain.spending.limit_use import LimitUse
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.document import ExtractedText
from shared.services.prices import price
from shared.settings import Settings

OPENAI_URL = "https://api.openai.com/v1"
AMOUNTS = Amounts(
    documents=10,
    chunks=600,
    paid_chunks=0,
    calls=600,
    generate=Usage(120_000, 60_000),
    embeddings=3_000,
    embed=Usage(90_000),
    points=2_500,
)
TEXT = """# A title

The keeper lives alone. He lights the lamp.

| ship | day |
|---|---|
""" + "\n".join(f"| ship number {n} | {n} of May |" for n in range(60))


def limit(
    name: str, limit: int | None = None, *, latency: float | None = None, in_flight: int | None = None
) -> LimitUse:
    component, unit = name.split()[-2:]
    return LimitUse(
        name=name,
        limit=limit,
        used=0,
        in_flight=0,
        in_flight_limit=in_flight,
        breaker="closed",
        cooldown=timedelta(),
        component=component,
        unit=unit,
        latency=None if latency is None else timedelta(seconds=latency),
    )


def settings(**values: object) -> Settings:
    return Settings(_env_file=None, **values)


def test_tightest_limit_determines_duration():
    limits = [
        limit("llm requests", 600),
        limit("llm tokens", 90_000),
        limit("tenant acme: llm requests", 200),
        limit("embedding tokens", 90_000),
    ]
    assert duration(AMOUNTS, limits) == (180.0, "tenant acme: llm requests")
    assert duration(AMOUNTS, limits[:2]) == (120.0, "llm tokens")


def test_undeclared_rate_uses_recent_concurrency():
    limits = [limit("llm requests", latency=4.0, in_flight=8), limit("llm tokens", latency=4.0, in_flight=8)]
    assert duration(AMOUNTS, limits) == (300.0, "llm calls in flight")


def test_duration_without_limits_is_unknown():
    assert duration(AMOUNTS, [limit("llm requests", in_flight=8), limit("llm tokens")]) is None


DAY = 24 * 3600.0


@pytest.mark.parametrize(
    ("queue_tokens", "limits", "expected"),
    [
        (None, [], (DAY, "batch window", None)),
        (120_000, [], (DAY, "batch window", 1)),
        (50_000, [], (3 * DAY, "batch queue", 3)),
        (50_000, [limit("llm tokens", 1)], (3 * DAY, "batch queue", 3)),  # batches have no rate
        (None, [limit("embedding tokens", 30)], (180_000.0, "embedding tokens", None)),
    ],
)
def test_batches_take_a_day_per_fill_of_queue(queue_tokens, limits, expected):
    assert batch_duration(AMOUNTS, limits, queue_tokens) == expected


def test_margin_contains_total_in_nine_of_ten_samples():
    generator = random.Random(1)
    sizes = [generator.lognormvariate(7, 1) for _ in range(2_000)]
    documents = [(size * generator.uniform(0.1, 0.4), size) for size in sizes]
    total, held = sum(value for value, _ in documents), 0
    for _ in range(1_000):
        sample = generator.sample(documents, 100)
        estimated = sum(value for value, _ in sample) / sum(size for _, size in sample) * sum(sizes)
        held += abs(estimated - total) <= margin(sample, len(documents)) * estimated

    assert 860 <= held <= 940


@pytest.mark.parametrize(("sample", "documents"), [([], 9), ([(3.0, 1.0)], 9), ([(0.0, 1.0)] * 3, 9)])
def test_margin_is_unknown_without_varied_sample(sample, documents):
    assert margin(sample, documents) is None


def test_complete_sample_has_no_margin():
    assert margin([(1.0, 1.0), (5.0, 1.0)], 2) == 0.0


def test_call_sizes_separate_instructions_from_text():
    sizes = [(1_000.0 + 100 * n, 50 + (1_000 + 100 * n) / 5) for n in range(20)]
    call_tokens, tokens_per_char = line(sizes)
    assert (call_tokens, tokens_per_char) == (pytest.approx(50), pytest.approx(0.2))


@pytest.mark.parametrize(
    "sizes",
    [
        [(1_000.0, 250.0)] * 20,
        [(1_000.0, 250.0), (1_100.0, 290.0)],
        [(1_000.0 + n % 3, 200.0 + 100 * (n % 2)) for n in range(20)],
    ],
    ids=["alike", "few", "scattered"],
)
def test_uniform_calls_are_estimated_together(sizes):
    call_tokens, tokens_per_char = line(sizes)
    assert call_tokens == 0
    assert tokens_per_char == pytest.approx(0.25, rel=0.05)


def test_duplicate_chunks_add_questions_without_calls():
    count = Quantities(documents=1, chunks=2, text_chars=1_000, calls=1, prompt_chars=2_100, requested=5, twins=5)
    total = amounts(count, Ratios(chars_per_token=4.2, reply_tokens=20), prepends=False)
    assert (total.calls, total.generate) == (1, Usage(500, 100))
    assert total.embeddings == total.points == 12


def test_prepended_questions_are_embedded_additionally():
    count = Quantities(chunks=10, text_chars=10_000, ready=30)
    plain, prepended = (amounts(count, Ratios(), prepends=prepends) for prepends in (False, True))
    assert (plain.embeddings, prepended.embeddings) == (40, 50)
    assert prepended.embed.prompt_tokens == pytest.approx(2 * plain.embed.prompt_tokens, abs=1)
    assert prepended.points == plain.points


def test_context_adds_reply_tokens_and_embedding():
    count = Quantities(chunks=10, text_chars=10_000, calls=4, requested=20)
    extended = replace(count, contexts=10, context_calls=4)
    plain, with_context = (amounts(each, Ratios(), prepends=False) for each in (count, extended))

    assert with_context.embeddings == plain.embeddings + 10
    assert with_context.generate.completion_tokens == plain.generate.completion_tokens + 4 * 90
    assert with_context.embed.prompt_tokens - plain.embed.prompt_tokens == pytest.approx(12_800 / 4.2, abs=1)
    assert with_context.points == plain.points
    both = amounts(extended, Ratios(), prepends=True)
    assert both.embeddings == with_context.embeddings


def test_configured_prices_override_list_prices():
    prices = {"llm_input_price": 2.0, "llm_output_price": 8.0, "embedding_price": 0.5}
    own = settings(llm_model="gpt-5-mini", embedding_model="e", **prices)
    assert price(own, "generate", Usage(1_000_000, 500_000)) == 6.0
    assert price(own, "embed", Usage(1_000_000)) == 0.5
    free = settings(llm_model="m", llm_input_price=0.0, llm_output_price=0.0)
    assert price(free, "generate", Usage(1_000, 1_000)) == 0.0


def test_missing_output_price_is_listed_or_unknown():
    listed = settings(llm_base_url=OPENAI_URL, llm_model="gpt-4o-mini", llm_input_price=1.0)
    assert price(listed, "generate", Usage(10**6, 10**6)) == pytest.approx(1.6)
    assert price(settings(llm_model="m", llm_input_price=1.0), "generate", Usage(1_000, 1_000)) is None
    assert price(settings(llm_model="m", llm_output_price=1.0), "generate", Usage(1_000, 0)) is None


def test_cached_and_written_tokens_have_their_list_prices():
    luna = settings(llm_base_url=OPENAI_URL, llm_model="gpt-5.6-luna")
    plain, cached, written = (
        price(luna, "generate", usage)
        for usage in (Usage(10**6), Usage(10**6, 0, cached_tokens=10**6), Usage(10**6, 0, cache_write_tokens=10**6))
    )
    assert cached == pytest.approx(0.1 * plain)
    assert written == pytest.approx(1.25 * plain)


@pytest.mark.parametrize("own", [{"llm_model": "gpt-4-turbo"}, {"llm_input_price": 10.0, "llm_output_price": 30.0}])
def test_cache_tokens_without_own_price_cost_full_price(own):
    model = settings(llm_base_url=OPENAI_URL, **own)
    usages = (Usage(10**6), Usage(10**6, 0, cached_tokens=10**6), Usage(10**6, 0, cache_write_tokens=10**6))
    assert [price(model, "generate", usage) for usage in usages] == [10.0] * 3


def test_flex_and_batch_cost_half_unless_set():
    prices = {"llm_model": "m", "llm_input_price": 2.0, "llm_output_price": 8.0}
    usage = Usage(1_000_000, 500_000)

    def costs(**more):
        return [price(settings(**prices, **more), "generate", usage, tier=tier) for tier in Tier]

    assert costs() == [6.0, 3.0, 3.0]
    assert costs(llm_tier_prices="flex=1") == [6.0, 6.0, 3.0]


def test_embedding_without_price_has_list_price():
    openai = settings(embedding_base_url=OPENAI_URL, embedding_model="text-embedding-3-small")
    assert price(openai, "embed", Usage(10**6)) == pytest.approx(0.02)


def test_major_providers_have_list_prices():
    listed = price(
        settings(llm_base_url="https://api.openai.com/v1", llm_model="gpt-4o-mini"), "generate", Usage(10**6, 10**6)
    )
    assert listed == pytest.approx(0.75)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "https://api.openai.com/v1"])
def test_unknown_price_is_none_instead_of_zero(url):
    unknown = settings(llm_base_url=url, llm_model="no-such-model")
    assert price(unknown, "generate", Usage(1_000, 1_000)) is None
    assert price(unknown, "embed", Usage(1_000)) is None


@pytest.mark.parametrize("max_chars", [200, 400, 2_000])
def test_text_is_reassembled_from_its_chunks(max_chars):
    text = ExtractedText(TEXT, "A title", "text/markdown")
    chunks = divide(text, ChunkingOptions(max_chars=max_chars, overlap_chars=40))
    assert restored(chunks, "text/markdown", markdown=True) == text
