"""Limits of the use of the API by a tenant, see FOREASK_TENANT_LIMITS, and by a key."""

from __future__ import annotations

import asyncio
from asyncio import Semaphore
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from math import ceil
from uuid import UUID

from fastapi import Request

from shared.broker.tenant_use import OpenOffer, TenantUse, until_tomorrow
from shared.domain.access.keys import KeyLimits
from shared.domain.corpus.documents import NewDocument
from shared.domain.errors import Conflict, TooLarge
from shared.domain.states import DocumentState
from shared.http import bodies
from shared.http.problems import TooManyRequests
from shared.http.request_body import is_large
from shared.ledger.documents.documents import Documents
from shared.maintenance.orphans import APART
from shared.settings import Settings
from shared.storage.uploads import Offer, Uploads

_BURST_SECONDS = 2.0
_CALL_WAIT_SECONDS = 60.0
# A body of 20 MiB is in memory up to four times: its pieces, the joined body, its text, and the text as bytes.
_LARGE_AT_ONCE = 4
_OPEN_OFFERS = 100  # of a tenant
_UNUSED_SECONDS = 60 * 60.0  # an address is valid for a quarter, and a slow upload that started in time may still run
_ANY_BYTES = 2**53


class Quotas:
    """Counts tenants' use, and rejects requests over the limits.

    Args:
        settings: the limits.
        use: counts requests and bytes of all API processes.
        documents: documents in the ledger.
    """

    def __init__(self, settings: Settings, use: TenantUse, documents: Documents) -> None:
        self._settings = settings
        self._use = use
        self._documents = documents
        self._large = defaultdict[str, Semaphore](lambda: Semaphore(_LARGE_AT_ONCE))

    async def count_request(self, tenant: str, key_id: UUID | None, of_key: KeyLimits) -> dict[str, str]:
        """Count a request of a key, and then of its tenant.

        Returns:
            Headers with the remaining number of requests, of the key if it has a limit; empty without a limit.

        Raises:
            TooManyRequests: a limit is reached; the error has the headers.
        """
        limits = self._settings.limits_of(tenant)
        headers = await self._take(f"{tenant}:{key_id}", "key", of_key.requests_per_second, None)
        return await self._take(tenant, "tenant", limits.requests_per_second, limits.burst) | headers

    async def count_call(self, tenant: str, key_id: UUID | None, of_key: KeyLimits) -> None:
        """Count a call of a model like a request, and wait for the rate for up to a minute.

        Raises:
            TooManyRequests: the rate was exceeded for a minute.
        """
        deadline = asyncio.get_running_loop().time() + _CALL_WAIT_SECONDS
        while True:
            try:
                await self.count_request(tenant, key_id, of_key)
            except TooManyRequests as full:
                pause = (full.retry_after or timedelta()).total_seconds()
                if asyncio.get_running_loop().time() + pause > deadline:
                    raise
                await asyncio.sleep(pause)
            else:
                return

    async def _take(self, owner: str, kind: str, rate: float | None, burst: int | None) -> dict[str, str]:
        if rate is None:
            return {}
        burst = burst or max(1, ceil(rate * _BURST_SECONDS))
        result = await self._use.take_request(owner, rate, burst)
        if result is None:
            return {}
        headers = {
            "ratelimit-policy": f'"requests";q={burst};w={ceil(burst / rate)}',
            "ratelimit": f'"requests";r={result.left};t={ceil(result.full.total_seconds())}',
        }
        if not result.granted:
            raise TooManyRequests(
                f"This {kind} may send {rate:g} requests per second, and {burst} at once: send them more slowly.",
                retry_after=result.wait,
                headers=headers,
            )
        return headers

    @asynccontextmanager
    async def slot_for_body(self, tenant: str, request: Request) -> AsyncIterator[None]:
        """Wait for a slot if the body is large and will be held in memory; a tenant waits only for its own bodies.

        A waiting body is not read, so its bytes stay with the client.
        """
        if bodies.media_type(request) != "application/json" or not is_large(request.scope):
            yield
            return
        async with self._large[tenant]:
            yield

    async def require_upload_room(self, tenant: str) -> None:
        """Reject an upload before it is read, if the day's bytes are used up.

        Bytes that were sent to an address count already, so a tenant with such bytes may submit them.

        Raises:
            TooManyRequests: the day's bytes are used up.
        """
        most = self._settings.limits_of(tenant).upload_bytes_per_day
        if most is None or await self._use.add_upload(tenant, 0, most - 1) or await self._use.offers(tenant):
            return
        raise _used_up(most)

    async def offer(self, tenant: str, size_bytes: int, uploads: Uploads) -> Offer:
        """Offer an address for a direct upload, whose bytes count at once.

        Bytes of earlier offers that have expired unused are given back.

        Raises:
            Conflict: the store has no addresses.
            TooLarge: the upload exceeds the limit for one day.
            TooManyRequests: the day's bytes are used up, or too many offers are open.
            Unavailable: the store is unavailable.
        """
        uploads.require_addresses()
        await self._close_unused(tenant, uploads)
        await self._count_bytes(tenant, size_bytes, counted=size_bytes)
        try:
            offered = await uploads.offer(tenant, size_bytes)
            made = OpenOffer(offered.token, size_bytes, datetime.now(UTC))
            if not await self._use.add_offer(tenant, made, _OPEN_OFFERS):
                raise TooManyRequests(
                    f"This tenant has {_OPEN_OFFERS} addresses for direct uploads that were not submitted: submit their"
                    " documents first. Unused ones expire.",
                    retry_after=timedelta(seconds=_UNUSED_SECONDS),
                )
        except BaseException:
            await self._give_back(tenant, size_bytes)
            raise
        return offered

    @asynccontextmanager
    async def closed_offer(self, tenant: str, token: str | None) -> AsyncIterator[int]:
        """Close the offer of a direct upload while its document is submitted; if that fails, it is open again.

        Yields:
            The number of bytes that count already; 0 without an offer of today.
        """
        offers = [] if token is None else await self._use.close_offers(tenant, [token])
        try:
            yield sum(offer.size_bytes for offer in offers if offer.is_of_today)
        except BaseException:
            for offer in offers:
                await self._use.add_offer(tenant, offer, 2 * _OPEN_OFFERS)
            raise

    async def _close_unused(self, tenant: str, uploads: Uploads) -> None:
        """Close expired offers to whose addresses nothing was sent, and give back their bytes.

        Other stores than S3 with access keys accept more bytes than offered. Such bytes are deleted, and count.
        """
        expired = [each for each in await self._use.offers(tenant) if each.age.total_seconds() > _UNUSED_SECONDS]
        if not expired:
            return
        sent = await uploads.sent_sizes(tenant, [each.token for each in expired])
        too_large = [each.token for each in expired if sent.get(each.token, 0) > each.size_bytes]
        unused = [each.token for each in expired if each.token not in sent or each.age >= APART]
        for offer in await self._use.close_offers(tenant, unused):
            if offer.token not in sent and offer.is_of_today:
                await self._give_back(tenant, offer.size_bytes)
        for offer in await self._use.close_offers(tenant, too_large):
            await uploads.withdraw(tenant, offer.token)
            await self._use.add_upload(tenant, sent[offer.token] - offer.size_bytes, _ANY_BYTES)

    async def _give_back(self, tenant: str, size_bytes: int) -> None:
        if self._settings.limits_of(tenant).upload_bytes_per_day is not None:
            await self._use.add_upload(tenant, -size_bytes, _ANY_BYTES)

    async def require_room(self, new: Sequence[NewDocument], offered_bytes: int = 0) -> None:
        """Count the bytes of documents of one collection, and check that the tenant may add them.

        Concurrent uploads together may exceed the maximum number of documents.

        Args:
            new: the documents.
            offered_bytes: bytes of them that count already.

        Raises:
            TooManyRequests: the day's bytes are used up.
            TooLarge: the documents exceed the limit for one day.
            Conflict: the tenant has the maximum number of documents, and some of the given ones are new.
        """
        tenant, size = new[0].collection.tenant, sum(document.size_bytes for document in new)
        await self._require_documents(tenant, new)
        await self._count_bytes(tenant, size, counted=size - offered_bytes)

    async def _count_bytes(self, tenant: str, size: int, *, counted: int) -> None:
        """Count bytes of an upload of this size; a negative number gives bytes back."""
        most = self._settings.limits_of(tenant).upload_bytes_per_day
        if most is None:
            return
        if size > most:
            raise TooLarge(f"This tenant may upload {most:,} bytes per day, and this upload has {size:,}.")
        if not await self._use.add_upload(tenant, counted, most if counted > 0 else _ANY_BYTES):
            raise _used_up(most)

    async def _require_documents(self, tenant: str, new: Sequence[NewDocument]) -> None:
        most = self._settings.limits_of(tenant).documents
        if most is None:
            return
        counts = await self._documents.counts(tenant)
        existing = sum(count for state, count in counts.items() if state is not DocumentState.DELETING)
        names = {document.external_id for document in new}
        if existing + len(names) <= most:
            return
        replaced = await self._documents.count_of_names(new[0].collection, names)
        if existing + len(names) - replaced > most:
            raise Conflict(
                f"This tenant may have {most:,} documents, and has {existing:,}: delete some, or ask the operator for"
                " more. Existing documents can still be changed."
            )


def _used_up(most: int) -> TooManyRequests:
    return TooManyRequests(
        f"This tenant may upload {most:,} bytes per day, and this upload exceeds the remaining bytes: continue after"
        " midnight in UTC.",
        retry_after=until_tomorrow(),
    )
