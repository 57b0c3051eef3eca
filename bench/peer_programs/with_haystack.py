"""Ingest with Haystack: `python with_haystack.py SPECIFICATION`, run by `bench peers` in an environment of its own.

As its documentation recommends for metadata from a model: a pipeline of `LLMMetadataExtractor`,
`OpenAIDocumentEmbedder` and `DocumentWriter` into the store in memory. The questions are metadata that are embedded
with the text, so a chunk has one vector. Nothing is stored before the writer, the last component, has run.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from haystack import Document, Pipeline
from haystack.components.embedders import OpenAIDocumentEmbedder
from haystack.components.extractors import LLMMetadataExtractor
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret

_EMBEDDED_AT_ONCE = 100
_PROMPT = """Write five questions that this text answers. Reply with JSON: {"questions": ["...", "..."]}

{{ document.content }}"""


async def ingest(specification: dict[str, Any], chunks: list[str]) -> int:
    """Return the number of vectors."""
    access = {"api_base_url": specification["url"], "api_key": Secret.from_token("scripted"), "timeout": 60.0}
    store = InMemoryDocumentStore()
    pipeline = Pipeline()
    pipeline.add_component(
        "questions",
        LLMMetadataExtractor(
            prompt=_PROMPT,
            chat_generator=OpenAIChatGenerator(model="scripted", **access),
            expected_keys=["questions"],
            max_workers=specification["in_flight"],
        ),
    )
    pipeline.add_component(
        "embedder",
        OpenAIDocumentEmbedder(
            model="scripted-embedding",
            batch_size=_EMBEDDED_AT_ONCE,
            meta_fields_to_embed=["questions"],
            progress_bar=False,
            **access,
        ),
    )
    pipeline.add_component("writer", DocumentWriter(store))
    pipeline.connect("questions.documents", "embedder.documents")
    pipeline.connect("embedder.documents", "writer.documents")
    await pipeline.run_async({"questions": {"documents": [Document(content=chunk) for chunk in chunks]}})
    stored = store.filter_documents()
    assert all(document.meta["questions"] for document in stored)
    return sum(document.embedding is not None for document in stored)


async def main() -> None:
    specification = json.loads(Path(sys.argv[1]).read_text())
    await ingest(specification, specification["warm"])
    print("warm", flush=True)
    sys.stdin.readline()
    wall, cpu = time.perf_counter(), time.process_time()
    vectors = await ingest(specification, specification["chunks"])
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "vectors": vectors}))


if __name__ == "__main__":
    asyncio.run(main())
