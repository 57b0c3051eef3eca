"""Questions that mean the same are one gap, and stay in it when new questions arrive."""

import numpy as np
import pytest
from numpy.typing import NDArray

from features.gaps.grouping import MAX_QUESTIONS, group, min_cosine_of
from shared.domain.corpus.collections import Baseline

MIN_COSINE = 0.8


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    scaled: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled.astype(np.float32)


def wordings(topics: int, each: int) -> NDArray[np.float32]:
    """Return `each` similar vectors of every topic, the topics in turn."""
    random = np.random.default_rng(7)
    centres = random.standard_normal((topics, 64))
    return unit(np.tile(centres, (each, 1)) + 0.1 * random.standard_normal((topics * each, 64)))


def test_similar_questions_share_a_group() -> None:
    assigned = group(wordings(topics=5, each=20), MIN_COSINE)

    assert assigned.tolist() == list(range(5)) * 20


def test_new_questions_keep_older_groups() -> None:
    questions = wordings(topics=12, each=10)

    before = group(questions[:60], MIN_COSINE)

    assert group(questions, MIN_COSINE)[:60].tolist() == before.tolist()


def test_question_joins_its_most_similar_leader() -> None:
    questions = unit(np.array([[1.0, 0.0], [0.6, 0.8], [0.75, 0.66]]))

    assert group(questions, 0.7).tolist() == [0, 1, 1]


def test_similar_leaders_stay_apart() -> None:
    questions = unit(np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2]]))

    assert group(questions, 0.7, leaders=2).tolist() == [0, 1, 1]


def test_similar_models_need_higher_cosines() -> None:
    assert min_cosine_of(Baseline()) == pytest.approx(0.6)
    assert min_cosine_of(Baseline(0.75, 0.03)) == pytest.approx(0.889, abs=0.001)


def test_no_questions_have_no_groups() -> None:
    assert group(np.empty((0, 64), dtype=np.float32), MIN_COSINE).tolist() == []


def test_too_many_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        group(np.zeros((MAX_QUESTIONS + 1, 2), dtype=np.float32), MIN_COSINE)
