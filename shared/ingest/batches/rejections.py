"""The decision about a batch that the provider has rejected as a whole, as a pure function: its test is a table.

A provider validates an input file before it works on it, and one line may fail the whole batch. Nothing was executed or
billed then, so other batches may contain the same lines.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import ceil

MOST_REFUSED = 500  # lines that are settled in one transaction
MOST_LINES = 5_000  # of a part, which are moved in one transaction
# A poisonous line among 50,000 fails 14 batches. After so many failures of batches with the same root the lines are not
# the reason, and are generated live.
MOST_FAILURES = 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """The consequences of a rejection.

    Args:
        refused: numbers of the lines that fail by their own error, from 1.
        part_lines: number of lines of each batch into which the others are divided; 0: they are generated live.
    """

    refused: tuple[int, ...]
    part_lines: int


def decide(named: Collection[int], *, lines: int, min_lines: int, failures: int) -> Verdict:
    """Decide about the lines of a rejected batch.

    Each division leaves less lines in a batch, so that it ends for every line.

    Args:
        named: numbers of the lines that the provider names, from 1.
        lines: number of lines.
        min_lines: a rejected batch with fewer lines is not halved.
        failures: number of failed batches with the same root, including this one.
    """
    refused = tuple(sorted(named))[:MOST_REFUSED] if _are_reasons(named, lines) else ()
    others = lines - len(refused)
    if failures >= MOST_FAILURES or (not refused and lines < max(2, min_lines)):
        return Verdict(refused, 0)
    most = others if refused else ceil(others / 2)
    return Verdict(refused, min(most, MOST_LINES))


def _are_reasons(named: Collection[int], lines: int) -> bool:
    """Return whether named lines are the reason of a rejection.

    A number outside the file counts something else. If the first lines are named, all of them, the provider lists the
    start of a file that it rejects for another reason, such as its endpoint.
    """
    if not named or min(named) < 1 or max(named) > lines:
        return False
    return len(named) == 1 or max(named) > len(named)
