"""Notices of a query: an empty result, or a filter that does nothing, must not look like missing knowledge.

A field that no document has is reported and not refused: `{"archived": {"none": [true]}}` is right before the first
document is archived, and a program must not fail because of the documents that a collection has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from shared.domain.corpus.collections import Collection
from shared.domain.corpus.metadata_fields import unknown_fields
from shared.domain.errors import ForeaskError
from shared.domain.states import DocumentState
from shared.domain.text.similar_names import listed, most_similar
from shared.http.access.auth import Caller
from shared.http.schemas.queries import RetrieveBody
from shared.ledger.model.collections import Collections
from shared.query.retrieve import Retrieval
from shared.query.retrieve.notice import Notice
from shared.vectors.schema.filters import fields_of

_SECONDS = 1.0  # a query does not wait longer for the ledger, which it can do without
_FOUND_STATES = (DocumentState.SEARCHABLE, DocumentState.READY, DocumentState.DEGRADED)


async def add_notices(retrieval: Retrieval, body: RetrieveBody, caller: Caller, collections: Collections) -> None:
    """Add notices to a result: about fields of the filter that no document has, and why nothing was found.

    The ledger is read only if there may be something to report; if it does not answer, there is no notice.
    """
    is_empty = not retrieval.unique_chunks
    if not is_empty and not _unknown(body, retrieval.collection, caller):
        return
    with suppress(ForeaskError, TimeoutError):
        async with asyncio.timeout(_SECONDS):
            await _add(retrieval, body, caller, collections, is_empty=is_empty)


async def _add(
    retrieval: Retrieval, body: RetrieveBody, caller: Caller, collections: Collections, *, is_empty: bool
) -> None:
    # The cached collection may not have the fields of a document that has just been parsed.
    collection = await collections.get(retrieval.collection.tenant, retrieval.collection.name)
    is_partial = caller.restriction.is_partial
    if is_empty and caller.person is None and (reason := await _reason(collection, collections)):
        retrieval.notices = [reason]
        return
    retrieval.unknown_fields = _unknown(body, collection, caller)
    if retrieval.unknown_fields:
        # The caller must not learn the fields of documents that it cannot find.
        known = () if is_partial else _known(collection)
        sentence = _sentence(retrieval.unknown_fields, known, collection.name)
        retrieval.notices = [Notice("unknown_fields", sentence)]
    elif is_empty and (body.filter is not None or body.document_ids is not None):
        chosen = "passes the filter" if body.filter is not None else "is among `document_ids`"
        sentence = f"No searchable document of the collection '{collection.name}' {chosen}."
        retrieval.notices = [Notice("nothing_chosen", sentence)]


async def _reason(collection: Collection, collections: Collections) -> Notice | None:
    """Return why a collection has nothing to find; None if it has."""
    counts = (await collections.document_counts(collection.tenant, [collection.id]))[collection.id]
    if not any(counts.values()):
        return Notice("no_documents", f"The collection '{collection.name}' has no documents yet.")
    if not any(counts.get(state) for state in _FOUND_STATES):
        sentence = f"No document of the collection '{collection.name}' is searchable yet."
        return Notice("nothing_searchable", sentence)
    return None


def _known(collection: Collection) -> Sequence[str]:
    return sorted({*collection.metadata_fields, *(name for name, _ in collection.options.filterable)})


def _unknown(body: RetrieveBody, collection: Collection, caller: Caller) -> Sequence[str]:
    # A person must not learn which fields the documents have that the person cannot read.
    if body.filter is None or caller.person is not None:
        return []
    return unknown_fields(fields_of(body.filter), _known(collection))


def _sentence(unknown: Sequence[str], known: Sequence[str], collection: str) -> str:
    field = "field" if len(unknown) == 1 else "fields"
    sentence = f"So far, no document of the collection '{collection}' has the metadata {field} {listed(unknown)}"
    if not known:
        return f"{sentence} of the filter."
    similar = most_similar(unknown[0], known)
    others = len(known) - len(similar)
    how = f" (GET /v1/collections/{collection} lists them)" if others else ""
    verb = "is" if len(known) == 1 else "are"
    return f"{sentence} of the filter: there {verb} {listed(similar, others)}{how}."
