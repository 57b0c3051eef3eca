"""A real worker whose clock jumps when it claims for the third time: `python -m tests.support.skewed ROLE HOURS`."""

from __future__ import annotations

import sys
from datetime import timedelta
from itertools import count
from typing import Any

import structlog
import time_machine

from shared.ledger.work.claims import StageWork
from workers.process import main


def skew(hours: float) -> None:
    """Move this process's clock forward by `hours` at its third claim."""
    original, calls = StageWork._claim, count(1)

    def claim(work: StageWork, *arguments: Any, **named: Any) -> dict[str, Any]:
        if next(calls) == 3:
            time_machine.travel(timedelta(hours=hours), tick=True).start()
            structlog.get_logger().info("clock_jumped", hours=hours)
        return original(work, *arguments, **named)

    StageWork._claim = claim  # type: ignore[method-assign]


if __name__ == "__main__":
    skew(float(sys.argv[2]))
    main(sys.argv[1])
