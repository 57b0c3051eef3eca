"""Users' questions that a chunk accepts: which two are the same."""

from __future__ import annotations

import unicodedata


def plain(question: str) -> str:
    """The form in which questions are compared: case, spacing and the mark at the end do not count."""
    return " ".join(unicodedata.normalize("NFC", question).casefold().split()).rstrip("?!. \uff1f\uff01\u3002\u061f")
