"""Names that a caller may have meant instead of an unknown name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

MOST_SIMILAR = 5
"""Names in a sentence; further ones are counted."""


def most_similar(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that share the most groups of three letters with a name, the most similar first; at most five.

    Names that are equally similar are in alphabetical order. A name costs about 3 us.
    """
    wanted = _groups(name)

    def similarity(other: str) -> float:
        groups = _groups(other)
        return len(wanted & groups) / len(wanted | groups)

    return sorted(sorted(names), key=similarity, reverse=True)[:MOST_SIMILAR]


def _groups(name: str) -> set[str]:
    """Return the groups of three letters of a name; its beginning counts more than its end, as in PostgreSQL's."""
    padded = f"  {name.casefold()} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


def listed(names: Sequence[str], others: int = 0) -> str:
    """Return names as a part of a sentence: "'a'", "'a' and 'b'", or "'a', 'b' and 3 others"."""
    parts: Collection[str] = [f"'{name}'" for name in names]
    if others:
        parts = [*parts, f"{others:,} other{'s' if others > 1 else ''}"]
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
