"""Raised and lowered text: powers, indices and marks of footnotes belong to the line that they are printed at.

The content of a page has them directly after or in front of their word, whatever line pdfium puts them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shared.ingest.parse.readers.pdf.layout.lines import PageLine

_SMALLER = 0.88  # of the font size of its word
_SMALLEST = 0.5
_RISE = 0.75  # of the font size: not higher above the baseline
_FALL = 0.5
_LEAST_MOVE = 0.08
_GAP = 0.3  # of the font size
_MARK_GAP = 0.8  # the same after a mark in front of its note
_TOUCHES = 0.15
_NO_GAP = 0.03  # TeX leaves more after the powers of formulas, whose letters are words
_BACK = 0.7
_MOST_CHAINS, _MOST_CHARS = 2, 12  # of one text; longer ones are lines of small print


def with_scripts(chains: Sequence[PageLine]) -> list[PageLine]:
    """Return chains of words; raised and lowered ones are on the baseline of their word.

    Args:
        chains: words that touch, in the order of the content.
    """
    found = list[PageLine]()
    waiting = list[PageLine]()  # raised text in front of its word
    host: PageLine | None = None
    end = 0.0  # of the word with its raised and lowered text
    for run in _runs(chains):
        if host and _is_short(run) and _follows(run[0], host, end):
            for chain in run:
                chain.y = host.y
            found += run
            end = max(end, run[-1].x1)
            continue
        if waiting and _precedes(waiting[-1], run[0]):
            for mark in waiting:
                mark.y = run[0].y
        waiting = run if _is_short(run) else []
        for chain in run:
            if host and len(host.words) > 1 and _continues(chain, host):
                chain.words[0].glued = True
                host.words += chain.words
                host.x1 = chain.x1
            else:
                found.append(chain)
                host = chain
            end = host.x1
    return found


def _runs(chains: Iterable[PageLine]) -> Iterator[list[PageLine]]:
    """Yield neighbours of one size on one baseline."""
    run = list[PageLine]()
    for chain in chains:
        if run and (chain.size != run[-1].size or chain.y != run[-1].y):
            yield run
            run = []
        run.append(chain)
    if run:
        yield run


def _is_short(run: Sequence[PageLine]) -> bool:
    return len(run) <= _MOST_CHAINS and sum(chain.chars for chain in run) <= _MOST_CHARS


def _is_moved(chain: PageLine, host: PageLine) -> bool:
    size, move = host.size, chain.y - host.y
    moved = -_FALL * size <= move <= _RISE * size and abs(move) >= _LEAST_MOVE * size
    return moved and _SMALLEST * size <= chain.size <= _SMALLER * size


def _follows(chain: PageLine, host: PageLine, end: float) -> bool:
    """Return whether a chain is raised or lowered after a word, or above or below other such text of the word."""
    start = min((word.x0 for word in host.words if word.glued), default=host.x1)
    near = start - _GAP * host.size <= chain.x0 <= end + _GAP * host.size
    return near and _is_moved(chain, host)


def _precedes(mark: PageLine, chain: PageLine) -> bool:
    """Return whether a raised mark is in front of a word."""
    return -_TOUCHES * chain.size <= chain.x0 - mark.x1 <= _MARK_GAP * chain.size and _is_moved(mark, chain)


def _continues(chain: PageLine, host: PageLine) -> bool:
    """Return whether a chain continues the word in front of its raised or lowered text."""
    level = abs(chain.y - host.y) <= _LEAST_MOVE * host.size
    return level and -_BACK * host.size <= chain.x0 - host.x1 <= _NO_GAP * host.size
