"""The quotes of extractive answers, compared with the sentences and table rows that a person would underline.

`python -m bench quotes [FOLDER...] [--half HALF] [--show]` asks the questions of `bench/answers/quotes.jsonl` about
this project's documentation and the other texts that `bench/answers/README.md` lists, divided into chunks by the
product, and the questions of two sets in `bench/sets`. Each further folder contains corpus.jsonl, a quotes.jsonl of the
same form whose documents are rows of the corpus, and perhaps generated.jsonl with the questions of its passages.

Prints for the passages that the product's ranking finds by their texts alone, as right after an upload, for the
passages that it finds by stored questions as well, and for the passages of the right document alone: the number of
questions, of questions with a right passage among the passages that are read, of right first quotes, their share of the
questions with a right passage, the number of answers with any right quote, of questions without an answer, and the mean
number of quotes. `--show` lists the answers with a wrong first quote.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from foreask_evaluation.cache import EvaluationCache

from bench.calibration import QuestionSet, Searched, named
from bench.fusion import CachedEmbedding, baseline_of
from embedded.embeddings import MODEL
from embedded.minilm import MiniLM
from shared.domain.corpus.chunks import MOST_CHARS, ChunkContent
from shared.domain.vectors import Vectors
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.chunks.languages import with_languages
from shared.ingest.parse.extraction import extract
from shared.providers.embedding import Billing, Input, Prefixes, free
from shared.query.answer import Answer, ExtractiveAnswerer, Passage, unrelated_cosine
from shared.query.calibrate.weights import EQUAL
from shared.query.retrieve import fuse
from shared.query.retrieve.chunks import Cosines
from shared.query.retrieve.scores.scale import rescale

ROOT = Path(__file__).resolve().parents[1]
ANSWERS = ROOT / "bench" / "answers"
GENERATED = ANSWERS / "generated.jsonl"
SETS = ROOT / "bench" / "sets"
TEXT = ROOT / "bench" / "text" / "passages.jsonl"
TOP_K = 10
READ = 8  # passages that an extractive answer reads
CONDITIONS = ("texts", "questions", "document")
HALVES = ("development", "check")
KINDS = ("sentence", "item", "row")


@dataclass(frozen=True)
class Asked:
    """A question; `answers` are parts of the text, of which a right quote contains one."""

    question: str
    document: str
    answers: tuple[str, ...]
    kind: str
    half: str

    def is_in(self, text: str) -> bool:
        """Return whether a passage contains an answer."""
        plain = words(text)
        return any(_contains(plain, words(answer)) for answer in self.answers)

    def is_quoted(self, quote: str) -> bool:
        """Return whether a quote contains an answer; the words of a row may have labels of cells between them."""
        if self.kind != "row" or self.is_in(quote):
            return self.is_in(quote)
        plain = words(quote)
        return any(_contains_apart(plain, words(answer)) for answer in self.answers)


@dataclass(frozen=True)
class Corpus:
    """Documents as chunks; `documents[i]` is the document of `contents[i]`, `questions[i]` its stored questions."""

    name: str
    documents: list[str]
    contents: list[ChunkContent]
    questions: list[Sequence[str]]
    asked: list[Asked]

    def without_questions(self) -> Corpus:
        return replace(self, questions=[()] * len(self.contents))

    def question_set(self) -> QuestionSet:
        ids = [named(f"{document} {number}") for number, document in enumerate(self.documents)]
        titles = [" > ".join(filter(None, (c.title, *c.heading_path))) for c in self.contents]
        questions = [(index, question) for index, each in enumerate(self.questions) for question in each]
        texts = [content.text for content in self.contents]
        return QuestionSet(ids, titles, texts, [each.question for each in self.asked], [], questions)


@dataclass(frozen=True)
class LocalEmbedder:
    """The embedded model as an `Embedder`."""

    embedding: CachedEmbedding
    name: str = MODEL
    prefixes: Prefixes = Prefixes()

    async def dimensions(self) -> int:
        return int((await self.embed([Input("?")])).shape[1])

    async def embed(self, texts: Sequence[Input], _billed: Billing = free) -> Vectors:
        return self.embedding.embed(texts)


def words(text: str) -> list[str]:
    """Return the words of a Markdown text without its markup and the targets of links."""
    text = re.sub(r"\[([^\[\]]*)\]\([^()]*\)", r"\1", text)
    return re.sub(r"[^\w{}$%/]+", " ", text).split()


def _contains(text: Sequence[str], part: Sequence[str]) -> bool:
    return any(text[at : at + len(part)] == part for at in range(len(text) - len(part) + 1))


def _contains_apart(text: Sequence[str], part: Sequence[str]) -> bool:
    """Return whether the words of a part occur in their order."""
    remaining = iter(text)
    return all(word in remaining for word in part)


def asked_in(path: Path, half: str | None) -> list[Asked]:
    rows = map(orjson.loads, path.read_bytes().splitlines())
    asked = [Asked(**{**row, "answers": tuple(row["answers"])}) for row in rows]
    return [each for each in asked if half in (None, each.half)]


def chunks_of(name: str, content: bytes) -> tuple[ChunkContent, ...]:
    extracted = extract(content, filename=name, media_type=None, max_text_chars=MOST_CHARS)
    return with_languages(divide(extracted, ChunkingOptions()))  # type: ignore[arg-type]


def shipped(half: str | None) -> Corpus:
    """Return the documentation, the passages of Wikipedia and the two handbooks, with their questions."""
    files = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", *sorted(ANSWERS.glob("hand*.md"))]
    chunks = {str(file.relative_to(ROOT)): chunks_of(file.name, file.read_bytes()) for file in files}
    for number, line in enumerate(TEXT.read_bytes().splitlines()):
        chunks[f"{TEXT.name}#{number}"] = with_languages([ChunkContent.whole(orjson.loads(line)["text"])])
    pairs = [(document, content) for document, contents in chunks.items() for content in contents]
    documents, contents = map(list, zip(*pairs, strict=True))
    written = {name_of(row): row["questions"] for row in map(orjson.loads, GENERATED.read_bytes().splitlines())}
    names = names_of(documents, contents)
    for document, headings, part in written.keys() - set(names):
        print(f"{document} does not have chunk {part} of {headings!r} with stored questions")
    questions = [written.get(name, ()) for name in names]
    return Corpus("shipped", documents, contents, questions, asked_in(ANSWERS / "quotes.jsonl", half))


ChunkName = tuple[str, str, int]
"""A chunk by its document, its headings, and its number among the chunks of the document with these headings."""


def name_of(row: Mapping[str, Any]) -> ChunkName:
    return row["document"], row["headings"], row["part"]


def names_of(documents: Sequence[str], contents: Sequence[ChunkContent]) -> list[ChunkName]:
    """Return the names of chunks, which an edit of a text does not change."""
    parts = Counter[tuple[str, str]]()
    names = []
    for document, content in zip(documents, contents, strict=True):
        section = document, " > ".join(content.heading_path)
        names.append((*section, parts[section]))
        parts[section] += 1
    return names


def of_folder(folder: Path, half: str | None) -> Corpus:
    rows = [orjson.loads(line) for line in (folder / "corpus.jsonl").read_bytes().splitlines()]
    path = folder / "generated.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    generated = {row["passage_id"]: row["questions"] for row in map(orjson.loads, lines)}
    contents = [ChunkContent.whole(row["text"], row.get("title") or None) for row in rows]
    documents = [row["_id"] for row in rows]
    questions = [generated.get(document, ()) for document in documents]
    asked = asked_in(folder / "quotes.jsonl", half)
    return Corpus(folder.name, documents, list(with_languages(contents)), questions, asked)


class Index:
    """A corpus as the product searches it, without an engine.

    Args:
        corpus: the corpus.
        embedding: the embedding model.
    """

    def __init__(self, corpus: Corpus, embedding: CachedEmbedding) -> None:
        self._corpus = corpus
        self._set = corpus.question_set()
        self._index_of = {chunk: index for index, chunk in enumerate(self._set.ids)}
        self._own = {index: list[int]() for index in range(len(self._set.ids))}
        for number, (index, _) in enumerate(self._set.questions):
            self._own[index].append(number)
        self._texts = embedding.embed(self._set.texts)
        self._questions = embedding.embed([question for _, question in self._set.questions])
        self.baseline = baseline_of(self._set, self._texts, self._questions)
        self._searched = Searched(self._set, self._texts, self._questions)
        self._embedding = embedding

    def passages(self, asked: Asked, *, within: bool) -> list[Passage]:
        """Return the passages that the product finds, or all chunks of the right document in the same order."""
        vector = self._embedding.embed([asked.question])[0]
        hits = self._searched.found([asked.question], vector[np.newaxis])[0]
        scores = {
            self._index_of[match.chunk_id]: match.score for match in fuse(rescale(hits, self.baseline), "scores", EQUAL)
        }
        if within:
            own = [index for index, document in enumerate(self._corpus.documents) if document == asked.document]
            scores = {index: scores.get(index, 0.0) for index in own}
        ranked = sorted(scores, key=lambda index: -scores[index])[: None if within else TOP_K]
        return [self._passage(number, index, scores[index], vector) for number, index in enumerate(ranked, 1)]

    def _passage(self, number: int, index: int, score: float, vector: Vectors) -> Passage:
        content = self._corpus.contents[index]
        cosine = {each: float(self._questions[each] @ vector) for each in self._own[index]}
        nearest = max(cosine, key=cosine.__getitem__, default=None)
        return Passage(
            number,
            content.text,
            content.title,
            content.heading_path,
            score,
            content.language,
            None if nearest is None else self._set.questions[nearest][1],
            Cosines(None if nearest is None else cosine[nearest], float(self._texts[index] @ vector)),
        )


@dataclass(frozen=True)
class Graded:
    """An answer: whether a right passage was read, and whether each quote is right."""

    asked: Asked
    answer: Answer
    has_passage: bool

    @property
    def quotes(self) -> list[str]:
        lines = self.answer.text.splitlines() if self.answer.found else []
        return [line.removeprefix("> ") for line in lines if line.startswith("> ")]

    @property
    def right(self) -> list[bool]:
        return [self.asked.is_quoted(quote) for quote in self.quotes]

    @property
    def is_first(self) -> bool:
        return self.right[:1] == [True]


def print_grades(condition: str, kind: str, grades: Sequence[Graded]) -> None:
    given = [each for each in grades if each.has_passage]
    share = sum(each.is_first for each in given) / max(1, len(given))
    answered = [each for each in grades if each.quotes]
    quotes = sum(len(each.quotes) for each in answered) / max(1, len(answered))
    print(
        f"{condition:20} {kind:9} {len(grades):9} {len(given):8} {sum(each.is_first for each in grades):6} {share:9.0%}"
        f" {sum(any(each.right) for each in grades):6} {len(grades) - len(answered):5} {quotes:7.2f}",
        flush=True,
    )


def print_wrong(grades: Sequence[Graded]) -> None:
    for each in grades:
        if not each.is_first:
            asked = each.asked
            print(f"\n? {asked.question} ({asked.document}, {asked.kind}{'' if each.has_passage else ', not found'})")
            print(f"  = {asked.answers[0]}")
            for quote, right in zip(each.quotes, each.right, strict=True):
                print(f"  {'+' if right else '-'} {quote}")


async def measure(corpus: Corpus, embedding: CachedEmbedding, *, show: bool) -> None:
    whole = dict.fromkeys(corpus.documents, "")
    for document, content in zip(corpus.documents, corpus.contents, strict=True):
        whole[document] += f"\n{content.text}"
    for each in corpus.asked:
        if not each.is_in(whole.get(each.document, "")):
            print(f"{each.document} does not contain the answer of: {each.question}")
    indexes = {each: Index(corpus.without_questions() if each == "texts" else corpus, embedding) for each in CONDITIONS}
    print(f"\n{corpus.name:20} {'kind':9} questions  passage  first  of these    any  none  quotes")
    for condition, index in indexes.items():
        answerer = ExtractiveAnswerer(LocalEmbedder(embedding), unrelated=unrelated_cosine(MODEL, index.baseline))
        grades = []
        for asked in corpus.asked:
            passages = index.passages(asked, within=condition == "document")
            has_passage = any(asked.is_in(passage.text) for passage in passages[:READ])
            grades.append(Graded(asked, await answerer.answer(asked.question, passages), has_passage))
        for kind in ("", *KINDS):
            of_kind = [each for each in grades if kind in ("", each.asked.kind)]
            if of_kind:
                print_grades(condition, kind or "all", of_kind)
        if show:
            print_wrong(grades)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--half", choices=HALVES, help="only these questions")
    parser.add_argument("--show", action="store_true", help="list the answers with a wrong first quote")
    parser.add_argument("--cache", type=Path, default=Path(".foreask", "bench", "vectors.sqlite"))
    arguments = parser.parse_args()
    folders = [*(file.parent for file in sorted(SETS.glob("*/quotes.jsonl"))), *arguments.folders]
    corpora = [shipped(arguments.half), *(of_folder(folder, arguments.half) for folder in folders)]
    with EvaluationCache(arguments.cache) as cache:
        for corpus in corpora:
            asyncio.run(measure(corpus, CachedEmbedding(cache, MiniLM(1)), show=arguments.show))


if __name__ == "__main__":
    main()
