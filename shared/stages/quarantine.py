"""Work that ends its worker is set aside, so that everything else goes on."""

from __future__ import annotations

from shared.errors import Permanent

MAX_KILLS = 3


def check(kills: int) -> None:
    """Raise `Permanent` for work under which too many workers have ended.

    Args:
        kills: leases that ended without a settlement.
    """
    if kills >= MAX_KILLS:
        raise Permanent(f"set aside: its worker ended {kills} times while working on it")
