"""The similarity floor of the question filter in the settings."""

from __future__ import annotations

from shared.ingest.generate.quality import floor_for
from shared.settings import Embedding, Settings


def similarity_floor(settings: Settings, embedding: Embedding) -> float | None:
    """Return the lowest similarity of a question and its text that passes the filter; None: all pass."""
    floor = settings.tuning.similarity_floor
    return floor_for(embedding.model) if floor is None else floor
