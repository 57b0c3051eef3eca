"""Configuration of the garbage collector for long-running processes with many imports."""

from __future__ import annotations

import gc

_YOUNG = 20_000  # allocations between two young collections; a request or a chunk makes some hundreds


def freeze() -> None:
    """Exclude all existing objects from garbage collection; call it once, after all imports and the start.

    A full collection visits every object of every library, which takes some 50 ms. With Python's defaults it runs every
    few hundred calls of a provider. The garbage of imports stays: 3,000 of 370,000 objects, found in 0.3 s.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 50)
