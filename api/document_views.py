"""Documents and chunks as replies show them."""

from __future__ import annotations

from api.schemas.documents import ChunkCounts, DocumentView, IngestUsage
from shared.domain.records import Document
from shared.domain.usage import Usage
from shared.estimates.prices import price
from shared.settings import Settings


def view(document: Document, settings: Settings) -> DocumentView:
    p = document.progress
    return DocumentView(
        id=document.id,
        external_id=document.external_id,
        collection=document.collection,
        title=document.title,
        filename=document.filename,
        media_type=document.media_type,
        metadata=None if document.metadata is None else dict(document.metadata),
        size_bytes=document.size_bytes,
        state=document.state,
        version=document.version,
        live_version=document.live_version,
        error=document.error,
        created_at=document.created_at,
        updated_at=document.updated_at,
        chunks=ChunkCounts(
            total=p.total,
            searchable=p.searchable,
            generated=p.generated,
            indexed=p.indexed,
            dead=p.dead,
            discarded=p.discarded,
        ),
        questions=p.questions,
        usage=IngestUsage(
            prompt_tokens=p.prompt_tokens,
            completion_tokens=p.completion_tokens,
            calls=p.calls,
            cost=_cost(settings, p.calls, Usage(p.prompt_tokens, p.completion_tokens)),
        ),
    )


def _cost(settings: Settings, calls: int, usage: Usage) -> float | None:
    """The price of calls. Where there were none it is 0: an upload needs no table of list prices, which takes 0.3 s."""
    return price(settings, "generate", usage) if calls else 0.0
