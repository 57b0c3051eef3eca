"""Which questions are worth keeping, and why the others are not: pure functions, no calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.asking.subject import Subject

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Screened:
    """A question and whether it is kept; `reason` says in a few words why it is not."""

    text: str
    kept: bool
    reason: str | None = None


def normalise(question: str) -> str:
    return " ".join(question.split())


def screen(questions: Sequence[str], subject: Subject) -> list[Screened]:  # noqa: ARG001
    return [Screened(normalise(q), kept=True) for q in questions]


def floor_for(model_name: str) -> float | None:  # noqa: ARG001
    return None


def apply_similarity(
    screened: Sequence[Screened],
    question_vectors: Vectors,  # noqa: ARG001
    chunk_vector: Vectors,  # noqa: ARG001
    floor: float | None,  # noqa: ARG001
) -> list[Screened]:
    return list(screened)
