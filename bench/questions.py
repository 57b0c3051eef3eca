"""The quality of the questions that the embedded model writes, and the effect of each filter.

`python -m bench.questions [--set NAME] [--passages N] [--strategy NAME]` starts the embedded model, lets it write
questions for passages of an evaluation set, and prints for each step

- first, in 3: the share of kept questions whose own passage is the nearest, or one of the three nearest, of all
  passages of the set;
- kept: questions kept per passage; under 4: passages that keep fewer than four;
- MRR: of users' questions about these passages, matched with the kept questions of all of them;
- s each: seconds for a passage.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import numpy as np
import orjson
from pydantic import SecretStr

from embedded import llama, openmp
from embedded.embeddings import MODEL as EMBEDDING_MODEL
from embedded.minilm import MiniLM
from embedded.secret import stored_password
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.spending.usage import Usage
from shared.domain.vectors import Vectors
from shared.ingest.generate.generator import generate_questions
from shared.ingest.generate.quality import FilteredQuestion, filter_by_similarity, filter_by_text, floor_for, normalise
from shared.ingest.generate.types import BadQuestions, GeneratedQuestions, GenerationOptions, Strategy
from shared.providers.chat import OpenAIChat
from shared.providers.provider import Provider

EVALDATA = Path(__file__).resolve().parents[1].parent / "shared" / "evaldata"


def rows(name: str, file: str) -> list[dict[str, str]]:
    with (EVALDATA / name / file).open("rb") as lines:
        return [orjson.loads(line) for line in lines]


@asynccontextmanager
async def model(url: str | None) -> AsyncIterator[OpenAIChat]:
    """Start the embedded model for the duration of the block, or connect to a running one."""
    process, key = None, None
    if url is None:
        port = 18_500 + random.randrange(400)
        environment = {**os.environ, **openmp.variables(Path(".foreask", "bench", "llm"))}
        key_file = Path(".foreask", "bench", "models-key")
        key_file.parent.mkdir(parents=True, exist_ok=True)
        key = SecretStr(stored_password(key_file))
        command = [sys.executable, "-m", "embedded.llama", "--port", str(port), "--key-file", str(key_file)]
        # The model lowers the priority of its session.
        process = await asyncio.create_subprocess_exec(*command, env=environment, start_new_session=True)
        url = llama.url(port)
    provider = Provider(component="llm", base_url=url, api_key=key, timeout=timedelta(minutes=5))
    try:
        await _healthy(url)
        yield OpenAIChat(provider, llama.MODEL)
    finally:
        await provider.aclose()
        if process is not None:
            process.terminate()
            await process.wait()


async def _healthy(url: str) -> None:
    async with httpx.AsyncClient() as client:
        for _ in range(100):
            try:
                if (await client.get(url.removesuffix("/v1") + "/health")).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.2)
    raise SystemExit("the embedded model did not start")


async def generate_all(
    chat: OpenAIChat, contents: Sequence[ChunkContent], strategy: Strategy
) -> tuple[list[GeneratedQuestions], float]:
    options = GenerationOptions(strategy=strategy)
    started = time.perf_counter()
    results = []
    for content in contents:
        try:
            results.append(await generate_questions(chat, content, options))
        except BadQuestions as error:
            results.append(GeneratedQuestions((), error.usage, error.calls))
    return results, time.perf_counter() - started


def ranks_of(
    embedder: MiniLM, filtered: list[list[FilteredQuestion]], own: Sequence[int], passages: Vectors
) -> list[list[int]]:
    ranks: list[list[int]] = []
    for questions, index in zip(filtered, own, strict=True):
        if not questions:
            ranks.append([])
            continue
        scores = embedder.embed([q.text for q in questions])[0] @ passages.T
        ranks.append([int((row > row[index]).sum()) for row in scores])
    return ranks


def steps(
    embedder: MiniLM, generated: Sequence[GeneratedQuestions], contents: Sequence[ChunkContent], vectors: Vectors
) -> dict[str, list[list[FilteredQuestion]]]:
    raw = [[FilteredQuestion(normalise(q), passed=True) for q in a.questions] for a in generated]
    filtered = [filter_by_text(a.questions, s) for a, s in zip(generated, contents, strict=True)]
    floored = []
    for questions, vector in zip(filtered, vectors, strict=True):
        embedded = embedder.embed([q.text for q in questions])[0] if questions else np.empty((0, 384), np.float32)
        floored.append(filter_by_similarity(questions, embedded, vector, floor_for(EMBEDDING_MODEL)))
    return {"as written": raw, "filtered": filtered, "filtered, floor": floored}


def mean_reciprocal_rank(
    embedder: MiniLM, filtered: list[list[FilteredQuestion]], name: str, passage_ids: Sequence[str]
) -> float:
    """Return the mean reciprocal rank of users' questions, by the nearest kept question of each passage."""
    index_of = {passage_id: index for index, passage_id in enumerate(passage_ids)}
    texts = {row["_id"]: row["text"] for row in rows(name, "queries.jsonl")}
    user_questions = [(texts[query], index_of[passage]) for query, passage in judgements(name) if passage in index_of]
    kept = [(q.text, index) for index, questions in enumerate(filtered) for q in questions if q.passed]
    if not user_questions or not kept:
        return 0.0
    owners = np.array([index for _, index in kept])
    similar = embedder.embed([text for text, _ in user_questions])[0] @ embedder.embed([text for text, _ in kept])[0].T
    best = np.full((len(user_questions), len(passage_ids)), -1.0)
    for column, owner in enumerate(owners):
        best[:, owner] = np.maximum(best[:, owner], similar[:, column])
    own = best[np.arange(len(user_questions)), [index for _, index in user_questions]]
    return float(np.mean(1 / (1 + (best > own[:, None]).sum(axis=1))))


def judgements(name: str) -> list[tuple[str, str]]:
    lines = (EVALDATA / name / "qrels.tsv").read_text().splitlines()[1:]
    return [(query, passage) for query, passage, _ in (line.split("\t") for line in lines)]


def report(
    name: str, filtered: list[list[FilteredQuestion]], ranks: list[list[int]], mrr: float, seconds: float
) -> None:
    kept = [r for qs, rs in zip(filtered, ranks, strict=True) for q, r in zip(qs, rs, strict=True) if q.passed]
    first = np.mean([r == 0 for r in kept]) if kept else 0
    three = np.mean([r < 3 for r in kept]) if kept else 0
    per_passage, pace = len(kept) / len(filtered), seconds / len(filtered)
    few = sum(sum(q.passed for q in qs) < 4 for qs in filtered)
    print(f"{name:34} {first:6.1%} {three:7.1%} {per_passage:6.2f} {few:8} {mrr:6.3f} {pace:8.2f}")


def dropped(filtered: list[list[FilteredQuestion]]) -> str:
    reasons = Counter(q.reason.split(" (")[0] for qs in filtered for q in qs if q.reason)
    return ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())


async def measure_questions(arguments: argparse.Namespace) -> None:
    name = arguments.set
    corpus = rows(name, "corpus.jsonl")
    own = random.Random(5).sample(range(len(corpus)), arguments.passages)
    contents = [ChunkContent.whole(corpus[i]["text"], corpus[i]["title"] or None) for i in own]
    embedder = MiniLM()
    passages = embedder.embed([p["text"] for p in corpus])[0]
    strategies: list[Strategy] = ["list", "per-question"]
    print(f"{name}, {len(own)} of {len(corpus)} passages\n")
    print(f"{'':34} {'first':>6} {'in 3':>7} {'kept':>6} {'under 4':>8} {'MRR':>6} {'s each':>8}")
    async with model(arguments.url) as chat:
        for strategy in [s for s in strategies if arguments.strategy in ("both", s)]:
            generated, seconds = await generate_all(chat, contents, strategy)
            for step, filtered in steps(embedder, generated, contents, passages[own]).items():
                ranks = ranks_of(embedder, filtered, own, passages)
                mrr = mean_reciprocal_rank(embedder, filtered, name, [corpus[i]["_id"] for i in own])
                report(f"{strategy}, {step}", filtered, ranks, mrr, seconds)
            usage = sum((a.usage for a in generated), Usage())
            print(f"  dropped: {dropped(filtered)}; {sum(a.calls for a in generated)} calls, {usage}\n")
            for questions in filtered[: arguments.show]:
                print("\n".join(f"    {'+' if q.passed else '-'} {q.text} {q.reason or ''}" for q in questions), "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="xquad_oracle")
    parser.add_argument("--passages", type=int, default=50)
    parser.add_argument("--strategy", default="per-question", choices=["list", "per-question", "both"])
    parser.add_argument("--url", help="URL of a running llama.cpp server")
    parser.add_argument("--show", type=int, default=0, help="number of passages whose questions are printed")
    arguments = parser.parse_args()
    if not EVALDATA.is_dir():
        raise SystemExit(f"no evaluation sets in {EVALDATA}")
    asyncio.run(measure_questions(arguments))


if __name__ == "__main__":
    main()
