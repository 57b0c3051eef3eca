"""The lanes of work: lower numbers are processed first."""

from __future__ import annotations

from enum import IntEnum


class Lane(IntEnum):
    """The lane of a document and its chunks.

    Workers generate the questions of the first two. Chunks in the last one wait for a batch at a reduced price; their
    texts are parsed and indexed like all others.
    """

    INTERACTIVE = 0
    BULK = 1
    BATCH = 2
