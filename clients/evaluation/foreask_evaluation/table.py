"""The table of an evaluation as headings and cells, for the terminal, Markdown and HTML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from features.evaluation.comparison import StrategyDifference
from features.evaluation.metrics import METRICS
from features.evaluation.results import Json

HEADINGS = (
    *("strategy", "nDCG@10", "95 %", "p", "MRR@10", "recall@1", "recall@5", "recall@10"),
    *("points/chunk", "bytes/chunk", "LLM calls", "LLM tokens", "ms/query"),
)
QUALITY = 8  # so many headings are about a strategy's quality, the others about its cost
DIFFERENCE_HEADINGS = ("strategy", "before", "now", "difference", "95 %", "p", "questions")


def cells(row: Json) -> list[str]:
    """Return a row, one text for each heading."""
    ndcg, *others = METRICS
    return [
        row["strategy"],
        f"{row[ndcg]:.3f}",
        f"{row[f'{ndcg}_low']:.3f} to {row[f'{ndcg}_high']:.3f}",
        probability(row["p_value"]),
        *(f"{row[metric]:.3f}" for metric in others),
        _number(row["points_per_chunk"], ".1f"),
        _number(row["bytes_per_chunk"]),
        _number(row["llm_calls"]),
        _number(row["llm_tokens"]),
        f"{row['milliseconds_per_query']:.1f}",
    ]


def difference_cells(compared: StrategyDifference) -> list[str]:
    difference = compared.difference
    return [
        compared.strategy,
        f"{compared.before:.3f}",
        f"{compared.now:.3f}",
        f"{difference.mean:+.3f}",
        f"{difference.low:+.3f} to {difference.high:+.3f}",
        probability(compared.p_value),
        f"{compared.queries:,}",
    ]


def probability(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"  # noqa: PLR2004  more digits than the resamples support


def _number(value: float | None, form: str = ",") -> str:
    return "" if value is None else f"{value:{form}}"


def heading(results: Json) -> str:
    passages = "" if results["passages"] is None else f"{results['passages']:,} passages, "
    return f"{results['set']}: {passages}{results['queries']:,} questions of users"


def sentences(results: Json) -> list[str]:
    """Return the sentences that a reader of the table needs."""
    baseline = results["baseline"]
    test = f"p: paired randomisation test of nDCG@10 against `{baseline}`. " if baseline else ""
    return [
        f"Embedding model {results['embedding_model']}, foreask {results['foreask']}.{_written(results['questions'])}",
        f"{test}Intervals: bootstrap over questions. Milliseconds: the median, without embedding the question.",
        *_answers(results.get("answers")),
        *_left_out(results["left_out"]),
        *results["notes"],
    ]


def _written(questions: Json | None) -> str:
    if questions is None:
        return ""
    if not questions["count"]:
        return " No questions stand for the passages."
    return f" {questions['count']:,} questions stand for {questions['passages']:,} passages ({questions['source']})."


def _left_out(rows: Sequence[Json]) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_reason[row["reason"]].append(row["strategy"])
    return [f"Left out: {', '.join(names)}: {why}" for why, names in by_reason.items()]


_SHARES = {
    "answered": "answered",
    "citations_valid": "of these citing, and only given passages",
    "cites_answering_passage": "citing a passage that answers",
    "answer_recall": "of known answers quoted",
    "refused": "of unanswerable questions refused",
}


def _answers(answers: Json | None) -> list[str]:
    if answers is None:
        return []
    shares = [f"{_share(answers[name])} {share}" for name, share in _SHARES.items() if answers[name] is not None]
    failed = f", {answers['failed']:,} failed" if answers["failed"] else ""
    tokens = f", {answers['tokens']:,} tokens" if answers["tokens"] else ""
    questions = f"{answers['questions'] + answers['unanswerable']:,} questions{failed}{tokens}"
    return [
        f"Answers ({answers['form']}, from the results of `{answers['strategy']}`, {questions}): {', '.join(shares)}."
    ]


def _share(share: Json) -> str:
    return f"{share['mean']:.0%} ({share['low']:.0%} to {share['high']:.0%})"
