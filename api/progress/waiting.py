"""Why a document in progress waits, in a sentence."""

from __future__ import annotations

from shared.domain.corpus.documents import Document
from shared.domain.errors import NotFound, Transient
from shared.domain.states import DocumentState
from shared.ledger.model.collections import Collections
from shared.services.api import ApiServices
from shared.vectors.transport.notices import WRITES

# The providers that a document in this state needs, the first one first.
_NEEDS = {DocumentState.INDEXING: ("embedding",), DocumentState.SEARCHABLE: ("llm", "embedding")}


async def reason_of(document: Document, tenant: str, services: ApiServices) -> str | None:
    """Return the error of a document, or why its provider is not called; None without any.

    While a provider pauses, no attempt is made, so most documents have no error of their own.
    """
    needs = _NEEDS.get(document.state)
    if document.error is not None or needs is None:
        return document.error
    if document.state is DocumentState.INDEXING and (refusal := await _refusal(services)):
        return refusal
    try:
        collection = await services.ledger[Collections].get(tenant, document.collection)
        uses = await services.limiters.of_load(tenant, collection.embedding_model)
    except (NotFound, Transient):
        uses = []
    found = [use for component in needs for use in uses if use.component == component]
    return next((trouble for use in found if (trouble := use.trouble)), None)


async def _refusal(services: ApiServices) -> str | None:
    """Return why Qdrant takes no points; None if it does, or while the broker, which stores it, is unavailable."""
    try:
        return (await services.notices.read((WRITES,))).get(WRITES)
    except Transient:
        return None
