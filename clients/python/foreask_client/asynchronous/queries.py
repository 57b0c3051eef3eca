"""Queries, feedback about their results, and users' questions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from foreask_client.asynchronous.connection import Connection
from foreask_client.models import AcceptedQuestion, Answer, AskedQuestion, Feedback, Gap, Json, LoggedQuery, Retrieval
from foreask_client.requests import (
    AsyncEvents,
    Pages,
    Request,
    Stream,
    as_type,
    collection_path,
    delete,
    get,
    given,
    post,
    segment,
)


class QueriesApi(Connection):
    """Methods for questions to a collection."""

    async def retrieve(
        self,
        question: str,
        *,
        collection: str = "default",
        top_k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        **options: Any,
    ) -> Retrieval:
        """Find the chunks that answer a question, best first.

        Args:
            question: at most 10,000 characters.
            collection: name of the collection.
            top_k: number of distinct chunks; default: 10.
            filter: condition on metadata.
            **options: further fields of POST /v1/retrieve, such as `min_score`, `rewrite` and `explain`.
        """
        body = _query(question, collection, top_k, filter, options)
        return await self.send(post("/v1/retrieve", Retrieval, body, repeatable=True))

    async def query(
        self,
        question: str,
        *,
        collection: str = "default",
        top_k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        **options: Any,
    ) -> Answer:
        """Answer a question from the documents. The arguments are the same as for `retrieve`, and `links`."""
        body = _query(question, collection, top_k, filter, options)
        return await self.send(post("/v1/query", Answer, body, repeatable=True, slow=True))

    def query_events(
        self,
        question: str,
        *,
        collection: str = "default",
        top_k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        **options: Any,
    ) -> AsyncEvents:
        """Answer a question as a stream: the event `retrieved`, many events `token` (`{"text"}`), then `done`.

        The arguments are the same as for `query`.
        """
        body = _query(question, collection, top_k, filter, options)
        return self.events_of(Stream("/v1/query", body | {"stream": True}))

    async def feedback(self, query_id: str, chunk_id: str, *, helpful: bool) -> Feedback:
        """Record whether a chunk answered a query.

        If it did, the question becomes a question of the chunk. If not, an earlier acceptance is retracted.
        """
        body = {"query_id": query_id, "chunk_id": chunk_id, "helpful": helpful}
        return await self.send(post("/v1/feedback", Feedback, body, repeatable=True))

    async def accept_question(self, collection: str, question: str, chunk_id: str) -> Feedback:
        """Add a question to a chunk that answers it."""
        body = {"question": question, "chunk_id": chunk_id}
        return await self.send(
            post(f"{collection_path(collection)}/accepted-questions", Feedback, body, repeatable=True)
        )

    def accepted_questions(self, collection: str) -> AsyncIterator[AcceptedQuestion]:
        """List the users' questions that became questions of chunks, newest first."""
        return self.items(
            Pages(f"{collection_path(collection)}/accepted-questions", {}, AcceptedQuestion.model_validate)
        )

    async def remove_accepted_question(self, collection: str, accepted_id: str) -> None:
        await self.send(delete(f"{collection_path(collection)}/accepted-questions/{segment(accepted_id)}"))

    def asked_questions(
        self,
        collection: str,
        *,
        answered: bool | None = None,
        since: str | None = None,
        state: str | None = None,
        feedback: str | None = None,
        key_id: str | None = None,
        words: str | None = None,
    ) -> AsyncIterator[AskedQuestion]:
        """List the users' questions.

        Args:
            collection: name of the collection.
            answered: False: only questions that the documents did not answer; True: only the others.
            since: time of the oldest question, ISO 8601.
            state: `certain`, `uncertain`, `none` or `passages`: the result of the latest query.
            feedback: `any`, `helpful` or `unhelpful`: the newest feedback.
            key_id: the key that asked.
            words: text that the question contains, in any case.
        """
        filters = {"answered": answered, "since": since, "state": state, "feedback": feedback}
        params = given(filters | {"key_id": key_id, "q": words})
        return self.items(Pages(f"{collection_path(collection)}/queries", params, AskedQuestion.model_validate))

    async def logged_query(self, query_id: str) -> LoggedQuery:
        """Return a user's query with its passages, times, costs and, if the server stores answers, its answer."""
        return await self.send(get(f"/v1/queries/{segment(query_id)}", LoggedQuery))

    def gaps(self, collection: str, *, state: str | None = None) -> AsyncIterator[Gap]:
        """List groups of questions that the documents did not answer, most often asked first.

        Args:
            collection: name of the collection.
            state: `open`, `assigned` or `resolved`; None: all.
        """
        return self.items(Pages(f"{collection_path(collection)}/gaps", given({"state": state}), Gap.model_validate))

    async def assign_gap(self, collection: str, gap_id: str, to: str | None) -> Gap:
        """Assign a gap to a person or a team; None removes the assignment."""
        return await self._change_gap(collection, gap_id, {"assigned_to": to})

    async def resolve_gap(self, collection: str, gap_id: str, document_id: str | None) -> Gap:
        """Resolve a gap by a document of the collection; None opens it again."""
        return await self._change_gap(collection, gap_id, {"resolved_by": document_id})

    async def _change_gap(self, collection: str, gap_id: str, body: Json) -> Gap:
        path = f"{collection_path(collection)}/gaps/{segment(gap_id)}"
        return await self.send(Request("PATCH", path, as_type(Gap), body=body, repeatable=True))


def _query(
    question: str,
    collection: str,
    top_k: int | None,
    filter_: Json | None,
    options: Json,
) -> Json:
    return {"question": question, "collection": collection} | given({"top_k": top_k, "filter": filter_}) | options
