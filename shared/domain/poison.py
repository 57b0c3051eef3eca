"""Poison: work that kills its worker. It is isolated, so that all other work continues.

A worker that dies holds many rows, and at most one of them killed it. Therefore two lost leases make a row only a
suspect. An idle worker then works on the suspect alone, and three more lost leases, each alone, make it poison.
"""

from __future__ import annotations

from shared.domain.errors import Permanent

SUSPECT_AFTER = 2
DEATHS_ALONE = 3


def check(lost_leases: int) -> None:
    """Reject work that has killed too many workers.

    Args:
        lost_leases: number of leases that expired without a settlement.

    Raises:
        Permanent: the work is poison.
    """
    if lost_leases >= SUSPECT_AFTER + DEATHS_ALONE:
        raise Permanent(
            f"set aside: its worker ended {lost_leases} times while working on it, {DEATHS_ALONE} times alone"
        )
