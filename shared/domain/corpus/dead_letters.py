"""Dead letters: documents, pages and chunks whose attempts ended, with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """A failed attempt; `at` is a time in ISO 8601."""

    at: str
    attempt: int
    error: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A document that cannot be parsed, a page that cannot be read, or a dead chunk.

    Args:
        ordinal: number of a chunk from 0, or of a page from 1; None for a document.
        history: the last attempts, oldest first.
    """

    id: UUID
    kind: Literal["document", "page", "chunk"]
    document_id: UUID
    external_id: str
    collection: str
    ordinal: int | None
    reason: str
    attempts: int
    at: datetime
    history: tuple[PastAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadReason:
    reason: str
    documents: int
    chunks: int
    pages: int = 0
    collections: Sequence[str] = ()
