"""How PostgreSQL plans a statement: at each execution, or once for some seconds.

A plan depends on the number of due rows, which changes by orders of magnitude within minutes. PostgreSQL would use a
plan made on an empty table until autovacuum analyses the table. But planning a claim takes longer than executing it:
with plans made at each execution, a chunk took 1.8 times the processor time in PostgreSQL. Statements that are executed
for every few chunks, or by every poll, are therefore marked as generic in their file
(`shared.ledger.postgres.statements`).

A connection keeps their plans for at most half a minute, and at first only for twice the time since it started to work,
so that a table at most triples while a plan is kept. Such a plan scans no table that has a suitable index. It does not
know the values of a statement: a statement whose plan depends on them (`:id IS NULL OR ...`, the limit of a scan) is
not marked.
"""

from __future__ import annotations

from dataclasses import dataclass

# Settings of a new connection. PostgreSQL estimates the cost of a claim among 200,000 chunks at 790,000, because it
# multiplies the limits of all lanes; from 100,000 on, it would compile the plan, which takes longer than the claim.
EACH_TIME = {"plan_cache_mode": "force_custom_plan", "jit": "off"}
CHANGE_MODE = "SELECT set_config('plan_cache_mode', $1, $3), set_config('enable_seqscan', $2, $3)"
MODES = {False: ("force_custom_plan", "on", False), True: ("force_generic_plan", "off", False)}
_SHORTEST_SECONDS, _LONGEST_SECONDS = 3.0, 30.0


@dataclass(slots=True)
class Plans:
    """The plans of a connection; times are monotonic seconds.

    Args:
        generic: whether the connection keeps plans; None if this is unknown.
        since: start of its work, after a pause of half a minute.
        used_at: last execution of a marked statement.
        fresh_until: time at which the plans must be discarded.
    """

    generic: bool | None = False
    since: float = 0.0
    used_at: float = float("-inf")
    fresh_until: float = 0.0

    def expire(self, now: float) -> bool:
        """Return whether the plans must be discarded before the next marked statement, which is executed now."""
        if now - self.used_at > _LONGEST_SECONDS:
            self.since = self.fresh_until = now
        self.used_at = now
        if now < self.fresh_until:
            return False
        self.fresh_until = now + min(max(_SHORTEST_SECONDS, 2 * (now - self.since)), _LONGEST_SECONDS)
        return True
