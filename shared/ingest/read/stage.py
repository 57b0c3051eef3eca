"""Read: OCR writes the text of a page that has no text layer.

Pages are claimed, paid once and settled one by one, so a worker that dies repeats only the pages that it was reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from shared.broker.wakeups import Wakeups
from shared.domain import poison
from shared.domain.errors import ForeaskError
from shared.domain.outcomes import FailedAttempt
from shared.domain.pages import PAGE_DPI, PageOutcome, PageText, PageToRead
from shared.domain.retry import RetryPolicy
from shared.ingest.drain import Stage
from shared.ingest.moved_uploads import decide_about_upload
from shared.ingest.read.files import OpenFiles
from shared.ledger.work.pages import Pages
from shared.process.metrics import READ_SECONDS, timed
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


@dataclass(frozen=True, slots=True)
class Reader:
    """The dependencies of the stage.

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

    slots: int
    pages: Pages
    engine: PageReader
    uploads: Uploads
    originals: Originals
    languages: Callable[[], Sequence[str]]
    wakeups: Wakeups
    policy: RetryPolicy


def read_stage(reader: Reader) -> Stage[PageToRead, PageOutcome | FailedAttempt]:
    pages = reader.pages
    files = OpenFiles(partial(fetched, uploads=reader.uploads, originals=reader.originals))
    return Stage(
        name="read",
        slots=reader.slots,
        linger=timedelta(milliseconds=50),
        claim=lambda limit, _: _claim(reader, limit),
        claim_suspect=partial(_claim, reader, 1, suspects=True),
        work=partial(read, reader, files),
        settle=partial(_settle, reader),
        leases_of=lambda page: [page.lease],
        describe=_describe,
        traced=lambda page: {page.traceparent: _describe(page)} if page.traceparent else {},
        extend=pages.extend,
        release=lambda leases, _=(): pages.release(leases),
        expire=partial(pages.release, lost=True),
        full=lambda: reader.wakeups.wake("read"),
    )


def _describe(page: PageToRead) -> dict[str, str]:
    ids = {"document_id": str(page.document_id), "collection_id": str(page.collection_id)}
    return ids | {"tenant": page.tenant, "page": str(page.number)}


async def _claim(reader: Reader, limit: int, *, suspects: bool = False) -> list[PageToRead]:
    await reader.uploads.require()
    languages = await asyncio.to_thread(reader.languages)
    claimed = await reader.pages.claim(limit, suspects=suspects, languages=languages)
    if not claimed and await reader.pages.explain(_OTHER_LANGUAGES, languages):
        log.warning("pages.unclaimed", reason=_OTHER_LANGUAGES)
    return claimed


async def read(
    reader: Reader, files: OpenFiles, page: PageToRead, require_lease: Callable[[], None]
) -> PageOutcome | FailedAttempt:
    """Read a page, unless its text exists."""
    if page.has_text:
        return PageOutcome(page, None)
    try:
        poison.check(page.lost_leases)
        async with files.fetched(page.upload) as path:
            require_lease()
            with timed(READ_SECONDS):
                text = await reader.engine.read_page(
                    path, page.number, languages=page.languages, dpi=PAGE_DPI, tenant=page.tenant
                )
    except ForeaskError as error:
        has_moved = partial(reader.pages.has_moved, page.document_id, page.lease.version, page.upload)
        return FailedAttempt(page.lease, await decide_about_upload(error, page.attempts, reader.policy, has_moved))
    return PageOutcome(page, text)


async def _settle(reader: Reader, outcomes: Sequence[PageOutcome | FailedAttempt]) -> None:
    if await reader.pages.settle(outcomes):
        reader.wakeups.wake("parse")
