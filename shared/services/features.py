"""Optional features: each adds steps and tables to the processes of the core.

`features/all.py` lists the features, and each process that needs them passes them to `build`. No core module imports a
feature.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from shared.domain.jobs import JobKind
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.postgres.statements import Statement
from shared.services.parts import Parts

if TYPE_CHECKING:
    from shared.maintenance.jobs.runner import JobWork
    from shared.storage.references import Originals


@dataclass(frozen=True, slots=True)
class Step:
    """A repeated step of the scheduler.

    Args:
        name: name in logs.
        every: pause after a round that found no more work.
        work: does some work, and returns True if more may be left. It may be cancelled, and run concurrently.
        only_if: statement whose only value is true whenever there is work; the conditions of all steps are evaluated
            together. None: the work is called after each pause.
    """

    name: str
    every: timedelta
    work: Callable[[], Awaitable[object]]
    only_if: Statement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """An optional feature.

    Its functions import the modules that they need, because a process loads only the features that it uses.

    Args:
        steps: returns its steps of the scheduler.
        erased_tables: returns its tables from which an erasure deletes rows.
        jobs: make the work on its kinds of jobs, when a worker claims the first one.
        originals: makes the reader of uploads whose bytes remain in a corpus of the feature; None if it has none.
        temporary_folders: returns the prefixes of its temporary folders, of which a starting worker removes leftovers.
    """

    steps: Callable[[Parts], Sequence[Step]] = lambda _: ()
    erased_tables: Callable[[], Sequence[ErasedTable]] = tuple
    jobs: Mapping[JobKind, Callable[[Parts], JobWork]] = field(default_factory=dict)
    originals: Callable[[Parts], Originals] | None = None
    temporary_folders: Callable[[], Sequence[str]] = tuple


def erased_tables(features: Iterable[Feature]) -> list[ErasedTable]:
    """Return the tables of several features."""
    return [table for feature in features for table in feature.erased_tables()]
