"""The uncertainty of a mean and of a difference of means, because other questions would give other values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SEED = 20_240_229  # any fixed number: the same results give the same intervals
_RESAMPLES = 2_000  # from one seed to another the bounds move by 1.5 % of the interval
_PERMUTATIONS = 10_000
_BLOCK_VALUES = 4_000_000  # random values at a time, so that many queries need no more memory than few
_CONFIDENCE = 0.95

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float] | Values) -> Interval:
    """Return the mean of `values`, shape `(queries,)`, with its percentile bootstrap interval (Efron 1979)."""
    array = np.asarray(values, dtype=np.float64)
    if not len(array):
        return Interval(0.0, 0.0, 0.0)
    random = np.random.default_rng(_SEED)
    means = np.concatenate(
        [array[random.integers(0, len(array), shape)].mean(axis=1) for shape in _blocks(_RESAMPLES, len(array))]
    )
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(array.mean()), float(low), float(high))


def p_value(values: Sequence[float], others: Sequence[float]) -> float:
    """Return the probability that the means of two strategies differ this much by chance.

    Two-sided paired randomisation test, recommended for retrieval by Smucker, Allan and Carterette, "A Comparison of
    Statistical Significance Tests for Information Retrieval Evaluation" (2007).

    Args:
        values: values of one strategy, shape `(queries,)`; value i belongs to the same query as value i of the other.
        others: values of the other strategy.
    """
    differences = np.asarray(values, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    differences = differences[differences != 0]  # a sign changes no zero
    if not len(differences):
        return 1.0
    observed = abs(differences.sum()) - 1e-12  # sums of the same numbers in another order are equal
    random = np.random.default_rng(_SEED)
    as_far = 0
    for shape in _blocks(_PERMUTATIONS, len(differences)):
        signs = random.integers(0, 2, shape, dtype=np.int8) * 2 - 1
        as_far += int((np.abs(signs @ differences) >= observed).sum())
    return (as_far + 1) / (_PERMUTATIONS + 1)


def _blocks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    step = max(1, _BLOCK_VALUES // columns)
    for start in range(0, rows, step):
        yield min(step, rows - start), columns
