"""Checks of sources: a worker lists the first entries of a source before it is added.

A check is a job that no list of jobs has. Its id is also the id of the definition that its worker opens. No source has
this id, so nothing is noted about its entries.
"""

from __future__ import annotations

import dataclasses
import json
from uuid import UUID, uuid4

from features.sources.domain import CheckedSource, SourceCheck, SourceDefinition
from shared.domain.errors import LeaseLost, NotFound
from shared.domain.jobs import JobClaim, JobKind, JobState
from shared.ledger.jobs import job_claims
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.records import record

_MOST_QUEUED = 5  # of a tenant: a person waits for each of them

SQL = statements.load(__file__, states.FRAGMENTS)


class SourceChecks:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(
        self, tenant: str, *, kind: str, uri: str, options: dict[str, object], secret_name: str | None
    ) -> SourceCheck:
        """Queue a check; the caller wakes the queue `syncs`.

        Raises:
            Conflict: the tenant has several queued checks.
        """
        check_id = uuid4()
        definition = {"kind": kind, "uri": uri, "options": json.dumps(options), "secret_name": secret_name}
        async with self._database.begin() as connection:
            await connection.execute(SQL.forget, {"tenant": tenant})
            await connection.execute(SQL.open, {"id": check_id, "tenant": tenant})
            await connection.execute(SQL.insert, {"id": check_id, **definition})
            await job_claims.enqueue(
                connection, check_id, JobKind.SOURCE_CHECK, tenant=tenant, collection="", most=_MOST_QUEUED
            )
        return await self.get(tenant, check_id)

    async def get(self, tenant: str, check_id: UUID) -> SourceCheck:
        """Return a check.

        Raises:
            NotFound: the tenant has no check of that id.
        """
        rows = await self._database.rows(SQL.get, {"tenant": tenant, "id": check_id})
        if not rows:
            raise NotFound(f"The check {check_id} does not exist: checks are deleted an hour after their end.")
        return record(SourceCheck, rows[0], found=record(CheckedSource, rows[0]))

    async def definition_of(self, claim: JobClaim) -> SourceDefinition:
        """Return the source of a claimed check.

        Raises:
            LeaseLost: the check was deleted, or another worker has claimed it.
        """
        rows = await self._database.rows(SQL.definition, job_claims.claim_parameters(claim))
        if not rows:
            raise LeaseLost
        return record(SourceDefinition, rows[0], tenant=claim.tenant, collection="", name="")

    async def finish(self, claim: JobClaim, found: CheckedSource) -> None:
        """Save the result of a claimed check, and end it; nothing changes if another worker has claimed it."""
        async with self._database.begin() as connection:
            if await job_claims.end(connection, claim, JobState.DONE):
                await connection.execute(
                    SQL.save, dataclasses.asdict(found) | {"id": claim.id, "keys": list(found.keys)}
                )
