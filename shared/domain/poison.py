"""Poison: work that kills its worker. It is set aside, so that all other work goes on.

A worker that dies holds many rows, and at most one of them killed it. So two lost leases make a row only a suspect. An
idle worker then runs the suspect alone, and three lost leases more, each of them alone, make it poison.
"""

from __future__ import annotations

from shared.domain.errors import Permanent

SUSPECT_AFTER = 2
DEATHS_ALONE = 3


def check(lost_leases: int) -> None:
    """Refuse work that has killed too many workers.

    Args:
        lost_leases: how many leases on it ended without a settlement.

    Raises:
        Permanent: the work is poison.
    """
    if lost_leases >= SUSPECT_AFTER + DEATHS_ALONE:
        raise Permanent(
            f"set aside: its worker ended {lost_leases} times while working on it, {DEATHS_ALONE} times alone"
        )
