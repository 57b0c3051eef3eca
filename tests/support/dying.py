"""A real worker that sends itself a signal at a named point: `python -m tests.support.dying ROLE POINT NTH KILL|STOP`.

The point is a function of the product, wrapped here, so that the product needs no hooks.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import features.sources.ledger.listings
import shared.ingest.generate.stage
import shared.ledger.work.batches
import shared.ledger.work.generation
from features.sources.ledger.listings import Listings
from features.sources.syncing.fetching import Fetcher
from features.sources.syncing.work import _Entries
from features.verification.comparison import Verification
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ledger.work.batches import Batches
from shared.ledger.work.generation import GenerateWork
from shared.providers.batches import BatchProvider
from shared.vectors.index import Index
from workers.process import main

PASSED = "passed the point at which it was stopped"


@dataclass(frozen=True)
class KillPoint:
    """A call of `owner.name`; the signal is sent before it, or after it if it returned something."""

    role: str
    owner: Any
    name: str
    before: bool = False


POINTS = {
    "after the file was read": KillPoint("parse", ParsingSandbox, "parse"),
    "after a page of a sync": KillPoint("parse", _Entries, "page"),
    "within the fetches of a sync": KillPoint("parse", Fetcher, "_one"),
    "within a part of a sync": KillPoint("parse", features.sources.ledger.listings, "submit_within"),
    "after a part of a sync": KillPoint("parse", Listings, "save"),
    "before the end of a listing of a sync": KillPoint("parse", Listings, "end_listing", before=True),
    "within the deletions of a sync": KillPoint("parse", features.sources.ledger.listings, "delete_named"),
    "after the deletions of a sync": KillPoint("parse", Listings, "delete_some"),
    "before the end of a sync": KillPoint("parse", Listings, "finish", before=True),
    "after the claim": KillPoint("generate", GenerateWork, "claim"),
    "after the answer": KillPoint("generate", shared.ingest.generate.stage, "generate_questions"),
    "within its transaction": KillPoint("generate", shared.ledger.work.generation, "generated_rows"),
    "after its commit": KillPoint("generate", GenerateWork, "settle"),
    "after the plan of a batch": KillPoint("generate", Batches, "fill"),
    "before the upload of a batch": KillPoint("generate", BatchProvider, "upload", before=True),
    "after the upload of a batch": KillPoint("generate", BatchProvider, "upload"),
    "before the create of a batch": KillPoint("generate", BatchProvider, "create", before=True),
    "after the create of a batch": KillPoint("generate", BatchProvider, "create"),
    "after a poll of a batch": KillPoint("generate", BatchProvider, "get"),
    "before the division of a batch": KillPoint("generate", Batches, "divide", before=True),
    "after the division of a batch": KillPoint("generate", Batches, "divide"),
    "within the collection of a batch": KillPoint("generate", shared.ledger.work.batches, "settle_generated"),
    "after the collection of a batch": KillPoint("generate", Batches, "settle"),
    "before the end of a batch": KillPoint("generate", Batches, "finish", before=True),
    "before the upsert": KillPoint("index", Index, "upsert", before=True),
    "after the upsert": KillPoint("index", Index, "upsert"),
    "before the show": KillPoint("index", Index, "show_version", before=True),
    "after the show": KillPoint("index", Index, "show_version"),
    "after a repair": KillPoint("index", Verification, "_repair_slice"),
}


def arm(point: KillPoint, nth: int, number: signal.Signals) -> None:
    """Make this process signal itself at the n-th call that reaches the point."""
    original: Callable[..., Any] = getattr(point.owner, point.name)
    calls = count(1)

    def send_signal() -> bool:
        sends = next(calls) == nth
        if sends:
            # To this thread, which stops at once. A signal to the process may stop another thread first.
            signal.pthread_kill(threading.get_ident(), number)
        return sends

    async def signalling(*arguments: Any, **named: Any) -> Any:
        sent = point.before and send_signal()
        try:
            result = await original(*arguments, **named)
            sent = sent or (not point.before and _has_result(result) and send_signal())
        finally:
            if sent:  # a stopped process was resumed
                print(PASSED, flush=True)
        return result

    def signalling_synchronously(*arguments: Any, **named: Any) -> Any:
        send_signal()
        return original(*arguments, **named)

    setattr(point.owner, point.name, signalling if inspect.iscoroutinefunction(original) else signalling_synchronously)


def _has_result(result: Any) -> bool:
    """Return whether a call had a result; a claim without chunks does not count."""
    return bool(getattr(result, "chunks", True))


if __name__ == "__main__":
    _, role, point, nth, name = sys.argv
    arm(POINTS[point], int(nth), signal.Signals[f"SIG{name}"])
    main(role)
