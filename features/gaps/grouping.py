"""Group questions by meaning, so that one gap stands for all its wordings."""

import numpy as np
from numpy.typing import NDArray

from shared.domain.corpus.collections import Baseline

MAX_QUESTIONS = 5_000
_USUAL = 0.1  # mean cosine of unrelated texts for most models
# Least cosine of two wordings of a question, for these models. Of 51 wordings of ten questions, MiniLM makes 19 groups
# at 0.6, 17 at 0.55, and 14 at 0.5; then one group contains two different questions.
_ALIKE = 0.6


def min_cosine_of(baseline: Baseline) -> float:
    """Return the least cosine of two wordings of a question.

    It is higher for a model whose cosines of unrelated texts are higher, as in `shared.query.retrieve.scores.scale`.
    """
    zero = max(0.0, (baseline.similarity - _USUAL) / (1 - _USUAL))
    return zero + (1 - zero) * _ALIKE


def group(vectors: NDArray[np.float32], min_cosine: float, leaders: int = 0) -> NDArray[np.intp]:
    """Assign each question to the group of its most similar leader.

    A question that is not similar enough to any leader becomes the leader of a new group. Pass the leaders of stored
    gaps first, then the other questions in the order of their arrival: a new question then never changes the group of
    an older one. The method is leader clustering (J. Hartigan, "Clustering Algorithms", 1975). It blocks its thread, so
    call it in a worker thread: 5,000 questions with 384 dimensions took 0.3 s when each formed its own group, which is
    the worst case. The time grows with questions * groups * dimensions.

    Args:
        vectors: embeddings of the questions, shape (n, dimensions), unit length, oldest first, n at most MAX_QUESTIONS.
        min_cosine: least cosine of a question and its leader.
        leaders: number of leaders of stored gaps, which stay leaders even if two of them are similar.

    Returns:
        The leader's row for each question, shape (n,). A leader's value is its own row.

    Raises:
        ValueError: there are more than MAX_QUESTIONS questions.
    """
    count, dimensions = vectors.shape
    if count > MAX_QUESTIONS:
        message = f"{count} questions are more than {MAX_QUESTIONS}"
        raise ValueError(message)
    centres = np.empty((count, dimensions), dtype=np.float32)
    rows: list[int] = []
    assigned = np.empty(count, dtype=np.intp)
    for row, vector in enumerate(vectors):
        cosines = centres[: len(rows)] @ vector
        nearest = int(cosines.argmax()) if rows else -1
        if row >= leaders and nearest >= 0 and cosines[nearest] >= min_cosine:
            assigned[row] = rows[nearest]
            continue
        centres[len(rows)] = vector
        rows.append(row)
        assigned[row] = row
    return assigned
