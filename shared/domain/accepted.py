"""Users' questions that a chunk accepts: which two are the same, and which id each has."""

from __future__ import annotations

import unicodedata
from uuid import UUID, uuid5


def plain(question: str) -> str:
    """The form in which questions are compared: case, spacing and the mark at the end do not count."""
    return " ".join(unicodedata.normalize("NFC", question).casefold().split()).rstrip("?!. ")


def accepted_id(chunk: UUID, question: str) -> UUID:
    """The id of a chunk's accepted question; the same in every version and at every repetition."""
    return uuid5(chunk, f"user/{plain(question)}")
