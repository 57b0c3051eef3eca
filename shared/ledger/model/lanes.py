"""The lane of a document or a chunk: its priority, and the number of its job.

The indexes of open work start with tenant and lane. A job therefore has a section of its own in each index, and a claim
leaves out the sections of paused jobs: pausing a job with a million chunks changes one row, and its chunks cost other
claims nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shared.domain.jobs import JobState

_PRIORITIES = 16  # lanes of one job; the numbers of jobs, from 1, are in the remaining bits of a smallint
MOST_NUMBERS = (1 << 15) // _PRIORITIES - 1


def lane_of(priority: int, job_number: int = 0) -> int:
    """Return a lane.

    Args:
        priority: 0 interactive, 1 bulk.
        job_number: number of the job within its tenant; 0 without a job.
    """
    return job_number * _PRIORITIES + priority


def priority(alias: str) -> str:
    """Return the SQL expression of the priority of a row with a lane."""
    return f"({alias}.lane % {_PRIORITIES})"


def is_in_job_lane(aliases: str) -> str:
    """Return the SQL condition that a row is in a lane of a job; the aliases are of the row and of the job."""
    row, job = aliases.split()
    first = f"{job}.number * {_PRIORITIES}"
    return f"{row}.tenant = {job}.tenant AND {row}.lane >= {first} AND {row}.lane < {first} + {_PRIORITIES}"


def is_paused(alias: str) -> str:
    """Return the SQL condition that a row with a tenant and a lane belongs to a paused job."""
    return f"""EXISTS (
        SELECT 1 FROM jobs j
        WHERE j.tenant = {alias}.tenant AND j.number = {alias}.lane / {_PRIORITIES} AND j.ended_at IS NULL
          AND j.state = '{JobState.PAUSED}')"""


FRAGMENTS: Mapping[str, Callable[..., str]] = {
    "priority": priority,
    "is_in_job_lane": is_in_job_lane,
    "is_paused": is_paused,
}
