"""Waiting for a document, for clients that prefer one request to polling."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta

from fastapi import Request

from api.progress.readiness import Shutdown
from shared.domain.documents import Document
from shared.domain.errors import NotFound, Unavailable
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_PENDING = frozenset({DocumentState.QUEUED, DocumentState.PARSING, DocumentState.READING, DocumentState.INDEXING})


def is_found(document: Document) -> bool:
    """Return whether queries find the newest version, or its processing has failed."""
    return document.state not in _PENDING


async def until_found(
    request: Request, tenant: str, document: Document, documents: Documents, *, wait: timedelta, shutdown: Shutdown
) -> Document:
    """Wait until a document is searchable by its texts or has failed; return its last state.

    The wait ends early if the client disconnects or the server stops. The upload is durable, so an unavailable ledger,
    or a deletion, is not an error here.
    """
    deadline, pause = time.monotonic() + wait.total_seconds(), _FIRST_PAUSE_SECONDS
    while not is_found(document) and (left := deadline - time.monotonic()) > 0:
        if shutdown.is_started or await request.is_disconnected():
            break
        await asyncio.sleep(min(pause, left))
        pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)
        with suppress(NotFound, Unavailable):
            document = await documents.get(tenant, document.id)
    return document
