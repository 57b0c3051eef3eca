"""SQL expressions of failed attempts, for the files that settle them; `v` is the attempt, and the argument its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def history(row: str) -> str:
    """Return the last twenty failed attempts: a row that waits for an engine may be tried for days."""
    return f"""(CASE WHEN jsonb_array_length({row}.history) < 20 THEN {row}.history ELSE {row}.history - 0 END)
        || jsonb_build_object('at', now(), 'attempt', {row}.attempts + 1, 'error', v.error)"""


def lost_leases(row: str) -> str:
    """Return the lost leases: an attempt that failed for external reasons proves nothing, a suspect stays a suspect."""
    return f"CASE WHEN v.burned = 0 THEN {row}.lost_leases ELSE 0 END"


# The failed attempts whose claims hold, and which are not recorded yet.
_VALID_FAILURES = """
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, version int, token bigint, error text, dead boolean, after_seconds float, burned int,
         prompt_tokens int, completion_tokens int, calls int, tier_tokens int[])
WHERE {is_given:t} AND t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
"""

FRAGMENTS: Mapping[str, str | Callable[..., str]] = {
    "history": history,
    "lost_leases": lost_leases,
    "next_attempt": "now() + make_interval(secs => v.after_seconds)",
    "valid_failures": _VALID_FAILURES.strip(),
}
