"""What a worker process works with, whatever its role."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.broker.wakeups import Wakeups
from shared.ingest.drain import Stage
from shared.ledger.work.heartbeats import Heartbeats
from shared.settings import Settings

if TYPE_CHECKING:  # a parse worker has neither
    from shared.providers.limiter.limiter import Limiter
    from shared.query.calibrate.calibrator import Calibrator


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerServices:
    """What a worker needs.

    Args:
        settings: those of the process.
        wakeups: wakes the workers of the next stage.
        heartbeats: tells whoever runs it that the worker lives.
        stage: the work that a wake-up starts.
        limiters: those of the providers that the stage calls.
        warm_ups: start ahead of the first document what the stage would start with it.
        calibrator: calibrates collections beside the stage; None where this role does not.
    """

    settings: Settings
    wakeups: Wakeups
    heartbeats: Heartbeats
    stage: Stage[Any, Any]
    limiters: Sequence[Limiter] = ()
    warm_ups: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    calibrator: Calibrator | None = None

    async def begin(self) -> None:
        """Make ready for the first wake-up, and ask for one: work may be due already."""
        for warm_up in self.warm_ups:
            await warm_up()
        self.wakeups.begin()

    def stop(self) -> None:
        """Begin no call of a provider from now on."""
        for limiter in self.limiters:
            limiter.stop()
