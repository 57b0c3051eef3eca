"""Answers that users share by a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent


@dataclass(frozen=True, slots=True)
class SharedSource:
    """A passage that a shared answer cites, with its current content."""

    number: int
    chunk_id: UUID
    document_id: UUID
    external_id: str
    filename: str | None
    content: ChunkContent


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """A shared answer.

    Args:
        shared_by_name: name of the key that shared it; None for a key of the settings, or without keys.
        sources: the cited passages, in the order of the answer.
    """

    id: UUID
    collection: str
    question: str
    answer: str
    form: str
    shared_by_name: str | None
    created_at: datetime
    expires_at: datetime
    sources: Sequence[SharedSource]
