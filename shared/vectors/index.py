"""The client of Qdrant."""

from __future__ import annotations

from shared.vectors.reads import Reads
from shared.vectors.writes import Writes


class Index(Writes, Reads):
    """Reads, writes and the lifecycle of Qdrant's collections over one connection."""
