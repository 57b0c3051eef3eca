"""Tables of the comparison, and the pages with blocks that the command writes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embedded.embeddings import DIMENSIONS
from shared.query.calibrate.significance import Values, interval

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "comparison.md"
README = ROOT / "README.md"
COMMAND = "python -m bench comparison"
FOREASK, DENSE, HYBRID, WEIGHTED = "**foreask**", "dense", "hybrid, RRF", "hybrid, weighted sum"

_FLOAT_BYTES, _TERM_BYTES = 4, 8  # a term of a sparse vector is a number and a weight
_QUALITY = ("way", "nDCG@10", "95 %", "recall@5", "difference", "95 %")
_MEANS = ("way", "sets", "nDCG@10", "recall@5", "difference", "by set")
_NOTHING = ("", "")  # foreask is not compared with itself
_COSTS = ("vectors", "bytes", "LLM calls", "ms")


@dataclass(frozen=True)
class Cost:
    """The storage of a passage, and the calls of a language model for it at ingest.

    Args:
        vectors: number of vectors.
        terms: number of terms that BM25 stores.
        llm_calls: number of calls.
    """

    vectors: float = 0.0
    terms: float = 0.0
    llm_calls: int = 0

    @property
    def bytes(self) -> float:
        return self.vectors * DIMENSIONS * _FLOAT_BYTES + self.terms * _TERM_BYTES


@dataclass(frozen=True)
class Row:
    """A measured way.

    Args:
        ndcg: nDCG@10 of each question, shape `(questions,)`.
        recall: recall@5 of each question, shape `(questions,)`.
        cost: its cost per passage.
        milliseconds: median duration of a search.
    """

    ndcg: Values
    recall: Values
    cost: Cost
    milliseconds: float


@dataclass(frozen=True)
class SetResult:
    """A measured set.

    Args:
        title: name of the set.
        passages: number of passages.
        questions: number of stored questions.
        rows: the ways by name, with foreask among them.
    """

    title: str
    passages: int
    questions: int
    rows: Mapping[str, Row]

    def differences(self, name: str) -> Values:
        """Return nDCG@10 of a way minus foreask's, by question."""
        return self.rows[name].ndcg - self.rows[FOREASK].ndcg


def tables(results: Sequence[SetResult]) -> str:
    """Return all tables as Markdown, each under its heading."""
    sections = [section for result in results for section in (_heading(result), set_table(result))]
    return "\n\n".join([*sections, "### Means over the sets", means_table(results)]) + "\n"


def set_table(result: SetResult) -> str:
    return _aligned([(*_QUALITY, *_COSTS), *(_set_cells(result, name) for name in result.rows)])


def means_table(results: Sequence[SetResult]) -> str:
    """Return the means over the sets that have a way; differences are means over the same sets."""
    names = dict.fromkeys(name for result in results for name in result.rows)
    rows = [_means_cells([result for result in results if name in result.rows], name) for name in names]
    return _aligned([(*_MEANS, *_COSTS), *rows])


def sentence(results: Sequence[SetResult]) -> str:
    """Return foreask's mean in words, compared with searches without questions."""
    ours = _mean(result.rows[FOREASK].ndcg.mean() for result in results)
    ranks, scores, dense = (
        -_mean(result.differences(name).mean() for result in results) for name in (HYBRID, WEIGHTED, DENSE)
    )
    words = (
        f"**How well it finds**: on {len(results)} sets with questions that a large language model wrote, nDCG@10 is"
        f" {ours:.3f} on average, {dense:+.3f} compared with vector search, and {ranks:+.3f} (fused by ranks) or"
        f" {scores:+.3f} (by scores) compared with hybrid search without questions. `{COMMAND}` prints them, and"
        " [the numbers of other products and articles](docs/explanation/comparison.md)."
    )
    return textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False)


def write_pages(results: Sequence[SetResult]) -> None:
    """Write the blocks of the README and of the page in `docs`."""
    page, readme = PAGE.read_text(), README.read_text()
    PAGE.write_text(with_block(page, "comparison", tables(results).strip()))
    readme = with_block(readme, "comparison in words", sentence(results))
    README.write_text(with_block(readme, "comparison", means_table(results)))


def with_block(text: str, name: str, content: str) -> str:
    """Return the text with other content between the two marks of a block.

    Raises:
        ValueError: a mark is missing.
    """
    start, end = f"<!-- {name}: written by `{COMMAND} --write` -->\n", f"\n<!-- end of {name} -->"
    before, found_start, rest = text.partition(start)
    _, found_end, after = rest.partition(end)
    if not (found_start and found_end):
        raise ValueError(f"The text has no block with the mark {start.strip()} and the mark {end.strip()}.")
    return f"{before}{start}{content}{end}{after}"


def _heading(result: SetResult) -> str:
    numbers = f"{result.passages:,} passages, {result.questions:,} stored questions"
    return f"### {result.title}\n\n{numbers}, {len(result.rows[FOREASK].ndcg):,} test questions:"


def _set_cells(result: SetResult, name: str) -> tuple[str, ...]:
    row, difference = result.rows[name], interval(result.differences(name))
    quality = interval(row.ndcg)
    cells = (name, f"{quality.mean:.3f}", f"{quality.low:.3f} to {quality.high:.3f}", f"{row.recall.mean():.3f}")
    compared = (f"{difference.mean:+.3f}", f"{difference.low:+.3f} to {difference.high:+.3f}")
    return (*cells, *(_NOTHING if name == FOREASK else compared), *_cost_cells([row]))


def _means_cells(results: Sequence[SetResult], name: str) -> tuple[str, ...]:
    rows = [result.rows[name] for result in results]
    differences = [float(result.differences(name).mean()) for result in results]
    ndcg, recall = _mean(row.ndcg.mean() for row in rows), _mean(row.recall.mean() for row in rows)
    cells = (name, str(len(rows)), f"{ndcg:.3f}", f"{recall:.3f}")
    compared = (f"{_mean(differences):+.3f}", f"{min(differences):+.3f} to {max(differences):+.3f}")
    return (*cells, *(_NOTHING if name == FOREASK else compared), *_cost_cells(rows))


def _cost_cells(rows: Sequence[Row]) -> tuple[str, ...]:
    costs = [row.cost for row in rows]
    return (
        f"{_mean(cost.vectors for cost in costs):.1f}",
        f"{_mean(cost.bytes for cost in costs):,.0f}",
        f"{_mean(cost.llm_calls for cost in costs):.0f}",
        f"{_mean(row.milliseconds for row in rows):.2f}",
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown whose columns are aligned; the first one to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    head, *body = rows
    return "\n".join(_line(cells, widths) for cells in (head, rule, *body))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(padded)} |"
