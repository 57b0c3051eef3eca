"""Estimates of tokens, for the limits before a call, and for the bill of a provider that reports none."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

BYTES_PER_TOKEN = 3  # of UTF-8: three letters of English, one or two of other alphabets, one ideograph


def tokens_in(texts: Iterable[str]) -> int:
    """Return the estimated tokens of texts together, rather too many than too few."""
    return ceil(sum(len(text.encode(errors="replace")) for text in texts) / BYTES_PER_TOKEN)
