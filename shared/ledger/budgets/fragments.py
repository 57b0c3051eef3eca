"""SQL expressions about budgets, for the SQL files that use them; most take the alias of a row of `budgets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shared.ledger.model.lanes import is_in_job_lane


def period_start(budget: str) -> str:
    """Return the first day of the current period, in UTC."""
    return (
        f"CASE {budget}.period WHEN 'day' THEN (now() AT TIME ZONE 'UTC')::date"
        f" WHEN 'month' THEN date_trunc('month', now() AT TIME ZONE 'UTC')::date ELSE {budget}.period_start END"
    )


def spent(budget: str) -> str:
    """Return the amount spent in the current period: the row may be of an earlier one."""
    return f"CASE WHEN {budget}.period_start < {period_start(budget)} THEN 0 ELSE {budget}.spent END"


def room(budget: str) -> str:
    """Return the amount that further calls may reserve."""
    return f"({budget}.most - {budget}.held - {spent(budget)})"


def has_no_room(budget: str) -> str:
    """Return whether the next call does not fit now."""
    return f"{room(budget)} < {budget}.needs"


def calls(budget: str) -> str:
    """Return the number of further calls for which it has room, as far as known."""
    return f"CASE WHEN {has_no_room(budget)} THEN 0 ELSE {room(budget)} / {budget}.needs END"


def is_exhausted(budget: str) -> str:
    """Return whether no call fits any more, even if the calls in flight cost nothing."""
    return f"{budget}.most - {spent(budget)} < {budget}.needs"


def lane_has_room(row: str) -> str:
    """Return whether the budgets of a lane's tenant and job, and of the job's collection, have room.

    Args:
        row: alias of a row with a tenant and a lane.
    """
    return f"""NOT EXISTS (
        SELECT 1 FROM budgets b
        WHERE b.tenant = {row}.tenant AND {has_no_room("b")}
          AND (b.collection IS NULL AND b.job_id IS NULL
               OR EXISTS (SELECT 1 FROM jobs j WHERE {is_in_job_lane(f"{row} j")} AND j.ended_at IS NULL
                                                 AND (j.id = b.job_id OR j.collection = b.collection))))"""


def part_has_room(chunk: str) -> str:
    """Return whether the budgets of a chunk's collection and job have room.

    If all budgets have room, only the first condition is evaluated, once. OFFSET keeps the lookups from becoming joins.
    """
    no_room = f"(b.collection IS NOT NULL OR b.job_id IS NOT NULL) AND {has_no_room('b')}"
    return f"""(NOT EXISTS (SELECT 1 FROM budgets b WHERE {no_room})
        OR NOT EXISTS (
            SELECT 1 FROM documents d JOIN collections l ON l.id = d.collection_id JOIN budgets b ON b.tenant = d.tenant
            WHERE d.id = {chunk}.document_id AND {no_room} AND (b.collection IS NULL OR b.collection = l.name)
              AND (b.job_id IS NULL OR b.job_id = d.job_id)
            OFFSET 0))"""


# The first day of the period of a new budget.
_FIRST_PERIOD_START = """
    CASE CAST(:period AS text) WHEN 'month' THEN date_trunc('month', now() AT TIME ZONE 'UTC')::date
        ELSE (now() AT TIME ZONE 'UTC')::date END
"""

FRAGMENTS: Mapping[str, str | Callable[..., str]] = {
    "first_period_start": _FIRST_PERIOD_START.strip(),
    "budget_period_start": period_start,
    "budget_spent": spent,
    "budget_room": room,
    "budget_has_no_room": has_no_room,
    "budget_calls": calls,
    "budget_is_exhausted": is_exhausted,
    "lane_has_room": lane_has_room,
    "part_has_room": part_has_room,
}
