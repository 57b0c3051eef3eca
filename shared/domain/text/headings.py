"""Headings above a text, outermost first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def common_path(paths: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the headings with which all of several paths start."""
    shared: list[str] = []
    for titles in zip(*paths, strict=False):
        if len(set(titles)) > 1:
            break
        shared.append(titles[0])
    return tuple(shared)
