"""Sending of one message to the checked address, without redirects; only the start of the reply is stored."""

from __future__ import annotations

import asyncio
from datetime import UTC, timedelta

import httpx
import orjson

from features.webhooks.addresses import parse, resolve
from features.webhooks.domain import Delivery, DeliveryAttempt, DueDelivery
from features.webhooks.signature import signed_headers
from shared.outside.addresses import ForbiddenAddress
from shared.outside.requests import new_client, pinned
from shared.process.network import problem_of

_KEPT_BYTES = 1024
_SUCCESS = range(200, 300)


class Sender:
    """Sends messages.

    Args:
        private: whether private addresses are allowed.
        timeout: timeout of one attempt, from the first byte to the last.
    """

    def __init__(self, *, private: bool, timeout: timedelta = timedelta(seconds=10)) -> None:
        self._private = private
        self._seconds = timeout.total_seconds()
        self._client = new_client(self._seconds)

    async def send(self, due: DueDelivery) -> DeliveryAttempt:
        """Make one attempt; any failure is part of its result."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._send(due)
        except TimeoutError:
            return DeliveryAttempt(error=f"no reply within {self._seconds:g} s")
        except ForbiddenAddress as error:
            return DeliveryAttempt(error=str(error))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return DeliveryAttempt(error=f"no reply: {problem_of(error) or type(error).__name__}")

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _send(self, due: DueDelivery) -> DeliveryAttempt:
        parts = parse(due.url)
        address = await resolve(parts, private=self._private)
        body = body_of(due.delivery)
        headers = signed_headers(due.secret, message_id(due.delivery), int(due.claimed_at.timestamp()), body)
        headers |= {"content-type": "application/json", "user-agent": "foreask"}
        request = pinned(self._client, "POST", parts, address, headers=headers, content=body)
        reply = await self._client.send(request, stream=True)
        try:
            kept = await _start_of(reply)
        finally:
            await reply.aclose()
        refused = None if reply.status_code in _SUCCESS else f"the reply has status {reply.status_code}"
        return DeliveryAttempt(reply.status_code, kept, refused)


def message_id(delivery: Delivery) -> str:
    return f"msg_{delivery.id.hex}"


def body_of(delivery: Delivery) -> bytes:
    """Return the body of a message, which has the same bytes at each attempt."""
    at = delivery.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return orjson.dumps({"type": delivery.type, "timestamp": at, "data": delivery.data}, option=orjson.OPT_SORT_KEYS)


async def _start_of(reply: httpx.Response) -> str:
    kept = b""
    async for piece in reply.aiter_raw(_KEPT_BYTES):
        kept += piece
        if len(kept) >= _KEPT_BYTES:
            break
    return kept[:_KEPT_BYTES].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
