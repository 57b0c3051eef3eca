"""One chunk in each call of the model, compared with several: `python -m bench packing FOLDER`.

The folder contains corpus.jsonl, queries.jsonl, qrels.tsv (BEIR) and generated.jsonl with questions for its passages.
Consecutive passages are the chunks of a document. For each number of chunks in a call it prints

- input, reply: tokens for each chunk;
- malformed: share of useless replies, of which no chunk gets questions;
- asked: share of chunks with at least one question that passes the filter of texts; kept: such questions per chunk;
- own, other: share of these questions whose own chunk is the nearest of all chunks, and to which another chunk of the
  same document is nearer than their own;
- MRR: of users' questions, by the nearest question of each chunk;
- s: seconds for each chunk.

By default a scripted model replies with exactly the questions in generated.jsonl, so that only the form of the calls
makes a difference; its tokens are four characters. With `--embedded` the embedded model replies. It is too small for
the product's prompt, so it gets short ones, and a schema that requires the number of questions and their form. No reply
is repaired.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench.calibration import QuestionSet, read
from bench.questions import model
from embedded.minilm import MiniLM
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import ForeaskError
from shared.domain.spending.usage import Usage
from shared.domain.vectors import Vectors
from shared.ingest.generate import question_list
from shared.ingest.generate.prompts import LIST_SYSTEM, LIST_TEMPLATE, WORD_SYSTEM, delimited, render
from shared.ingest.generate.quality import filter_by_text
from shared.ingest.generate.types import GenerationOptions
from shared.providers.chat import ChatRequest, Completion, Message
from shared.providers.replies.json_replies import MalformedReply, json_in

SIZES = (1, 3, 5)
_OF_DOCUMENT = 15  # passages
_TOKENS_A_QUESTION = 100  # as the product allows
_QUESTION = r"^(What|Who|Where|When|Why|How) [^\"\\\\?,]{12,100}\?$"
_TEMPERATURE = 0.2
_OPTIONS = GenerationOptions()

_CHANGES = {
    "one chunk of a document between": "chunks of a document, each between",
    "questions about the chunk": "questions about each chunk",
    '{"questions": ["...", "..."]}': '{"chunk_1": ["...", "..."], "chunk_2": ["...", "..."]}',
}
_SYSTEM = reduce(lambda prompt, change: prompt.replace(*change), _CHANGES.items(), LIST_SYSTEM)
_RULES = LIST_TEMPLATE.partition("\n\nDocument:")[0].replace("the chunk below answers", "each chunk below answers")

_SHORT_RULE = "Write questions that {} answers, with the names in it."

Complete = Callable[[Sequence[ChunkContent], Sequence[int]], Awaitable[Completion]]


@dataclass
class Packed:
    """The result of all calls with one number of chunks: questions by the index of their chunk."""

    questions: dict[int, list[str]] = field(default_factory=dict)
    calls: list[tuple[int, ...]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    malformed: int = 0
    seconds: float = 0.0


def request(contents: Sequence[ChunkContent]) -> ChatRequest:
    """Return the call for some chunks of a document; for one chunk it is the product's call."""
    single = question_list.request(contents[0], _OPTIONS)
    if len(contents) == 1:
        return single
    counts = [_OPTIONS.count_for(content) for content in contents]
    parts = [_RULES, render("Document: {title}", contents[0], count=0, text="", fenced=True)]
    for name, content, count in zip(names_of(contents), contents, counts, strict=True):
        header = f"{name}\nSection: {{headings}}\nNumber of questions: {{count}}"
        parts.append(render(header + "\n\n{text}", content, count=count, text=delimited(content.text), fenced=True))
    assert single.max_tokens is not None
    return replace(
        single,
        messages=(Message("system", _SYSTEM), Message("user", "\n\n".join(parts))),
        schema=_schema(contents),
        max_tokens=single.max_tokens + _TOKENS_A_QUESTION * sum(counts[1:]),
    )


def short_request(contents: Sequence[ChunkContent]) -> ChatRequest:
    """Return a call for some chunks that a very small model can follow."""
    if len(contents) == 1:
        texts, rule = contents[0].text, _SHORT_RULE.format("this text")
    else:
        named = zip(names_of(contents), contents, strict=True)
        texts = "\n\n".join(f"{name}: {content.text}" for name, content in named)
        rule = _SHORT_RULE.format("each of these texts")
    messages = (Message("system", WORD_SYSTEM), Message("user", f"{texts}\n\n{rule}"))
    return replace(request(contents), messages=messages, schema=_schema(contents), temperature=_TEMPERATURE)


def names_of(contents: Sequence[ChunkContent]) -> list[str]:
    """Return the names of the lists in a reply."""
    return ["questions"] if len(contents) == 1 else [f"chunk_{number}" for number in range(1, len(contents) + 1)]


def _schema(contents: Sequence[ChunkContent]) -> dict[str, Any]:
    """Return a schema that requires a list for each chunk, so that a model cannot leave one out."""
    question = {"type": "string", "pattern": _QUESTION}
    counts = [_OPTIONS.count_for(content) for content in contents]
    lists = [{"type": "array", "items": question, "minItems": count, "maxItems": count} for count in counts]
    names = names_of(contents)
    return {
        "type": "object",
        "properties": dict(zip(names, lists, strict=True)),
        "required": names,
        "additionalProperties": False,
    }


def questions_of(completion: Completion, contents: Sequence[ChunkContent]) -> list[tuple[str, ...]]:
    """Return the questions of each chunk.

    Raises:
        MalformedReply: the reply is useless.
    """
    if len(contents) == 1:
        return [question_list.questions_of(completion, _OPTIONS.count_for(contents[0]))]
    if completion.finish_reason == "length":
        raise MalformedReply("cut at the token limit")
    values = json_in(completion.text)
    if not values or not isinstance(values[0], dict):
        raise MalformedReply("no object")
    lists = [values[0].get(name, []) for name in names_of(contents)]
    if not all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in lists):
        raise MalformedReply("no lists of texts")
    return [tuple(own[: 2 * _OPTIONS.count_for(content)]) for own, content in zip(lists, contents, strict=True)]


async def generate_all(
    complete: Complete, contents: Sequence[ChunkContent], chosen: Sequence[int], size: int
) -> Packed:
    """Make the calls for the chosen chunks, up to `size` chunks of a document in each."""
    packed, started = Packed(), time.perf_counter()
    for indexes in calls_of(chosen, size):
        packed.calls.append(indexes)
        of_call = [contents[index] for index in indexes]
        try:
            completion = await complete(of_call, indexes)
            packed.usage += completion.usage
            lists = questions_of(completion, of_call)
        except (MalformedReply, ForeaskError):
            packed.malformed += 1
            continue
        packed.questions |= {index: passed(own, contents[index]) for index, own in zip(indexes, lists, strict=True)}
    packed.seconds = time.perf_counter() - started
    return packed


def calls_of(chosen: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Yield the chunks of each call, which are of one document."""
    documents: dict[int, list[int]] = {}
    for index in chosen:
        documents.setdefault(index // _OF_DOCUMENT, []).append(index)
    for indexes in documents.values():
        yield from (tuple(indexes[start : start + size]) for start in range(0, len(indexes), size))


def passed(questions: Sequence[str], content: ChunkContent) -> list[str]:
    return [question.text for question in filter_by_text(questions, content) if question.passed]


def scripted(question_set: QuestionSet) -> Complete:
    """Return a model that replies with the set's questions for each chunk."""
    perfect: dict[int, list[str]] = {}
    for index, question in question_set.questions:
        perfect.setdefault(index, []).append(question)

    async def complete(contents: Sequence[ChunkContent], indexes: Sequence[int]) -> Completion:
        call = request(contents)
        lists = [perfect.get(index, []) for index in indexes]
        text = orjson.dumps(dict(zip(names_of(contents), lists, strict=True))).decode()
        prompt = sum(len(message.content) for message in call.messages)
        return Completion(text, "stop", Usage(prompt // 4, len(text) // 4))

    return complete


@dataclass(frozen=True)
class Chunks:
    """The chosen chunks of a set, with their vectors."""

    question_set: QuestionSet
    chosen: Sequence[int]
    embedder: MiniLM
    vectors: Vectors

    def print_row(self, size: int, packed: Packed) -> None:
        kept = [(index, question) for index in self.chosen for question in packed.questions.get(index, [])]
        own, other = self._nearest(kept)
        count = len(self.chosen)
        asked = sum(bool(packed.questions.get(index)) for index in self.chosen)
        usage = packed.usage
        print(
            f"{size:5} {usage.prompt_tokens / count:7.0f} {usage.completion_tokens / count:7.0f}"
            f" {packed.malformed / len(packed.calls):10.1%} {asked / count:7.1%} {len(kept) / count:6.2f} {own:7.1%}"
            f" {other:7.1%} {self._mean_reciprocal_rank(kept):7.3f} {packed.seconds / count:6.2f}",
            flush=True,
        )

    def _nearest(self, kept: Sequence[tuple[int, str]]) -> tuple[float, float]:
        """Return the shares of questions to which their own chunk, or another one of its document, is the nearest."""
        if not kept:
            return 0.0, 0.0
        documents = np.array(self.chosen) // _OF_DOCUMENT
        position = {index: row for row, index in enumerate(self.chosen)}
        own = other = 0
        for (index, _), scores in zip(kept, self._embed(text for _, text in kept) @ self.vectors.T, strict=True):
            mine = scores[position[index]]
            own += bool(mine >= scores.max())
            other += bool(scores[documents == index // _OF_DOCUMENT].max() > mine)
        return own / len(kept), other / len(kept)

    def _mean_reciprocal_rank(self, kept: Sequence[tuple[int, str]]) -> float:
        """Return the mean reciprocal rank of users' questions; 0 if their chunk has no questions."""
        if not kept:
            return 0.0
        ids = {self.question_set.ids[index]: row for row, index in enumerate(self.chosen)}
        asked = [
            (q, ids.keys() & r)
            for q, r in zip(self.question_set.queries, self.question_set.relevant, strict=True)
            if ids.keys() & r
        ]
        similar = self._embed(query for query, _ in asked) @ self._embed(question for _, question in kept).T
        best = np.full((len(asked), len(self.chosen)), -1.0)
        position = {index: row for row, index in enumerate(self.chosen)}
        for column, (index, _) in enumerate(kept):
            best[:, position[index]] = np.maximum(best[:, position[index]], similar[:, column])
        ranks = []
        for row, (_, relevant) in zip(best, asked, strict=True):
            mine = max(row[ids[each]] for each in relevant)
            ranks.append(1 / (1 + (row > mine).sum()) if mine > -1 else 0.0)
        return float(np.mean(ranks))

    def _embed(self, texts: Iterable[str]) -> Vectors:
        return self.embedder.embed(list(texts))[0]


def chosen_of(question_set: QuestionSet, count: int) -> list[int]:
    """Return the indexes of the chunks of random documents, all with questions if the set has any."""
    with_questions = sorted({index for index, _ in question_set.questions}) or list(range(len(question_set.ids)))
    documents = sorted({index // _OF_DOCUMENT for index in with_questions})
    random.Random(5).shuffle(documents)
    order = {document: rank for rank, document in enumerate(documents)}
    return sorted(with_questions, key=lambda index: (order[index // _OF_DOCUMENT], index))[:count]


async def measure(folder: Path, count: int, sizes: Sequence[int], url: str | None, *, embedded: bool) -> None:
    question_set = read(folder, 0)
    chosen = chosen_of(question_set, count)
    contents = [
        ChunkContent.whole(text, title or None)
        for text, title in zip(question_set.texts, question_set.titles, strict=True)
    ]
    embedder = MiniLM()
    chunks = Chunks(question_set, chosen, embedder, embedder.embed([contents[index].text for index in chosen])[0])
    replies = "the embedded model" if embedded else "a scripted model"
    print(f"{folder.name}, {len(chosen)} of {len(contents)} chunks, {replies}")
    print(f"{'size':>5} {'input':>7} {'reply':>7} {'malformed':>10} {'asked':>7} {'kept':>6} {'own':>7} {'other':>7}"
          f" {'MRR':>7} {'s':>6}", flush=True)  # fmt: skip
    if not embedded:
        for size in sizes:
            chunks.print_row(size, await generate_all(scripted(question_set), contents, chosen, size))
        return
    async with model(url) as chat:
        for size in sizes:
            packed = await generate_all(lambda each, _: chat.complete(short_request(each)), contents, chosen, size)
            chunks.print_row(size, packed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="labelled sets")
    parser.add_argument("--chunks", type=int, default=100_000, help="at most so many chunks; all by default")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="chunks in a call; 1 3 5 by default")
    parser.add_argument("--embedded", action="store_true", help="the embedded model replies")
    parser.add_argument("--url", help="URL of a running llama.cpp server")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        asyncio.run(measure(folder, arguments.chunks, arguments.sizes, arguments.url, embedded=arguments.embedded))


if __name__ == "__main__":
    main()
