"""Everything that the API does, described once for both clients."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import httpx

from foreask_client.errors import ApiError
from foreask_client.models import (
    AcceptedQuestion,
    Answer,
    AskedQuestion,
    BatchLine,
    Build,
    Chunk,
    ChunkInContext,
    Collection,
    DeadLetter,
    DeadLettersResolved,
    DeadReason,
    Document,
    Erasure,
    Evaluation,
    Feedback,
    Json,
    Key,
    LabelledSet,
    LabelledSetSize,
    Me,
    NewKey,
    NewWebhook,
    Retrieval,
    UploadOffer,
    Webhook,
)
from foreask_client.requests import (
    Flow,
    Pages,
    Pause,
    Request,
    Stream,
    as_items,
    as_type,
    delete,
    flow,
    get,
    given,
    listing,
    nothing,
    operation,
    post,
    segment,
    streaming,
)
from foreask_client.transport import is_transient
from foreask_client.uploads import Attachment, Progress

Lane = Literal["interactive", "bulk"]
Version = Literal["latest", "live"]
Questions = Sequence[str | Mapping[str, str]]

_BATCH_ATTEMPTS = 5
_OVER = {"ready", "degraded", "failed"}
_FIRST_LOOK_SECONDS = 0.2
_LONGEST_LOOK_SECONDS = 2.0


class Operations:
    """What both clients can do. Ids are strings; times of replies have their zone."""

    # ---- Documents

    @operation
    def upload(
        self,
        file: str | PathLike[str],
        *,
        collection: str = "default",
        external_id: str | None = None,
        title: str | None = None,
        metadata: Json | None = None,
        questions: Questions | None = None,
        lane: Lane | None = None,
        filename: str | None = None,
        wait_seconds: int | None = None,
        progress: Progress | None = None,
    ) -> Request[Document]:
        """Hand in a file; the same content again changes nothing.

        Args:
            file: sent piece by piece, from its beginning at each attempt.
            collection: made on first use.
            external_id: your name for the document; default: the filename.
            title: default: found in the file.
            metadata: an object to filter by.
            questions: ready-made ones, each a text or `{"text", "quote"}`; empty: none; None: a model writes them.
            lane: `bulk` waits behind `interactive`, the default.
            filename: default: that of the file.
            wait_seconds: the reply comes when the document is found or has failed, or after this time, at most 60.
            progress: called with the bytes that are on their way and all of them.
        """
        path = Path(file)
        fields = _description(collection, external_id, title, metadata, questions, lane)
        return _form(fields, Attachment(path, filename or path.name, progress), wait_seconds)

    @operation
    def upload_bytes(
        self,
        content: bytes,
        filename: str,
        *,
        collection: str = "default",
        external_id: str | None = None,
        title: str | None = None,
        metadata: Json | None = None,
        questions: Questions | None = None,
        lane: Lane | None = None,
        wait_seconds: int | None = None,
        progress: Progress | None = None,
    ) -> Request[Document]:
        """Hand in bytes under a filename, as `upload` does."""
        fields = _description(collection, external_id, title, metadata, questions, lane)
        return _form(fields, Attachment(content, filename, progress), wait_seconds)

    @operation
    def upload_text(
        self,
        text: str,
        *,
        collection: str = "default",
        external_id: str | None = None,
        title: str | None = None,
        metadata: Json | None = None,
        questions: Questions | None = None,
        lane: Lane | None = None,
        filename: str | None = None,
        wait_seconds: int | None = None,
    ) -> Request[Document]:
        """Hand in a text, as `upload` does a file; without an external id or filename a hash names it."""
        body = _description(collection, external_id, title, metadata, questions, lane)
        return _document(body | {"text": text} | given({"filename": filename}), wait_seconds)

    @flow
    def upload_to_store(
        self,
        file: str | PathLike[str],
        *,
        collection: str = "default",
        external_id: str | None = None,
        title: str | None = None,
        metadata: Json | None = None,
        questions: Questions | None = None,
        lane: Lane | None = None,
        progress: Progress | None = None,
    ) -> Flow[Document]:
        """Hand in a file whose bytes go past the API to its object store, which never sees the key."""
        path = Path(file)
        offer: UploadOffer = yield post("/v1/uploads", UploadOffer, repeatable=True)
        yield Request(
            offer.method,
            offer.url,
            nothing,
            content=Attachment(path, path.name, progress),
            headers=offer.headers,
            repeatable=True,
        )
        body = _description(collection, external_id, title, metadata, questions, lane)
        document: Document = yield _document(body | {"upload": offer.upload, "filename": path.name}, None)
        return document

    @flow
    def upload_batch(
        self, documents: Sequence[Mapping[str, Any] | bytes], *, collection: str = "default"
    ) -> Flow[list[BatchLine]]:
        """Hand in up to 10,000 small documents, and return what became of each, in order.

        A line that is answered 408, 429 or 5xx is handed in again, a few times: what is there already is not taken
        twice. The lines are numbered as they were sent last.

        Args:
            documents: each an object with `text` or `content_base64`, and what else a line of a batch takes; or its
                JSON.
            collection: made on first use.
        """
        lines = [d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
        replies: dict[int, BatchLine] = {}
        for attempt in range(_BATCH_ATTEMPTS):
            waiting = [place for place in range(len(lines)) if _is_open(replies.get(place))]
            if not waiting:
                break
            if attempt:
                yield Pause(2.0**attempt)
            answered: list[BatchLine] = yield _batch(collection, [lines[place] for place in waiting])
            replies |= dict(zip(waiting, answered, strict=False))
        if len(replies) < len(lines):
            why = (list(replies.values())[-1].error or {}).get("detail", "") if replies else ""
            raise ApiError(f"The server answered {len(replies)} of {len(lines)} documents. {why}".rstrip())
        return [replies[place] for place in range(len(lines))]

    @flow
    def wait(
        self, document_id: str, *, until: Literal["searchable", "ready"] = "ready", timeout_seconds: float = 600.0
    ) -> Flow[Document]:
        """Wait until a document's newest version is found by queries, or has all its questions.

        Returns:
            The document, also where its state is `failed` or `degraded`.

        Raises:
            TimeoutError: it takes longer.
        """
        over = _OVER | {until}
        deadline, pause = time.monotonic() + timeout_seconds, _FIRST_LOOK_SECONDS
        while True:
            document: Document = yield get(f"/v1/documents/{segment(document_id)}", Document)
            if document.state in over:
                return document
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"The document {document_id} is {document.state} after {timeout_seconds:g} seconds.")
            yield Pause(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)

    @listing
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
    ) -> Pages[Document]:
        """Every document that fits.

        Args:
            collection: of which.
            state: one, or several with commas.
            words: beginnings of words of the title, the filename or the external id.
            external_id: of one document.
            ids: up to a hundred.
            sort: default: the newest first.
            metadata: False leaves that out.
        """
        params = {
            "collection": collection,
            "state": state,
            "q": words,
            "external_id": external_id,
            "id": ids,
            "sort": sort,
            "metadata": metadata,
        }
        return Pages("/v1/documents", given(params), Document.model_validate)

    @operation
    def document(self, document_id: str) -> Request[Document]:
        """A document: its state, progress and cost."""
        return get(f"/v1/documents/{segment(document_id)}", Document)

    @operation
    def describe(
        self, document_id: str, *, title: str | None = None, metadata: Json | None = None
    ) -> Request[Document]:
        """Change a document's title or metadata, which replaces the old; what is None stays."""
        return Request(
            "PATCH",
            f"/v1/documents/{segment(document_id)}",
            as_type(Document),
            body=given({"title": title, "metadata": metadata}),
            repeatable=True,
        )

    @operation
    def retry_document(self, document_id: str) -> Request[Document]:
        """Another round of attempts."""
        return post(f"/v1/documents/{segment(document_id)}/retry", Document)

    @operation
    def delete_document(self, document_id: str) -> Request[None]:
        return delete(f"/v1/documents/{segment(document_id)}")

    @operation
    def content(self, document_id: str, *, version: Version = "latest") -> Request[bytes]:
        """The bytes that were handed in."""
        path = f"/v1/documents/{segment(document_id)}/content"
        return Request("GET", path, _content, params={"version": version}, repeatable=True, slow=True)

    @operation
    def text(self, document_id: str, *, version: Version = "latest") -> Request[str]:
        """The text in which the spans of chunks count characters."""
        path = f"/v1/documents/{segment(document_id)}/text"
        return Request("GET", path, _text, params={"version": version}, repeatable=True, slow=True)

    @listing
    def chunks(self, document_id: str, *, version: Version = "latest", state: str | None = None) -> Pages[Chunk]:
        """The chunks of a document in their order, with their questions."""
        params = given({"version": version, "state": state})
        return Pages(f"/v1/documents/{segment(document_id)}/chunks", params, Chunk.model_validate)

    @operation
    def chunk(self, chunk_id: str, *, before: int = 1, after: int = 1) -> Request[ChunkInContext]:
        """A chunk with its document, and up to 10 neighbours on each side."""
        return get(f"/v1/chunks/{segment(chunk_id)}", ChunkInContext, before=before, after=after)

    @operation
    def estimate(self, body: Json) -> Request[Json]:
        """What a load or a rebuild costs; `body` is that of POST /v1/estimates."""
        return post("/v1/estimates", Json, body, repeatable=True, slow=True)

    @streaming
    def try_text(self, /, text: str, **options: Any) -> Stream:
        """What would become of a text: events `chunk`, `question`, `screened`, `done`; nothing is stored.

        Args:
            text: at most 20,000 characters.
            options: further fields of POST /v1/try, such as `collection` and `prompt`.
        """
        return Stream("/v1/try", {"text": text} | options)

    # ---- Questions

    @operation
    def retrieve(
        self,
        /,
        question: str,
        *,
        collection: str = "default",
        top_k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        **options: Any,
    ) -> Request[Retrieval]:
        """Find the chunks that answer a question, the best first.

        Args:
            question: at most 10,000 characters.
            collection: where to look.
            top_k: distinct chunks; default 10.
            filter: over metadata.
            options: further fields of POST /v1/retrieve, such as `min_score`, `rewrite` and `explain`.
        """
        return post("/v1/retrieve", Retrieval, _query(question, collection, top_k, filter, options), repeatable=True)

    @operation
    def query(
        self,
        /,
        question: str,
        *,
        collection: str = "default",
        top_k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        **options: Any,
    ) -> Request[Answer]:
        """Answer a question from the documents; the arguments are those of `retrieve`, and `links`."""
        body = _query(question, collection, top_k, filter, options)
        return post("/v1/query", Answer, body, repeatable=True, slow=True)

    @streaming
    def query_events(
        self,
        /,
        question: str,
        *,
        collection: str = "default",
        top_k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        **options: Any,
    ) -> Stream:
        """Answer a question as it is written: events `retrieved`, `token` (`{"text"}`) many times, `done`."""
        return Stream("/v1/query", _query(question, collection, top_k, filter, options) | {"stream": True})

    @operation
    def feedback(self, query_id: str, chunk_id: str, *, helpful: bool) -> Request[Feedback]:
        """Say whether a chunk answered a query: the question becomes one of the chunk, or is taken back."""
        body = {"query_id": query_id, "chunk_id": chunk_id, "helpful": helpful}
        return post("/v1/feedback", Feedback, body, repeatable=True)

    @operation
    def accept(self, collection: str, question: str, chunk_id: str) -> Request[Feedback]:
        """Give a chunk a question that it answers."""
        body = {"question": question, "chunk_id": chunk_id}
        return post(f"{_collection(collection)}/accepted", Feedback, body, repeatable=True)

    @listing
    def accepted(self, collection: str) -> Pages[AcceptedQuestion]:
        """Users' questions that became questions of chunks, the newest first."""
        return Pages(f"{_collection(collection)}/accepted", {}, AcceptedQuestion.model_validate)

    @operation
    def remove_accepted(self, collection: str, accepted_id: str) -> Request[None]:
        return delete(f"{_collection(collection)}/accepted/{segment(accepted_id)}")

    @listing
    def asked(self, collection: str, *, answered: bool | None = None, since: str | None = None) -> Pages[AskedQuestion]:
        """What users have asked; with `answered` False what the documents did not answer. `since` is ISO 8601."""
        params = given({"answered": answered, "since": since})
        return Pages(f"{_collection(collection)}/queries", params, AskedQuestion.model_validate)

    # ---- Collections and their builds

    @listing
    def collections(self) -> Pages[Collection]:
        """Every collection."""
        return Pages("/v1/collections", {}, Collection.model_validate)

    @operation
    def collection(self, name: str) -> Request[Collection]:
        return get(_collection(name), Collection)

    @operation
    def put_collection(self, /, name: str, **options: Any) -> Request[Collection]:
        """Make a collection, or replace its options by those of PUT /v1/collections/{name}."""
        return Request("PUT", _collection(name), as_type(Collection), body=options, repeatable=True)

    @operation
    def delete_collection(self, name: str) -> Request[Erasure]:
        """Begin to erase a collection with everything that was derived from it; `erasure` says how far that is."""
        return Request("DELETE", _collection(name), as_type(Erasure), repeatable=True)

    @operation
    def erasure(self, erasure_id: str) -> Request[Erasure]:
        return get(f"/v1/erasures/{segment(erasure_id)}", Erasure)

    @operation
    def reindex(self, collection: str) -> Request[Json]:
        """Parse every document anew, generate its questions and index it, without a gap."""
        return post(f"{_collection(collection)}/reindex", Json)

    @operation
    def calibrate(self, collection: str, questions: Sequence[Json] | None = None) -> Request[Json]:
        """Choose the weights of a collection's channels by labelled questions, or measure with its own."""
        return post(f"{_collection(collection)}/calibration", Json, {"questions": questions}, slow=True)

    @operation
    def forget_calibration(self, collection: str) -> Request[None]:
        return delete(f"{_collection(collection)}/calibration")

    @streaming
    def verify(self, collection: str, *, repair: bool = False, cursor: str | None = None) -> Stream:
        """Compare a collection with Qdrant: events `finding`, `progress`, `done`.

        Args:
            collection: its name.
            repair: mend what differs.
            cursor: of the last `progress` of a comparison that broke off, to go on there.
        """
        return Stream(f"{_collection(collection)}/verify", {"repair": repair, "cursor": cursor})

    @operation
    def builds(self, collection: str) -> Request[list[Build]]:
        """The builds of a collection, the oldest first."""
        return Request("GET", f"{_collection(collection)}/builds", as_items(Build), repeatable=True)

    @operation
    def build(self, collection: str, number: int) -> Request[Build]:
        return get(_build(collection, number), Build)

    @operation
    def begin_build(self, /, collection: str, **change: Any) -> Request[Build]:
        """Begin a build beside the live one; `change` is what it has otherwise, such as `embedding`."""
        return post(f"{_collection(collection)}/builds", Build, change)

    @operation
    def pause_build(self, collection: str, number: int) -> Request[Build]:
        return post(f"{_build(collection, number)}/pause", Build, repeatable=True)

    @operation
    def resume_build(self, collection: str, number: int) -> Request[Build]:
        return post(f"{_build(collection, number)}/resume", Build, repeatable=True)

    @operation
    def drop_build(self, collection: str, number: int) -> Request[Build]:
        return Request("DELETE", _build(collection, number), as_type(Build), repeatable=True)

    @operation
    def switch_build(self, collection: str, number: int, *, despite: bool = False) -> Request[Build]:
        """Let a build answer; one that was never live needs an open gate, or `despite`."""
        return post(f"{_build(collection, number)}/switch", Build, {"despite": despite}, slow=True)

    @streaming
    def gate(
        self, collection: str, number: int, *, questions: Sequence[Json] | None = None, accept_failures: int = 0
    ) -> Stream:
        """Compare a build with the live one: counts as they come, then the report as `done`."""
        return Stream(
            f"{_build(collection, number)}/gate", {"questions": questions, "accept_failures": accept_failures}
        )

    # ---- Labelled sets and evaluations

    @operation
    def labelled_sets(self, collection: str) -> Request[list[LabelledSetSize]]:
        """The labelled sets of a collection: questions whose answers are known."""
        return Request("GET", f"{_collection(collection)}/labelled", as_items(LabelledSetSize), repeatable=True)

    @operation
    def labelled_set(self, collection: str, name: str) -> Request[LabelledSet]:
        return get(f"{_collection(collection)}/labelled/{segment(name)}", LabelledSet)

    @operation
    def put_labelled_set(self, collection: str, name: str, questions: Sequence[Json]) -> Request[LabelledSet]:
        """Write a labelled set; a question is `{"question", "external_ids"}` or `{"question", "chunk_ids"}`."""
        path = f"{_collection(collection)}/labelled/{segment(name)}"
        return Request("PUT", path, as_type(LabelledSet), body={"questions": list(questions)}, repeatable=True)

    @operation
    def add_labelled_questions(self, collection: str, name: str, questions: Sequence[Json]) -> Request[LabelledSet]:
        """Add questions to a labelled set, which is made where there is none, or label them anew."""
        path = f"{_collection(collection)}/labelled/{segment(name)}/questions"
        return post(path, LabelledSet, {"questions": list(questions)}, repeatable=True)

    @operation
    def delete_labelled_set(self, collection: str, name: str) -> Request[None]:
        return delete(f"{_collection(collection)}/labelled/{segment(name)}")

    @operation
    def evaluate(
        self,
        collection: str,
        *,
        labelled_set: str | None = None,
        questions: Sequence[Json] | None = None,
        strategies: Sequence[str] | None = None,
        baseline: str | None = None,
    ) -> Request[Evaluation]:
        """Begin to ask each labelled question in several ways; `evaluation` says how far that is and what it found.

        Args:
            collection: what is asked, as it stands.
            labelled_set: of the collection; or `questions`.
            questions: as of a labelled set.
            strategies: by the names of `foreask eval`; default: all that call no model for a question.
            baseline: which the others are compared with; default: `text`.
        """
        body = {"labelled_set": labelled_set, "questions": questions, "strategies": strategies, "baseline": baseline}
        return post(f"{_collection(collection)}/evaluations", Evaluation, given(body))

    @operation
    def evaluations(self, collection: str) -> Request[list[Evaluation]]:
        """The last evaluations of a collection, the newest first, with the `rows` of their results."""
        return Request("GET", f"{_collection(collection)}/evaluations", as_items(Evaluation), repeatable=True)

    @operation
    def evaluation(self, collection: str, evaluation_id: str) -> Request[Evaluation]:
        return get(f"{_collection(collection)}/evaluations/{segment(evaluation_id)}", Evaluation)

    @operation
    def delete_evaluation(self, collection: str, evaluation_id: str) -> Request[None]:
        """Delete an evaluation; one that is under way stops."""
        return delete(f"{_collection(collection)}/evaluations/{segment(evaluation_id)}")

    # ---- Dead letters

    @listing
    def dead_letters(
        self, *, collection: str | None = None, document_id: str | None = None, reason: str | None = None
    ) -> Pages[DeadLetter]:
        """Failed documents and dead chunks, the newest first."""
        params = given({"collection": collection, "document_id": document_id, "reason": reason})
        return Pages("/v1/dead", params, DeadLetter.model_validate)

    @operation
    def dead_reasons(
        self, *, collection: str | None = None, document_id: str | None = None, reason: str | None = None
    ) -> Request[list[DeadReason]]:
        """How many dead letters there are of each reason."""
        params = given({"collection": collection, "document_id": document_id, "reason": reason})
        return Request("GET", "/v1/dead/reasons", as_items(DeadReason), params=params, repeatable=True)

    @operation
    def dead_letter(self, letter_id: str) -> Request[DeadLetter]:
        """A dead letter with the attempts that failed."""
        return get(f"/v1/dead/{segment(letter_id)}", DeadLetter)

    @operation
    def retry_dead_letters(self, /, **which: Any) -> Request[DeadLettersResolved]:
        """Another round of attempts for those of `document_id`, `collection`, `reason`, `letter_id`, or for `all`."""
        return post("/v1/dead/retry", DeadLettersResolved, which, slow=True)

    @operation
    def discard_dead_letters(self, /, **which: Any) -> Request[DeadLettersResolved]:
        """Give dead letters up for good, chosen as for `retry_dead_letters`."""
        return post("/v1/dead/discard", DeadLettersResolved, which, slow=True)

    # ---- The tenant: keys, webhooks, progress

    @operation
    def me(self) -> Request[Me]:
        """Whom the key speaks for, what it may do, and what the server is."""
        return get("/v1/me", Me)

    @operation
    def status(self) -> Request[Json]:
        """The open work, as GET /v1/status says it."""
        return get("/v1/status", Json)

    @operation
    def history(self, *, minutes: int = 60) -> Request[list[Json]]:
        """What ended in each of the last minutes, the oldest first."""
        return Request("GET", "/v1/status/history", as_items(Json), params={"minutes": minutes}, repeatable=True)

    @operation
    def usage(self, *, by: Literal["day", "collection", "model"] = "day", days: int = 30) -> Request[list[Json]]:
        """What the ingest's calls have cost."""
        params = {"by": by, "days": days}
        return Request("GET", "/v1/usage", as_items(Json), params=params, repeatable=True)

    @streaming
    def events(self, *, collection: str | None = None) -> Stream:
        """Follow documents, of a collection or all, from now on: `progress`, `document` and `error`, without an end."""
        return Stream("/v1/events", params=given({"collection": collection}), fails=False)

    @operation
    def health(self) -> Request[Json]:
        """The health of each part; also where one is down."""
        return Request("GET", "/health/ready", as_type(Json), also=(503,))

    @listing
    def keys(self) -> Pages[Key]:
        """The tenant's keys, the newest first."""
        return Pages("/v1/keys", {}, Key.model_validate)

    @operation
    def make_key(
        self,
        name: str,
        scopes: Sequence[Literal["read", "ask", "write", "manage"]],
        *,
        expires_in_seconds: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
    ) -> Request[NewKey]:
        """Make a key; the reply alone has it.

        Args:
            name: under which the server's log names it.
            scopes: what it may do; none includes another.
            expires_in_seconds: None: it is valid until it is revoked.
            filter: which each query of the key carries.
        """
        body = {"name": name, "scopes": list(scopes)}
        return post("/v1/keys", NewKey, body | given({"expires_in_seconds": expires_in_seconds, "filter": filter}))

    @operation
    def revoke_key(self, key_id: str) -> Request[None]:
        return delete(f"/v1/keys/{segment(key_id)}")

    @operation
    def webhooks(self) -> Request[list[Webhook]]:
        """The tenant's webhooks, the oldest first."""
        return Request("GET", "/v1/webhooks", as_items(Webhook), repeatable=True)

    @operation
    def make_webhook(self, url: str, events: Sequence[str] = ()) -> Request[NewWebhook]:
        """Make a webhook for some events, or all; the reply alone has its secret."""
        return post("/v1/webhooks", NewWebhook, {"url": url, "events": list(events)})

    @operation
    def delete_webhook(self, webhook_id: str) -> Request[None]:
        return delete(f"/v1/webhooks/{segment(webhook_id)}")

    # ---- The deployment, for an operator's key

    @operation
    def deployment_status(self) -> Request[Json]:
        """The work of all tenants together."""
        return get("/v1/operator/status", Json)

    @listing
    def tenants(self) -> Pages[Json]:
        """Each tenant with its work."""
        return Pages("/v1/operator/tenants", {}, dict)

    @listing
    def tenant_collections(self, tenant: str) -> Pages[Json]:
        """A tenant's collections."""
        return Pages(f"/v1/operator/tenants/{segment(tenant)}/collections", {}, dict)

    @streaming
    def verify_tenant(self, tenant: str, collection: str, *, repair: bool = False) -> Stream:
        """Compare a tenant's collection with Qdrant: events `finding`, `progress`, `done`."""
        path = f"/v1/operator/tenants/{segment(tenant)}/collections/{segment(collection)}/verify"
        return Stream(path, {"repair": repair})

    @operation
    def erase_tenant(self, tenant: str) -> Request[Erasure]:
        """Begin to erase all that a tenant has."""
        return Request("DELETE", f"/v1/operator/tenants/{segment(tenant)}", as_type(Erasure), repeatable=True)

    @operation
    def erasure_of_any_tenant(self, erasure_id: str) -> Request[Erasure]:
        return get(f"/v1/operator/erasures/{segment(erasure_id)}", Erasure)

    @operation
    def remains(self, tenant: str) -> Request[Json]:
        """What the engines still have of a tenant."""
        return get(f"/v1/operator/tenants/{segment(tenant)}/remains", Json)


def _collection(name: str) -> str:
    return f"/v1/collections/{segment(name)}"


def _build(collection: str, number: int) -> str:
    return f"{_collection(collection)}/builds/{number}"


def _query(
    question: str,
    collection: str,
    top_k: int | None,
    filter_: Json | None,
    options: Json,
) -> Json:
    return {"question": question, "collection": collection} | given({"top_k": top_k, "filter": filter_}) | options


def _description(  # noqa: PLR0917  the fields that all kinds of upload share
    collection: str,
    external_id: str | None,
    title: str | None,
    metadata: Json | None,
    questions: Questions | None,
    lane: Lane | None,
) -> Json:
    fields = {
        "external_id": external_id,
        "title": title,
        "metadata": metadata,
        "questions": None if questions is None else [q if isinstance(q, str) else dict(q) for q in questions],
        "lane": lane,
    }
    return {"collection": collection} | given(fields)


def _form(fields: Json, file: Attachment, wait_seconds: int | None) -> Request[Document]:
    form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
    return Request(
        "POST",
        "/v1/documents",
        as_type(Document),
        form=form,
        file=file,
        headers=_prefer(wait_seconds),
        repeatable=True,
        slow=True,
    )


def _document(body: Json, wait_seconds: int | None) -> Request[Document]:
    return post("/v1/documents", Document, body, headers=_prefer(wait_seconds), repeatable=True, slow=True)


def _prefer(wait_seconds: int | None) -> dict[str, str]:
    return {} if wait_seconds is None else {"prefer": f"wait={wait_seconds}"}


def _batch(collection: str, lines: Sequence[bytes]) -> Request[list[BatchLine]]:
    return Request(
        "POST",
        "/v1/documents:batch",
        _batch_lines,
        params={"collection": collection},
        content=b"\n".join(lines),
        headers={"content-type": "application/x-ndjson"},
        repeatable=True,
        slow=True,
    )


def _batch_lines(response: httpx.Response) -> list[BatchLine]:
    return [BatchLine.model_validate_json(line) for line in response.content.split(b"\n") if line.strip()]


def _is_open(reply: BatchLine | None) -> bool:
    return reply is None or is_transient(reply.status)


def _content(response: httpx.Response) -> bytes:
    return response.content


def _text(response: httpx.Response) -> str:
    return response.content.decode()
