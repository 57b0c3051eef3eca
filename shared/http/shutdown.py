"""The shutdown of the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Shutdown:
    """The progress of the shutdown, which the server sets and long requests read.

    Args:
        draining: health reports that the process is not ready; requests are still accepted.
        stopping: no connection is accepted; streams of events end.
    """

    draining: bool = False
    stopping: bool = False

    @property
    def is_started(self) -> bool:
        return self.draining or self.stopping
