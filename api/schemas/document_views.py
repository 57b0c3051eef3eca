"""Documents and chunks as replies show them."""

from __future__ import annotations

import dataclasses

from api.schemas.chunks import AcceptanceView, ChunkQuestion, ChunkView
from api.schemas.dead_letters import AttemptView
from api.schemas.documents import ChunkCounts, DocumentView, IngestUsage, LossView
from shared.domain import questions
from shared.domain.chunk_detail import ChunkDetail
from shared.domain.documents import Document
from shared.domain.usage import total
from shared.services.ingest import price_by_tier
from shared.settings import Settings


def view(document: Document, settings: Settings) -> DocumentView:
    p, read = document.progress, document.completeness
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
        error=document.error or p.waiting,
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
        pages=p.pages,
        pages_read=p.pages_read,
        pages_unread=p.pages_unread,
        text_coverage=_share(read.coverage),
        losses=[
            LossView(location=loss.location, missing=loss.missing, sample=list(loss.sample)) for loss in read.losses
        ],
        unread=list(read.unread),
        outdated=document.outdated,
        questions=p.questions,
        usage=IngestUsage(
            prompt_tokens=p.prompt_tokens,
            completion_tokens=p.completion_tokens,
            calls=p.calls,
            cost=price_by_tier(settings, p.usage_by_tier),
        ),
    )


def _share(coverage: float | None) -> float | None:
    """Return a share in four digits; it is 1 only if nothing is missing."""
    if coverage is None or coverage == 1:
        return coverage
    return min(round(coverage, 4), 0.9999)


def chunk_view(chunk: ChunkDetail, settings: Settings) -> ChunkView:
    content, usage = chunk.content, total(chunk.usage_by_tier)
    return ChunkView(
        id=chunk.id,
        document_id=chunk.document_id,
        version=chunk.version,
        ordinal=chunk.ordinal,
        text=content.text,
        title=content.title,
        heading_path=list(content.heading_path),
        span=content.span,
        section=content.section,
        page=content.page,
        confidence=content.confidence,
        language=content.language,
        state=chunk.state,
        error=chunk.error,
        attempts=[AttemptView.model_validate(dataclasses.asdict(attempt)) for attempt in chunk.history],
        usage=IngestUsage(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            calls=chunk.calls,
            cost=price_by_tier(settings, chunk.usage_by_tier),
        ),
        questions=[_question(question) for question in chunk.questions],
    )


def _question(question: questions.QuestionDetail) -> ChunkQuestion:
    accepted = question.accepted
    return ChunkQuestion(
        text=question.text,
        passed=question.passed,
        reason=question.reason,
        source=question.source,
        similarity=question.similarity,
        accepted=None if accepted is None else AcceptanceView.model_validate(dataclasses.asdict(accepted)),
    )
