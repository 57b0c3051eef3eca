"""A retriever for LlamaIndex: `pip install foreask-llama-index`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from foreask_client.found import found_by, metadata_of
from foreask_client.models import FoundChunk, Json
from foreask_client.synchronous import Client
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

_LOCAL = "http://127.0.0.1:8350"
_MODEL_FIELDS = ["title", "heading_path", "page"]  # the only metadata that a model reads when it writes an answer


class ForeaskRetriever(BaseRetriever):
    """Finds the chunks of a collection that answer a question, best first.

    Args:
        client: a client instead of the next four, which may be shared; `aretrieve` uses it in a thread.
        url: the server's URL; default: from the variable FOREASK_URL, else http://127.0.0.1:8350.
        api_key: API key, or the signed token of a person; default: from the variable FOREASK_API_KEY, if set.
        user: person for whom the key acts, which needs the scope `delegate`; None: the key itself. For a retriever for
            each person over the same connections, pass `client.acting_for(user, groups)` as the client.
        groups: groups of this person.
        collection: name of the collection.
        top_k: number of distinct chunks.
        filter: condition on metadata.
        options: further fields of POST /v1/retrieve, such as `min_score` and `rewrite`.

    Raises:
        ValueError: the URL is not a valid HTTP URL, there are groups without a user, or there is both a client and one
            of the arguments that it replaces.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        user: str | None = None,
        groups: Sequence[str] = (),
        collection: str = "default",
        top_k: int = 10,
        filter: Json | None = None,  # noqa: A002  the field's name
        options: Json | None = None,
    ) -> None:
        super().__init__()
        if client is None:
            client = Client(
                url or os.environ.get("FOREASK_URL", _LOCAL),
                api_key or os.environ.get("FOREASK_API_KEY"),
                user=user,
                groups=groups,
            )
        elif url or api_key or user or groups:
            raise ValueError("the client replaces url, api_key, user and groups")
        self._client = client
        self._collection = collection
        self._top_k = top_k
        self._filter = filter
        self._options = options or {}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        chunks = found_by(
            self._client,
            query_bundle.query_str,
            collection=self._collection,
            top_k=self._top_k,
            filter=self._filter,
            **self._options,
        )
        return [NodeWithScore(node=_node(chunk), score=chunk.score) for chunk in chunks]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(chunk: FoundChunk) -> TextNode:
    metadata = metadata_of(chunk)
    return TextNode(
        id_=chunk.chunk_id,
        text=chunk.text,
        metadata=metadata,
        excluded_llm_metadata_keys=[name for name in metadata if name not in _MODEL_FIELDS],
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=chunk.document_id)},
    )
