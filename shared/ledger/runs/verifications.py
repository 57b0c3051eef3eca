"""Verifications of collections: a run with its position, its counts, and the first differing points.

A worker saves them after each page, so that the next worker continues there. Before it repairs points it saves which
ones, because a repaired difference is not found again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import RowMapping

from shared.domain.collections import Collection
from shared.domain.errors import Conflict, LeaseLost, NotFound
from shared.domain.runs import RunClaim, RunKind, RunPhase
from shared.domain.stored import known_fields
from shared.domain.verification import DifferingPoint, Position, VerificationCounts
from shared.ledger.documents import build_sync
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database
from shared.ledger.runs import run_claims

MOST_FINDINGS = 1_000  # of a verification; further ones are only counted
_RETAINED = 20  # verifications of a collection

SQL = statements.load(
    __file__, run_claims.PHASES, ended=run_claims.ENDED, clear=run_claims.CLEARED[RunKind.VERIFICATION]
)


@dataclass(frozen=True, slots=True)
class VerificationRun:
    """A verification as its owner sees it.

    Args:
        position: position from which another verification can continue; the start if it has ended.
        findings: some of its findings, in their order.
        error: reason of its failure.
    """

    id: UUID
    repair: bool
    state: RunPhase
    position: Position
    counts: VerificationCounts
    findings: Sequence[DifferingPoint]
    error: str | None
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class SavedVerification:
    """The work of a claimed verification that is saved.

    Args:
        findings: number of saved findings.
        intended: differences that an earlier worker may have repaired since.
        reopened: documents after the position that an earlier worker may have returned to processing.
    """

    repair: bool
    position: Position
    counts: VerificationCounts
    findings: int
    intended: Sequence[DifferingPoint]
    reopened: Sequence[UUID]


class Verifications:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(self, collection: Collection, *, repair: bool, position: Position | None = None) -> VerificationRun:
        """Queue a verification, or return the open one of the collection.

        Raises:
            NotFound: there is no such collection any more.
            Conflict: the open one repairs and this one would not, or vice versa; or the tenant has the maximum number
                of queued verifications.
        """
        tenant, name = collection.tenant, collection.name
        of = {"tenant": tenant, "collection": name, "seen": 0}
        run = run_claims.NewRun(uuid4(), RunKind.VERIFICATION, tenant, name, embeddings=[])
        start = position or Position()
        async with self._database.begin() as connection:
            await build_sync.hold_live(connection, tenant, name)
            await connection.execute(SQL.lock, of)
            open_ = (await connection.execute(SQL.get_open, of)).mappings().one_or_none()
            if open_ is not None:
                return _require_same(_run(open_), repair=repair)
            await run_claims.enqueue(connection, run)
            row = of | {"id": run.id, "repair": repair, "part": start.part, "after": start.after}
            queued = (await connection.execute(SQL.insert, row)).mappings().one()
            await connection.execute(SQL.delete_oldest, of | {"retained": _RETAINED})
        return _run(queued)

    async def get(self, run: UUID, *, seen: int = 0) -> VerificationRun:
        """Return a verification with its findings after the first `seen` ones.

        Raises:
            NotFound: it was erased with its collection.
        """
        rows = await self._database.rows(SQL.get, {"id": run, "seen": seen})
        if not rows:
            raise NotFound("The collection was deleted during the verification.")
        return _run(rows[0])

    async def newest(self, tenant: str, collection: str) -> VerificationRun:
        """Return the newest verification of a collection with its findings.

        Raises:
            NotFound: the collection has none.
        """
        rows = await self._database.rows(SQL.get_newest, {"tenant": tenant, "collection": collection, "seen": 0})
        if not rows:
            raise NotFound(f"The collection '{collection}' was not verified.")
        return _run(rows[0])

    async def cancel(self, tenant: str, collection: str) -> None:
        """Cancel the open verification of a collection. Its repairs are kept.

        Raises:
            NotFound: the collection has no open verification.
        """
        of = {"tenant": tenant, "collection": collection, "seen": 0}
        async with self._database.begin() as connection:
            open_ = (await connection.execute(SQL.get_open, of)).mappings().one_or_none()
            if open_ is None:
                raise NotFound(f"The collection '{collection}' has no running verification.")
            if await run_claims.withdraw(connection, open_["id"], tenant, collection):
                await connection.execute(SQL.cancel, {"id": open_["id"]})

    async def saved(self, claim: RunClaim) -> SavedVerification:
        """Return the saved work of a claimed verification.

        Raises:
            LeaseLost: it was cancelled or deleted, or another worker has claimed it.
        """
        rows = await self._database.rows(SQL.get_saved, run_claims.of(claim))
        if not rows:
            raise LeaseLost
        (row,) = rows
        intended = [_finding(stored) for stored in row["intended"]]
        position = Position(row["part"], row["after"])
        reopened = [UUID(document_id) for document_id in row["reopened"]]
        return SavedVerification(row["repair"], position, _counts(row["counts"]), row["findings"], intended, reopened)

    async def save(
        self,
        claim: RunClaim,
        position: Position,
        counts: VerificationCounts,
        *,
        findings: Sequence[DifferingPoint],
        intended: Sequence[DifferingPoint] = (),
        reopened: Iterable[UUID] = (),
    ) -> None:
        """Save the work of a claimed verification.

        Args:
            claim: the claim.
            position: position from which the next worker continues.
            counts: counts so far.
            findings: findings to add.
            intended: differences that are repaired next; empty at the end of a page.
            reopened: documents after the position that are, or will be, processed again; empty at the end of a page.

        Raises:
            LeaseLost: it was cancelled or deleted, or another worker has claimed it.
        """
        row = {
            "part": position.part,
            "after": position.after,
            "counts": json.dumps(asdict(counts)),
            "findings": _json(findings),
            "intended": _json(intended),
            "reopened": json.dumps(sorted(map(str, reopened))),
            "advanced": not intended,
        }
        if not await self._database.rows(SQL.save, run_claims.of(claim) | row):
            raise LeaseLost

    async def finish(self, claim: RunClaim) -> None:
        """End a claimed verification, unless it was cancelled or another worker has claimed it."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.finish, run_claims.of(claim))


def _require_same(run: VerificationRun, *, repair: bool) -> VerificationRun:
    if run.repair != repair:
        kind = "with repairs" if run.repair else "without repairs"
        raise Conflict(f"A verification {kind} is running: wait until it is done, or cancel it with DELETE.")
    return run


def _json(findings: Sequence[DifferingPoint]) -> str:
    return json.dumps([asdict(finding) for finding in findings], default=str)


def _finding(stored: Mapping[str, Any]) -> DifferingPoint:
    values = known_fields(stored, DifferingPoint.__dataclass_fields__)
    ids = {name: None if values[name] is None else UUID(values[name]) for name in ("document_id", "chunk_id")}
    return DifferingPoint(**values | ids)


def _counts(stored: Mapping[str, int]) -> VerificationCounts:
    return VerificationCounts(**known_fields(stored, VerificationCounts.__dataclass_fields__))


def _run(row: RowMapping) -> VerificationRun:
    return VerificationRun(
        id=row["id"],
        repair=row["repair"],
        state=RunPhase(row["state"]),
        position=Position(row["part"], row["after"]),
        counts=_counts(row["counts"]),
        findings=[_finding(stored) for stored in row["findings"]],
        error=row["error"],
        created_at=row["created_at"],
        ended_at=row["ended_at"],
    )
