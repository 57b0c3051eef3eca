"""The lowest possible cost of the same work: one asyncio loop over the same client, which stores nothing.

`python -m bench.bare_loop URL IN_FLIGHT DOCUMENTS CHARACTERS`: questions are generated for the chunks of the documents
of `bench ingest`, and texts and questions embedded; nothing is stored or retried, and a crash loses everything. Prints
seconds of wall clock and of processor time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import timedelta

import uvloop
from pydantic import SecretStr

from bench import texts
from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.generate.generator import generate_questions
from shared.ingest.generate.types import GenerationOptions
from shared.providers.chat import OpenAIChat
from shared.providers.embedding import Input, OpenAIEmbedder, pack
from shared.providers.provider import Provider


async def run(url: str, in_flight: int, documents: int, characters: int) -> tuple[float, float]:
    """Do the work once; return wall-clock and processor seconds."""
    key, limit = SecretStr("scripted"), timedelta(seconds=60)
    provider = Provider(component="llm", base_url=url, api_key=key, timeout=limit)
    chat, embedder = OpenAIChat(provider, "scripted"), OpenAIEmbedder(provider, "scripted-embedding")
    chunks = texts.chunks(documents, characters)
    slots = asyncio.Semaphore(in_flight)

    async def one(chunk: str) -> tuple[str, ...]:
        async with slots:
            return (await generate_questions(chat, ChunkContent.whole(chunk), GenerationOptions())).questions

    await embedder.embed([Input("connect")])
    wall, cpu = time.perf_counter(), time.process_time()
    questions = await asyncio.gather(*(one(chunk) for chunk in chunks))
    inputs = [Input(text) for chunk, own in zip(chunks, questions, strict=True) for text in (chunk, *own)]
    ranges = pack(inputs, max_inputs=256, max_tokens=100_000)
    await asyncio.gather(*(embedder.embed(inputs[r.start : r.stop]) for r in ranges))
    result = time.perf_counter() - wall, time.process_time() - cpu
    await provider.aclose()
    return result


if __name__ == "__main__":
    print(*uvloop.run(run(sys.argv[1], *map(int, sys.argv[2:]))))
