"""Two saved runs of the same set, strategy by strategy, on the questions that both have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from features.evaluation.results import Json
from shared.domain.errors import InvalidInput
from shared.query.calibrate.significance import Interval, interval, p_value


@dataclass(frozen=True, slots=True)
class StrategyDifference:
    """The nDCG@10 of a strategy in two runs, paired over the questions."""

    strategy: str
    before: float
    now: float
    difference: Interval
    p_value: float
    queries: int


def compare(now: Json, before: Json) -> list[StrategyDifference]:
    """Compare two runs.

    Raises:
        InvalidInput: they have no strategy or no question in common.
    """
    shared = [name for name in now["per_query"] if name in before["per_query"]]
    differences = [_difference(name, now["per_query"][name], before["per_query"][name]) for name in shared]
    compared = [difference for difference in differences if difference.queries]
    if not compared:
        raise InvalidInput("The two runs have no strategy with a question in common.", field="compare")
    return compared


def _difference(name: str, now: Mapping[str, float], before: Mapping[str, float]) -> StrategyDifference:
    queries = [query for query in now if query in before]
    new, old = [now[query] for query in queries], [before[query] for query in queries]
    difference = interval([a - b for a, b in zip(new, old, strict=True)])
    return StrategyDifference(name, interval(old).mean, interval(new).mean, difference, p_value(new, old), len(queries))
