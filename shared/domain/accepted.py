"""Users' questions that become questions of a chunk: when two are the same, and the id of one."""

from __future__ import annotations

import unicodedata
from uuid import UUID, uuid5


def plain(question: str) -> str:
    """What two questions share that are the same word for word: case, space and the mark at the end do not count."""
    return " ".join(unicodedata.normalize("NFC", question).casefold().split()).rstrip("?!. ")


def accepted_id(chunk: UUID, question: str) -> UUID:
    """The id of a chunk's accepted question and of its point: the same however often it comes, in every version."""
    return uuid5(chunk, f"user/{plain(question)}")
