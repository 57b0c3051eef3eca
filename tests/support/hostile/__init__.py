"""Hostile pictures and scans, deterministic by their seed. No file of another origin is needed.

`files` returns them; `tests/integration/test_hostile_scans.py` reads them as the product does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from tests.support.hostile import damaged, other_pictures, pdfs, png, tiff


@dataclass(frozen=True)
class HostileFile:
    """A file. `name` says its fault, `filename` is the name that its sender states."""

    name: str
    content: bytes
    filename: str | None = None


def files(seed: int) -> Iterator[HostileFile]:
    """Yield at least 600 files, in an order that mixes their kinds."""
    made = [
        HostileFile(name, content)
        for name, content in chain(
            png.files(), tiff.files(), pdfs.files(), other_pictures.files(), damaged.truncated(), damaged.flipped(seed)
        )
    ]
    misnamed = [
        HostileFile(f"{name} named {filename}", content, filename) for name, content, filename in damaged.misnamed()
    ]
    every = made + misnamed
    random.Random(seed).shuffle(every)
    yield from every
