"""Pushes: a program lists the entries of a source, and sends the bodies that the server lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from foreask_client.asynchronous.connection import Connection
from foreask_client.errors import ApiError
from foreask_client.models import EntryResult, Sync
from foreask_client.pushes import (
    Body,
    BodyOf,
    PushedEntry,
    PushReport,
    attachment,
    file_request,
    fits_page,
    listed,
    page_request,
    pages_of,
    path_of,
)
from foreask_client.requests import Request, post

T = TypeVar("T")

_TOO_MANY = 429
_PAUSE_SECONDS = 10.0


class PushesApi(Connection):
    """Methods for programs that push the entries of a source of the kind `push`."""

    async def push(
        self,
        source: str,
        entries: Iterable[PushedEntry],
        body_of: BodyOf | None = None,
        *,
        complete: bool = True,
        key: str = "",
        listing: str | None = None,
    ) -> PushReport:
        """Push entries to a source, and the bodies that the server lacks. An interrupted push is simply started again.

        It waits while the server accepts no bodies because its tenant has too much open work.

        Args:
            source: name of the source.
            entries: the entries, in any order.
            body_of: returns the body of an entry whose `text` is missing, and that the server needs.
            complete: whether these are all entries of the source. Documents of others are deleted when two complete
                listings lacked them. If `entries` or `body_of` raises an error, nothing is deleted.
            key: idempotency key of the listing: an open one with the same key is continued.
            listing: id of an open listing that incomplete entries belong to, which the caller ends.
        """
        report = PushReport()
        if complete:
            listing = (await self.start_listing(source, key=key)).id
        for page in pages_of(entries):
            await self._push_page(source, page, body_of, listing, report)
        if complete and listing is not None:
            report.sync = await self.end_listing(source, listing)
        return report

    async def start_listing(self, source: str, *, key: str = "") -> Sync:
        """Start a complete listing of a source, or return the open one with the same key.

        Its `checkpoint` is the last one of its pages. If another listing is open, the error has status 409 and the id
        of its job as `job_id` in its `problem`.
        """
        return await self.send(post(f"{path_of(source)}/listings", Sync, {"key": key}, repeatable=True))

    async def push_entries(
        self,
        source: str,
        entries: Sequence[PushedEntry],
        *,
        listing: str | None = None,
        checkpoint: str | None = None,
    ) -> list[EntryResult]:
        """Push a page of at most 1,000 entries.

        Args:
            source: name of the source.
            entries: the entries.
            listing: id of the open listing that they belong to; None: they are changes outside of a listing.
            checkpoint: position of the program after this page, in its own terms.
        """
        return await self.send(page_request(source, entries, listing, checkpoint))

    async def push_file(
        self,
        source: str,
        entry: PushedEntry,
        file: Path | bytes,
        *,
        listing: str | None = None,
        filename: str | None = None,
    ) -> EntryResult:
        """Push one entry whose body is a file."""
        return await self.send(file_request(source, entry, attachment(entry, file, filename), listing))

    async def end_listing(self, source: str, listing: str) -> Sync:
        """End a complete listing. Documents of entries that it lacks are deleted as after each sync."""
        return await self.send(post(f"{path_of(source)}/listings/{listing}/end", Sync, repeatable=True))

    async def _push_page(
        self, source: str, page: Sequence[PushedEntry], body_of: BodyOf | None, listing: str | None, report: PushReport
    ) -> None:
        by_key = {entry["key"]: entry for entry in page}
        texts = list[PushedEntry]()
        for result in await self._patiently(page_request(source, list(map(listed, page)), listing, None)):
            entry = by_key[result.key]
            body: Body = None
            if result.result == "body_needed":
                body = entry.get("text") or (body_of(entry) if body_of is not None else None)
            if body is None:
                report.add(result)
            elif isinstance(body, str) and fits_page(body):
                texts.append({**entry, "text": body})
            else:
                request = file_request(source, listed(entry), attachment(entry, body), listing)
                report.add(await self._patiently(request))
        for some in pages_of(texts):
            for result in await self._patiently(page_request(source, some, listing, None)):
                report.add(result)

    async def _patiently(self, request: Request[T]) -> T:
        """Send a request until the server has room for it."""
        while True:
            try:
                return await self.send(request)
            except ApiError as error:
                if error.status != _TOO_MANY:
                    raise
                pause = error.retry_after or _PAUSE_SECONDS
            await asyncio.sleep(pause)
