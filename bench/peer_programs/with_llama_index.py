"""Ingest with LlamaIndex: `python with_llama_index.py SPECIFICATION`, run by `bench peers` in its own environment.

As its documentation recommends for questions: an `IngestionPipeline` with `QuestionsAnsweredExtractor` and an
embedding, run asynchronously, and a `VectorStoreIndex` in memory. The questions become part of the chunk's embedded
text, so a chunk has one vector. Nothing is stored on disk before the pipeline has finished.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.extractors import QuestionsAnsweredExtractor
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import TextNode
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

_EMBEDDED_AT_ONCE, _EMBEDDING_REQUESTS = 100, 4


async def ingest(specification: dict[str, Any], chunks: list[str]) -> int:
    """Return the number of vectors."""
    access = {"api_base": specification["url"], "api_key": "scripted", "timeout": 60.0}
    model = OpenAILike(model="scripted", is_chat_model=True, **access)
    embedding = OpenAILikeEmbedding(
        model_name="scripted-embedding",
        embed_batch_size=_EMBEDDED_AT_ONCE,
        num_workers=_EMBEDDING_REQUESTS,
        **access,
    )
    extractor = QuestionsAnsweredExtractor(
        llm=model, questions=5, num_workers=specification["in_flight"], show_progress=False
    )
    pipeline = IngestionPipeline(transformations=[extractor, embedding])
    nodes = await pipeline.arun(nodes=[TextNode(text=chunk) for chunk in chunks])
    assert all("questions_this_excerpt_can_answer" in node.metadata for node in nodes)
    index = VectorStoreIndex(nodes=list(nodes), embed_model=embedding)
    return len(index.vector_store.data.embedding_dict)


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
