"""A retriever for LangChain: `pip install foreask-langchain`."""

from __future__ import annotations

import asyncio
from typing import Any

from foreask_client.found import chunks_of, metadata_of
from foreask_client.models import FoundChunk, Json
from foreask_client.synchronous import Client
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class ForeaskRetriever(BaseRetriever):
    """Finds the chunks of a collection that answer a question, best first.

    `invoke` also accepts `k` and `filter` for one question.

    Attributes:
        client: a client, which may be shared; `ainvoke` uses it in a thread.
        collection: name of the collection.
        k: number of distinct chunks.
        filter: condition on metadata.
        options: further fields of POST /v1/retrieve, such as `min_score` and `rewrite`.
    """

    client: Client
    collection: str = "default"
    k: int = 10
    filter: Json | None = None
    options: Json | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002  LangChain requires the name
        k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
    ) -> list[Document]:
        return self._find(query, k=k, filter=filter)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002  LangChain requires the name
        **changes: Any,
    ) -> list[Document]:
        return await asyncio.to_thread(self._find, query, **changes)

    def _find(self, query: str, *, k: int | None = None, filter: Json | None = None) -> list[Document]:  # noqa: A002
        found = self.client.retrieve(
            query, collection=self.collection, top_k=k or self.k, filter=filter or self.filter, **(self.options or {})
        )
        return [_document(chunk) for chunk in chunks_of(found)]


def _document(chunk: FoundChunk) -> Document:
    return Document(id=chunk.chunk_id, page_content=chunk.text, metadata=metadata_of(chunk))
