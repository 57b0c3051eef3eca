"""A retriever for LlamaIndex: `pip install foreask-llama-index`."""

from __future__ import annotations

import asyncio

from foreask_client.found import chunks_of, metadata_of
from foreask_client.models import FoundChunk, Json
from foreask_client.synchronous import Client
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

_MODEL_FIELDS = ["title", "heading_path", "page"]  # the only metadata that a model reads when it writes an answer


class ForeaskRetriever(BaseRetriever):
    """Finds the chunks of a collection that answer a question, best first.

    Args:
        client: a client, which may be shared; `aretrieve` uses it in a thread.
        collection: name of the collection.
        top_k: number of distinct chunks.
        filter: condition on metadata.
        options: further fields of POST /v1/retrieve, such as `min_score` and `rewrite`.
    """

    def __init__(
        self,
        client: Client,
        *,
        collection: str = "default",
        top_k: int = 10,
        filter: Json | None = None,  # noqa: A002  the field's name
        options: Json | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._collection = collection
        self._top_k = top_k
        self._filter = filter
        self._options = options or {}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._client.retrieve(
            query_bundle.query_str,
            collection=self._collection,
            top_k=self._top_k,
            filter=self._filter,
            **self._options,
        )
        return [NodeWithScore(node=_node(chunk), score=chunk.score) for chunk in chunks_of(found)]

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
