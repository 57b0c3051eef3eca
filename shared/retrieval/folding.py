"""Folding: many points of a chunk become one match, with its best score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.index import Hit


@dataclass(frozen=True, slots=True)
class Match:
    """A chunk that a question found.

    `score` is the cosine of the question with the nearest of the chunk's questions or with its text; `question` is the
    one that matched, None where the text itself was nearer.
    """

    chunk_id: str
    score: float
    question: str | None


def fold(questions: Iterable[Hit], texts: Iterable[Hit]) -> list[Match]:
    """Keep each chunk once, by its best score, best first; of equal scores the chunk's id decides."""
    best: dict[str, Match] = {}
    for hit in questions:
        _keep(best, Match(str(hit.payload["chunk_id"]), hit.score, str(hit.payload["question"])))
    for hit in texts:
        _keep(best, Match(hit.id, hit.score, None))
    return sorted(best.values(), key=lambda match: (-match.score, match.chunk_id))


def _keep(best: dict[str, Match], match: Match) -> None:
    known = best.get(match.chunk_id)
    if known is None or match.score > known.score:
        best[match.chunk_id] = match
