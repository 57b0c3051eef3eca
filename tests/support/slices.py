"""A real scheduler that fills and empties builds in small slices: `python -m tests.support.slices COUNT`."""

from __future__ import annotations

import sys

import shared.ledger.builds.builds
from workers.process import main

if __name__ == "__main__":
    shared.ledger.builds.builds._SLICE = int(sys.argv[1])
    main("scheduler")
