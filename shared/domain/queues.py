"""The queues of the broker, each of which wakes the workers of one kind of work, and the roles of workers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

WorkQueue = Literal["parse", "read", "generate", "index"]
WORK_QUEUES: tuple[WorkQueue, ...] = ("parse", "read", "generate", "index")
Queue = Literal["parse", "read", "generate", "index", "calibrate", "runs", "syncs", "batches"]
# Index workers serve `calibrate` and `runs`, parse workers `syncs`, and generate workers `batches`, between two drains.
QUEUES: tuple[Queue, ...] = (*WORK_QUEUES, "calibrate", "runs", "syncs", "batches")

WorkerRole = Literal["parse", "read", "generate", "index", "ingest"]
# The stages of a worker of each role. On one host, one process that generates and indexes needs less memory and less
# processor time than two; apart, either stage can be scaled.
STAGES: Mapping[str, tuple[WorkQueue, ...]] = MappingProxyType(
    {**{queue: (queue,) for queue in WORK_QUEUES}, "ingest": ("generate", "index")}
)


def broker_name(queue: Queue) -> str:
    """Return the name of a queue and of its task in the broker, which other Celery applications may use, too."""
    return f"foreask.{queue}"
