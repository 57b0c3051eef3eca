"""Two saved runs of the same set, strategy by strategy, on the questions that both have."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.results import Json
from shared.domain.errors import InvalidInput
from shared.query.calibrate.significance import Interval, interval, p_value


@dataclass(frozen=True, slots=True)
class Change:
    """How a strategy's nDCG@10 differs from before, paired over the questions."""

    strategy: str
    before: float
    now: float
    difference: Interval
    p_value: float
    queries: int


def changes(now: Json, before: Json) -> list[Change]:
    """Compare two runs.

    Raises:
        InvalidInput: they have no strategy or no question in common.
    """
    shared = [name for name in now["per_query"] if name in before["per_query"]]
    found = [_change(name, now["per_query"][name], before["per_query"][name]) for name in shared]
    compared = [change for change in found if change.queries]
    if not compared:
        raise InvalidInput("The two runs have no strategy with a question in common.", field="compare")
    return compared


def _change(name: str, now: dict[str, float], before: dict[str, float]) -> Change:
    queries = [query for query in now if query in before]
    mine, theirs = [now[query] for query in queries], [before[query] for query in queries]
    difference = interval([a - b for a, b in zip(mine, theirs, strict=True)])
    return Change(name, interval(theirs).mean, interval(mine).mean, difference, p_value(mine, theirs), len(queries))
