"""The chunks that a query returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.domain.chunks import ChunkContent
from shared.query.retrieve.default_fusion import Evidence
from shared.query.retrieve.fusion import ChannelRank, Match
from shared.query.retrieve.query import Channel, QuestionOrigin


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """A chunk that matched, the content to return for it, and why it matched.

    Args:
        content: that of the unit of return: the chunk, the section around it or some of its sentences. A table's header
            rows may stand before the text of its span.
        document_id: the document's id for its owner.
        row_id: the id under which the build has the document; its points have this one.
        chunk_span: the span of the chunk that was found.
        evidence: what the score is made of; None with another fusion than `scores`.
        also_in: external ids of documents in which the same text was found, with a lower score.
        tokens: of the text; 0 until it is counted.
    """

    chunk_id: str
    score: float
    matched_question: str | None
    matched_question_source: QuestionOrigin | None
    content: ChunkContent
    document_id: str
    row_id: str
    external_id: str
    filename: str | None
    chunk_span: tuple[int, int]
    version: int
    metadata: Mapping[str, Any]
    channels: Mapping[Channel, ChannelRank]
    evidence: Evidence | None = None
    rerank_score: float | None = None
    also_in: tuple[str, ...] = ()
    tokens: int = 0

    @property
    def text(self) -> str:
        return self.content.text

    @property
    def span(self) -> tuple[int, int]:
        return self.content.span

    @property
    def body(self) -> str:
        """The text without repeated header rows: exactly that of its span."""
        return self.text[len(self.text) - (self.span[1] - self.span[0]) :]


def chunk_of(match: Match, payload: Mapping[str, Any], question: Mapping[str, Any] | None) -> RetrievedChunk:
    """Join a match with its payloads in Qdrant; `question` is that of its question, None where that has gone."""
    content = ChunkContent.from_json(payload)
    return RetrievedChunk(
        chunk_id=match.chunk_id,
        score=match.score,
        matched_question=question["question"] if question else None,
        matched_question_source=_source(question) if question else None,
        content=content,
        document_id=payload.get("public_id", payload["document_id"]),
        row_id=payload["document_id"],
        external_id=payload["external_id"],
        filename=payload["filename"],
        chunk_span=content.span,
        version=payload["version"],
        metadata=payload["metadata"],
        channels=match.ranks,
        evidence=match.evidence,
        rerank_score=match.rerank_score,
    )


def _source(question: Mapping[str, Any]) -> QuestionOrigin:
    source: QuestionOrigin = question.get("source", "generated")
    return source
