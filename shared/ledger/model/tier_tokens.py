"""The column `tier_tokens` of a chunk: the tokens of its calls by tier and kind, in one array.

Most calls are of the standard tier and use no prompt cache. A chunk with only such calls has no array, so it costs no
space in the busiest table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields

from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage, UsageByTier, total

_TIERS = (Tier.STANDARD, Tier.FLEX, Tier.BATCH)  # in the order of the array: new tiers are appended
_KINDS = len(fields(Usage))

# The sums of the arrays of chunks `c`; nulls if no chunk has one.
SUMS = f"ARRAY[{', '.join(f'sum(c.tier_tokens[{n}])' for n in range(1, len(_TIERS) * _KINDS + 1))}]"


def encoded(usage: UsageByTier) -> list[int] | None:
    """Return the array; None if all tokens are plain ones of the standard tier."""
    standard = usage.get(Tier.STANDARD, Usage())
    if usage.keys() <= {Tier.STANDARD} and not standard.cached_tokens and not standard.cache_write_tokens:
        return None
    return [tokens for tier in _TIERS for tokens in astuple(usage.get(tier, Usage()))]


def decoded(stored: Sequence[int | None] | None, prompt_tokens: int, completion_tokens: int) -> UsageByTier:
    """Return the tokens by tier.

    Args:
        stored: the array or the sums of arrays; None without one.
        prompt_tokens: all tokens of prompts; tokens outside the array are of the standard tier.
        completion_tokens: the same of replies.
    """
    tokens = [value or 0 for value in stored or ()]
    parts = [Usage(*tokens[at : at + _KINDS]) for at in range(0, len(tokens), _KINDS)]
    usage = {tier: part for tier, part in zip(_TIERS, parts, strict=False) if part != Usage()}
    known = total(usage)
    rest = Usage(prompt_tokens - known.prompt_tokens, completion_tokens - known.completion_tokens)
    if rest != Usage():
        usage[Tier.STANDARD] = usage.get(Tier.STANDARD, Usage()) + rest
    return usage
