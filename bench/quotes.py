"""The quotes of extractive answers, compared with the sentences and table rows that a person would underline.

`python -m bench quotes [FOLDER...] [--half HALF] [--show]` asks the questions of `bench/answers/quotes.jsonl` about
this project's documentation and the other texts that `bench/answers/README.md` lists, divided into chunks by the
product. Each further folder contains corpus.jsonl, a quotes.jsonl of the same form whose documents are rows of the
corpus, and perhaps generated.jsonl with the questions of its passages.

Prints for the passages that the product's ranking finds, and for the passages of the right document alone: the number
of questions, of questions with a right passage among the passages that are read, of right first quotes, their share of
the questions with a right passage, the number of answers with any right quote, of questions without an answer, and the
mean number of quotes. `--show` lists the answers with a wrong first quote.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from foreask_evaluation.cache import EvaluationCache

from bench.calibration import QuestionSet, Searched, named
from bench.fusion import CachedEmbedding, baseline_of
from embedded.embeddings import MODEL
from embedded.minilm import MiniLM
from shared.domain.corpus.chunks import MOST_CHARS, ChunkContent
from shared.domain.corpus.collections import Baseline
from shared.domain.vectors import Vectors
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import divide
from shared.ingest.parse.chunks.languages import with_languages
from shared.ingest.parse.extraction import extract
from shared.providers.embedding import Billing, Input, Prefixes, free
from shared.query.answer import Answer, ExtractiveAnswerer, Passage
from shared.query.calibrate.weights import EQUAL
from shared.query.retrieve import fuse
from shared.query.retrieve.scores.scale import rescale

ROOT = Path(__file__).resolve().parents[1]
ANSWERS = ROOT / "bench" / "answers"
TEXT = ROOT / "bench" / "text" / "passages.jsonl"
TOP_K = 10
READ = 8  # passages that an extractive answer reads
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
    """Documents as chunks; `documents[i]` is the document of `contents[i]`."""

    name: str
    documents: list[str]
    contents: list[ChunkContent]
    generated: Mapping[str, Sequence[str]]
    asked: list[Asked]

    def question_set(self) -> QuestionSet:
        ids = [named(f"{document} {number}") for number, document in enumerate(self.documents)]
        titles = [" > ".join(filter(None, (c.title, *c.heading_path))) for c in self.contents]
        questions = [
            (index, question)
            for index, document in enumerate(self.documents)
            for question in self.generated.get(document, ())
        ]
        texts = [content.text for content in self.contents]
        return QuestionSet(ids, titles, texts, [each.question for each in self.asked], [], questions)


@dataclass(frozen=True)
class LocalEmbedder:
    """The embedded model as an `Embedder`."""

    embedding: CachedEmbedding
    name: str = MODEL
    prefixes: Prefixes = Prefixes()

    async def dimensions(self) -> int:
        return (await self.embed([Input("?")])).shape[1]

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
    return Corpus("shipped", documents, contents, {}, asked_in(ANSWERS / "quotes.jsonl", half))


def of_folder(folder: Path, half: str | None) -> Corpus:
    rows = [orjson.loads(line) for line in (folder / "corpus.jsonl").read_bytes().splitlines()]
    path = folder / "generated.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    generated = {row["passage_id"]: row["questions"] for row in map(orjson.loads, lines)}
    contents = [ChunkContent.whole(row["text"], row.get("title") or None) for row in rows]
    documents = [row["_id"] for row in rows]
    return Corpus(
        folder.name, documents, list(with_languages(contents)), generated, asked_in(folder / "quotes.jsonl", half)
    )


Ranking = Sequence[tuple[int, float]]
"""The indexes of chunks with their scores, best first."""


def rankings(corpus: Corpus, embedding: CachedEmbedding) -> tuple[list[Ranking], Baseline]:
    """Return the chunks that the product finds for each question, and the baseline of the corpus."""
    question_set = corpus.question_set()
    texts = embedding.embed(question_set.texts)
    questions = embedding.embed([question for _, question in question_set.questions])
    baseline = baseline_of(question_set, texts, questions)
    index_of = {chunk: index for index, chunk in enumerate(question_set.ids)}
    searched = Searched(question_set, texts, questions)
    found = searched.found(question_set.queries, embedding.embed(question_set.queries))
    matches = (fuse(rescale(hits, baseline), "scores", EQUAL) for hits in found)
    return [[(index_of[match.chunk_id], match.score) for match in each] for each in matches], baseline


def passages_of(corpus: Corpus, ranking: Ranking) -> list[Passage]:
    passages = []
    for number, (index, score) in enumerate(ranking, 1):
        content = corpus.contents[index]
        passages.append(Passage(number, content.text, content.title, content.heading_path, score, content.language))
    return passages


def within(corpus: Corpus, ranking: Ranking, document: str) -> Ranking:
    """Return the chunks of a document in the order of a ranking, followed by the chunks that it lacks."""
    scores = dict(ranking)
    own = [index for index, each in enumerate(corpus.documents) if each == document]
    return sorted(((index, scores.get(index, 0.0)) for index in own), key=lambda each: -each[1])


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
    ranked, baseline = rankings(corpus, embedding)
    answerer = ExtractiveAnswerer(LocalEmbedder(embedding), baseline=baseline)
    print(f"\n{corpus.name:20} {'kind':9} questions  passage  first  of these    any  none  quotes")
    for condition in ("found", "document"):
        grades = []
        for asked, ranking in zip(corpus.asked, ranked, strict=True):
            chosen = ranking[:TOP_K] if condition == "found" else within(corpus, ranking, asked.document)
            passages = passages_of(corpus, chosen)
            has_passage = any(asked.is_in(passage.text) for passage in passages[:READ])
            grades.append(Graded(asked, await answerer.answer(asked.question, passages), has_passage))
        for kind in ("", *KINDS):
            of_kind = [each for each in grades if kind in ("", each.asked.kind)]
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
    corpora = [shipped(arguments.half), *(of_folder(folder, arguments.half) for folder in arguments.folders)]
    with EvaluationCache(arguments.cache) as cache:
        for corpus in corpora:
            asyncio.run(measure(corpus, CachedEmbedding(cache, MiniLM(1)), show=arguments.show))


if __name__ == "__main__":
    main()
