"""Claims on runs: a run is queued, a worker claims it under a lease, and another one follows if the worker dies.

`runs` has a narrow row for each open run; the table of its kind has everything else. A claim is fair: it selects a
run of the tenant with the fewest claimed runs, and among these the run that has waited longest. More workers do more
runs at once, and a long run gives way to another run that could not be claimed otherwise.

A worker that lost its lease cannot write a result, because each statement about a result needs the token of the newest
claim.
"""

from __future__ import annotations

from collections.abc import Collection as Some
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.errors import Conflict
from shared.domain.jobs import JobState
from shared.domain.runs import RUNS_OF_PARSERS, RunClaim, RunKind, RunPhase
from shared.ledger.ledger import StoreTerms
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import AdvisoryLock, Database, lock
from shared.ledger.work.heartbeats import ALIVE_FOR

MOST_QUEUED = 20  # of a tenant and a kind
# Of each kind, at least; each live worker after the fourth adds one. Runs are slow, and searches of users share the
# providers and Qdrant with them.
_MOST = 4
_MOST_OF_TENANT = 2  # or half of all

# Fragments of statements: the phases, and the end of a claimed run, after which the statement continues `FROM ended`.
PHASES = {phase.name: f"'{phase}'" for phase in RunPhase}
ENDED = "ended AS (DELETE FROM runs WHERE id = :id AND token = :token RETURNING id)"

# The table of each kind, and the assignment that clears the columns of an ended run.
_TABLES: Mapping[RunKind, tuple[str, str]] = {
    RunKind.EVALUATION: ("evaluations", "request = NULL"),
    RunKind.GATE: ("gates", "request = '{}'"),
    RunKind.VERIFICATION: ("verifications", "after = NULL, intended = '[]', reopened = '[]'"),
    RunKind.SYNC: ("syncs", "waiting = NULL, after = ''"),
    RunKind.LOOKUP: ("source_lookups", "waiting = NULL"),
}
CLEARED = {kind: clear for kind, (_, clear) in _TABLES.items()}
# Kinds whose row shows why they wait, and the assignments that show it and remove it.
_WITH_REASON = {RunKind.SYNC, RunKind.LOOKUP}
_TURN_IS_OVER = "Other syncs waited for a worker, too: it continues from its saved position when their turns are over."
SQL = statements.load(
    __file__,
    at_least=str(_MOST),
    at_least_of_tenant=str(_MOST_OF_TENANT),
    paused=f"'{JobState.PAUSED}'",
    parsed=", ".join(f"'{kind}'" for kind in sorted(RUNS_OF_PARSERS)),
    alive_for=f"interval '{ALIVE_FOR.total_seconds()} seconds'",
)
# The statements about a claimed run and its row in the table of its kind.
_PHASES_OF = {
    kind: statements.load(
        Path(__file__).with_name("run_phases.sql"),
        PHASES,
        table=table,
        clear=clear,
        ended=ENDED,
        without_reason=", waiting = NULL" if kind in _WITH_REASON else "",
        with_reason=f", waiting = '{_TURN_IS_OVER}'" if kind in _WITH_REASON else "",
    )
    for kind, (table, clear) in _TABLES.items()
}


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be queued; a worker needs all its `embeddings`, by name."""

    id: UUID
    kind: RunKind
    tenant: str
    collection: str
    embeddings: Sequence[str]


async def withdraw(connection: AsyncConnection, run: UUID, tenant: str, collection: str) -> bool:
    """End an open run of a collection, whose worker then stops; return False if it has ended.

    Every transaction changes the run's narrow row before the row in the table of its kind.
    """
    found = await connection.execute(SQL.withdraw, {"id": run, "tenant": tenant, "collection": collection})
    return bool(found.all())


async def enqueue(connection: AsyncConnection, run: NewRun, *, most: int = MOST_QUEUED) -> None:
    """Queue a run whose row is inserted in the same transaction. Concurrent requests may exceed the maximum.

    Raises:
        Conflict: the tenant has `most` queued runs of this kind.
    """
    queue = {"tenant": run.tenant, "kind": run.kind}
    if (await connection.execute(SQL.count_queued, queue)).scalar_one() >= most:
        raise Conflict(f"This tenant has {most} queued {run.kind}s: wait until one starts, or delete one.")
    parameters = queue | {"id": run.id, "collection": run.collection, "embeddings": list(run.embeddings)}
    await connection.execute(SQL.insert, parameters)


class RunClaims:
    """The claims of one process.

    Args:
        database: the ledger.
        worker: name of the process.
        lease: duration of a claim unless it is extended.
        embeddings: names of the embeddings that the process serves.
    """

    def __init__(self, database: Database, *, worker: str, lease: timedelta, embeddings: Sequence[str]) -> None:
        self._database = database
        self._worker = worker
        self._lease = lease
        self._embeddings = list(embeddings)

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, worker=terms.worker, lease=terms.lease, embeddings=terms.embeddings)

    async def due(self) -> set[RunKind]:
        """Return the kinds of the runs that may be claimed. Runs of a newer release's kinds are left to its workers."""
        return {RunKind(row["kind"]) for row in await self._database.rows(SQL.due, {"kinds": list(RunKind)})}

    async def claim(self, kinds: Some[RunKind]) -> RunClaim | None:
        """Claim the next run of these kinds; None if none may be claimed."""
        parameters: dict[str, Any] = {
            "kinds": list(kinds),
            "worker": self._worker,
            "lease": self._lease,
            "embeddings": self._embeddings,
        }
        async with self._database.begin() as connection:
            await lock(connection, AdvisoryLock.RUNS)
            row = (await connection.execute(SQL.claim, parameters)).mappings().one_or_none()
            if row is None:
                return None
            claim = RunClaim(**{**row, "kind": RunKind(row["kind"])})
            phases = _PHASES_OF[claim.kind]
            await connection.execute(phases.show_running, {"id": claim.id})
        return claim

    async def extend(self, claim: RunClaim) -> bool:
        """Extend a claim; return False if the run was deleted or another worker has claimed it."""
        return bool(await self._database.rows(SQL.extend, of(claim) | {"lease": self._lease}))

    async def release(self, claim: RunClaim, *, pause: timedelta | None = None) -> None:
        """End a claim without a result: the run is queued again, and not claimed before a pause is over.

        A later claim is not affected.
        """
        phases = _PHASES_OF[claim.kind]
        async with self._database.begin() as connection:
            await connection.execute(phases.release, of(claim) | {"pause": pause})

    async def give_way(self, claim: RunClaim, *, pause: timedelta = timedelta()) -> bool:
        """Release a claim if another run waits for it, which this worker could do; return whether it was released.

        The released run then waits longer than no other run of its kind, and at least for the pause.
        """
        parameters, phases = of(claim) | {"embeddings": self._embeddings, "pause": pause}, _PHASES_OF[claim.kind]
        async with self._database.begin() as connection:
            await lock(connection, AdvisoryLock.RUNS)  # otherwise several runs would give way to the same one
            released = (await connection.execute(SQL.give_way, parameters)).all()
            if released:
                await connection.execute(phases.show_waiting, {"id": claim.id})
        return bool(released)

    async def fail(self, claim: RunClaim, error: str) -> None:
        """End a run with the reason of its failure, unless another worker has claimed it."""
        phases = _PHASES_OF[claim.kind]
        async with self._database.begin() as connection:
            await connection.execute(phases.fail, of(claim) | {"error": error})


def of(claim: RunClaim) -> dict[str, Any]:
    """Return the parameters that select a claimed run."""
    return {"id": claim.id, "token": claim.token}
