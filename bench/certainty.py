"""How often a certain answer is right: the documents answer some of the questions, and nearly answer others.

`python -m bench certainty [--cache FILE] [--multilingual] [FOLDER...]` asks the questions of bench/answers/README.md
about the documentation in docs, and about the evaluation sets (BEIR, perhaps with generated.jsonl) in the folders: 80
of the sets' own questions, and the questions listed under the name of the folder.

An answer is right if a passage that answers the question is among the ten that were retrieved. Prints the precision
and the recall of "certain" for extractive answers, and for answers of a model that always cites the first passage.
Recall is the share of all questions that the documents answer. Each is measured before and after the calibration of the
collection, in collections of five documents, of the set, and of 5,000 passages, with stored questions and without.
"Withheld" are answerable questions without the passages that answer them. Then prints the curve of the threshold, both
halves of the questions, and the result for each set with the constants that are best for the other sets. Vectors are
cached in FILE.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import orjson
from foreask_evaluation.cache import EvaluationCache

from bench import texts
from bench.calibration import QuestionSet, Searched, named, read
from bench.fusion import baseline_of
from embedded.e5 import MultilingualE5
from embedded.embeddings import DIMENSIONS
from embedded.minilm import MiniLM
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import Baseline
from shared.domain.spending.usage import Usage
from shared.domain.vectors import Vectors
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.chunks.languages import with_languages
from shared.ingest.parse.document import ExtractedText
from shared.ingest.parse.titles import title_of
from shared.providers.chat import ChatRequest, Completion
from shared.providers.embedding import Billing, Input, Prefixes, free
from shared.query.answer import ExtractiveAnswerer, GenerativeAnswerer, Passage, unrelated_cosine
from shared.query.answer.certainty import CERTAIN, coverages_of
from shared.query.calibrate.weights import EQUAL
from shared.query.retrieve import Channel, ChannelHits, Match, fuse
from shared.query.retrieve.chunks import Cosines
from shared.query.retrieve.scores.scale import rescale

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = Path(__file__).with_name("answers") / "certainty.jsonl"
OWN_QUESTIONS = 80  # of each set
TOP = 10
LARGE = 5_000
SMALL = 5
BATCH = 128
ANSWERABLE = "answerable"
WITHHELD = "withheld"
CURVE = (0.25, 0.3, 0.35, 0.4, 0.43, 0.45, 0.47, 0.5, 0.55, 0.6, 0.65, 0.7)
GRID = tuple(product((0.5, 0.75, 1.0), (0.0, 0.25, 0.5, 1.0)))  # shares of the text's cosine, and without words
RECALL = 0.8


@dataclass(frozen=True)
class AskedQuestion:
    text: str
    label: str
    half: str
    documents: frozenset[str]  # that answer it


@dataclass(frozen=True)
class Corpus:
    """A set with the document of each chunk."""

    name: str
    chunks: QuestionSet
    documents: list[str]

    def only(self, documents: Iterable[str]) -> Corpus:
        chosen = set(documents)
        kept = [index for index, document in enumerate(self.documents) if document in chosen]
        place = {index: number for number, index in enumerate(kept)}
        chunks = replace(
            self.chunks,
            **{name: [getattr(self.chunks, name)[index] for index in kept] for name in ("ids", "titles", "texts")},
            questions=[(place[index], text) for index, text in self.chunks.questions if index in place],
        )
        return Corpus(self.name, chunks, [self.documents[index] for index in kept])

    def and_others(self, others: Sequence[Corpus]) -> Corpus:
        """Return this set among passages of other sets and the text of the benchmarks."""
        chunks, documents = self.chunks, list(self.documents)
        filler = texts.chunks(LARGE, name="filler")
        generated = QuestionSet([named(text) for text in filler], [""] * LARGE, filler, [], [], [])
        for added, of in [*((other.chunks, other.documents) for other in others), (generated, filler)]:
            start, free_places = len(documents), LARGE - len(documents)
            chunks = replace(
                chunks,
                **{n: (getattr(chunks, n) + getattr(added, n))[:LARGE] for n in ("ids", "titles", "texts")},
                questions=chunks.questions + [(start + i, text) for i, text in added.questions if i < free_places],
            )
            documents += of[:free_places]
        return Corpus(self.name, chunks, documents)


@dataclass(frozen=True)
class Judged:
    """The decisions about one question.

    Args:
        right: whether an answering passage was retrieved.
        parts: for each passage, the cosine with its text, with the nearer of its text and question, and the coverage.
    """

    corpus: str
    asked: AskedQuestion
    right: bool
    found: bool
    extractive: bool
    written: bool
    parts: list[tuple[float, float, float]]


class CachedEmbedder:
    """An embedded model with a cache, as an `Embedder`."""

    def __init__(self, cache: EvaluationCache, *, multilingual: bool) -> None:
        self._cache = cache
        self._model = MultilingualE5(1) if multilingual else MiniLM(1)
        self.name = "multilingual-e5-small-w8a8" if multilingual else "all-minilm-l6-v2-w8a8"
        self.prefixes = Prefixes("query: ", "passage: ") if multilingual else Prefixes()

    async def dimensions(self) -> int:
        return DIMENSIONS

    async def embed(self, inputs: Sequence[Input], _billed: Billing = free) -> Vectors:
        return self.vectors(inputs)

    def vectors(self, inputs: Sequence[Input]) -> Vectors:
        """Return vectors of shape `(len(inputs), dimensions)`; row i belongs to input i."""
        missing = self._cache.missing_vectors(self.name, inputs)
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            vectors = self._model.embed(list(map(str, batch)))[0]
            self._cache.save_vectors(self.name, dict(zip(batch, vectors, strict=True)))
        found = self._cache.load_vectors(self.name, inputs)
        return np.array([found[each] for each in inputs]).reshape(len(inputs), DIMENSIONS)


class Collection:
    """A set that is searched as the product does."""

    def __init__(self, corpus: Corpus, embedder: CachedEmbedder, *, stored: bool) -> None:
        chunks = corpus.chunks if stored else replace(corpus.chunks, questions=[])
        prefixes = embedder.prefixes
        self.corpus, self.chunks = corpus, chunks
        self.place = {chunk: index for index, chunk in enumerate(chunks.ids)}
        self._of_texts = embedder.vectors([prefixes.passage(text) for text in chunks.texts])
        self._of_questions = embedder.vectors(prefixes.queries([text for _, text in chunks.questions]))
        self._owned: dict[int, list[int]] = {}
        for number, (index, _) in enumerate(chunks.questions):
            self._owned.setdefault(index, []).append(number)
        self._searched = Searched(chunks, self._of_texts, self._of_questions)
        self.baseline = baseline_of(chunks, self._of_texts, self._of_questions)

    def found(self, asked: Sequence[AskedQuestion], vectors: Vectors) -> list[dict[Channel, ChannelHits]]:
        return self._searched.found([each.text for each in asked], vectors)

    def passages(self, hits: Mapping[Channel, ChannelHits], vector: Vectors, baseline: Baseline) -> list[Passage]:
        matches = fuse(rescale(hits, baseline), "scores", EQUAL)[:TOP]
        return [self._passage(number, match, hits, vector) for number, match in enumerate(matches, 1)]

    def _passage(self, number: int, match: Match, hits: Mapping[Channel, ChannelHits], vector: Vectors) -> Passage:
        index = self.place[match.chunk_id]
        title, text = self.chunks.titles[index], self.chunks.texts[index]
        nearest = None
        if match.question is not None:
            nearest = max(self._owned[index], key=lambda number: float(self._of_questions[number] @ vector))
        cosines = Cosines(*(hits[channel].scores.get(match.chunk_id, 0.0) for channel in ("questions", "text")))
        question = None if nearest is None else self.chunks.questions[nearest][1]
        return Passage(number, text, title, (), match.score, language_of(title, text), question, cosines)


class CitingModel:
    """A model that always answers, from the first passage."""

    name = "scripted"

    async def complete(self, _request: ChatRequest) -> Completion:
        return Completion("It does [1].", "stop", Usage())


@lru_cache(maxsize=20_000)
def language_of(title: str, text: str) -> str | None:
    return with_languages([ChunkContent.whole(text, title or None)])[0].language


def documentation() -> Corpus:
    """Return the chunks of the files in docs, each under its title and headings."""
    ids, titles, chunks, documents = list[str](), list[str](), list[str](), list[str]()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text, name = path.read_text(), str(path.relative_to(ROOT))
        for number, chunk in enumerate(divide(ExtractedText(text, title_of(text, None), "text/markdown"), OPTIONS)):
            ids.append(named(f"{name} {number}"))
            titles.append(" > ".join(filter(None, (title_of(text, None), *chunk.heading_path))))
            chunks.append(chunk.text)
            documents.append(name)
    return Corpus("docs", QuestionSet(ids, titles, chunks, [], [], []), documents)


OPTIONS = ChunkingOptions()


def listed(name: str) -> list[AskedQuestion]:
    rows = (orjson.loads(line) for line in QUESTIONS.read_bytes().splitlines())
    return [
        AskedQuestion(row["question"], row["label"], row["half"], frozenset(row.get("documents", ())))
        for row in rows
        if row["set"] == name
    ]


def own(chunks: QuestionSet) -> list[AskedQuestion]:
    """Return some of a set's own questions, whose documents are chunks."""
    pairs = sorted(
        zip(chunks.queries, chunks.relevant, strict=True), key=lambda pair: hashlib.sha256(pair[0].encode()).digest()
    )
    halves = ("development", "check")
    return [
        AskedQuestion(text, ANSWERABLE, halves[number % 2], frozenset(relevant))
        for number, (text, relevant) in enumerate(pairs[:OWN_QUESTIONS])
    ]


async def judged(
    collection: Collection,
    asked: Sequence[AskedQuestion],
    embedder: CachedEmbedder,
    *,
    calibrated: bool,
    withheld: bool = False,
) -> list[Judged]:
    """Answer questions in a collection."""
    unrelated = unrelated_cosine(embedder.name, collection.baseline if calibrated else None)
    baseline = collection.baseline if calibrated else Baseline()
    extractive = ExtractiveAnswerer(embedder, unrelated=unrelated)
    written = GenerativeAnswerer(CitingModel(), unrelated=unrelated)  # type: ignore[arg-type]
    vectors = embedder.vectors(embedder.prefixes.queries([each.text for each in asked]))
    results = []
    for each, vector, hits in zip(asked, vectors, collection.found(asked, vectors), strict=True):
        documents = collection.corpus.documents
        answering = {chunk for chunk, document in zip(collection.chunks.ids, documents, strict=True)
                     if {chunk, document} & each.documents}  # fmt: skip
        kept = without(hits, answering) if withheld else hits
        passages = collection.passages(kept, vector, baseline)
        chunks = [match.chunk_id for match in fuse(rescale(kept, baseline), "scores", EQUAL)[:TOP]]
        quoted = await extractive.answer(each.text, passages)
        answer = await written.answer(each.text, passages)
        results.append(
            Judged(
                collection.corpus.name,
                replace(each, label=WITHHELD) if withheld else each,
                not withheld and not answering.isdisjoint(chunks),
                quoted.found,
                quoted.found and quoted.is_certain,
                answer.found and answer.is_certain,
                parts_of(each.text, passages, unrelated),
            )
        )
    return results


def without(hits: Mapping[Channel, ChannelHits], chunks: set[str]) -> dict[Channel, ChannelHits]:
    return {
        channel: replace(each, scores={c: score for c, score in each.scores.items() if c not in chunks})
        for channel, each in hits.items()
    }


def parts_of(question: str, passages: Sequence[Passage], unrelated: float) -> list[tuple[float, float, float]]:
    parts = []
    for passage, coverage in zip(passages, coverages_of(question, passages), strict=True):
        stored, text = (cosine or 0.0 for cosine in passage.cosines)
        by_text, nearer = (max(0.0, (each - unrelated) / (1 - unrelated)) for each in (text, max(text, stored)))
        parts.append((by_text, nearer, coverage))
    return parts


def strongest(each: Judged, by_text: float = 0.75, without_words: float = 0.5) -> float:
    """Return the strength of a question's strongest passage with these constants."""
    strengths = (
        (by_text * text + (1 - by_text) * nearer) * (without_words + coverage) for text, nearer, coverage in each.parts
    )
    return max(strengths, default=0.0)


def small_collections(
    corpus: Corpus, asked: Sequence[AskedQuestion], embedder: CachedEmbedder
) -> Iterator[tuple[Corpus, list[AskedQuestion]]]:
    """Yield collections of five documents, each with five questions.

    A question's document answers it, or is the first that is found for it among all.
    """
    whole = Collection(corpus, embedder, stored=True)
    vectors = embedder.vectors(embedder.prefixes.queries([each.text for each in asked]))
    hits = whole.found(asked, vectors)
    document_of = dict(zip(corpus.chunks.ids, corpus.documents, strict=True))
    nearest = [document_of[fuse(each, "scores", EQUAL)[0].chunk_id] for each in hits]
    wanted = [
        min(document_of.get(name, name) for name in each.documents) if each.documents else first
        for each, first in zip(asked, nearest, strict=True)
    ]
    chance = random.Random(5)
    order = chance.sample(range(len(asked)), len(asked))
    names = sorted(set(corpus.documents))
    for start in range(0, len(order), SMALL):
        group = order[start : start + SMALL]
        documents = {wanted[number] for number in group}
        while len(documents) < SMALL:
            documents.add(chance.choice(names))
        yield corpus.only(documents), [asked[number] for number in group]


Decision = Callable[[Judged], bool]


def precision_and_recall(results: Sequence[Judged], decision: Decision) -> tuple[float, float]:
    certain = [each for each in results if decision(each)]
    right = sum(each.right for each in certain)
    return right / max(1, len(certain)), right / max(1, sum(each.asked.label == ANSWERABLE for each in results))


def share(results: Sequence[Judged], label: str, decision: Decision) -> str:
    chosen = [decision(each) for each in results if each.asked.label == label]
    return f"{np.mean(chosen):6.2f}" if chosen else f"{'':6}"


LABELS = (ANSWERABLE, "near", "unanswerable", "off-topic", WITHHELD)


def print_rows(condition: str, results: Sequence[Judged]) -> None:
    for name in (*dict.fromkeys(each.corpus for each in results), "all"):
        of_set = [each for each in results if name in (each.corpus, "all")]
        counted = [each for each in of_set if each.asked.label != WITHHELD]
        cells = [
            "{:.3f} {:.3f}".format(*precision_and_recall(counted, decision))
            for decision in (lambda e: e.extractive, lambda e: e.written)
        ]
        certain = "".join(share(of_set, label, lambda e: e.extractive) for label in LABELS[1:])
        found = "".join(share(of_set, label, lambda e: e.found) for label in LABELS)
        print(f"{condition:30} {name:16} {'   '.join(cells)}  {certain}  {found}", flush=True)


def print_curve(results: Sequence[Judged]) -> None:
    print(f"\n{'threshold':10}{'precision':>10}{'recall':>8}   {'certain: ' + ', '.join(LABELS[1:])}")
    for threshold in CURVE:
        decision: Decision = lambda e, t=threshold: strongest(e) >= t  # type: ignore[misc]  # noqa: E731
        counted = [each for each in results if each.asked.label != WITHHELD]
        precision, recall = precision_and_recall(counted, decision)
        shares = "".join(share(results, label, decision) for label in LABELS[1:])
        print(f"{threshold:<10}{precision:10.3f}{recall:8.3f}   {shares}")


def print_halves(results: Sequence[Judged]) -> None:
    print()
    for half in ("development", "check"):
        chosen = [each for each in results if each.asked.half == half and each.asked.label != WITHHELD]
        precision, recall = precision_and_recall(chosen, lambda e: e.extractive)
        print(f"{half:12} {len(chosen):4} questions: precision {precision:.3f}, recall {recall:.3f}")


def print_left_out(results: Sequence[Judged]) -> None:
    """Print each set's result with the constants whose precision is best at a recall of 0.8 on the other sets."""
    print()
    counted = [each for each in results if each.asked.label != WITHHELD]
    for name in dict.fromkeys(each.corpus for each in counted):
        others = [each for each in counted if each.corpus != name]
        of_set = [each for each in counted if each.corpus == name]
        constants, threshold = max(
            ((each, at_recall(others, *each)) for each in GRID if others),
            key=lambda pair: precision_and_recall(others, lambda e: strongest(e, *pair[0]) >= pair[1])[0],
            default=((0.75, 0.5), CERTAIN),
        )
        precision, recall = precision_and_recall(of_set, lambda e: strongest(e, *constants) >= threshold)  # noqa: B023
        ours = precision_and_recall(of_set, lambda e: strongest(e) >= CERTAIN)
        print(
            f"{name:16} left out: text {constants[0]}, without words {constants[1]}, threshold {threshold:.3f}:"
            f" precision {precision:.3f}, recall {recall:.3f}; with our constants {ours[0]:.3f}, {ours[1]:.3f}"
        )


def at_recall(results: Sequence[Judged], by_text: float, without_words: float) -> float:
    """Return the threshold at which a share of the answerable questions is certain and right."""
    right = sorted((strongest(each, by_text, without_words) for each in results if each.right), reverse=True)
    wanted = round(RECALL * sum(each.asked.label == ANSWERABLE for each in results))
    return right[min(wanted, len(right)) - 1]


async def measure(
    corpora: Mapping[str, Corpus], asked: Mapping[str, list[AskedQuestion]], embedder: CachedEmbedder
) -> None:
    kept: list[Judged] = []
    for size, stored, calibrated in product(("5 documents", "the set", "5,000 passages"), (True, False), (False, True)):
        results: list[Judged] = []
        for name, corpus in corpora.items():
            questions = asked[name]
            if size == "5 documents":
                for small, few in small_collections(corpus, questions, embedder):
                    collection = Collection(small, embedder, stored=stored)
                    results += await judged(collection, few, embedder, calibrated=calibrated)
                continue
            others = [other for other in corpora.values() if other is not corpus]
            searched = corpus.and_others(others) if size == "5,000 passages" else corpus
            collection = Collection(searched, embedder, stored=stored)
            results += await judged(collection, questions, embedder, calibrated=calibrated)
            answerable = [each for each in questions if each.label == ANSWERABLE]
            results += await judged(collection, answerable, embedder, calibrated=calibrated, withheld=True)
        print_rows(f"{size}, {'questions' * stored or 'texts'}{', calibrated' * calibrated}", results)
        if size == "the set" and stored and not calibrated:
            kept = results
    print_curve(kept)
    print_halves(kept)
    print_left_out(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".foreask", "bench", "vectors.sqlite"))
    parser.add_argument("--multilingual", action="store_true", help="with multilingual-e5-small")
    arguments = parser.parse_args()
    corpora, asked = {"docs": documentation()}, {"docs": listed("docs")}
    for folder in arguments.folders:
        chunks = read(folder, 0)
        corpora[folder.name] = Corpus(folder.name, chunks, chunks.ids)
        asked[folder.name] = [*listed(folder.name), *own(chunks)]
    for name, questions in asked.items():
        counts = ", ".join(f"{sum(e.label == label for e in questions)} {label}" for label in LABELS[:-1])
        print(f"{name}: {len(corpora[name].documents)} chunks; {counts}")
    columns = f"certain: {', '.join(LABELS[1:])}; found: {', '.join(LABELS)}"
    print(f"\n{'':47} extractive    written      {columns}")
    with EvaluationCache(arguments.cache) as cache:
        asyncio.run(measure(corpora, asked, CachedEmbedder(cache, multilingual=arguments.multilingual)))


if __name__ == "__main__":
    main()
