"""Dead letters: failed documents, unread pages and dead chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from foreask_client.asynchronous.connection import Connection
from foreask_client.models import DeadLetter, DeadLettersResolved, DeadReason
from foreask_client.requests import Pages, get, get_items, given, post, segment


class DeadLettersApi(Connection):
    """Methods for dead letters."""

    def dead_letters(
        self, *, collection: str | None = None, document_id: str | None = None, reason: str | None = None
    ) -> AsyncIterator[DeadLetter]:
        """List failed documents, unread pages and dead chunks, newest first."""
        params = given({"collection": collection, "document_id": document_id, "reason": reason})
        return self.items(Pages("/v1/dead-letters", params, DeadLetter.model_validate))

    async def dead_reasons(
        self, *, collection: str | None = None, document_id: str | None = None, reason: str | None = None
    ) -> list[DeadReason]:
        """Count the dead letters of each reason."""
        request = get_items(
            "/v1/dead-letters/reasons", DeadReason, collection=collection, document_id=document_id, reason=reason
        )
        return await self.send(request)

    async def dead_letter(self, letter_id: str) -> DeadLetter:
        """Return a dead letter with its failed attempts."""
        return await self.send(get(f"/v1/dead-letters/{segment(letter_id)}", DeadLetter))

    async def retry_dead_letters(self, **selection: Any) -> DeadLettersResolved:
        """Retry dead letters, selected by `document_id`, `collection`, `reason` and `letter_id`, or by `all`."""
        return await self.send(post("/v1/dead-letters/retry", DeadLettersResolved, selection, slow=True))

    async def discard_dead_letters(self, **selection: Any) -> DeadLettersResolved:
        """Discard dead letters permanently, selected as for `retry_dead_letters`."""
        return await self.send(post("/v1/dead-letters/discard", DeadLettersResolved, selection, slow=True))
