"""The chunks that a query returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from shared.domain.corpus.chunks import ChunkContent
from shared.query.retrieve.query import Channel, QuestionOrigin
from shared.query.retrieve.scores.default_fusion import ScoreParts
from shared.query.retrieve.scores.fusion import ChannelRank, Match


class Cosines(NamedTuple):
    """Cosines of the user's question with a chunk, as the embedding model computes them: no calibration changes them.

    Args:
        question: cosine with the chunk's nearest question; 0 if none was found, None if questions were not searched.
        text: cosine with its text; 0 if the text was not found, None if texts were not searched.
    """

    question: float | None = None
    text: float | None = None


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """A matching chunk, the content to return for it, and the reason for the match.

    Args:
        content: content of the returned unit: the chunk, its section or some of its sentences. A table's header rows
            may precede the text of its span.
        document_id: the document's public id.
        row_id: id of the document's row in the build, used by its points.
        chunk_span: span of the chunk that was found.
        cosines: cosines before calibration, for the original question.
        evidence: parts of the score; None with a fusion other than `scores`.
        also_in: external ids of documents with the same text and a lower score.
        tokens: tokens of the text; 0 until counted.
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
    cosines: Cosines = Cosines()
    evidence: ScoreParts | None = None
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
        """The text without repeated header rows: exactly the text of its span."""
        return self.text[len(self.text) - (self.span[1] - self.span[0]) :]


def chunk_of(
    match: Match, payload: Mapping[str, Any], question: Mapping[str, Any] | None, cosines: Cosines
) -> RetrievedChunk:
    """Combine a match with its payloads from Qdrant; `question` is its question's payload, None if deleted."""
    content = ChunkContent.from_json(payload)
    return RetrievedChunk(
        chunk_id=match.chunk_id,
        score=match.score,
        matched_question=question["question"] if question else None,
        matched_question_source=origin_of(question) if question else None,
        content=content,
        document_id=payload.get("public_id", payload["document_id"]),
        row_id=payload["document_id"],
        external_id=payload["external_id"],
        filename=payload["filename"],
        chunk_span=content.span,
        version=payload["version"],
        metadata=payload["metadata"],
        channels=match.ranks,
        cosines=cosines,
        evidence=match.evidence,
        rerank_score=match.rerank_score,
    )


def origin_of(question: Mapping[str, Any]) -> QuestionOrigin:
    """Return the origin of a question from its payload in Qdrant."""
    source: QuestionOrigin = question.get("source", "generated")
    return source
