"""Draw a chunk's life from the ledger's transitions: `python docs/explanation/chunk_life.py` writes chunk-life.svg.

Boxes and arrows come from `shared/ledger/model/states.py`. Positions and labels are set by hand: a transition without
a position is an error.
"""

from __future__ import annotations

from pathlib import Path

from shared.domain.states import ChunkState
from shared.ledger.model import states

PICTURE = Path(__file__).with_name("chunk-life.svg")
WIDTH, HEIGHT = 990, 400
BOX_WIDTH, BOX_HEIGHT = 170, 56

# State: (column, row, worker).
BOXES: dict[ChunkState, tuple[int, int, str]] = {
    ChunkState.PARSED: (50, 130, "index worker: its text"),
    ChunkState.GENERATING: (300, 130, "generate worker"),
    ChunkState.GENERATED: (550, 130, "index worker: questions"),
    ChunkState.INDEXED: (800, 130, "done"),
    ChunkState.DEAD: (550, 310, "until retried or discarded"),
    ChunkState.DISCARDED: (800, 310, "done"),
}
# Contents by which queries find the chunk: (column, width, words).
FOUND: tuple[tuple[int, int, str], ...] = (
    (50, BOX_WIDTH, "not found yet"),
    (300, 420, "found by its text and its words"),
    (800, BOX_WIDTH, "also by its questions"),
)
_NORMAL, _FAILED, _AGAIN = "normal", "failed", "again"
Words = tuple[tuple[int, int, str], ...]
# Arrow: (kind, path, words with their positions), by the states of a chunk before and after.
ARROWS: dict[tuple[str | None, str], tuple[str, str, Words]] = {
    (None, "parsed"): (_NORMAL, "M6 158 L48 158", ()),
    ("parsed", "generating"): (_NORMAL, "M220 158 L298 158", ((260, 136, "text"), (260, 151, "stored"))),
    ("generating", "generated"): (_NORMAL, "M470 158 L548 158", ((510, 136, "questions"), (510, 151, "paid for"))),
    ("generated", "indexed"): (_NORMAL, "M720 158 L798 158", ((760, 136, "questions"), (760, 151, "stored"))),
    ("parsed", "indexed"): (
        _NORMAL,
        "M135 130 C135 70 885 70 885 128",
        ((510, 104, "questions already paid for, or supplied with the document"),),
    ),
    ("generating", "generating"): (
        _AGAIN,
        "M345 186 C335 226 435 226 425 188",
        ((385, 236, "retried"),),
    ),
    ("generated", "dead"): (
        _FAILED,
        "M620 186 L620 308",
        ((613, 240, "with its text only,"), (613, 255, "or not stored")),
    ),
    ("parsed", "dead"): (_FAILED, "M170 186 C170 330 400 330 548 330", ((335, 288, "its text cannot be indexed"),)),
    ("dead", "parsed"): (_AGAIN, "M550 350 C330 360 100 350 100 188", ((300, 370, "retried"),)),
    ("dead", "discarded"): (_AGAIN, "M720 338 L798 338", ((760, 330, "discarded"),)),
    ("dead", "generated"): (_AGAIN, "M660 310 L660 188", ()),
    ("indexed", "generated"): (
        _AGAIN,
        "M870 186 C870 236 700 236 690 188",
        ((790, 246, "a user's question is accepted,"), (790, 261, "or Qdrant has lost points")),
    ),
}
_RIGHT_ALIGNED = {("generated", "dead")}
STYLE = """
    text { font: 600 15px system-ui, sans-serif; fill: #1f2933 }
    .part, .word { font: 400 12px system-ui, sans-serif; fill: #52606d }
    rect { fill: #e8eef9; stroke: #6b8cc7; rx: 8 }
    .end rect { fill: #f5f7fa; stroke: #9aa5b1 }
    .found rect { fill: #e3f2ed; stroke: none; rx: 4 }
    path { fill: none; stroke-width: 1.5; stroke: #3e4c59 }
    .failed { stroke: #c0504d; stroke-dasharray: 5 4 } .again { stroke: #9aa5b1 }
    marker path { fill: #7b8794; stroke: none }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e7eb } .part, .word { fill: #9aa5b1 }
      rect { fill: #1b2a47; stroke: #6b8cc7 }
      .end rect { fill: #1f2933; stroke: #616e7c }
      .found rect { fill: #17352b }
      path { stroke: #cbd2d9 } .failed { stroke: #e58b87 } .again { stroke: #7b8794 }
    }
"""


def arrows() -> set[tuple[str | None, str]]:
    """Return the pairs of states of a chunk before and after a transition; None before it exists."""
    transitions = [value for value in vars(states).values() if isinstance(value, states.Transition)]
    return {
        (None if source is None else str(source), str(target))
        for transition in transitions
        if transition.table == "chunks"
        for source in transition.sources
        for target in transition.targets
    }


def draw(pairs: set[tuple[str | None, str]]) -> str:
    """Return the picture as SVG, for light and dark themes.

    Raises:
        ValueError: a state or a transition has no position in the picture, or does not exist any more.
    """
    if mismatched := pairs ^ ARROWS.keys():
        raise ValueError(f"these transitions have no position, or do not exist: {mismatched}")
    if mismatched_states := set(BOXES) ^ set(ChunkState):
        raise ValueError(f"these states have no position, or do not exist: {mismatched_states}")
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            ' aria-label="The states of a chunk and the transitions between them">'
        ),
        f"  <style>{STYLE}  </style>",
        (
            '  <defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
            ' orient="auto"><path d="M0 0 L10 5 L0 10 z"/></marker></defs>'
        ),
        *(f"  {_band(*band)}" for band in FOUND),
        *(f"  {_arrow(pair)}" for pair in ARROWS),
        *(f"  {_box(state)}" for state in BOXES),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _band(x: int, width: int, words: str) -> str:
    return (
        f'<g class="found"><rect x="{x}" y="20" width="{width}" height="30"/>'
        f'<text class="part" x="{x + width // 2}" y="40" text-anchor="middle">{words}</text></g>'
    )


def _box(state: ChunkState) -> str:
    x, y, part = BOXES[state]
    middle = x + BOX_WIDTH // 2
    kind = "work" if state in states.OPEN_CHUNKS else "end"
    return (
        f'<g class="{kind}"><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>'
        f'<text x="{middle}" y="{y + 24}" text-anchor="middle">{state}</text>'
        f'<text class="part" x="{middle}" y="{y + 43}" text-anchor="middle">{part}</text></g>'
    )


def _arrow(pair: tuple[str | None, str]) -> str:
    kind, path, words = ARROWS[pair]
    anchor = "end" if pair in _RIGHT_ALIGNED else "middle"
    texts = "".join(f'<text class="word" x="{x}" y="{y}" text-anchor="{anchor}">{word}</text>' for x, y, word in words)
    return f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>{texts}'


if __name__ == "__main__":
    PICTURE.write_text(draw(arrows()))
