"""Retrieval only by imported questions, compared with the same ranking by NumPy.

`python -m bench.question_channel FOLDER...`: each folder contains corpus.jsonl, queries.jsonl, qrels.tsv (BEIR) and
generated.jsonl with questions for some passages. The questions are imported with their passages through the stages of
the ingest, embedded by the embedded model and searched in Qdrant's engine; NumPy ranks every passage by its nearest
question. Prints nDCG@10 of both and on how many queries their first ten differ.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

import ir_measures
import numpy as np
import orjson
import uvloop

from embedded.stack import Stack
from features.all import FEATURES
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.documents import NewDocument, ReadyQuestion
from shared.domain.vectors import Vectors
from shared.ingest.drain import Drain, DrainLimits
from shared.ingest.index.stage import IndexStage
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.schema import migrate
from shared.providers.embedding import Embedder, pack
from shared.query.retrieve import Query
from shared.services import build
from shared.services.all import AllServices
from shared.settings import Settings

Run = dict[str, dict[str, float]]


def lines(path: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


async def import_set(services: AllServices, folder: Path, questions: Mapping[str, list[str]]) -> None:
    """Submit each passage as a document with its questions and wait for the stages."""
    model = services.settings.embedding_model or ""
    options = CollectionOptions(chunk_max_chars=100_000)
    collection = await services.ledger[Collections].ensure(
        "default", folder.name, embedding_model=model, options=options
    )
    for row in lines(folder / "corpus.jsonl"):
        text, name = str(row["text"]), str(row["_id"])
        upload = await services.uploads.store_bytes(text.encode(), max_bytes=10_000_000)
        given = tuple(ReadyQuestion(q) for q in questions.get(name, []))
        await services.ledger[Documents].submit(
            NewDocument(
                collection, name, None, str(row.get("title") or "") or None, "text/plain", {}, given,
                upload.name, upload.size_bytes, hashlib.sha256(text.encode()).digest(),
            )
        )  # fmt: skip
    s = services.settings
    limits = DrainLimits(lease=s.tuning.lease, budget=s.tuning.drain * 100, grace=s.shutdown_timeout)
    for stage in (services.parser, IndexStage([services.indexer])):
        await Drain(stage, limits, asyncio.Event()).run()  # type: ignore[arg-type]


async def search(services: AllServices, folder: Path, queries: Mapping[str, str]) -> Run:
    collection = await services.ledger[Collections].get("default", folder.name)
    run: Run = {}
    for query_id, text in queries.items():
        found = await services.retriever.retrieve(
            collection, Query(text, top_k=10, max_tokens=10**9, channels=("questions",))
        )
        run[query_id] = {chunk.external_id: chunk.score for chunk in found.chunks}
    return run


async def embed(embedder: Embedder, questions: list[str]) -> Vectors:
    texts = embedder.prefixes.queries(questions)
    parts = [await embedder.embed(texts[r.start : r.stop]) for r in pack(texts, max_inputs=256, max_tokens=100_000)]
    return np.concatenate(parts)


async def brute_force(embedder: Embedder, queries: Mapping[str, str], questions: Mapping[str, list[str]]) -> Run:
    owners = np.array([name for name, own in questions.items() for _ in own])
    vectors = await embed(embedder, [text for own in questions.values() for text in own])
    scores = await embed(embedder, list(queries.values())) @ vectors.T
    run: Run = {}
    for query_id, row in zip(queries, scores, strict=True):
        best: dict[str, float] = {}
        for index in np.argsort(-row):
            best.setdefault(str(owners[index]), float(row[index]))
            if len(best) == 10:
                break
        run[query_id] = best
    return run


async def measure(settings: Settings, folders: list[Path]) -> None:
    async with build("all", settings, FEATURES) as services:
        await migrate(services.database)
        embedder = services.indexer.embedder
        for folder in folders:
            questions = {
                str(row["passage_id"]): [str(q) for q in row["questions"]]  # type: ignore[attr-defined]
                for row in lines(folder / "generated.jsonl")
            }
            queries = {str(row["_id"]): str(row["text"]) for row in lines(folder / "queries.jsonl")}
            rows = [line.split("\t") for line in (folder / "qrels.tsv").read_text().splitlines()[1:]]
            judged = [ir_measures.Qrel(q, d, int(relevance)) for q, d, relevance in rows]
            await import_set(services, folder, questions)
            ours = await search(services, folder, queries)
            numpys = await brute_force(embedder, queries, questions)
            ndcg = ir_measures.nDCG @ 10
            value, reference = (ndcg.calc_aggregate(judged, run) for run in (ours, numpys))
            differ = sum(list(ours[q]) != list(numpys[q]) for q in queries)
            print(f"{folder.name}: nDCG@10 of the question channel {value:.4f}, NumPy {reference:.4f};"
                  f" the first ten differ on {differ} of {len(queries)} queries", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="labelled sets")
    folders = parser.parse_args().folders
    settings = Settings(_env_file=None, llm_base_url="http://127.0.0.1:9", llm_model="none")  # type: ignore[call-arg]
    with tempfile.TemporaryDirectory() as data, Stack(settings, Path(data)) as stack:
        uvloop.run(measure(stack.settings, folders))


if __name__ == "__main__":
    main()
