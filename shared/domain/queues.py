"""The queues of the broker; each wakes the workers of one kind of work."""

from __future__ import annotations

from typing import Literal

WorkQueue = Literal["parse", "read", "generate", "index"]
WORK_QUEUES: tuple[WorkQueue, ...] = ("parse", "read", "generate", "index")
Queue = Literal["parse", "read", "generate", "index", "calibrate", "runs", "syncs", "batches"]
# Index workers serve `calibrate` and `runs`, parse workers `syncs`, and generate workers `batches`, between two drains.
QUEUES: tuple[Queue, ...] = (*WORK_QUEUES, "calibrate", "runs", "syncs", "batches")


def broker_name(queue: Queue) -> str:
    """Return the name of a queue and of its task in the broker, which other Celery applications may use, too."""
    return f"foreask.{queue}"
