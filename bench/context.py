"""Gain by the context of chunks: a line before the text that is embedded and indexed, and terms after it.

`python -m bench context [--cache FILE] FOLDER...`: each folder contains corpus.jsonl, queries.jsonl, qrels.tsv (BEIR),
generated.jsonl, and context.jsonl with `{"passage_id", "context", "terms"}`. Prints nDCG@10 without a context, with the
line, with the terms and with both: of the texts' vectors, of BM25, of both fused by rank (hybrid), and of the default;
and the difference to the search without a context with its 95 % interval, paired over the questions. Vectors are cached
in FILE.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
from foreask_evaluation.cache import EvaluationCache

from bench.calibration import QuestionSet, lines, read
from bench.fusion import CachedEmbedding, alone, found_in, fused, graded
from embedded.minilm import MiniLM
from shared.domain.corpus.chunks import ChunkContext
from shared.query.calibrate.significance import Values, interval
from shared.query.retrieve import Channel

HYBRID: tuple[Channel, ...] = ("text", "bm25")


def contexts_of(folder: Path) -> list[ChunkContext]:
    """Return the context of each passage of a set, in the order of its corpus; an empty one for a passage without."""
    rows = map(orjson.loads, (folder / "context.jsonl").read_bytes().splitlines())
    written = {row["passage_id"]: ChunkContext(row["context"], tuple(row["terms"])) for row in rows}
    return [written.get(row["_id"], ChunkContext()) for row in lines(folder / "corpus.jsonl")]


def extended(question_set: QuestionSet, contexts: list[ChunkContext]) -> QuestionSet:
    """Return the set with the texts that the product embeds and indexes."""
    pairs = zip(contexts, question_set.texts, strict=True)
    return replace(question_set, texts=[context.around(text) for context, text in pairs])


def measure(question_set: QuestionSet, embedding: CachedEmbedding) -> dict[str, Values]:
    """Return nDCG@10 of each question by channel or fusion, of shape `(questions,)`."""
    found, relevant = found_in(question_set, 0.0, embedding), question_set.relevant
    hybrid = [{channel: hits[channel] for channel in HYBRID} for hits in found]
    return {channel: graded(alone(found, channel), relevant) for channel in HYBRID} | {
        "hybrid": graded(fused(hybrid, "rrf"), relevant),
        "default": graded(fused(found, "scores"), relevant),
    }


def print_set(name: str, folder: Path, embedding: CachedEmbedding) -> None:
    plain, contexts = read(folder, 0), contexts_of(folder)
    lengths = [len(context.around("")) for context in contexts]
    print(
        f"{name}: {len(contexts)} passages, {len(plain.queries)} questions, context {np.mean(lengths):.0f} characters"
    )
    parts = {
        "without": [ChunkContext()] * len(contexts),
        "line": [ChunkContext(context.line) for context in contexts],
        "terms": [ChunkContext("", context.terms) for context in contexts],
        "both": contexts,
    }
    measured = {part: measure(extended(plain, given), embedding) for part, given in parts.items()}
    for search, before in measured["without"].items():
        for part, values in measured.items():
            difference = interval(values[search] - before)
            print(
                f"  {search:8} {part:8} {values[search].mean():6.4f} {difference.mean:+8.4f}"
                f" ({difference.low:+.4f} to {difference.high:+.4f})",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".foreask", "bench", "vectors.sqlite"))
    arguments = parser.parse_args()
    with EvaluationCache(arguments.cache) as cache:
        embedding = CachedEmbedding(cache, MiniLM(1))
        for folder in arguments.folders:
            print_set(folder.name, folder, embedding)


if __name__ == "__main__":
    main()
