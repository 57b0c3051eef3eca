"""Gates of builds: a run that compares a build with the live one, and its report, which its build stores, too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import RowMapping

from shared.domain.builds import Build
from shared.domain.errors import Conflict, LeaseLost, NotFound
from shared.domain.runs import RunClaim, RunKind, RunPhase
from shared.domain.stored import known_fields
from shared.domain.verification import VerificationCounts
from shared.ledger.documents import build_sync
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database
from shared.ledger.runs import run_claims

_RETAINED = 20  # gates of a build

SQL = statements.load(__file__, run_claims.PHASES, ended=run_claims.ENDED, clear=run_claims.CLEARED[RunKind.GATE])


@dataclass(frozen=True, slots=True)
class GateRequest:
    """The work of a gate.

    Args:
        questions: labelled questions `{"question", "external_ids"}`; None: users' accepted questions.
        accept_failures: number of documents that may have failed only in the build.
    """

    questions: Sequence[Mapping[str, Any]] | None
    accept_failures: int


@dataclass(frozen=True, slots=True)
class GateRun:
    """A gate as the owner of the build sees it.

    Args:
        counts: compared documents and points so far.
        report: None until it is done.
        error: reason of its failure.
    """

    id: UUID
    state: RunPhase
    counts: VerificationCounts
    report: Mapping[str, Any] | None
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class Gates:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(self, build: Build, live_embedding: str, request: GateRequest) -> GateRun:
        """Queue a gate, or return the open one of the build.

        Args:
            build: the build.
            live_embedding: name of the live build's embedding.
            request: the questions.

        Raises:
            NotFound: there is no such collection any more.
            Conflict: the open gate has another request, or the tenant has the maximum number of queued gates.
        """
        embeddings = sorted({live_embedding, build.embedding_model})
        run = run_claims.NewRun(uuid4(), RunKind.GATE, build.tenant, build.name, embeddings)
        of, stored = {"build": build.id}, json.dumps(asdict(request))
        async with self._database.begin() as connection:
            await build_sync.hold_live(connection, build.tenant, build.name)
            await connection.execute(SQL.lock, of)
            open_ = (await connection.execute(SQL.get_open, of)).mappings().one_or_none()
            if open_ is not None:
                if open_["request"] != json.loads(stored):
                    raise Conflict(
                        f"A gate of build {build.number} with other questions is running: wait until it is done, or"
                        " cancel it with DELETE."
                    )
                return _run(open_)
            await run_claims.enqueue(connection, run)
            row = {"id": run.id, "tenant": build.tenant, "collection": build.name, "number": build.number}
            queued = (await connection.execute(SQL.insert, of | row | {"request": stored})).mappings().one()
            await connection.execute(SQL.delete_oldest, of | {"retained": _RETAINED})
        return _run(queued)

    async def get(self, run: UUID) -> GateRun:
        """Return a gate.

        Raises:
            NotFound: it was erased with its collection.
        """
        rows = await self._database.rows(SQL.get, {"id": run})
        if not rows:
            raise NotFound("The collection was deleted while the builds were compared.")
        return _run(rows[0])

    async def newest(self, build: Build) -> GateRun:
        """Return the newest gate of a build.

        Raises:
            NotFound: the build has none.
        """
        rows = await self._database.rows(SQL.get_newest, {"build": build.id})
        if not rows:
            raise NotFound(f"The gate of build {build.number} was not run.")
        return _run(rows[0])

    async def cancel(self, build: Build) -> None:
        """Cancel the open gate of a build.

        Raises:
            NotFound: the build has no open gate.
        """
        async with self._database.begin() as connection:
            open_ = (await connection.execute(SQL.get_open, {"build": build.id})).mappings().one_or_none()
            if open_ is None:
                raise NotFound(f"The gate of build {build.number} is not running.")
            if await run_claims.withdraw(connection, open_["id"], build.tenant, build.name):
                await connection.execute(SQL.cancel, {"id": open_["id"]})

    async def request_of(self, claim: RunClaim) -> tuple[UUID, int, GateRequest]:
        """Return the id and the number of the build of a claimed gate, and its request.

        Raises:
            LeaseLost: it was cancelled or deleted, or another worker has claimed it.
        """
        rows = await self._database.rows(SQL.get_request, run_claims.of(claim))
        if not rows:
            raise LeaseLost
        (row,) = rows
        request = GateRequest(**known_fields(row["request"], GateRequest.__dataclass_fields__))
        return row["build_id"], row["build"], request

    async def save_counts(self, claim: RunClaim, counts: VerificationCounts) -> None:
        """Save the progress of a claimed gate; without effect if another worker has claimed it."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.save_counts, run_claims.of(claim) | {"counts": json.dumps(asdict(counts))})

    async def finish(self, claim: RunClaim, report: Mapping[str, Any]) -> None:
        """Save the report of a claimed gate, also with its build; without effect if another worker has claimed it."""
        stored = {"report": json.dumps(report)}
        async with self._database.begin() as connection:
            ended = await connection.execute(SQL.finish, run_claims.of(claim) | stored)
            build = ended.scalar_one_or_none()
            if build is not None:
                await connection.execute(SQL.save_report, stored | {"build": build})


def _run(row: RowMapping) -> GateRun:
    return GateRun(
        id=row["id"],
        state=RunPhase(row["state"]),
        counts=VerificationCounts(**known_fields(row["counts"], VerificationCounts.__dataclass_fields__)),
        report=row["report"],
        error=row["error"],
        created_at=row["created_at"],
        ended_at=row["ended_at"],
    )
