"""How alike questions and texts are: cosines, and the words that they share. Nothing is searched or stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shared.domain.vectors import Vectors
from shared.providers.embedding import Embedder, Embedders, Input, pack
from shared.text.bm25 import document_vector, query_vector

_BATCH_INPUTS, _BATCH_TOKENS = 64, 8_000  # of one request for embeddings


@dataclass(frozen=True, slots=True)
class ComparedText:
    """A text, and questions that belong to it."""

    text: str
    questions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a text has in common with each question that was asked; row i of each belongs to question i.

    Args:
        text: cosines of the question and the text.
        questions: for each question, its cosines with those of the text, in their order.
        words: the share of the question's words that the text has, from 0 to 1.
    """

    text: Sequence[float]
    questions: Sequence[Sequence[float]]
    words: Sequence[float]


async def compare(
    embedders: Embedders,
    embedding: str,
    questions: Sequence[str],
    texts: Sequence[ComparedText],
    languages: Sequence[str],
) -> list[Likeness]:
    """Compare questions with texts, each embedded once, as queries and documents are.

    Args:
        embedders: by name.
        embedding: the name of the one to use.
        questions: what users ask.
        texts: in any order; row i of the result belongs to text i.
        languages: of the texts, besides words as they stand.

    Raises:
        Conflict: no setting describes the embedding.
        ForeaskError: the provider refuses a text or is not available now.
    """
    embedder = embedders.of(embedding)
    prefixes = embedder.prefixes
    of_texts = [prefixes.passage(text.text) for text in texts]
    stored = dict.fromkeys(question for text in texts for question in text.questions)
    inputs = [*prefixes.queries(questions), *of_texts, *prefixes.queries(stored)]
    cosines = await _cosines(embedder, inputs, len(questions))
    place = {question: len(of_texts) + n for n, question in enumerate(stored)}
    return [
        Likeness(
            text=[row[n] for row in cosines],
            questions=[[row[place[question]] for question in text.questions] for row in cosines],
            words=[_share(question, text.text, languages) for question in questions],
        )
        for n, text in enumerate(texts)
    ]


async def _cosines(embedder: Embedder, inputs: Sequence[Input], asked: int) -> list[list[float]]:
    """Return the cosines of the first `asked` inputs with each of the others."""
    ranges = pack(inputs, max_inputs=_BATCH_INPUTS, max_tokens=_BATCH_TOKENS)
    parts: list[Vectors] = [await embedder.embed([inputs[n] for n in part]) for part in ranges]
    vectors = np.concatenate(parts)
    rows: list[list[float]] = (vectors[:asked] @ vectors[asked:].T).tolist()
    return rows


def _share(question: str, text: str, languages: Iterable[str]) -> float:
    wanted = query_vector(question, languages)
    said = {term for language in (None, *languages) for term in document_vector(text, language).indices}
    return min(1.0, sum(term in said for term in wanted.indices) / max(1, wanted.words))
