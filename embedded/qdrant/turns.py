"""Turns of reads: one read of each tenant at a time, each for one step.

A tenant's expensive searches delay its own reads, and reads of other tenants by a step.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from embedded.qdrant.schema import Json


@dataclass(slots=True)
class QueuedRead:
    """A read that waits or has started.

    Args:
        number: number of its request.
        steps: executes it, a step at a time, and returns its result.
        has_started: whether a step was executed: no write may be applied before the last one.
    """

    number: int
    steps: Generator[None, None, Any]
    has_started: bool = False


class Turns:
    """The reads of all tenants."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[QueuedRead]] = OrderedDict()  # tenants by their turn
        self._tenants: dict[int, str] = {}  # of each request
        self.started = 0  # number of reads that have started

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, tenant: str, reading: QueuedRead) -> None:
        self._waiting.setdefault(tenant, deque()).append(reading)
        self._tenants[reading.number] = tenant

    def next(self, *, may_start: bool) -> QueuedRead | None:
        """Return the read whose turn it is; its tenant's next turn is after the others'.

        Args:
            may_start: whether a read may start; if not, only started ones have turns.
        """
        for tenant, readings in self._waiting.items():
            if may_start or readings[0].has_started:
                self._waiting.move_to_end(tenant)
                self.started += not readings[0].has_started
                readings[0].has_started = True
                return readings[0]
        return None

    def remove(self, number: int) -> None:
        """Remove a read that has ended, or was cancelled; it may have ended before."""
        tenant = self._tenants.pop(number, None)
        if tenant is None:
            return
        readings = self._waiting[tenant]
        reading = next(each for each in readings if each.number == number)
        readings.remove(reading)
        self.started -= reading.has_started
        reading.steps.close()
        if not readings:
            del self._waiting[tenant]


def tenant_of(body: Json) -> str:
    """Return the tenant whose points a request selects; empty if it selects points by their ids."""
    searches = body.get("searches")
    first = searches[0] if isinstance(searches, list) and searches else body
    selected = first.get("filter") if isinstance(first, dict) else None
    must = selected.get("must") if isinstance(selected, dict) else None
    for condition in must if isinstance(must, list) else ():
        if isinstance(condition, dict) and condition.get("key") == "tenant":
            match = condition.get("match")
            return str(match.get("value")) if isinstance(match, dict) else ""
    return ""
