"""Collections: options, deletion, calibration, and comparison with Qdrant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from foreask_client.asynchronous.connection import Connection
from foreask_client.models import Collection, Erasure, ErasurePreview, Json
from foreask_client.requests import (
    AsyncEvents,
    Pages,
    Request,
    Stream,
    as_type,
    collection_path,
    delete,
    get,
    post,
    segment,
)


class CollectionsApi(Connection):
    """Methods for collections."""

    def collections(self) -> AsyncIterator[Collection]:
        """List all collections."""
        return self.items(Pages("/v1/collections", {}, Collection.model_validate))

    async def collection(self, name: str) -> Collection:
        return await self.send(get(collection_path(name), Collection))

    async def put_collection(self, name: str, **options: Any) -> Collection:
        """Create a collection, or replace its options. The options are fields of PUT /v1/collections/{name}."""
        return await self.send(
            Request("PUT", collection_path(name), as_type(Collection), body=options, repeatable=True)
        )

    async def delete_collection(self, name: str) -> Erasure:
        """Start to erase a collection and everything derived from it. `erasure` returns the progress."""
        return await self.send(Request("DELETE", collection_path(name), as_type(Erasure), repeatable=True))

    async def erasure(self, erasure_id: str) -> Erasure:
        return await self.send(get(f"/v1/erasures/{segment(erasure_id)}", Erasure))

    def erasures(self) -> AsyncIterator[Erasure]:
        """List all erasures, newest first."""
        return self.items(Pages("/v1/erasures", {}, Erasure.model_validate))

    async def preview_erasure(
        self,
        texts: Sequence[str],
        *,
        collection: str | None = None,
        document_ids: Sequence[str] = (),
        cursor: str | None = None,
    ) -> ErasurePreview:
        """Find documents and users' records with texts that name a person. Nothing is erased.

        Args:
            texts: a name, an e-mail address and so on, at most 10.
            collection: collection whose documents are searched; None for all. Records are always searched in all.
            document_ids: documents to return on the first page, whatever they contain.
            cursor: `next_cursor` of the previous page; the last page has none. Add up the results of all pages.
        """
        named = {"collection": collection, "texts": list(texts), "document_ids": list(document_ids), "cursor": cursor}
        return await self.send(post("/v1/erasure-previews", ErasurePreview, named, repeatable=True))

    async def erase_person(self, texts: Sequence[str] = (), *, document_ids: Sequence[str] = ()) -> Erasure:
        """Start to erase these documents, at most 1,000, and users' records with texts that name a person.

        `erasure` returns the progress. A repeated call starts no second erasure of the same data.
        """
        person = {"texts": list(texts), "document_ids": list(document_ids)}
        return await self.send(post("/v1/erasures", Erasure, person, repeatable=True))

    async def check_erasure(self, erasure_id: str) -> Json:
        """Search PostgreSQL and Qdrant for leftovers of an erasure; `found` is their number."""
        return await self.send(get(f"/v1/erasures/{segment(erasure_id)}/remaining-data", Json, slow=True))

    async def reindex(self, collection: str, *, outdated: bool = False) -> Json:
        """Parse every document again, generate its questions and index it. Queries see no gap.

        Args:
            collection: name of the collection.
            outdated: whether to parse only documents that an older reader has read.
        """
        query = "?outdated=true" if outdated else ""
        return await self.send(post(f"{collection_path(collection)}/reindex{query}", Json))

    async def calibrate(self, collection: str, questions: Sequence[Json] | None = None) -> Json:
        """Choose the weights of a collection's channels.

        Args:
            collection: name of the collection.
            questions: labelled questions; None: only measure, with the collection's own questions.
        """
        path = f"{collection_path(collection)}/calibration"
        return await self.send(post(path, Json, {"questions": questions}, slow=True))

    async def reset_calibration(self, collection: str) -> None:
        await self.send(delete(f"{collection_path(collection)}/calibration"))

    def verify(self, collection: str, *, repair: bool = False, cursor: str | None = None) -> AsyncEvents:
        """Compare a collection with Qdrant: events `finding`, `progress`, `done`.

        A worker compares, and continues if this client disconnects: another call follows the same comparison.

        Args:
            collection: name of the collection.
            repair: whether differences are repaired.
            cursor: cursor of the last `progress` event of a failed comparison, which then continues there.
        """
        return self.events_of(Stream(f"{collection_path(collection)}/verify", {"repair": repair, "cursor": cursor}))

    async def verification(self, collection: str) -> Json:
        """Return the newest comparison of a collection with Qdrant: its state, counts and findings."""
        return await self.send(get(f"{collection_path(collection)}/verify", Json))

    async def cancel_verification(self, collection: str) -> None:
        """Cancel a comparison that is queued or running. Its repairs are kept."""
        await self.send(delete(f"{collection_path(collection)}/verify"))
