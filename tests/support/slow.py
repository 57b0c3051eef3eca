"""The tests that `make test` leaves out."""

from __future__ import annotations

from pathlib import Path

_LISTED = frozenset((Path(__file__).parents[1] / "slow.txt").read_text(encoding="utf-8").splitlines())


def is_slow(test: str) -> bool:
    """Return whether `tests/slow.txt` names a test, its function or its file."""
    return not _LISTED.isdisjoint((test.partition("::")[0], test.partition("[")[0], test))
