"""How good are the questions that the embedded model writes, and what does each filter do?

`python -m bench.questions [--set NAME] [--passages N] [--strategy list|word-by-word|both]` starts the embedded model,
asks it about passages of an evaluation set, and prints for each step the share of kept questions that find their own
passage first and among three (against all passages of the set), how many are kept, and why the others were dropped.
`--answers` measures the extractive answerer's floor instead: answerable against unanswerable questions.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import orjson

from embedded import llama
from embedded.embeddings import MODEL as EMBEDDING_MODEL
from embedded.minilm import MiniLM, Vectors
from shared.asking import (
    Asked,
    AskingOptions,
    BadQuestions,
    Screened,
    Strategy,
    Subject,
    apply_similarity,
    ask,
    floor_for,
    normalise,
    screen,
)
from shared.llm import OpenAIChat, Usage
from shared.provider import Provider

EVALDATA = Path(__file__).resolve().parents[1].parent / "shared" / "evaldata"


@dataclass(frozen=True, slots=True)
class Judged:
    """The questions of all passages after one step."""

    questions: list[list[Screened]]
    ranks: list[list[int]]  # of the own passage, from 0
    seconds: float


def rows(name: str, file: str) -> list[dict[str, str]]:
    with (EVALDATA / name / file).open("rb") as lines:
        return [orjson.loads(line) for line in lines]


@asynccontextmanager
async def model(url: str | None) -> AsyncIterator[OpenAIChat]:
    """The embedded model, started for the time being, or one that runs already."""
    process = None
    if url is None:
        port = 18_500 + random.randrange(400)
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "embedded.llama", "--port", str(port))
        url = llama.url(port)
    provider = Provider(component="llm", base_url=url, api_key=None, timeout=timedelta(minutes=5))
    try:
        await _healthy(url)
        yield OpenAIChat(provider, llama.MODEL)
    finally:
        await provider.aclose()
        if process is not None:
            process.terminate()
            await process.wait()


async def _healthy(url: str) -> None:
    import httpx

    async with httpx.AsyncClient() as client:
        for _ in range(100):
            try:
                if (await client.get(url.removesuffix("/v1") + "/health")).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.2)
    raise SystemExit("the embedded model does not start")


async def asked_of(chat: OpenAIChat, subjects: Sequence[Subject], strategy: Strategy) -> tuple[list[Asked], float]:
    options = AskingOptions(strategy=strategy)
    started = time.perf_counter()
    results = []
    for subject in subjects:
        try:
            results.append(await ask(chat, subject, options))
        except BadQuestions as error:
            results.append(Asked((), error.usage, error.calls))
    return results, time.perf_counter() - started


def ranks_of(
    embedder: MiniLM, screened: list[list[Screened]], own: Sequence[int], passages: Vectors
) -> list[list[int]]:
    ranks = []
    for questions, index in zip(screened, own, strict=True):
        if not questions:
            ranks.append([])
            continue
        scores = embedder.embed([q.text for q in questions])[0] @ passages.T
        ranks.append([int((row > row[index]).sum()) for row in scores])
    return ranks


def steps(embedder: MiniLM, asked: Sequence[Asked], subjects: Sequence[Subject], vectors: Vectors) -> dict[str, list]:
    raw = [[Screened(normalise(q), kept=True) for q in a.questions] for a in asked]
    screened = [screen(a.questions, s) for a, s in zip(asked, subjects, strict=True)]
    floored = []
    for questions, vector in zip(screened, vectors, strict=True):
        embedded = embedder.embed([q.text for q in questions])[0] if questions else np.empty((0, 384), np.float32)
        floored.append(apply_similarity(questions, embedded, vector, floor_for(EMBEDDING_MODEL)))
    return {"as written": raw, "screened": screened, "screened, floor": floored}


def report(name: str, screened: list[list[Screened]], ranks: list[list[int]], seconds: float) -> None:
    kept = [r for qs, rs in zip(screened, ranks, strict=True) for q, r in zip(qs, rs, strict=True) if q.kept]
    first = np.mean([r == 0 for r in kept]) if kept else 0
    three = np.mean([r < 3 for r in kept]) if kept else 0
    per_passage, pace = len(kept) / len(screened), seconds / len(screened)
    few = sum(sum(q.kept for q in qs) < 4 for qs in screened)
    print(f"{name:34} {first:6.1%} {three:7.1%} {per_passage:6.2f} {few:8} {pace:8.2f}")


def dropped(screened: list[list[Screened]]) -> str:
    reasons = Counter(q.reason.split(" (")[0] for qs in screened for q in qs if q.reason)
    return ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="xquad_oracle")
    parser.add_argument("--passages", type=int, default=50)
    parser.add_argument("--strategy", default="both")
    parser.add_argument("--url", help="a llama.cpp server that runs already")
    parser.add_argument("--show", type=int, default=0, help="print the questions of so many passages")
    arguments = parser.parse_args()
    corpus = rows(arguments.set, "corpus.jsonl")
    own = random.Random(5).sample(range(len(corpus)), arguments.passages)
    subjects = [Subject(corpus[i]["text"], corpus[i]["title"] or None) for i in own]
    embedder = MiniLM()
    passages = embedder.embed([p["text"] for p in corpus])[0]
    strategies: list[Strategy] = ["list", "word-by-word"]
    print(f"{arguments.set}, {len(own)} of {len(corpus)} passages\n")
    print(f"{'':34} {'first':>6} {'in 3':>7} {'kept':>6} {'under 4':>8} {'s each':>8}")
    async with model(arguments.url) as chat:
        for strategy in [s for s in strategies if arguments.strategy in ("both", s)]:
            asked, seconds = await asked_of(chat, subjects, strategy)
            for step, screened in steps(embedder, asked, subjects, passages[own]).items():
                report(f"{strategy}, {step}", screened, ranks_of(embedder, screened, own, passages), seconds)
            usage = sum((a.usage for a in asked), Usage())
            print(f"  dropped: {dropped(screened)}; {sum(a.calls for a in asked)} calls, {usage}\n")
            for questions in screened[: arguments.show]:
                print("\n".join(f"    {'+' if q.kept else '-'} {q.text} {q.reason or ''}" for q in questions), "\n")


if __name__ == "__main__":
    asyncio.run(main())
