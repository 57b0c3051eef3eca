"""Draw the architecture from the imports: `python docs/explanation/architecture.py` writes architecture.svg next to it.

A component is a top-level package, or a package of `shared`. An arrow means that a module of one component imports a
module of the other. Two kinds of arrows are left out: arrows to `domain`, `settings` and `process`, which nearly every
component has, and arrows that follow from others (A to C, if there are A to B and B to C).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("architecture.svg")
EVERYWHERE = {"domain", "settings", "process"}

# Component: (column, row, width, parts or purpose). Positions are set by hand; arrows are not.
WIDE, NARROW = 250, 160
COMPONENTS: dict[str, tuple[int, int, int, str]] = {
    "cli": (20, 20, NARROW, "commands, launcher"),
    "embedded": (200, 20, NARROW, "engines from wheels"),
    "api": (290, 130, NARROW, "routes, schemas"),
    "workers": (470, 130, NARROW, "tasks, scheduler"),
    "features": (380, 240, NARROW, "a folder for each"),
    "http": (290, 350, NARROW, "base of routes, access"),
    "services": (470, 350, NARROW, "one build for each role"),
    "ingest": (20, 460, WIDE, "parse ▸ generate ▸ index, costs"),
    "maintenance": (380, 460, NARROW, "cleanup, syncs, jobs"),
    "query": (650, 460, WIDE, "retrieve ▸ answer, calibrate"),
    "ledger": (20, 570, NARROW, "PostgreSQL"),
    "storage": (200, 570, NARROW, "uploads"),
    "vectors": (380, 570, NARROW, "Qdrant"),
    "providers": (560, 570, NARROW, "models, limiter"),
    "broker": (740, 570, NARROW, "wake-ups"),
    "domain": (380, 680, NARROW, "values, errors, text"),
}
HEIGHT, MARGIN = 56, 20
STYLE = """
    text { font: 600 15px system-ui, sans-serif; fill: #1f2933 }
    .part { font: 400 12px system-ui, sans-serif; fill: #52606d }
    rect { fill: #f5f7fa; stroke: #9aa5b1; rx: 8 }
    .flow rect { fill: #e3f2ed; stroke: #4a9c7f }
    .engine rect { fill: #e8eef9; stroke: #6b8cc7 }
    path { fill: none; stroke: #9aa5b1; stroke-width: 1.3; marker-end: url(#tip) }
    #tip path { fill: #9aa5b1; stroke: none; marker-end: none }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e7eb } .part { fill: #9aa5b1 }
      rect { fill: #1f2933; stroke: #616e7c }
      .flow rect { fill: #17352b; stroke: #4a9c7f }
      .engine rect { fill: #1b2a47; stroke: #6b8cc7 }
      path { stroke: #7b8794 } #tip path { fill: #7b8794 }
    }
"""
_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)  # expressions contain no import
CLASSES = {"ingest": "flow", "query": "flow"} | dict.fromkeys(
    ("ledger", "storage", "vectors", "providers", "broker"), "engine"
)


def arrows(root: Path = ROOT) -> set[tuple[str, str]]:
    """Return pairs of components: the first imports the second."""
    found = set()
    packages = [path for name in (*COMPONENTS, "shared") if (path := root / name).is_dir()]
    for path in sorted(path for package in packages for path in package.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        component = _component(parts)
        if component:
            found |= {(component, other) for name in _imports(path) if (other := _component(tuple(name.split("."))))}
    return {(component, other) for component, other in found if component != other and other not in EVERYWHERE}


def _imports(path: Path) -> Iterator[str]:
    open_: list[ast.AST] = [ast.parse(path.read_text())]
    while open_:
        node = open_.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        open_ += (child for child in ast.iter_child_nodes(node) if isinstance(child, _STATEMENTS))


def _component(parts: tuple[str, ...]) -> str | None:
    """Return the component of a module; None if it is not drawn.

    Args:
        parts: parts of the module's dotted name.
    """
    name = parts[1] if parts[0] == "shared" and len(parts) > 1 else parts[0]
    return name if name in COMPONENTS or name in EVERYWHERE else None


def reduced(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the arrows without arrows that follow from others."""

    def reaches(start: str, goal: str, without: tuple[str, str]) -> bool:
        open_, seen = [start], {start}
        while open_:
            component = open_.pop()
            following = {b for a, b in pairs if a == component and (a, b) != without} - seen
            if goal in following:
                return True
            seen |= following
            open_ += following
        return False

    return {pair for pair in pairs if not reaches(*pair, without=pair)}


def draw(pairs: set[tuple[str, str]]) -> str:
    """Return the picture as SVG, for light and dark themes."""
    width = max(x + w for x, _, w, _ in COMPONENTS.values()) + MARGIN
    height = max(y for _, y, _, _ in COMPONENTS.values()) + HEIGHT + MARGIN
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
            ' aria-label="The components of foreask and the imports between them">'
        ),
        f"  <style>{STYLE}  </style>",
        (
            '  <defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
            ' orient="auto">'
            '<path d="M0 0 L10 5 L0 10 z"/></marker></defs>'
        ),
        *(f"  {_arrow(a, b)}" for a, b in sorted(reduced(pairs))),
        *(f"  {_box(name)}" for name in COMPONENTS),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(name: str) -> str:
    x, y, width, part = COMPONENTS[name]
    middle = x + width // 2
    return (
        f'<g class="{CLASSES.get(name, "other")}"><rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}"/>'
        f'<text x="{middle}" y="{y + 24}" text-anchor="middle">{name}</text>'
        f'<text class="part" x="{middle}" y="{y + 43}" text-anchor="middle">{part}</text></g>'
    )


def _arrow(source: str, target: str) -> str:
    """Draw an arrow from the bottom of one box to the top of the other, or from side to side within a row."""
    x1, y1, w1, _ = COMPONENTS[source]
    x2, y2, w2, _ = COMPONENTS[target]
    if y1 == y2:
        side = x2 > x1
        start, end = (x1 + w1 if side else x1), (x2 if side else x2 + w2)
        middle = y1 + HEIGHT // 2
        return f'<path d="M{start} {middle} L{end} {middle}"/>'
    down = y2 > y1
    begin, stop = (y1 + HEIGHT, y2) if down else (y1, y2 + HEIGHT)
    spread = (x2 + w2 // 2 - x1 - w1 // 2) // 12  # arrows of one box start at different points
    start, end = x1 + w1 // 2 + spread, x2 + w2 // 2 - spread
    bend = (begin + stop) // 2
    return f'<path d="M{start} {begin} C{start} {bend} {end} {bend} {end} {stop}"/>'


if __name__ == "__main__":
    PICTURE.write_text(draw(arrows()))
