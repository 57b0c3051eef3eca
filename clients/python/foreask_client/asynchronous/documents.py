"""Documents: upload them, wait for them, read them."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack

import httpx

from foreask_client.asynchronous.connection import Connection
from foreask_client.errors import ApiError
from foreask_client.models import BatchLine, Chunk, ChunkInContext, Document, Json, Lane, UploadOffer, Version
from foreask_client.requests import (
    AsyncEvents,
    Pages,
    Request,
    Stream,
    as_type,
    delete,
    get,
    given,
    nothing,
    post,
    segment,
)
from foreask_client.submissions import DocumentFields, batch_request, document_body, form_request, json_request
from foreask_client.transport import is_transient
from foreask_client.uploads import Attachment, Progress

_BATCH_ATTEMPTS = 5
_FINAL_STATES = {"ready", "degraded", "failed"}
_FIRST_POLL_SECONDS = 0.2
_LONGEST_POLL_SECONDS = 2.0


class DocumentsApi(Connection):
    """Methods for documents and their chunks."""

    async def upload(
        self,
        file: str | PathLike[str],
        *,
        filename: str | None = None,
        wait_seconds: int | None = None,
        progress: Progress | None = None,
        **fields: Unpack[DocumentFields],
    ) -> Document:
        """Upload a file. Uploading the same content again changes nothing.

        Args:
            file: path of the file, which is sent in pieces and from its start at each attempt.
            filename: name of the file; default: from its path.
            wait_seconds: longest time that the server waits, at most 60, before it replies with a document that is
                not yet searchable.
            progress: called with the number of bytes sent and the file's size in bytes.
            **fields: fields of `DocumentFields`, such as `collection` and `metadata`.
        """
        path = Path(file)
        attachment = Attachment(path, filename or path.name, progress)
        return await self.send(form_request(document_body(fields), attachment, wait_seconds))

    async def upload_bytes(
        self,
        content: bytes,
        filename: str,
        *,
        wait_seconds: int | None = None,
        progress: Progress | None = None,
        **fields: Unpack[DocumentFields],
    ) -> Document:
        """Upload bytes under a filename; the other arguments are the same as for `upload`."""
        return await self.send(
            form_request(document_body(fields), Attachment(content, filename, progress), wait_seconds)
        )

    async def upload_text(
        self,
        text: str,
        *,
        filename: str | None = None,
        wait_seconds: int | None = None,
        **fields: Unpack[DocumentFields],
    ) -> Document:
        """Upload a text; the other arguments are the same as for `upload`.

        The default external id is the filename, or a hash of the text if there is no filename.
        """
        body = document_body(fields) | {"text": text} | given({"filename": filename})
        return await self.send(json_request(body, wait_seconds))

    async def upload_to_store(
        self, file: str | PathLike[str], *, progress: Progress | None = None, **fields: Unpack[DocumentFields]
    ) -> Document:
        """Upload a file directly to the server's object store, which does not receive the key.

        The arguments are the same as for `upload`.
        """
        path, body = Path(file), document_body(fields)
        attachment = Attachment(path, path.name, progress)
        size = {"size_bytes": attachment.size_bytes}
        offer = await self.send(post("/v1/uploads", UploadOffer, size, repeatable=True))
        await self.send(
            Request(
                offer.method,
                offer.url,
                nothing,
                content=attachment,
                headers=offer.headers,
                repeatable=True,
            )
        )
        return await self.send(json_request(body | {"upload": offer.upload, "filename": path.name}))

    async def upload_batch(
        self,
        documents: Sequence[Mapping[str, Any] | bytes],
        *,
        collection: str = "default",
        lane: Lane | None = None,
        job: str | None = None,
    ) -> list[BatchLine]:
        """Upload up to 10,000 small documents and return the result of each, in order.

        A line with status 408, 429 or 5xx is sent again, up to five times. Documents that are stored already are not
        stored twice. A result has the line number of the last request that contained the line.

        Args:
            documents: objects with `text` or `content_base64` and the other fields of a batch line, or their JSON.
            collection: name of the collection; the first upload creates it.
            lane: `bulk` (default), `interactive`, which precedes it, or `batch`: the questions are generated within a
                day through the model's batch API.
            job: id of an open load that the documents belong to.
        """
        lines = [d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
        results: dict[int, BatchLine] = {}
        for attempt in range(_BATCH_ATTEMPTS):
            open_lines = [index for index in range(len(lines)) if _is_open(results.get(index))]
            if not open_lines:
                break
            if attempt:
                await self._pause(2.0**attempt)
            replies = await self.send(batch_request(collection, lane, job, [lines[index] for index in open_lines]))
            results |= dict(zip(open_lines, replies, strict=False))
        if len(results) < len(lines):
            reason = (list(results.values())[-1].error or {}).get("detail", "") if results else ""
            raise ApiError(f"The server answered {len(results)} of {len(lines)} documents. {reason}".rstrip())
        return [results[index] for index in range(len(lines))]

    async def wait(
        self, document_id: str, *, until: Literal["searchable", "ready"] = "ready", timeout_seconds: float = 600.0
    ) -> Document:
        """Wait until queries can find a document's newest version, or until all its questions are indexed.

        Returns:
            The document. Its state may also be `failed` or `degraded`.

        Raises:
            TimeoutError: the document does not reach the state in time.
        """
        deadline, pause = time.monotonic() + timeout_seconds, _FIRST_POLL_SECONDS
        while True:
            document = await self.document(document_id)
            if document.state in _FINAL_STATES | {until}:
                return document
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError(f"The document {document_id} is {document.state} after {timeout_seconds:g} seconds.")
            await self._pause(min(pause, remaining))
            pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)

    def documents(
        self,
        *,
        collection: str | None = None,
        state: str | None = None,
        words: str | None = None,
        external_id: str | None = None,
        ids: Sequence[str] | None = None,
        sort: Literal["newest", "updated", "name", "state"] | None = None,
        metadata: bool | None = None,
        outdated: bool | None = None,
        job: str | None = None,
        reason: str | None = None,
    ) -> AsyncIterator[Document]:
        """List documents.

        Args:
            collection: only documents of this collection.
            state: only documents in this state, or in one of several separated by commas.
            words: prefixes of words in the title, the filename or the external id.
            external_id: only the document with this external id.
            ids: only these documents, at most 100.
            sort: order of the list; default: newest first.
            metadata: whether replies contain metadata; default: yes.
            outdated: whether to list only documents that an older reader has read; default: no.
            job: id of the job that changed the documents last.
            reason: reason of a failure, of the documents or of a page or chunk of them.
        """
        params = {
            "collection": collection,
            "state": state,
            "q": words,
            "external_id": external_id,
            "id": ids,
            "sort": sort,
            "metadata": metadata,
            "outdated": outdated,
            "job": job,
            "reason": reason,
        }
        return self.items(Pages("/v1/documents", given(params), Document.model_validate))

    async def document(self, document_id: str) -> Document:
        """Return a document with its state, progress and cost."""
        return await self.send(get(_path(document_id), Document))

    async def change_document(
        self, document_id: str, *, title: str | None = None, metadata: Json | None = None
    ) -> Document:
        """Replace a document's title or metadata. None keeps the current value."""
        body = given({"title": title, "metadata": metadata})
        return await self.send(Request("PATCH", _path(document_id), as_type(Document), body=body, repeatable=True))

    async def change_readers(self, document_id: str, readable_by: Sequence[str] | None) -> Document:
        """Replace the readers of a document; they hold for the next query.

        Args:
            document_id: id of the document.
            readable_by: `everyone`, `user:NAME` and `group:NAME`; an empty list: no person reads it. None: it names
                none, and the server's setting decides.
        """
        body = {"readable_by": None if readable_by is None else list(readable_by)}
        return await self.send(Request("PATCH", _path(document_id), as_type(Document), body=body, repeatable=True))

    async def retry_document(self, document_id: str) -> Document:
        """Retry a failed document, or the dead chunks of a document."""
        return await self.send(post(f"{_path(document_id)}/retry", Document))

    async def delete_document(self, document_id: str) -> None:
        await self.send(delete(_path(document_id)))

    async def content(self, document_id: str, *, version: Version = "latest") -> bytes:
        """Return a document's original bytes."""
        return (await self._version(document_id, "content", version)).content

    async def text(self, document_id: str, *, version: Version = "latest") -> str:
        """Return a document's text. The spans of chunks count its characters."""
        return (await self._version(document_id, "text", version)).content.decode()

    async def _version(self, document_id: str, part: str, version: Version) -> httpx.Response:
        path = f"{_path(document_id)}/{part}"
        return await self.send(Request("GET", path, _unread, params={"version": version}, repeatable=True, slow=True))

    def chunks(
        self, document_id: str, *, version: Version = "latest", state: str | None = None
    ) -> AsyncIterator[Chunk]:
        """List the chunks of a document, in order, with their questions."""
        params = given({"version": version, "state": state})
        return self.items(Pages(f"{_path(document_id)}/chunks", params, Chunk.model_validate))

    async def chunk(self, chunk_id: str, *, before: int = 1, after: int = 1) -> ChunkInContext:
        """Return a chunk with its document and up to 20 neighbours on each side."""
        return await self.send(get(f"/v1/chunks/{segment(chunk_id)}", ChunkInContext, before=before, after=after))

    async def change_question(self, chunk_id: str, question: str, *, disabled: bool) -> None:
        """Disable or enable a generated or ready-made question of a chunk: queries match it or not."""
        path, body = f"/v1/chunks/{segment(chunk_id)}/questions", {"question": question, "disabled": disabled}
        await self.send(Request("PATCH", path, nothing, body=body, repeatable=True))

    async def estimate(self, body: Json) -> Json:
        """Estimate the cost of a load or a rebuild. `body` has the fields of POST /v1/estimates."""
        return await self.send(post("/v1/estimates", Json, body, repeatable=True, slow=True))

    def try_text(self, text: str, **options: Any) -> AsyncEvents:
        """Show the chunks and questions of a text without storing it.

        The events are `chunk`, `question`, `screened` and `done`.

        Args:
            text: at most 20,000 characters.
            **options: further fields of POST /v1/trials, such as `collection` and `prompt`.
        """
        return self.events_of(Stream("/v1/trials", {"text": text} | options))


def _path(document_id: str) -> str:
    return f"/v1/documents/{segment(document_id)}"


def _unread(response: httpx.Response) -> httpx.Response:
    return response


def _is_open(line: BatchLine | None) -> bool:
    return line is None or is_transient(line.status)
