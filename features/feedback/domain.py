"""Values of feedback: its results, accepted and retracted questions, and suggested questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from shared.domain.corpus.index_location import IndexLocation, index_location_of
from shared.domain.states import AcceptedState

FeedbackOutcome = Literal[
    "accepted", "already_accepted", "already_asked", "chunk_full", "pending_review", "retracted", "not_accepted"
]


@dataclass(frozen=True, slots=True)
class FeedbackResult:
    """The result of feedback.

    Args:
        outcome: `already_asked`: the chunk has the same question; `chunk_full`: it has the maximum number of accepted
            questions, and the key may displace none of them; `pending_review`: an editor has to accept the
            question; `not_accepted`: there was nothing that the key may retract.
        question: question of the query.
        accepted_id: id of the accepted question, if there is or was one.
        due: whether its chunk is due to be indexed again.
        embedding: name of the embedding with which an accepted question will be embedded; otherwise None.
    """

    outcome: FeedbackOutcome
    question: str
    accepted_id: UUID | None
    due: bool = False
    embedding: str | None = None


@dataclass(frozen=True, slots=True)
class AcceptedQuestionRecord:
    """An accepted question as its owner sees it."""

    id: UUID
    document_id: UUID
    external_id: str
    chunk_id: UUID
    question: str
    query_id: UUID | None
    accepted_by: UUID | None
    state: AcceptedState
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PendingRemoval:
    """A retracted question whose points must be deleted.

    Args:
        claimed_until: end of the claim, which identifies it.
        has_writer: whether a worker may write its point again after the deletion.
        versions: versions of its document that contain its chunk and may have a point of it.
    """

    id: UUID
    tenant: str
    collection_id: UUID
    index_name: str
    claimed_until: datetime
    has_writer: bool
    versions: Sequence[int]

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A question, with the chunk that answers it and its document."""

    question: str
    document_id: UUID
    chunk_id: UUID
