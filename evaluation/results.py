"""What an evaluation saves: `results.json`, read again by a comparison.

- foreask, set, default, baseline, embedding_model, passages, queries
- questions: count, passages, source
- rows: strategy, each metric with its _low and _high, p_value, points_per_chunk, bytes_per_chunk, llm_calls,
  llm_tokens, milliseconds_per_query
- left_out: strategy, why
- notes: sentences
- answers: see `evaluation.answers`; null where none were asked for
- per_query: by strategy and query nDCG@10

What is not known of a collection on a server is null: passages, questions, points, bytes, calls and tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson

from evaluation.metrics import METRICS
from evaluation.strategies import DEFAULT, Strategy
from shared.domain.errors import InvalidInput
from shared.query.calibrate.significance import interval, p_value

Json = dict[str, Any]
FILE = "results.json"
_NDCG = METRICS[0]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a strategy stores for each chunk, and what its questions were paid for."""

    points_per_chunk: float
    bytes_per_chunk: int
    llm_calls: int
    llm_tokens: int


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """A strategy's scores by metric and query, and what else was seen of it.

    Args:
        milliseconds: of a query, the median.
        cost: where it is known.
        notes: sentences on what must be known to read its row.
    """

    strategy: Strategy
    scores: Mapping[str, Mapping[str, float]]
    milliseconds: float
    cost: Cost | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluatedSet:
    """What was searched.

    Args:
        name: of the set or collection.
        passages: how many there are, where that is known.
        questions: `{"count", "passages", "source"}` of the questions that stand for passages, where that is known.
    """

    name: str
    embedding_model: str
    queries: int
    passages: int | None = None
    questions: Json | None = None


def results(
    subject: EvaluatedSet,
    measured: Sequence[StrategyResult],
    baseline: str,
    *,
    left_out: Sequence[Json],
    notes: Sequence[str],
    answers: Json | None = None,
) -> Json:
    """Put together what is saved.

    Args:
        subject: what was searched.
        measured: the strategies that were run.
        baseline: the one that the others are compared with.
        left_out: `{"strategy", "why"}` of those that were not run.
        notes: sentences on what must be known to read the numbers.
        answers: what the answers are worth, where they were asked for.
    """
    base = next((one for one in measured if one.strategy.name == baseline), None)
    return {
        "foreask": _version(),
        "set": subject.name,
        "default": DEFAULT,
        "baseline": baseline if base else None,
        "embedding_model": subject.embedding_model,
        "passages": subject.passages,
        "queries": subject.queries,
        "questions": subject.questions,
        "rows": [_row(one, base) for one in measured],
        "left_out": list(left_out),
        "notes": list(notes),
        "answers": answers,
        "per_query": {one.strategy.name: one.scores[_NDCG] for one in measured},
    }


def read(folder: Path) -> Json:
    """Read what a run has saved, by its folder or its file.

    Raises:
        InvalidInput: there is nothing, or it is not what a run saves.
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


def _row(one: StrategyResult, base: StrategyResult | None) -> Json:
    row: Json = {"strategy": one.strategy.name}
    for metric in METRICS:
        measured = interval(list(one.scores[metric].values()))
        row |= {metric: measured.mean, f"{metric}_low": measured.low, f"{metric}_high": measured.high}
    costs = dict.fromkeys(field.name for field in fields(Cost)) if one.cost is None else asdict(one.cost)
    return row | {"p_value": _p_value(one, base)} | costs | {"milliseconds_per_query": round(one.milliseconds, 2)}


def _p_value(one: StrategyResult, base: StrategyResult | None) -> float | None:
    if base is None or one is base:
        return None
    theirs = base.scores[_NDCG]
    return p_value(list(one.scores[_NDCG].values()), [theirs[query] for query in one.scores[_NDCG]])


def _version() -> str:
    try:
        return version("foreask")
    except PackageNotFoundError:
        return "unknown"
