"""A chunk with its state, costs and questions, as the API returns it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent, ChunkContext
from shared.domain.corpus.dead_letters import PastAttempt
from shared.domain.corpus.questions import QuestionDetail
from shared.domain.spending.usage import BilledCalls
from shared.domain.states import ChunkState


@dataclass(frozen=True, slots=True)
class ChunkDetail:
    """A chunk as the API returns it.

    Args:
        document_id: the document's public id.
        history: last failed attempts, oldest first.
        usage: calls billed for its questions.
        questions: all questions, users' questions last.
        context: paid with its questions; None without one.
    """

    id: UUID
    document_id: UUID
    version: int
    ordinal: int
    content: ChunkContent
    state: ChunkState
    error: str | None
    history: tuple[PastAttempt, ...]
    usage: BilledCalls
    questions: tuple[QuestionDetail, ...]
    context: ChunkContext | None

    @property
    def disabled_questions(self) -> int:
        """The number of its disabled questions."""
        return sum(question.disabled for question in self.questions)
