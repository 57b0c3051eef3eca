"""Gaps: groups of users' questions that the documents do not answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class GapState:
    """The assignment and the resolution of a gap.

    Args:
        assigned_to: the person or team; None if it is not assigned.
        document_id: the document that resolves it; None if there is none, or it was deleted.
        external_id: the document's external id.
        resolved_at: time of the resolution by this document.
    """

    assigned_to: str | None = None
    document_id: UUID | None = None
    external_id: str | None = None
    resolved_at: datetime | None = None
