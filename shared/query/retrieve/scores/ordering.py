"""Ordering of the best chunks by their texts, after the ordering by the channels' scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.text.words import WORD, pieces_of
from shared.query.retrieve.scores.fusion import Match

_NAMED = 0.1  # the share of its score that a chunk gains with all the names of the question


def boosted(
    matches: Sequence[Match], payloads: Mapping[str, Mapping[str, Any]], entities: Sequence[str]
) -> list[Match]:
    """Raise the scores of chunks whose text, headings or title contain the question's names.

    Args:
        matches: the chunks.
        payloads: payloads by chunk; a chunk without one keeps its score.
        entities: the names.
    """
    names = [name for entity in entities if (name := _words(entity))]
    raised = [_raised(match, payloads.get(match.chunk_id), names) for match in matches] if names else matches
    return sorted(raised, key=lambda match: (-match.score, match.chunk_id))


def _raised(match: Match, payload: Mapping[str, Any] | None, names: Sequence[str]) -> Match:
    if payload is None:
        return match
    words = _words(passage_of(payload))
    share = sum(name in words for name in names) / len(names)
    return match._replace(score=match.score + _NAMED * share * abs(match.score))


def _words(text: str) -> str:
    """Join the words with spaces before, between and after them, so that a name matches complete words only."""
    words = [piece for word in WORD.findall(text.casefold()) for piece in pieces_of(word)]
    return f" {' '.join(words)} " if words else ""


def passage_of(payload: Mapping[str, Any]) -> str:
    """Return a chunk under its title and headings, as a model reads it."""
    return ChunkContent.from_json(payload).passage


def reranked(matches: Sequence[Match], scores: Mapping[str, float]) -> list[Match]:
    """Move the reranked chunks to the front, in the reranker's order; the others follow in their old order."""
    scored = [match._replace(rerank_score=scores[match.chunk_id]) for match in matches if match.chunk_id in scores]
    scored.sort(key=lambda match: -(match.rerank_score or 0.0))
    return scored + [match for match in matches if match.chunk_id not in scores]


def on_one_scale(matches: Sequence[Match]) -> list[Match]:
    """Reassign the scores in descending order, so that scores and ranks agree after reranking."""
    scores = sorted((match.score for match in matches), reverse=True)
    return [match._replace(score=score) for match, score in zip(matches, scores, strict=True)]
