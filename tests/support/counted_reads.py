"""A real read worker that counts its reads outside the product: `python -m tests.support.counted_reads FILE`.

It appends a line `PID NUMBER started TIME`, and a line `PID NUMBER read TIME`, for each page that it reads.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from shared.domain.stages.pages import PageText
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from workers.process import main


def count_reads(log: Path) -> None:
    """Make this process append its reads of pages to a file."""
    read_page = ParsingSandbox.read_page

    async def counted(sandbox: ParsingSandbox, path: Path, number: int, **named: Any) -> PageText:
        _append(log, number, "started")
        text = await read_page(sandbox, path, number, **named)
        _append(log, number, "read")
        return text

    ParsingSandbox.read_page = counted  # type: ignore[method-assign]


def _append(log: Path, number: int, event: str) -> None:
    with log.open("a") as file:
        file.write(f"{os.getpid()} {number} {event} {time.time():.2f}\n")


def counts(log: Path) -> dict[str, Counter[int]]:
    """Return how often each page was started and read, by event."""
    lines = [line.split() for line in log.read_text().splitlines()]
    return {event: Counter(int(number) for _, number, e, _ in lines if e == event) for event in ("started", "read")}


if __name__ == "__main__":
    count_reads(Path(sys.argv[1]))
    main("read")
