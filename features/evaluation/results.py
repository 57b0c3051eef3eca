"""The results of an evaluation, `results.json`, which a comparison reads again.

- foreask, set, default, baseline, embedding_model, passages, queries
- questions: count, passages, source
- rows: strategy, each metric with its _low and _high, difference (of nDCG@10 from the baseline, paired over the
  queries) with its _low and _high, p_value, points_per_chunk, bytes_per_chunk, llm_calls, llm_tokens,
  milliseconds_per_query
- left_out: strategy, why
- notes: sentences
- answers: see `evaluation.answers`; null if answers were not evaluated
- per_query: by strategy and query nDCG@10

For a collection on a server, passages, questions, points, bytes, calls and tokens are unknown, and null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson

from features.evaluation.metrics import METRICS
from features.evaluation.strategies import DEFAULT, Strategy
from shared.domain.errors import InvalidInput
from shared.query.calibrate.significance import interval, p_value

Json = dict[str, Any]
FILE = "results.json"
_NDCG = METRICS[0]


@dataclass(frozen=True, slots=True)
class StrategyCost:
    """The storage of a strategy for each chunk, and the price of its questions."""

    points_per_chunk: float
    bytes_per_chunk: int
    llm_calls: int
    llm_tokens: int


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """A strategy's scores by metric and query, its time and its cost.

    Args:
        milliseconds: median time of a query.
        cost: cost of the strategy, if known.
        notes: sentences for readers of its row.
    """

    strategy: Strategy
    scores: Mapping[str, Mapping[str, float]]
    milliseconds: float
    cost: StrategyCost | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluatedSet:
    """The set or collection that was searched.

    Args:
        name: name of the set or collection.
        passages: number of passages, if known.
        questions: `{"count", "passages", "source"}` of the passages' questions, if known.
    """

    name: str
    embedding_model: str
    queries: int
    passages: int | None = None
    questions: Json | None = None


def build_results(
    subject: EvaluatedSet,
    measured: Sequence[StrategyResult],
    baseline: str,
    *,
    left_out: Sequence[Json],
    notes: Sequence[str],
    answers: Json | None = None,
) -> Json:
    """Assemble the content of `results.json`.

    Args:
        subject: the set or collection that was searched.
        measured: strategies that ran.
        baseline: strategy to which the others are compared.
        left_out: `{"strategy", "reason"}` of the strategies that did not run.
        notes: sentences for readers of the numbers.
        answers: quality of answers, if evaluated.
    """
    base = next((result for result in measured if result.strategy.name == baseline), None)
    return {
        "foreask": _version(),
        "set": subject.name,
        "default": DEFAULT,
        "baseline": baseline if base else None,
        "embedding_model": subject.embedding_model,
        "passages": subject.passages,
        "queries": subject.queries,
        "questions": subject.questions,
        "rows": [_row(result, base) for result in measured],
        "left_out": list(left_out),
        "notes": list(notes),
        "answers": answers,
        "per_query": {result.strategy.name: result.scores[_NDCG] for result in measured},
    }


def read_results(folder: Path) -> Json:
    """Read the results of a run, by its folder or its file.

    Raises:
        InvalidInput: the file is missing, or no output of an evaluation.
    """
    path = folder / FILE if folder.is_dir() else folder
    if not path.is_file():
        raise InvalidInput(f"{folder} has no {FILE}: it is not the output of an evaluation.", field="folder")
    try:
        saved = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"{path} is not JSON ({error}).", field="folder") from None
    if not isinstance(saved, dict) or not isinstance(saved.get("per_query"), dict):
        raise InvalidInput(f"{path} is not the output of an evaluation.", field="folder")
    return saved


def _row(result: StrategyResult, base: StrategyResult | None) -> Json:
    row: Json = {"strategy": result.strategy.name}
    for metric in METRICS:
        measured = interval(list(result.scores[metric].values()))
        row |= {metric: measured.mean, f"{metric}_low": measured.low, f"{metric}_high": measured.high}
    costs = dict.fromkeys(field.name for field in fields(StrategyCost)) if result.cost is None else asdict(result.cost)
    return row | _difference(result, base) | costs | {"milliseconds_per_query": round(result.milliseconds, 2)}


def _difference(result: StrategyResult, base: StrategyResult | None) -> Json:
    if base is None or result is base:
        return dict.fromkeys(("difference", "difference_low", "difference_high", "p_value"))
    values = result.scores[_NDCG]
    pairs = [(value, base.scores[_NDCG][query]) for query, value in values.items()]
    parted = interval([value - other for value, other in pairs])
    return {
        "difference": parted.mean,
        "difference_low": parted.low,
        "difference_high": parted.high,
        "p_value": p_value(*map(list, zip(*pairs, strict=True))),
    }


def _version() -> str:
    try:
        return version("foreask")
    except PackageNotFoundError:
        return "unknown"
