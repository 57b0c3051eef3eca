"""Ways to search with and without generated questions, compared on the same passages, vectors and questions.

`python -m bench comparison [FOLDER...] [--markdown FILE] [--write] [--cache FILE]`: each folder contains corpus.jsonl,
queries.jsonl, qrels.tsv (BEIR), generated.jsonl with questions that a large language model wrote for the passages, and
perhaps context.jsonl with a line of context for each. By default the sets in `bench/sets`.

Prints for each set and way nDCG@10 and recall@5, the difference of nDCG@10 to foreask, stored
vectors and bytes per passage, calls of a language model per passage at ingest, and the milliseconds of a search: the
median, exact, in memory with NumPy and one thread, without embedding the question. Then prints the means over the sets.
`docs/explanation/comparison.md` describes the ways. `--markdown` also writes the tables to a file, and `--write` to
that page and to README.md. Vectors are cached in FILE.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from foreask_evaluation.cache import EvaluationCache

from bench.calibration import QuestionSet, Scores, Searched, lines, named, read
from bench.combinations import hyqe, ranking, weighted_sum
from bench.comparison_tables import DENSE, FOREASK, HYBRID, WEIGHTED, Cost, Row, SetResult, tables, write_pages
from bench.fusion import CachedEmbedding, baseline_of, fused
from bench.ragflow import TITLE_SHARE, Chunk, Ragflow
from embedded.minilm import MiniLM
from features.evaluation import metrics
from shared.domain.corpus.collections import Baseline
from shared.domain.vectors import Vectors
from shared.query.retrieve import CHANNELS, Channel, ChannelHits, FusionName
from shared.query.retrieve.scores.scale import rescale
from shared.vectors.schema.points import with_questions

SETS = Path(__file__).with_name("sets")
TEXT: tuple[Channel, ...] = ("text",)
BOTH: tuple[Channel, ...] = ("text", "bm25")

Hits = dict[Channel, ChannelHits]
Search = Callable[[str, Vectors], list[str]]
"""Return the best ten passages, best first, for a question and its vector of shape `(dimensions,)`."""


@dataclass(frozen=True)
class Way:
    name: str
    search: Search
    cost: Cost


class Inputs:
    """The texts and vectors of a set that the ways share.

    Args:
        question_set: the set.
        contexts: a line of context for each passage; None if the set has none.
        embedding: the model.
    """

    def __init__(self, question_set: QuestionSet, contexts: Sequence[str] | None, embedding: CachedEmbedding) -> None:
        self.question_set, self.contexts, self.embedding = question_set, contexts, embedding
        self.questions: list[list[str]] = [[] for _ in question_set.texts]
        for index, question in question_set.questions:
            self.questions[index].append(question)
        self.question_vectors = embedding.embed([question for _, question in question_set.questions])
        pairs = zip(question_set.texts, self.questions, strict=True)
        self.prepended = [with_questions(text, own) for text, own in pairs]

    def searched(self, embedded: Sequence[str], read_by_bm25: Sequence[str] | None = None) -> Searched:
        """Return the set as foreask searches it, with other texts for the channel of texts, and for BM25."""
        changed = replace(self.question_set, texts=list(read_by_bm25 or self.question_set.texts))
        return Searched(changed, self.embedding.embed(embedded), self.question_vectors)

    def baseline(self, embedded: Sequence[str]) -> Baseline:
        return baseline_of(self.question_set, self.embedding.embed(embedded), self.question_vectors)


def ways(inputs: Inputs) -> list[Way]:
    """Return all ways of which the set has the texts."""
    ids, texts = inputs.question_set.ids, inputs.question_set.texts
    plain, prepended = inputs.searched(texts), inputs.searched(inputs.prepended)
    terms, asked = plain.words.terms / len(texts), len(inputs.question_vectors) / len(texts)

    def weighted(query: str, vector: Vectors) -> Scores:
        return weighted_sum(plain.near_texts(vector), plain.words.scores(query)[0])

    def reordered(_: str, vector: Vectors) -> Scores:
        return hyqe(plain.near_texts(vector), plain.near_questions(vector))

    return [
        Way(DENSE, by_fusion(plain, TEXT), Cost(1)),
        Way("BM25", by_fusion(plain, ("bm25",)), Cost(0, terms)),
        Way(HYBRID, by_fusion(plain, BOTH), Cost(1, terms)),
        Way(WEIGHTED, by_scores(ids, weighted), Cost(1, terms)),
        Way("questions alone (HyPE)", by_fusion(plain, ("questions",)), Cost(asked, llm_calls=1)),
        Way("questions prepended", by_fusion(prepended, TEXT), Cost(1, llm_calls=1)),
        Way("questions prepended, hybrid (Agent Memory)", by_fusion(prepended, BOTH), Cost(1, terms, llm_calls=1)),
        *contextual_ways(inputs),
        ragflow_way(inputs, plain),
        Way("questions as reranker (HyQE)", by_scores(ids, reordered), Cost(1 + asked, llm_calls=1)),
        Way(FOREASK, by_default(plain, inputs.baseline(texts)), Cost(1 + asked, terms, llm_calls=1)),
        Way(
            f"{FOREASK}, questions prepended",
            by_default(prepended, inputs.baseline(inputs.prepended)),
            Cost(1 + asked, terms, llm_calls=1),
        ),
    ]


def by_fusion(
    searched: Searched,
    channels: Sequence[Channel],
    fusion: FusionName = "rrf",
    scaled: Callable[[Hits], Hits] = lambda hits: hits,
) -> Search:
    """Return a search by the product's own code: its channels and a fusion; by ranks, one channel keeps its order."""

    def search(query: str, vector: Vectors) -> list[str]:
        (ids,) = fused([scaled(searched.search(channels, query, vector))], fusion)
        return ids

    return search


def by_default(searched: Searched, baseline: Baseline) -> Search:
    """Return a search as in a collection that has measured this baseline."""
    return by_fusion(searched, CHANNELS, "scores", lambda hits: rescale(hits, baseline))


def by_scores(ids: Sequence[str], scores: Callable[[str, Vectors], Scores]) -> Search:
    return lambda query, vector: ranking(scores(query, vector), ids)


def contextual_ways(inputs: Inputs) -> list[Way]:
    """Return contextual retrieval if the set has lines of context: vectors and BM25 read a line and its text."""
    if inputs.contexts is None:
        return []
    pairs = zip(inputs.contexts, inputs.question_set.texts, strict=True)
    texts = [f"{line}\n{text}" for line, text in pairs]
    searched = inputs.searched(texts, texts)
    cost = Cost(1, searched.words.terms / len(texts), llm_calls=1)
    return [Way("contextual retrieval, hybrid", by_fusion(searched, BOTH), cost)]


def ragflow_way(inputs: Inputs, plain: Searched) -> Way:
    titles, texts = inputs.question_set.titles, inputs.question_set.texts
    chunks = [Chunk(*parts) for parts in zip(titles, texts, inputs.questions, strict=True)]
    asked = inputs.embedding.embed(["\n".join(chunk.questions) or chunk.text for chunk in chunks])
    share = np.array([[TITLE_SHARE if title else 0.0] for title in titles])
    vectors = share * inputs.embedding.embed(titles) + (1 - share) * asked
    language = next((language for language, _ in plain.words.languages.most_common(1)), None)
    ragflow = Ragflow(chunks, vectors.astype(np.float32), language)
    cost = Cost(1, ragflow.terms / len(chunks), llm_calls=1)
    return Way("questions as a field (RAGFlow)", by_scores(inputs.question_set.ids, ragflow.scores), cost)


def measure(way: Way, question_set: QuestionSet, vectors: Vectors) -> Row:
    """Search for each question and return the quality of the results and the median duration."""
    way.search(question_set.queries[0], vectors[0])
    rankings, seconds = {}, []
    for number, (query, vector) in enumerate(zip(question_set.queries, vectors, strict=True)):
        started = time.perf_counter()
        rankings[str(number)] = way.search(query, vector)
        seconds.append(time.perf_counter() - started)
    judgements = {str(number): dict.fromkeys(answers, 1) for number, answers in enumerate(question_set.relevant)}
    found = metrics.scores(judgements, rankings)
    ndcg, recall = (np.array(list(found[name].values())) for name in ("ndcg@10", "recall@5"))
    return Row(ndcg, recall, way.cost, float(np.median(seconds)) * 1_000)


def measure_set(folder: Path, embedding: CachedEmbedding) -> SetResult:
    question_set = read(folder, 0)
    inputs = Inputs(question_set, contexts_of(folder, question_set), embedding)
    vectors = embedding.embed(question_set.queries)
    rows = {way.name: measure(way, question_set, vectors) for way in ways(inputs)}
    return SetResult(title_of(folder), len(question_set.texts), len(question_set.questions), rows)


def contexts_of(folder: Path, question_set: QuestionSet) -> list[str] | None:
    """Return the line of context of each passage; None if the set has none."""
    path = folder / "context.jsonl"
    if not path.exists():
        return None
    found: Mapping[str, str] = {named(row["passage_id"]): row["context"] for row in lines(path)}
    return [found[chunk] for chunk in question_set.ids]


def title_of(folder: Path) -> str:
    """Return the heading of the set's README, or else its folder's name."""
    path = folder / "README.md"
    return path.read_text().partition("\n")[0].lstrip("# ") if path.exists() else folder.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shipped = sorted(path.parent for path in SETS.glob("*/qrels.tsv"))
    parser.add_argument("folders", nargs="*", type=Path, default=shipped, help="labelled sets; bench/sets by default")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="file to write the tables to")
    parser.add_argument("--write", action="store_true", help="write the tables to README.md and the page in docs")
    parser.add_argument("--cache", type=Path, default=Path(".foreask", "bench", "vectors.sqlite"))
    arguments = parser.parse_args()
    with EvaluationCache(arguments.cache) as cache:
        embedding = CachedEmbedding(cache, MiniLM(1))
        results = [measure_set(folder, embedding) for folder in arguments.folders]
    print(tables(results))
    if arguments.markdown:
        arguments.markdown.write_text(tables(results))
    if arguments.write:
        write_pages(results)


if __name__ == "__main__":
    main()
