"""Conversations of the page that the server stores for a key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Conversation:
    """A stored conversation.

    Args:
        id: id among the conversations of its owner.
        name: name in the list.
        turns: questions and answers, as JSON.
        changed_at: time of the last change.
    """

    id: str
    name: str
    turns: str
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Citations:
    """The data from which the answers of a conversation were written: an erasure of any of it deletes the conversation.

    Args:
        collections: names of the collections of the questions.
        document_ids: public ids of the documents.
    """

    collections: Collection[str]
    document_ids: Collection[UUID]
