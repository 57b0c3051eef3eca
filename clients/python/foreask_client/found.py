"""Searches for the retrievers of other frameworks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from foreask_client.models import FoundChunk, Json
from foreask_client.synchronous import Client

_FIELDS = {
    "chunk_id",
    "document_id",
    "external_id",
    "title",
    "filename",
    "heading_path",
    "page",
    "score",
    "matched_question",
}


def found_by(
    client: Client, question: str, *, user: str | None = None, groups: Sequence[str] = (), **query: Any
) -> list[FoundChunk]:
    """Return the chunks that answer a question, best first.

    A notice becomes a warning of Python, because the lists of other frameworks have no room for it: it says why nothing
    was found, or that no document has a field of the filter.

    Args:
        client: the client that sends the request.
        question: at most 10,000 characters.
        user: person for whom the key acts in this request; None: the client's own person, if it has one.
        groups: groups of this person.
        **query: arguments of `Client.retrieve`.

    Raises:
        ValueError: there are groups without a user.
    """
    if user is not None or groups:
        client = client.acting_for(user, groups)
    found = client.retrieve(question, **query)
    if found.metadata.notice:
        warnings.warn(found.metadata.notice, stacklevel=3)
    return found.chunks


def metadata_of(chunk: FoundChunk) -> Json:
    """Return the document's metadata and the chunk's position and score, which replace fields of the same name."""
    return chunk.metadata | chunk.model_dump(include=_FIELDS)
