"""Gains and losses of calibration without labels, measured on users' questions that it has not seen.

`python -m bench.calibration FOLDER...`: each folder contains corpus.jsonl, queries.jsonl, qrels.tsv (BEIR) and
generated.jsonl. Each set is also measured with a share of its texts' words replaced, so that users and texts
share few words, and each of those with the vectors of models of other baseline similarities: a component that all
vectors share is added to MiniLM's. Prints nDCG@10 of equal weights, and its change by the measured baseline similarity
and by weights that are chosen on 200 held-out generated questions: the best weights, and the weights that are better
by more than chance.
"""

from __future__ import annotations

import argparse
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from uuid import UUID

import numpy as np
import orjson
from numpy.typing import NDArray

from embedded.minilm import MiniLM
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.ids import chunk_id, chunk_point_id, question_point_id
from shared.domain.text.bm25 import document_vector, query_vector
from shared.domain.vectors import Vectors
from shared.ingest.parse.chunks.languages import with_languages
from shared.query.calibrate.baseline import measure_baseline
from shared.query.calibrate.weights import EQUAL, candidates, lower_bound, ndcg
from shared.query.retrieve import CHANNELS, Channel, ChannelHits
from shared.query.retrieve.scores.channels import DEPTH, fold, full_bm25
from shared.query.retrieve.scores.scale import rescale
from shared.vectors.hits import RankedPoints

SHARES = (0, 60, 90)  # per cent of the words
BASELINES = (0.0, 0.3, 0.5, 0.7, 0.9)
HELD_OUT = 200
NOWHERE = UUID(int=0)
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
Founds = list[dict[Channel, ChannelHits]]
Scores = NDArray[np.floating]
"""A score of each passage, shape `(passages,)`; -inf: not found."""


@dataclass(frozen=True)
class QuestionSet:
    ids: list[str]  # of the chunks
    titles: list[str]
    texts: list[str]  # the texts to embed
    queries: list[str]
    relevant: list[set[str]]
    questions: list[tuple[int, str]]  # the index of the passage, and a question

    @property
    def passages(self) -> list[str]:
        """The texts under their titles, as BM25 reads them."""
        pairs = zip(self.titles, self.texts, strict=True)
        return [ChunkContent.whole(text, title or None).passage for title, text in pairs]


def lines(path: Path) -> Iterator[dict[str, str]]:
    return (orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip())


def read(folder: Path, share: int) -> QuestionSet:
    """Read a set. If words are replaced, only passages with questions are read, because no other could be found.

    A set without questions has all of its passages.
    """
    path = folder / "generated.jsonl"
    written = {row["passage_id"]: row["questions"] for row in lines(path)} if path.exists() else {}
    rows = [row for row in lines(folder / "corpus.jsonl") if not (share and written) or row["_id"] in written]
    ids = [named(row["_id"]) for row in rows]
    chunk_ids = set(ids)
    titles, texts = ([replaced((row.get(field) or "").strip(), share) for row in rows] for field in ("title", "text"))
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, passage, score = line.split("\t")
        if int(score) > 0 and named(passage) in chunk_ids:
            relevant.setdefault(query, set()).add(named(passage))
    queries = {row["_id"]: row["text"] for row in lines(folder / "queries.jsonl") if row["_id"] in relevant}
    questions = [(index, question) for index, row in enumerate(rows) for question in written.get(row["_id"], ())]
    return QuestionSet(ids, titles, texts, list(queries.values()), [relevant[query] for query in queries], questions)


def named(passage: str) -> str:
    """Return the id of the chunk of a passage."""
    return str(chunk_id(NOWHERE, NOWHERE, passage, 0))


def replaced(text: str, share: int) -> str:
    """Return the text with `share` per cent of its words replaced, each always by the same word."""

    def other(match: re.Match[str]) -> str:
        number = zlib.crc32(match[0].lower().encode())
        chance = random.Random(number)
        return "".join(chance.choices(SYLLABLES, k=3)) if number % 100 < share else match[0]

    return re.sub(r"\w{4,}", other, text)


def with_baseline(vectors: Vectors, baseline: float) -> Vectors:
    shared = np.full((len(vectors), 1), baseline**0.5, dtype=np.float32)
    return np.hstack([vectors * np.float32((1 - baseline) ** 0.5), shared])


class Words:
    """Texts as BM25 searches them, without an engine; `find` caches the hits of a question.

    Args:
        ids: the chunks of the texts.
        passages: the texts under their titles.
    """

    def __init__(self, ids: Sequence[str], passages: Sequence[str]) -> None:
        self._points = [chunk_point_id(UUID(chunk), 1) for chunk in ids]
        self._found: dict[str, ChannelHits] = {}
        languages = [with_languages([ChunkContent.whole(passage)])[0].language for passage in passages]
        self.languages = Counter(language for language in languages if language)
        vectors = [document_vector(*each) for each in zip(passages, languages, strict=True)]
        self.terms = sum(len(vector.indices) for vector in vectors)
        postings: dict[int, list[tuple[int, float]]] = {}
        for index, vector in enumerate(vectors):
            for term, value in zip(vector.indices, vector.values, strict=True):
                postings.setdefault(term, []).append((index, value))
        self._postings = {
            term: (np.array([index for index, _ in pairs]), np.array([value for _, value in pairs]))
            for term, pairs in postings.items()
        }

    def find(self, query: str) -> ChannelHits:
        if query not in self._found:
            self._found[query] = self.search(query)
        return self._found[query]

    def search(self, query: str) -> ChannelHits:
        scores, full = self.scores(query)
        return best("bm25", scores, self._points, full)

    def scores(self, query: str) -> tuple[Scores, float]:
        """Return the scores of the texts, shape `(texts,)`, -inf without a common word, and the score that counts 1."""
        terms = query_vector(query, sorted(self.languages))
        words = np.zeros(len(self._points))
        for term, weight in zip(terms.indices, terms.values, strict=True):
            if term in self._postings:
                indexes, values = self._postings[term]
                rarity = np.log(1 + (len(words) - len(indexes) + 0.5) / (len(indexes) + 0.5))
                words[indexes] += weight * rarity * values
        return np.where(words > 0, words, -np.inf), full_bm25(terms, len(words))


@lru_cache(maxsize=4)
def words_of(ids: tuple[str, ...], passages: tuple[str, ...]) -> Words:
    return Words(ids, passages)


def best(channel: Channel, scores: Scores, points: Sequence[str], full: float = 1.0) -> ChannelHits:
    first = [index for index in np.argsort(-scores, kind="stable")[:DEPTH] if np.isfinite(scores[index])]
    return fold(channel, RankedPoints([points[i] for i in first], [float(scores[i]) for i in first]), DEPTH, full)


class Searched:
    """A set as the product searches it, without an engine."""

    def __init__(self, question_set: QuestionSet, texts: Vectors, questions: Vectors) -> None:
        self._texts, self._questions = texts, questions
        self._owners = np.array([index for index, _ in question_set.questions], dtype=int)
        self._points = [chunk_point_id(UUID(chunk), 1) for chunk in question_set.ids]
        asked = [UUID(question_set.ids[index]) for index, _ in question_set.questions]
        self._question_points = [question_point_id(chunk, 1, number) for number, chunk in enumerate(asked)]
        self.words = words_of(tuple(question_set.ids), tuple(question_set.passages))

    def found(self, queries: Sequence[str], vectors: Vectors, without: Sequence[int] | None = None) -> Founds:
        """Return the hits of each query; `without` has the number of a question to ignore for each query."""
        return [
            self.search(CHANNELS, query, vector, None if without is None else without[number], cached=True)
            for number, (query, vector) in enumerate(zip(queries, vectors, strict=True))
        ]

    def search(
        self,
        channels: Iterable[Channel],
        query: str,
        vector: Vectors,
        without: int | None = None,
        *,
        cached: bool = False,
    ) -> dict[Channel, ChannelHits]:
        """Return the hits of some channels.

        Args:
            channels: the channels.
            query: a user's question.
            vector: its vector, shape `(dimensions,)`.
            without: number of a stored question to ignore.
            cached: whether BM25 may use the hits of an earlier search for this query.
        """
        found: dict[Channel, ChannelHits] = {}
        for channel in channels:
            if channel == "bm25":
                found[channel] = self.words.find(query) if cached else self.words.search(query)
            elif channel == "text":
                found[channel] = best(channel, self.near_texts(vector), self._points)
            else:
                found[channel] = best(channel, self._question_cosines(vector, without), self._question_points)
        return found

    def near_texts(self, vector: Vectors) -> Scores:
        """Return the cosine of each passage, shape `(passages,)`."""
        return self._texts @ vector

    def near_questions(self, vector: Vectors) -> Scores:
        """Return the cosine of each passage's nearest question, shape `(passages,)`; -inf without questions."""
        nearest = np.full(len(self._points), -np.inf)
        np.maximum.at(nearest, self._owners, self._question_cosines(vector))
        return nearest

    def _question_cosines(self, vector: Vectors, without: int | None = None) -> Scores:
        """Return the cosine of each stored question, shape `(questions,)`; -inf for the one to ignore."""
        near = self._questions @ vector if len(self._questions) else np.empty(0)
        if without is not None:
            near[without] = -np.inf
        return near


def measure(folder: Path, share: int, model: MiniLM) -> None:
    question_set = read(folder, share)
    plain = [
        model.embed(texts)[0]
        for texts in (question_set.texts, [q for _, q in question_set.questions], question_set.queries)
    ]
    for baseline in BASELINES:
        texts, questions, queries = (with_baseline(vectors, baseline) for vectors in plain)
        chosen = np.random.default_rng(7).permutation(len(question_set.questions))[:HELD_OUT]
        owners = [question_set.questions[number][0] for number in chosen]
        measured = measure_baseline(questions[chosen], texts[owners])
        searched = Searched(question_set, texts, questions)
        found = searched.found(question_set.queries, queries)
        moved = [rescale(hits, measured) for hits in found]
        equal, ours = (ndcg(hits, question_set.relevant, [EQUAL]).mean() for hits in (found, moved))
        name = f"{folder.name}, {share} % replaced, baseline similarity {measured.similarity:.3f}"
        line = f"{name}: equal {equal:.4f}, moved {ours - equal:+.4f}"
        if not baseline:
            held_out_questions = [question_set.questions[number][1] for number in chosen]
            held_out = searched.found(held_out_questions, questions[chosen], list(chosen))
            line += gain_text(
                held_out, [{question_set.ids[index]} for index in owners], found, question_set.relevant, equal
            )
        print(line, flush=True)


def gain_text(held_out: Founds, own: list[set[str]], found: Founds, relevant: list[set[str]], equal: float) -> str:
    """Return the gains on users' questions by weights that are chosen on held-out questions."""
    values = dict(zip(candidates(), ndcg(held_out, own, candidates()), strict=True))
    bounds = {weights: lower_bound(measured - values[EQUAL]) for weights, measured in values.items()}
    best = max(values, key=lambda weights: values[weights].mean())
    sure = max(bounds, key=bounds.__getitem__)
    gains = {w: ndcg(found, relevant, [w]).mean() - equal for w in {best, sure, EQUAL}}
    return f"; best on held-out {gains[best]:+.4f}, better for sure {gains[sure if bounds[sure] > 0 else EQUAL]:+.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="labelled sets")
    folders = parser.parse_args().folders
    model = MiniLM(1)
    for folder in folders:
        for share in SHARES:
            measure(folder, share, model)


if __name__ == "__main__":
    main()
