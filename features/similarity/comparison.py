"""The similarity of questions and texts: cosines, and common words. Nothing is searched or stored."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.ids import chunk_of_point
from shared.domain.text.bm25 import document_vector, query_vector
from shared.domain.vectors import Vectors
from shared.providers.embedding import Embedder, Input, pack
from shared.query.retrieve.query import QuestionOrigin
from shared.vectors.hits import Hit
from shared.vectors.index import Index
from shared.vectors.schema.filters import VisiblePoints
from shared.vectors.searches import chunk_search, exactly, question_listing, question_search, text_search

_BATCH_INPUTS, _BATCH_TOKENS = 64, 8_000  # of one request for embeddings
_CHUNK_POINTS = 200  # more than a chunk has questions, including users' questions


@dataclass(frozen=True, slots=True)
class ComparedText:
    """A text, and questions that belong to it."""

    text: str
    questions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Similarity:
    """The similarity of a text to each question; item i of each list belongs to question i.

    Args:
        text: cosines of the question and the text.
        questions: per question, its cosines with the text's questions, in order.
        words: share of the question's words that the text contains, from 0 to 1.
    """

    text: Sequence[float]
    questions: Sequence[Sequence[float]]
    words: Sequence[float]


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question of a chunk, and its cosine with each of the questions."""

    text: str
    source: QuestionOrigin
    cosines: Sequence[float]


@dataclass(frozen=True, slots=True)
class ChunkSimilarity:
    """The similarity of a chunk to each question; item i of each list belongs to question i.

    Args:
        text: cosines with the embedded text; None if it is found by words only.
        questions: stored questions, the chunk's own first.
        words: share of the question's words that its passage contains, from 0 to 1.
    """

    chunk_id: str
    text: Sequence[float] | None
    questions: Sequence[StoredQuestion]
    words: Sequence[float]


async def embed_compared(
    embedder: Embedder, questions: Sequence[str], texts: Sequence[ComparedText]
) -> tuple[Vectors, Vectors]:
    """Embed questions as queries, then texts as documents and their questions as queries, each once.

    Returns:
        Vectors of the questions, shape `(questions, dimensions)`, and vectors of the texts followed by their distinct
        questions.

    Raises:
        ForeaskError: the provider rejects a text or is unavailable.
    """
    prefixes = embedder.prefixes
    of_texts = [prefixes.passage(text.text) for text in texts]
    inputs = [*prefixes.queries(questions), *of_texts, *prefixes.queries(_distinct(texts))]
    vectors = await _embedded(embedder, inputs)
    return vectors[: len(questions)], vectors[len(questions) :]


def compare(
    asked: Vectors, given: Vectors, questions: Sequence[str], texts: Sequence[ComparedText], languages: Sequence[str]
) -> list[Similarity]:
    """Compare questions with texts.

    Args:
        asked: vectors of the questions.
        given: vectors of the texts and of their questions, as returned by `embed_compared`.
        questions: users' questions.
        texts: texts in any order; item i of the result belongs to text i.
        languages: languages of the texts, for stemming.
    """
    cosines: list[list[float]] = (asked @ given.T).tolist()
    row_of = {question: n for n, question in enumerate(_distinct(texts), len(texts))}
    shares = _shares(questions, [text.text for text in texts], languages)
    return [
        Similarity(
            text=[row[n] for row in cosines],
            questions=[[row[row_of[question]] for question in text.questions] for row in cosines],
            words=shares[n],
        )
        for n, text in enumerate(texts)
    ]


async def compare_stored(  # noqa: PLR0917 - the parts of a comparison
    index: Index,
    where: VisiblePoints,
    asked: Vectors,
    questions: Sequence[str],
    chunks: Sequence[str],
    languages: Sequence[str],
) -> list[ChunkSimilarity]:
    """Compare questions with chunks by stored vectors, each chunk in its newest version.

    Args:
        index: client of Qdrant.
        where: visible points of the chunks.
        asked: vectors of the questions.
        questions: users' questions.
        chunks: ids; invisible ones are missing from the result.
        languages: languages of the chunks, for stemming.

    Raises:
        Unavailable: Qdrant is unavailable.
    """
    limit = _CHUNK_POINTS * len(chunks)
    of_texts = [exactly(text_search(vector, where, limit)) for vector in asked]
    of_questions = [exactly(question_search(vector, where, limit)) for vector in asked]
    listings = [chunk_search(where, chunks), question_listing(where, limit)]
    found = await index.search(where.location.index_name, [*listings, *of_texts, *of_questions])
    return [] if found is None else await asyncio.to_thread(_joined, found, questions, chunks, languages)


def _joined(
    found: Sequence[Sequence[Hit]], questions: Sequence[str], chunks: Sequence[str], languages: Sequence[str]
) -> list[ChunkSimilarity]:
    """Combine the hits of each chunk: its texts, its questions, then the scores of each question."""
    (texts, stored), scored = found[:2], found[2:]
    newest = {chunk: hit for hit in sorted(texts, key=_version) for chunk in [chunk_of_point(hit.id)[0]]}
    scores = [{hit.id: hit.score for hit in hits} for hits in scored]
    text_scores, question_scores = scores[: len(questions)], scores[len(questions) :]
    own = defaultdict[tuple[str, int], list[Hit]](list)
    for question in sorted(stored, key=_order):
        own[chunk_of_point(question.id)].append(question)
    there = [newest[chunk] for chunk in chunks if chunk in newest]
    shares = _shares(questions, [ChunkContent.from_json(hit.payload).passage for hit in there], languages)
    return [
        ChunkSimilarity(
            chunk_of_point(hit.id)[0],
            _cosines(text_scores, hit),
            [
                StoredQuestion(q.payload["question"], q.payload.get("source", "generated"), cosines)
                for q in own[chunk_of_point(hit.id)]
                if (cosines := _cosines(question_scores, q)) is not None
            ],
            words,
        )
        for hit, words in zip(there, shares, strict=True)
    ]


def _cosines(scores: Sequence[dict[str, float]], hit: Hit) -> list[float] | None:
    """Return the scores of a point, one per search; None if it has no such vector."""
    return [each[hit.id] for each in scores] if all(hit.id in each for each in scores) else None


def _version(hit: Hit) -> int:
    return chunk_of_point(hit.id)[1]


def _order(hit: Hit) -> tuple[bool, str]:
    return hit.payload.get("source") == "user", hit.id


def _distinct(texts: Iterable[ComparedText]) -> dict[str, None]:
    return dict.fromkeys(question for text in texts for question in text.questions)


async def _embedded(embedder: Embedder, inputs: Sequence[Input]) -> Vectors:
    ranges = pack(inputs, max_inputs=_BATCH_INPUTS, max_tokens=_BATCH_TOKENS)
    parts: list[Vectors] = [await embedder.embed([inputs[n] for n in part]) for part in ranges]
    return np.concatenate(parts)


def _shares(questions: Sequence[str], texts: Sequence[str], languages: Sequence[str]) -> list[list[float]]:
    """Return, for each text, the share of each question's words that it contains."""
    wanted = [query_vector(question, languages) for question in questions]
    shares = []
    for text in texts:
        said = {term for language in (None, *languages) for term in document_vector(text, language).indices}
        shares.append([min(1.0, sum(term in said for term in q.indices) / max(1, q.words)) for q in wanted])
    return shares
