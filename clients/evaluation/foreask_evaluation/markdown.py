"""An evaluation as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from features.evaluation.results import Json
from foreask_evaluation.table import HEADINGS, cells, heading, sentences


def page(results: Json) -> str:
    rows = [HEADINGS, ["---", *("---:" for _ in HEADINGS[1:])], *(cells(row) for row in results["rows"])]
    return "\n".join([f"# {heading(results)}", "", *_table(rows), "", *(f"- {s}" for s in sentences(results)), ""])


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
