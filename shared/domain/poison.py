"""Work that ends its worker is set aside, so that everything else goes on.

A worker that dies had many chunks in work, and all but one of them, or all, are innocent. So two deaths in company make
a suspect, which is worked on alone from then on, and only deaths while it was alone count against it.
"""

from __future__ import annotations

from shared.domain.errors import Permanent

SUSPECT_AFTER = 2
DEATHS_ALONE = 3


def check(lost_leases: int) -> None:
    """Raise `Permanent` for work under which too many workers have ended.

    Args:
        lost_leases: leases that ended without a settlement.
    """
    if lost_leases >= SUSPECT_AFTER + DEATHS_ALONE:
        raise Permanent(
            f"set aside: its worker ended {lost_leases} times while working on it, {DEATHS_ALONE} times alone"
        )
