"""What an evaluation saves: `results.json`, read again by a comparison.

{"foreask", "set", "default", "baseline", "embedding_model", "passages", "queries", "questions",
"rows": [{"strategy", "ndcg@10", "ndcg@10_low", "ndcg@10_high", … of each metric, "p_value", "points_per_chunk",
"bytes_per_chunk", "llm_calls", "llm_tokens", "milliseconds_per_query"}],
"left_out": [{"strategy", "why"}], "notes": [sentence], "per_query": {strategy: {query: nDCG@10}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson

from shared.errors import InvalidInput
from shared.evaluation.labelled import LabelledSet
from shared.evaluation.layouts import Footprint
from shared.evaluation.metrics import METRICS
from shared.evaluation.questions import Questions
from shared.evaluation.significance import interval, p_value
from shared.evaluation.strategies import DEFAULT, Strategy

Json = dict[str, Any]
FILE = "results.json"
_NDCG = METRICS[0]


@dataclass(frozen=True, slots=True)
class Measured:
    """A strategy's scores by metric and query, what it stores, and the median milliseconds of a query."""

    strategy: Strategy
    scores: Mapping[str, Mapping[str, float]]
    footprint: Footprint
    milliseconds: float


def results(
    labelled: LabelledSet,
    questions: Questions,
    measured: Sequence[Measured],
    *,
    left_out: Sequence[Strategy],
    baseline: str,
    embedding_model: str,
    refused: int,
) -> Json:
    """Put together what is saved.

    Args:
        labelled: the set.
        questions: those of its passages.
        measured: the strategies that were run.
        left_out: those that were not, for they need questions.
        baseline: the strategy that the others are compared with.
        embedding_model: the model of all vectors.
        refused: how many texts it did not take.
    """
    base = next((one for one in measured if one.strategy.name == baseline), None)
    why = _why_without_questions(labelled)
    return {
        "foreask": _version(),
        "set": labelled.name,
        "default": DEFAULT,
        "baseline": baseline if base else None,
        "embedding_model": embedding_model,
        "passages": len(labelled.passages),
        "queries": len(labelled.queries),
        "questions": {
            "count": questions.count,
            "passages": sum(1 for own in questions.of.values() if own),
            "source": questions.source,
        },
        "rows": [_row(one, base, questions, len(labelled.passages)) for one in measured],
        "left_out": [{"strategy": strategy.name, "why": why} for strategy in left_out],
        "notes": [*labelled.notes, *_notes(questions, measured, refused, why)],
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


def _row(one: Measured, base: Measured | None, questions: Questions, passages: int) -> Json:
    row: Json = {"strategy": one.strategy.name}
    for metric in METRICS:
        measured = interval(list(one.scores[metric].values()))
        row |= {metric: measured.mean, f"{metric}_low": measured.low, f"{metric}_high": measured.high}
    uses = one.strategy.uses_questions
    return row | {
        "p_value": _p_value(one, base),
        "points_per_chunk": round(one.footprint.points / passages, 3),
        "bytes_per_chunk": round(one.footprint.bytes / passages),
        "llm_calls": questions.calls if uses else 0,
        "llm_tokens": questions.tokens if uses else 0,
        "milliseconds_per_query": round(one.milliseconds, 2),
    }


def _p_value(one: Measured, base: Measured | None) -> float | None:
    if base is None or one is base:
        return None
    theirs = base.scores[_NDCG]
    return p_value(list(one.scores[_NDCG].values()), [theirs[query] for query in one.scores[_NDCG]])


def _why_without_questions(labelled: LabelledSet) -> str:
    if labelled.questions is not None:
        return "its generated.jsonl has no question for any passage."
    calls = f"at least one call for each of {len(labelled.passages):,} passages"
    return f"the set has no generated.jsonl; with --ask the configured LLM writes the questions ({calls})."


def _notes(questions: Questions, measured: Sequence[Measured], refused: int, why: str) -> list[str]:
    notes = []
    if not questions.count and any(one.strategy.uses_questions for one in measured):
        named = ", ".join(one.strategy.name for one in measured if one.strategy.uses_questions)
        notes.append(f"No questions were searched by {named}: {why}")
    if questions.failed:
        notes.append(f"For {questions.failed:,} passages the model wrote no questions that could be read.")
    if refused:
        notes.append(f"The embedding provider refused {refused:,} texts; they have no vector.")
    return notes


def _version() -> str:
    try:
        return version("foreask")
    except PackageNotFoundError:
        return "unknown"
