"""A retriever for LangChain: `pip install foreask-langchain`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from foreask_client.found import found_by, metadata_of
from foreask_client.models import FoundChunk, Json
from foreask_client.synchronous import Client
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.load.serializable import SerializedConstructor, SerializedNotImplemented
from langchain_core.retrievers import BaseRetriever
from langchain_core.utils import from_env, secret_from_env
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr


class ForeaskRetriever(BaseRetriever):
    """Finds the chunks of a collection that answer a question, best first.

    `invoke` also accepts `k` and `filter` for one question, and `user` and `groups` for the person who asks it.

    Attributes:
        url: the server's URL; default: from the variable FOREASK_URL, else http://127.0.0.1:8350.
        api_key: API key, or the signed token of a person; default: from the variable FOREASK_API_KEY, if set. `dumps`
            writes the variable's name instead.
        user: person for whom the key acts, which needs the scope `delegate`; None: the key itself.
        groups: groups of this person.
        client: a client instead of these four, which may be shared. A retriever with one cannot be saved.
        collection: name of the collection.
        k: number of distinct chunks.
        filter: condition on metadata.
        options: further fields of POST /v1/retrieve, such as `min_score` and `rewrite`.

    Raises:
        ValueError: the URL is not a valid HTTP URL, there are groups without a user, or there is both a client and one
            of the fields that it replaces.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    url: str = Field(default_factory=from_env("FOREASK_URL", default="http://127.0.0.1:8350"))
    api_key: SecretStr | None = Field(default_factory=secret_from_env("FOREASK_API_KEY", default=None))
    user: str | None = None
    groups: Sequence[str] = ()
    client: Client | None = Field(default=None, exclude=True)
    collection: str = "default"
    k: int = 10
    filter: Json | None = None
    options: Json | None = None

    _client: Client = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if self.client is None:
            key = self.api_key.get_secret_value() if self.api_key else None
            self._client = Client(self.url, key, user=self.user, groups=self.groups)
        elif replaced := self.model_fields_set & {"url", "api_key", "user", "groups"}:
            raise ValueError(f"the client replaces {min(replaced)}")
        else:
            self._client = self.client

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"api_key": "FOREASK_API_KEY"}

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        # The loaded retriever would lack the client's person and find the documents of the key.
        return super().to_json() if self.client is None else self.to_json_not_implemented()

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002  LangChain requires the name
        **changes: Any,
    ) -> list[Document]:
        return self._find(query, **changes)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002  LangChain requires the name
        **changes: Any,
    ) -> list[Document]:
        return await asyncio.to_thread(self._find, query, **changes)

    def _find(
        self,
        query: str,
        *,
        k: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        user: str | None = None,
        groups: Sequence[str] = (),
    ) -> list[Document]:
        chunks = found_by(
            self._client,
            query,
            user=user,
            groups=groups,
            collection=self.collection,
            top_k=k or self.k,
            filter=filter or self.filter,
            **(self.options or {}),
        )
        return [_document(chunk) for chunk in chunks]


def _document(chunk: FoundChunk) -> Document:
    return Document(id=chunk.chunk_id, page_content=chunk.text, metadata=metadata_of(chunk))
