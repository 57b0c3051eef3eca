"""The baseline of an embedding model: the cosines of questions with unrelated texts.

Measuring it needs no labels, because a chunk's question and the texts of other chunks are unrelated. If there are too
few questions, texts replace them: on four sets the cosines between texts differed by at most 0.05 from the cosines of
users' questions with texts, and were higher if the model does not know the language.
"""

from __future__ import annotations

import numpy as np

from shared.domain.corpus.collections import Baseline
from shared.domain.vectors import Vectors

MAX_PAIRS = 200  # questions, each with its own text
MIN_PAIRS = 30  # with fewer, chance moves the mean


def measure_baseline(questions: Vectors, texts: Vectors) -> Baseline:
    """Return the mean cosine of questions with texts of others, and the standard deviation of these cosines.

    Args:
        questions: shape `(n, dimensions)`, unit length; the texts again if there are no questions.
        texts: same shape; row i is the text that question i belongs to.

    Returns:
        The mean and the deviation; zeros, which change no score, for fewer than `MIN_PAIRS` pairs.
    """
    if len(questions) < MIN_PAIRS:
        return Baseline()
    cosines = questions @ texts.T
    others = cosines[~np.eye(len(cosines), dtype=bool)]
    return Baseline(float(others.mean()), float(others.std()))
