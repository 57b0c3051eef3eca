"""The openings and the ends of jobs, and the check that a load accepts documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import structlog

from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, JobIsOpen, NotFound
from shared.domain.jobs import JobKind, JobState
from shared.ledger.model import lanes, states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection

_MOST_OPEN = 100  # of a tenant: a claim looks up each of them
SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    most_numbers=str(lanes.MOST_NUMBERS),
    finished_state=states.FINISH_JOB.sets(
        "j.state = {JobState.CANCELLING}", "j.error IS NOT NULL", "f.has_errors OR {has_refused_entries}"
    ),
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OpenedJob:
    """An open job, its number within the tenant, and whether it is new."""

    id: UUID
    number: int
    is_new: bool


async def open_job(
    connection: Connection,
    collection: Collection,
    kind: JobKind,
    *,
    key: str | None,
    expected: int | None,
    reopen: bool = False,
) -> OpenedJob:
    """Open a job of a collection.

    Args:
        connection: transaction.
        collection: its collection.
        kind: its kind.
        key: no other open job of the tenant and kind has it; None if several may be open.
        expected: number of documents; None if unknown.
        reopen: whether an open job with this key is returned, and accepts documents again.

    Raises:
        JobIsOpen: a job with this key is open.
        Conflict: the tenant has the maximum number of open jobs.
    """
    scope: dict[str, Any] = {"tenant": collection.tenant, "kind": kind, "key": key}
    await connection.execute(SQL.lock, {"tenant": collection.tenant})
    found = (await connection.execute(SQL.find_open, scope)).one_or_none()
    if found is not None and not await finish(connection, found.id):
        parameters = {"id": found.id, "expected": expected}
        is_same = reopen and found.collection == collection.name
        if is_same and (await connection.execute(SQL.reopen, parameters)).one_or_none() is not None:
            return OpenedJob(found.id, found.number, is_new=False)
        raise JobIsOpen(f"The job {found.id} with this key is {found.state}: wait for its end, or cancel it.", found.id)
    if (await connection.execute(SQL.count_open, {"tenant": collection.tenant})).scalar_one() >= _MOST_OPEN:
        raise Conflict(f"{_MOST_OPEN} jobs are open: close or cancel some of them.")
    job_id = uuid4()
    parameters = scope | {
        "id": job_id,
        "collection": collection.name,
        "collection_id": collection.id,
        "expected": expected,
    }
    number = (await connection.execute(SQL.insert, parameters)).scalar_one()
    of_lanes = {"tenant": collection.tenant, "lanes": [str(lane) for lane in lanes.lanes_of(number)]}
    await connection.execute(SQL.forget_changes, of_lanes)
    await connection.execute(SQL.forget_counters, of_lanes)
    return OpenedJob(job_id, number, is_new=True)


async def finish(connection: Connection, job_id: UUID | None = None) -> Sequence[UUID]:
    """Finish the closed jobs, or one of them, without unfinished documents; return their ids."""
    rows = (await connection.execute(SQL.finish, {"id": job_id})).all()
    for row in rows:
        log.info("job.ended", job_id=str(row.id), tenant=row.tenant, kind=row.kind, state=row.state)
    return [row.id for row in rows]


async def hold_load(connection: Connection, collection: Collection, job_id: UUID) -> int:
    """Keep a load open until the transaction ends; return its number.

    Raises:
        NotFound: the tenant has no load of that id.
        Conflict: it is a load of another collection, or accepts no more documents.
    """
    found = await connection.execute(SQL.hold, {"tenant": collection.tenant, "id": job_id})
    row = found.one_or_none()
    if row is None:
        raise NotFound(f"There is no load {job_id}. GET /v1/jobs lists the jobs.", field="job")
    if row.collection != collection.name:
        raise Conflict(f"The job {job_id} is a load of the collection '{row.collection}'.")
    if row.state not in (JobState.RUNNING, JobState.PAUSED) or row.closed_at is not None:
        state = "closed" if row.state in (JobState.RUNNING, JobState.PAUSED) else row.state
        raise Conflict(f"The job {job_id} is {state}, and accepts no more documents.")
    number: int = row.number
    return number
