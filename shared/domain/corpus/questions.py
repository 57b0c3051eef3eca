"""Questions of chunks: generated, submitted with the document, or accepted from users."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from shared.domain.states import AcceptedState

QuestionSource = Literal["generated", "given", "user"]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The acceptance of a user's question by a chunk; `at` is a time in ISO 8601."""

    id: UUID
    state: AcceptedState
    query_id: UUID | None
    at: str


@dataclass(frozen=True, slots=True)
class AcceptedQuestion:
    """A user's question accepted by a chunk."""

    id: UUID
    question: str


@dataclass(frozen=True, slots=True)
class QuestionDetail:
    """A question of a chunk as the API returns it.

    Args:
        passed: result of the question filter; None if not yet filtered or not embedded.
        reason: reason for dropping it.
        source: author: the model, the document's owner or a user.
        similarity: similarity to the chunk's text; None if it was not embedded.
        accepted: acceptance of a user's question.
        disabled: whether searches exclude it, although it passed.
        disabled_by: name of the key that disabled it; None without keys.
        disabled_at: when it was disabled.
    """

    text: str
    passed: bool | None
    reason: str | None
    source: QuestionSource = "generated"
    similarity: float | None = None
    accepted: Acceptance | None = None
    disabled: bool = False
    disabled_by: str | None = None
    disabled_at: datetime | None = None


def plain(question: str) -> str:
    """Return the form in which questions are compared: without case, extra spaces and closing punctuation."""
    return " ".join(unicodedata.normalize("NFC", question).casefold().split()).rstrip("?!. \uff1f\uff01\u3002\u061f")
