"""An evaluation as one self-contained HTML page: bar charts and a table, in a light and a dark theme."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from features.evaluation.metrics import METRICS
from features.evaluation.results import Json
from foreask_evaluation.table import HEADINGS, cells, heading, sentences

_LABELS, _BARS, _VALUES = 180, 480, 60  # widths
_STEP, _BAR = 30, 16  # heights
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --soft: #667080; --line: #d5dae1; --bar: #8fb1dc; --main: #2f6fbf; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa4b2; --line: #3a424e; --bar: #47658c; --main: #6ea8f0; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
.default td { font-weight: 600; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 13px; }
svg .soft { fill: var(--soft); font-size: 11px; } svg line { stroke: var(--line); }
svg .bar { fill: var(--bar); } svg .main { fill: var(--main); } svg .interval { stroke: var(--ink); stroke-width: 1.5; }
"""


def page(results: Json) -> str:
    """Return the page; texts of the set and of settings are escaped."""
    title = escape(heading(results))
    notes = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(results))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        f"{_chart(results, 'nDCG@10', METRICS[0])}{_chart(results, 'recall@10', METRICS[-1])}"
        f'<h2>All measures</h2>\n<div class="wide">{_table(results)}</div>\n<ul>{notes}</ul>\n</body></html>\n'
    )


def _chart(results: Json, name: str, metric: str) -> str:
    rows = results["rows"]
    height = _STEP * len(rows) + 24
    ticks = "".join(
        f'<line x1="{_x(tick)}" y1="0" x2="{_x(tick)}" y2="{height - 20}"/>'
        f'<text class="soft" x="{_x(tick)}" y="{height - 6}" text-anchor="middle">{tick:.1f}</text>'
        for tick in _TICKS
    )
    default = results["default"]
    bars = "".join(_bar(row, metric, index, is_default=row["strategy"] == default) for index, row in enumerate(rows))
    width = _LABELS + _BARS + _VALUES
    picture = f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{name}">{ticks}{bars}</svg>'
    return f"<h2>{name} with 95 % intervals</h2>\n{picture}\n"


def _bar(row: Json, metric: str, index: int, *, is_default: bool) -> str:
    value, low, high = row[metric], row[f"{metric}_low"], row[f"{metric}_high"]
    top, middle = _STEP * index + (_STEP - _BAR) / 2, _STEP * (index + 0.5)
    name = escape(row["strategy"])
    return (
        f'<text x="{_LABELS - 10}" y="{middle + 4}" text-anchor="end">{name}</text>'
        f'<rect class="{"bar main" if is_default else "bar"}" x="{_LABELS}" y="{top}" height="{_BAR}" rx="2"'
        f' width="{_x(value) - _LABELS:.1f}"><title>{name}: {value:.4f} ({low:.4f} to {high:.4f})</title></rect>'
        f'<line class="interval" x1="{_x(low):.1f}" y1="{middle}" x2="{_x(high):.1f}" y2="{middle}"/>'
        f'<text x="{max(_x(value), _x(high)) + 8:.1f}" y="{middle + 4}">{value:.3f}</text>'
    )


def _x(value: float) -> float:
    return _LABELS + _BARS * value


def _table(results: Json) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in HEADINGS)
    body = "".join(_row(cells(row), is_default=row["strategy"] == results["default"]) for row in results["rows"])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(texts: Iterable[str], *, is_default: bool) -> str:
    kind = ' class="default"' if is_default else ""
    return f"<tr{kind}>" + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>\n"
