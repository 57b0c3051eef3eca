"""Builds of a collection: start, compare and switch them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foreask_client.asynchronous.connection import Connection
from foreask_client.models import Build, Json
from foreask_client.requests import (
    AsyncEvents,
    Request,
    Stream,
    as_type,
    collection_path,
    delete,
    get,
    get_items,
    post,
)


class BuildsApi(Connection):
    """Methods for the builds of a collection."""

    async def builds(self, collection: str) -> list[Build]:
        """List the builds of a collection, oldest first."""
        return await self.send(get_items(f"{collection_path(collection)}/builds", Build))

    async def build(self, collection: str, number: int) -> Build:
        return await self.send(get(_path(collection, number), Build))

    async def start_build(self, collection: str, **change: Any) -> Build:
        """Start a build next to the live one. `change` contains the options that differ, such as `embedding`."""
        return await self.send(post(f"{collection_path(collection)}/builds", Build, change))

    async def pause_build(self, collection: str, number: int) -> Build:
        return await self.send(post(f"{_path(collection, number)}/pause", Build, repeatable=True))

    async def resume_build(self, collection: str, number: int) -> Build:
        return await self.send(post(f"{_path(collection, number)}/resume", Build, repeatable=True))

    async def drop_build(self, collection: str, number: int) -> Build:
        return await self.send(Request("DELETE", _path(collection, number), as_type(Build), repeatable=True))

    async def switch_build(self, collection: str, number: int, *, force: bool = False) -> Build:
        """Make a build live. A build that was never live needs an open gate, or `force`."""
        return await self.send(post(f"{_path(collection, number)}/switch", Build, {"force": force}, slow=True))

    def gate(
        self, collection: str, number: int, *, questions: Sequence[Json] | None = None, accept_failures: int = 0
    ) -> AsyncEvents:
        """Compare a build with the live one: events `progress` with counts, then `done` with the report.

        A worker compares, and continues if this client disconnects: another call follows the same comparison.

        Args:
            collection: name of the collection.
            number: the build's number.
            questions: labelled questions, which both builds are asked.
            accept_failures: number of documents that may have failed in the new build only.
        """
        body = {"questions": questions, "accept_failures": accept_failures}
        return self.events_of(Stream(f"{_path(collection, number)}/gate", body))

    async def gate_run(self, collection: str, number: int) -> Json:
        """Return the newest comparison of a build with the live one: its state, and its report when it is done."""
        return await self.send(get(f"{_path(collection, number)}/gate", Json))

    async def cancel_gate(self, collection: str, number: int) -> None:
        """Cancel a comparison that is queued or running."""
        await self.send(delete(f"{_path(collection, number)}/gate"))


def _path(collection: str, number: int) -> str:
    return f"{collection_path(collection)}/builds/{number}"
