"""Poison: work that kills its worker. It is isolated, so that other work continues.

A worker that dies has claimed many rows, and at most one of them killed it. Therefore a row with two lost leases is
only a suspect. An idle worker then processes the suspect without any other row, and three more lost leases in this way
make the row poison.
"""

from __future__ import annotations

from shared.domain.errors import Permanent

SUSPECT_AFTER = 2
DEATHS_ALONE = 3


def is_poison(lost_leases: int) -> bool:
    """Return whether work has killed too many workers."""
    return lost_leases >= SUSPECT_AFTER + DEATHS_ALONE


def check(lost_leases: int) -> None:
    """Reject work that has killed too many workers.

    Args:
        lost_leases: number of leases that expired without a settlement.

    Raises:
        Permanent: the work is poison.
    """
    if is_poison(lost_leases):
        raise Permanent(
            f"set aside: its worker ended {lost_leases} times while working on it, {DEATHS_ALONE} times alone"
        )
