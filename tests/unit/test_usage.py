"""The usage of a reply: tokens of the prompt cache, and the tier."""

from __future__ import annotations

import pytest

from shared.domain.spending.tiers import Tier, tier_of_reply
from shared.domain.spending.usage import Usage
from shared.providers.replies.chat import usage_of

PLAIN = {"prompt_tokens": 2_000, "completion_tokens": 10}


@pytest.mark.parametrize(
    ("billed", "usage"),
    [
        (PLAIN, Usage(2_000, 10)),
        (PLAIN | {"prompt_tokens_details": {"cached_tokens": 1_024}}, Usage(2_000, 10, 1_024)),
        (
            PLAIN | {"prompt_tokens_details": {"cached_tokens": 1_024, "cache_write_tokens": 900}},
            Usage(2_000, 10, 1_024, 900),
        ),
        # parts of the prompt are not larger than the prompt
        (
            PLAIN | {"prompt_tokens_details": {"cached_tokens": 3_000, "cache_write_tokens": 900}},
            Usage(2_000, 10, 2_000, 0),
        ),
        (
            PLAIN | {"prompt_tokens_details": {"cached_tokens": "many", "cache_write_tokens": None}},
            Usage(2_000, 10),
        ),
        (PLAIN | {"prompt_tokens_details": {"cached_tokens": -5, "cache_write_tokens": True}}, Usage(2_000, 10)),
        (PLAIN | {"prompt_tokens_details": [1_024]}, Usage(2_000, 10)),
        ({"prompt_tokens": "2000", "completion_tokens": 10.5}, Usage()),
        # more than any model reads or writes
        ({"prompt_tokens": 3_000_000_000, "completion_tokens": 10**30}, Usage(10_000_000, 10_000_000)),
        ({"total_tokens": 20}, Usage(20)),  # Voyage and Jina
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage()),
        ({}, Usage()),
        (None, Usage()),
        ("none", Usage()),
    ],
)
def test_usage_is_read_despite_wrong_types(billed, usage):
    assert usage_of(billed) == usage


@pytest.mark.parametrize(
    ("field", "tier"),
    [
        ("flex", Tier.FLEX),
        ("default", Tier.STANDARD),
        ("auto", Tier.STANDARD),
        ("priority", Tier.STANDARD),
        (None, Tier.STANDARD),
        (["flex"], Tier.STANDARD),
    ],
)
def test_tier_of_reply_overrides_requested_tier(field, tier):
    assert tier_of_reply(field) is tier


def test_usage_sums_include_cached_and_written_tokens():
    both = Usage(10, 1, 5, 2) + Usage(20, 2, 6, 3)
    assert both == Usage(30, 3, 11, 5)
    assert both - Usage(20, 2, 6, 3) == Usage(10, 1, 5, 2)
