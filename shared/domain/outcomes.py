"""What a worker reports of a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.domain.records import (
    AcceptedQuestion,
    AcceptedState,
    ChunkToGenerate,
    ChunkToIndex,
    DocumentToParse,
    Lease,
    NewChunk,
)
from shared.domain.retry import Decision
from shared.domain.usage import Usage


@dataclass(frozen=True, slots=True)
class ParseOutcome:
    """A document's chunks; title and media type are those found in the file."""

    document: DocumentToParse
    title: str | None
    media_type: str
    chunks: Sequence[NewChunk]


@dataclass(frozen=True, slots=True)
class GenerateOutcome:
    """Questions that a model wrote for a chunk; the ledger keeps them under the chunk's content key."""

    chunk: ChunkToGenerate
    model: str
    questions: tuple[str, ...]
    usage: Usage
    calls: int


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed, and what follows; `usage` was spent all the same."""

    lease: Lease
    decision: Decision
    usage: Usage = Usage()
    calls: int = 0


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """A chunk whose points Qdrant has confirmed.

    `questions` are `{"text", "passed", "reason"}`; `accepted` are those of users, each with the state that it has now.
    """

    chunk: ChunkToIndex
    questions: Sequence[dict[str, Any]]
    passed: int
    error: str | None = None
    accepted: Sequence[tuple[AcceptedQuestion, AcceptedState]] = ()
