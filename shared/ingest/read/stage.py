"""Read: OCR writes the text of a page that has no text layer.

Pages are claimed, paid once and settled one by one, so a worker that dies repeats only the pages that it was reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from shared.broker.wakeups import Wakeups
from shared.domain.errors import ForeaskError
from shared.domain.retry import RetryPolicy
from shared.domain.stages import poison
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.pages import PAGE_DPI, PageOutcome, PageText, PageToRead
from shared.domain.stages.work import Lease, LeaseExtension
from shared.ingest.drain import Stage
from shared.ingest.moved_uploads import decide_about_upload
from shared.ingest.read.files import OpenFiles
from shared.ledger.work.pages import Pages
from shared.process.telemetry.metrics import READ_SECONDS, timed
from shared.storage.fetching import fetched
from shared.storage.references import Originals
from shared.storage.uploads import Uploads

_OTHER_LANGUAGES = (
    "Its pages wait for a read worker with the data of their languages: install Tesseract's data where"
    " `foreask worker read` runs."
)
log = structlog.get_logger()


class PageReader(Protocol):
    """Reads pages by OCR; the sandbox of parsers is one."""

    async def read_page(
        self, path: Path, number: int, *, languages: tuple[str, ...], dpi: int, tenant: str | None
    ) -> PageText:
        """Return the text of a page.

        Args:
            path: the file.
            number: number of the page in it, from 1.
            languages: languages of OCR.
            dpi: resolution.
            tenant: owner of the file.

        Raises:
            Unreadable: the page cannot be read; the message names it.
            Transient: no child could be started.
        """
        ...


@dataclass(eq=False)
class ReadStage(Stage[PageToRead, PageOutcome | FailedAttempt]):
    """The stage of a read worker.

    Args:
        slots: maximum pages in progress.
        pages: the ledger's pages.
        engine: the OCR engine.
        uploads: the store of files.
        originals: reads uploads whose bytes remain in their source.
        languages: returns the languages whose data is installed.
        wakeups: wakes parse workers when the last page of a document has been read.
        policy: policy of retries.
    """

    name = "read"
    linger = timedelta(milliseconds=50)

    slots: int
    pages: Pages
    engine: PageReader
    uploads: Uploads
    originals: Originals
    languages: Callable[[], Sequence[str]]
    wakeups: Wakeups
    policy: RetryPolicy

    def __post_init__(self) -> None:
        self._files = OpenFiles(partial(fetched, uploads=self.uploads, originals=self.originals))

    async def claim(self, limit: int, held: Mapping[str, int]) -> list[PageToRead]:
        del held
        return await self._claim(limit)

    async def claim_suspect(self) -> list[PageToRead]:
        return await self._claim(1, suspects=True)

    async def _claim(self, limit: int, *, suspects: bool = False) -> list[PageToRead]:
        await self.uploads.require()
        languages = await asyncio.to_thread(self.languages)
        claimed = await self.pages.claim(limit, suspects=suspects, languages=languages)
        if not claimed and await self.pages.explain(_OTHER_LANGUAGES, languages):
            log.warning("pages.unclaimed", reason=_OTHER_LANGUAGES)
        return claimed

    async def process(self, page: PageToRead, require_lease: Callable[[], None]) -> PageOutcome | FailedAttempt:
        """Read a page, unless its text exists."""
        if page.has_text:
            return PageOutcome(page, None)
        try:
            poison.check(page.lost_leases)
            async with self._files.fetched(page.upload) as path:
                require_lease()
                with timed(READ_SECONDS):
                    text = await self.engine.read_page(
                        path, page.number, languages=page.languages, dpi=PAGE_DPI, tenant=page.tenant
                    )
        except ForeaskError as error:
            has_moved = partial(self.pages.has_moved, page.document_id, page.lease.version, page.upload)
            return FailedAttempt(page.lease, await decide_about_upload(error, page.attempts, self.policy, has_moved))
        return PageOutcome(page, text)

    async def settle(self, outcomes: Sequence[PageOutcome | FailedAttempt]) -> None:
        if await self.pages.settle(outcomes):
            self.wakeups.wake("parse")

    def leases_of(self, page: PageToRead) -> list[Lease]:
        return [page.lease]

    def describe(self, page: PageToRead) -> dict[str, str]:
        ids = {"document_id": str(page.document_id), "collection_id": str(page.collection_id)}
        return ids | {"tenant": page.tenant, "page": str(page.number)}

    def traced(self, page: PageToRead) -> dict[str, dict[str, str]]:
        return {page.traceparent: self.describe(page)} if page.traceparent else {}

    async def extend(self, leases: Sequence[Lease]) -> LeaseExtension:
        return await self.pages.extend(leases)

    async def release(self, leases: Sequence[Lease], called: Sequence[Lease] = ()) -> None:
        del called
        await self.pages.release(leases)

    async def expire(self, leases: Sequence[Lease]) -> None:
        await self.pages.release(leases, lost=True)

    def full(self) -> None:
        self.wakeups.wake("read")
