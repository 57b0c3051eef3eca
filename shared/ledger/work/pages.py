"""Pages without a text layer: they are claimed, read, and settled like all work.

The texts of pages are stored under their keys. A page whose text exists is not read again: not for another version,
another build, or another document of the same tenant with the same file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import asyncpg
import structlog

from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.page_limits import PageLimits
from shared.domain.stages.pages import MOST_OF_A_CLAIM, PageOutcome, PagesOutcome, PageText, PageToRead
from shared.domain.stages.work import Lease, LeaseExtension
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import states
from shared.ledger.model.decoding import decoded
from shared.ledger.model.rows.attempts import failure_rows, lease_rows
from shared.ledger.model.rows.pages import page_rows, page_to_read, read_rows
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import AdvisoryLock, Database, TransactionConflict, again_after_collision, lock
from shared.ledger.postgres.statements import Statement
from shared.ledger.work import claims, failures
from shared.ledger.work.leases import extend

_UNLIMITED = 2**31 - 1
_SLICE_DOCUMENTS = 1_000  # documents of one transaction
_SLICE_PAGES = 2_000
_EXAMINED_PAGES = 100_000  # some 50 ms
_HAS_TEXT = "EXISTS (SELECT 1 FROM page_texts t WHERE t.key = v.key OFFSET 0)"  # OFFSET 0: no table is read completely
SQL = statements.load(
    __file__, {**states.FRAGMENTS, **failures.FRAGMENTS}, insert_state=states.INSERT_PAGE.target(_HAS_TEXT)
)
CLAIMS = statements.load(Path(__file__).with_name("claims_read.sql"), claims.FRAGMENTS)
# The claim of ordinary work under False, and the claim of suspects under True.
CLAIM_PAGES = {False: CLAIMS.claim_pages, True: CLAIMS.claim_suspect_pages}
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ReadPages:
    """The pages of a version that wait for nothing.

    Args:
        texts: texts by number; empty for a page that cannot be read.
        unread: reasons of the pages that cannot be read, by number.
    """

    texts: Mapping[int, PageText]
    unread: Mapping[int, str]


class Pages:
    """Claims and settlements of pages by one worker.

    Args:
        database: the ledger.
        worker: name of the process, for readers of the ledger.
        lease: duration of a claim without extension.
        weights: relative shares of tenants in the free slots; default 1.
        limits: limits of tenants per day.
    """

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        lease: timedelta,
        weights: Mapping[str, float] | None = None,
        limits: PageLimits | None = None,
    ) -> None:
        self._database = database
        self._worker = worker
        self._weights = weights or {}
        self._limits = limits or PageLimits()
        self._has_explained = True  # perhaps an earlier process has
        self.lease = lease

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, worker=terms.worker, lease=terms.lease, weights=terms.weights, limits=terms.page_limits)

    # Parsing

    async def of_version(self, lease: Lease) -> ReadPages:
        """Return the pages of a claimed document's version that have been read, or cannot be."""
        found = await self._database.rows(SQL.texts, {"id": lease.id, "version": lease.version})
        return ReadPages(
            {row["number"]: _text(row) for row in found},
            {row["number"]: row["error"] or "" for row in found if row["text"] is None},
        )

    async def has_moved(self, document_id: UUID, version: int, upload: str) -> bool:
        """Return whether a version's bytes have another name since its claim: the next claim has the new name."""
        found = await self._database.rows(SQL.upload, {"id": document_id, "version": version})
        return bool(found) and found[0]["upload"] != upload

    async def settle_parsed(self, outcomes: Sequence[PagesOutcome]) -> bool:
        """Insert the pages of parsed documents; return whether a document has no page to wait for.

        Pages whose texts exist are read at once, and a document without other pages is queued again.
        """
        settled = [await self._settle_parsed(outcome) for outcome in outcomes]
        return any(settled)

    async def _settle_parsed(self, outcome: PagesOutcome) -> bool:
        lease = outcome.document.lease
        async with self._database.begin() as connection:
            held = await connection.execute(SQL.parse_pages, lease_rows([lease]))
            if held.one_or_none() is None:
                return False
            await connection.execute(SQL.share_texts, {"keys": [page.key for page in outcome.pages]})
            await connection.execute(SQL.insert_pages, page_rows(outcome))
            return bool(await _advance(connection, [lease.id]))

    # Reading

    @again_after_collision
    async def claim(
        self, limit: int, *, suspects: bool = False, languages: Sequence[str] | None = None
    ) -> list[PageToRead]:
        """Claim pages; with `suspects` only suspects, for a worker without other work.

        Pages of tenants that have reached their limit are not claimed: they wait until midnight UTC, and their
        documents say so. Pages in other languages than the worker's are left to other workers.

        Args:
            limit: maximum number of pages.
            suspects: whether suspects are claimed, instead of other pages.
            languages: languages whose data the worker has; None: all.

        Raises:
            TransactionConflict: other workers leased the same pages repeatedly.
        """
        await self._database.settlements_first()
        if self._limits.exist:
            await self._defer_limited()
        parameters = self._claim(limit, suspects=suspects) | {"languages": None if languages is None else [*languages]}
        try:
            claimed = await self._claimed(CLAIM_PAGES[suspects], parameters)
        except asyncpg.IntegrityConstraintViolationError as error:
            raise TransactionConflict("another worker leased the same page", component="ledger") from error
        claims.count_lost("read", claimed)
        return decoded("read", page_to_read, claimed)

    async def _claimed(self, claim: Statement, parameters: Mapping[str, Any]) -> Sequence[Row]:
        """Return the claimed rows. With limits one worker claims at a time, because each counts the others' pages."""
        if not self._limits.exist:
            return await self._database.rows(claim, parameters)
        async with self._database.begin() as connection:
            await lock(connection, AdvisoryLock.PAGES)
            return (await connection.execute(claim, parameters)).all()

    async def settle(self, outcomes: Sequence[PageOutcome | FailedAttempt]) -> bool:
        """Store texts and record failed attempts; return whether a document is to be parsed again.

        Texts are stored even if a claim has expired, because they have been paid for with processor time.
        """
        read = [o for o in outcomes if isinstance(o, PageOutcome)]
        failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
        keys = [o.page.key for o in read]
        ids = [o.page.lease.id for o in read] + [o.lease.id for o in failed]
        stored: Sequence[str] = ()
        async with self._database.begin() as connection:
            locked = {"ids": ids, "keys": keys, "limit": _SLICE_DOCUMENTS}
            documents = (await connection.execute(SQL.lock_documents, locked)).scalars()
            if read:
                stored = (await connection.execute(SQL.store_texts, read_rows(read))).scalars()
                await _store_pictures(connection, read)
                await connection.execute(SQL.settle_read, read_rows(read))
                await connection.execute(SQL.settle_same_text, {"keys": keys, "documents": documents})
            if failed:
                await connection.execute(SQL.fail_reading, failure_rows(failed))
            await _count(connection, stored)
            return bool(await _advance(connection, documents))

    async def extend(self, leases: Sequence[Lease]) -> LeaseExtension:
        """Extend claims from now on; a lost lease stays lost."""
        async with self._database.begin() as connection:
            return await extend(connection, "pages", leases, self.lease)

    async def release(self, leases: Sequence[Lease], *, lost: bool = False) -> None:
        """Release claims without an attempt: the pages are due at once.

        Args:
            leases: leases of the claims.
            lost: whether they count as lost, because the page itself may have been the reason.
        """
        async with self._database.begin() as connection:
            await connection.execute(SQL.expire if lost else SQL.release, lease_rows(leases))

    async def explain(self, reason: str, languages: Sequence[str] = ()) -> int:
        """Record in some documents why their pages have not been claimed for two minutes; return their number.

        Documents that have an explanation keep it until a page has been read.

        Args:
            reason: a sentence.
            languages: languages whose data the worker has; pages in these languages need no explanation.
        """
        async with self._database.begin() as connection:
            parameters = {"languages": [*languages], "limit": _SLICE_DOCUMENTS, "examined": _EXAMINED_PAGES}
            ids = (await connection.execute(SQL.lock_waiting, parameters)).scalars()
            if ids:
                await connection.execute(SQL.explain, {"ids": ids, "reason": reason})
                self._has_explained = True
        return len(ids)

    async def withdraw(self, reason: str) -> bool:
        """Delete an explanation from some documents; return whether more may have it."""
        if not self._has_explained:  # the statement reads all waiting pages
            return False
        async with self._database.begin() as connection:
            changed = await connection.execute(SQL.withdraw, {"reason": reason, "limit": _SLICE_DOCUMENTS})
        self._has_explained = changed.rowcount == _SLICE_DOCUMENTS
        return self._has_explained

    async def readmit(self) -> bool:
        """Make some pages due that wait for the next day although their tenant's limit has been raised.

        Returns:
            Whether more may wait.
        """
        async with self._database.begin() as connection:
            waiting = await connection.execute(SQL.lock_deferred, self._most() | {"limit": _SLICE_PAGES})
            ids = waiting.scalars()
            if ids:
                await connection.execute(SQL.readmit_pages, {"ids": ids})
                await connection.execute(SQL.forget_deferral, {"ids": ids})
                log.info("pages.readmitted", documents=len(ids))
        return bool(ids)

    async def forget_days(self) -> None:
        """Delete the numbers of pages of earlier days."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.forget_days)

    async def _defer_limited(self) -> None:
        """Postpone due pages of tenants that have reached their limit; the next claim continues."""
        async with self._database.begin() as connection:
            found = (await connection.execute(SQL.lock_limited, self._most() | {"limit": _SLICE_PAGES})).all()
            if not found:
                return
            ids = [row.id for row in found]
            await connection.execute(SQL.defer_pages, {"ids": ids})
            await connection.execute(SQL.explain_deferral, {"ids": ids, "most": [row.most for row in found]})
        log.info("pages.deferred", documents=len(ids))

    def _claim(self, limit: int, *, suspects: bool) -> dict[str, Any]:
        most = self._most()
        common = {"limit": min(limit, MOST_OF_A_CLAIM), "worker": self._worker, "lease": self.lease} | most
        if suspects:
            return common
        return common | {"weights": [self._weights.get(tenant, 1) for tenant in most["tenants"]]}

    def _most(self) -> dict[str, Any]:
        """Return the tenants with weights or limits, and the limits."""
        tenants = sorted({*self._weights, *self._limits.of_tenants})
        limits = [self._limits.for_tenant(tenant) for tenant in tenants]
        most = [_UNLIMITED if limit is None else limit for limit in limits]
        others = self._limits.of_others
        return {"tenants": tenants, "most": most, "most_of_others": _UNLIMITED if others is None else others}


async def _advance(connection: Connection, documents: Sequence[UUID]) -> Sequence[UUID]:
    """Queue locked documents without waiting pages; return them."""
    queued = (await connection.execute(SQL.advance, {"ids": documents})).scalars()
    await connection.execute(SQL.touch, {"ids": documents})
    return queued


async def _count(connection: Connection, tenants: Sequence[str]) -> None:
    """Count pages that were read now, late in the settlement, because all settlements of a tenant lock the same row.

    Only texts that were not stored before are counted, because a settlement whose commit was in doubt is repeated.
    """
    pages = Counter(tenants)
    if pages:
        await connection.execute(SQL.count, {"tenants": list(pages), "pages": list(pages.values())})


async def _store_pictures(connection: Connection, read: Sequence[PageOutcome]) -> None:
    pictures = {o.page.key: o.text.picture for o in read if o.text is not None and o.text.picture}
    if pictures:
        parameters = {"keys": list(pictures), "pictures": list(pictures.values())}
        await connection.execute(SQL.store_pictures, parameters)


def _text(row: Row) -> PageText:
    if row["text"] is None:
        return PageText("", 0, 0.0)
    return PageText(row["text"], row["words"], row["confidence"])
