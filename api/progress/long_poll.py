"""Waiting for a document, for clients that prefer one request to polling."""

from __future__ import annotations

import time
from contextlib import aclosing, suppress
from datetime import timedelta

from fastapi import Request

from shared.domain.corpus.documents import Document
from shared.domain.errors import NotFound
from shared.domain.states import DocumentState
from shared.http.changes import reads_of
from shared.http.shutdown import Shutdown
from shared.ledger.documents.documents import Documents

_PENDING = frozenset({DocumentState.QUEUED, DocumentState.PARSING, DocumentState.READING, DocumentState.INDEXING})


def is_found(document: Document) -> bool:
    """Return whether queries find the newest version, or its processing has failed."""
    return document.state not in _PENDING


async def until_found(
    request: Request, tenant: str, uploaded: Document, documents: Documents, *, wait: timedelta, shutdown: Shutdown
) -> Document:
    """Wait until a document is searchable by its texts or has failed; return its last state.

    The wait ends early if the client disconnects or the server stops. The upload is durable, so an unavailable ledger,
    or a deletion, is not an error here.
    """

    async def read(known: Document) -> Document:
        with suppress(NotFound):
            return await documents.get(tenant, known.id)
        return known

    document, deadline = uploaded, time.monotonic() + wait.total_seconds()
    async with aclosing(reads_of(uploaded, read, deadline)) as reads:
        async for document in reads:
            if is_found(document) or shutdown.is_started or await request.is_disconnected():
                break
    return document
