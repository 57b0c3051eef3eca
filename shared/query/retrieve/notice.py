"""A notice about a result, such as why it is empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NoticeCode = Literal["index_damaged", "no_documents", "nothing_searchable", "unknown_fields", "nothing_chosen"]


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice for programs and for people.

    Args:
        code: reason of the notice, by which a program writes its own sentence.
        sentence: the reason with names.
    """

    code: NoticeCode
    sentence: str
