"""A retriever for Haystack: `pip install foreask-haystack`."""

from __future__ import annotations

import asyncio
from typing import Any

from foreask_client.found import found_by, metadata_of
from foreask_client.models import FoundChunk, Json
from foreask_client.synchronous import Client
from haystack import Document, component, default_to_dict
from haystack.utils import Secret

_KEY = Secret.from_env_var("FOREASK_API_KEY", strict=False)


@component
class ForeaskRetriever:
    """Finds the chunks of a collection that answer a question, best first.

    Args:
        url: the server's URL.
        api_key: API key, or the signed token of a person; default: from the variable FOREASK_API_KEY, if set. A saved
            pipeline contains only the variable's name.
        user: person for whom the key acts, which needs the scope `delegate`; None: the key itself.
        groups: groups of this person.
        collection: name of the collection.
        top_k: number of distinct chunks.
        filter: condition on metadata, in foreask's syntax.
        options: further fields of POST /v1/retrieve, such as `min_score` and `rewrite`.

    Raises:
        ValueError: the URL is not a valid HTTP URL, or there are groups without a user.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8350",
        api_key: Secret | None = _KEY,
        *,
        user: str | None = None,
        groups: list[str] | None = None,
        collection: str = "default",
        top_k: int = 10,
        filter: Json | None = None,  # noqa: A002  the field's name
        options: Json | None = None,
    ) -> None:
        self.url = url
        self.api_key = api_key
        self.user = user
        self.groups = groups
        self.collection = collection
        self.top_k = top_k
        self.filter = filter
        self.options = options or {}
        self._client = Client(url, api_key.resolve_value() if api_key else None, user=user, groups=groups or ())

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments for a saved pipeline. Haystack rejects a key that is not from a variable."""
        saved: dict[str, Any] = default_to_dict(
            self,
            url=self.url,
            api_key=self.api_key,
            user=self.user,
            groups=self.groups,
            collection=self.collection,
            top_k=self.top_k,
            filter=self.filter,
            options=self.options,
        )
        return saved

    def close(self) -> None:
        """Close the connections to the server."""
        self._client.close()

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        top_k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        user: str | None = None,
        groups: list[str] | None = None,
    ) -> dict[str, list[Document]]:
        """Find chunks. The other arguments apply to this question only: `user` and `groups` name who asks it."""
        chunks = found_by(
            self._client,
            query,
            user=user,
            groups=groups or (),
            collection=self.collection,
            top_k=top_k or self.top_k,
            filter=filter or self.filter,
            **self.options,
        )
        return {"documents": [_document(chunk) for chunk in chunks]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        top_k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        user: str | None = None,
        groups: list[str] | None = None,
    ) -> dict[str, list[Document]]:
        """Run `run` in a thread."""
        found: dict[str, list[Document]] = await asyncio.to_thread(self.run, query, top_k, filter, user, groups)
        return found


def _document(chunk: FoundChunk) -> Document:
    return Document(id=chunk.chunk_id, content=chunk.text, meta=metadata_of(chunk), score=chunk.score)
