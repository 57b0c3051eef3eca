"""Valid files that were cut off, whose bits were flipped, or that have the name of another kind."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.support.hostile.samples import SUFFIXES, valid

_CUTS, _FLIPS = 14, 16


def truncated() -> Iterator[tuple[str, bytes]]:
    for kind, content in valid().items():
        near = (3, 9, 20, len(content) - 1)
        even = [len(content) * number // (_CUTS - len(near) + 1) for number in range(1, _CUTS - len(near) + 1)]
        for length in (*near, *even):
            yield f"{kind} cut at {length} of {len(content)}", content[:length]


def flipped(seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield files with one to twenty flipped bits; half of the files have them in their first 200 bytes."""
    chance = random.Random(seed)
    for kind, content in valid().items():
        for number in range(_FLIPS):
            damaged, within = bytearray(content), len(content) if number % 2 else min(200, len(content))
            for _ in range(chance.choice((1, 2, 20))):
                damaged[chance.randrange(within)] ^= 1 << chance.randrange(8)
            yield f"{kind} with flipped bits {number}", bytes(damaged)


def misnamed() -> Iterator[tuple[str, bytes, str]]:
    """Yield (kind, content, file name) with names of other kinds."""
    for kind, content in valid().items():
        for suffix in ("txt", "docx", *SUFFIXES.values()):
            if suffix != SUFFIXES[kind.split(" ")[0]]:
                yield kind, content, f"scan.{suffix}"
