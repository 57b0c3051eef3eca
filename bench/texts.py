"""Documents and questions of the benchmarks, from real text: see `bench/text/README.md`.

The cost of a chunk depends on its words: language detection and BM25 take twice as long for prose as for generated
words. All functions are deterministic, so that runs on several trees or machines process the same text.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

CHARACTERS = 1_780  # of a section, which becomes one chunk
SECTIONS = 5
HEADING = "Part"

_PASSAGES = Path(__file__).with_name("text") / "passages.jsonl"
_END_OF_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z“])")
_SHORTEST = 40  # characters; shorter pieces are mostly abbreviations

# Several spellings of the same question, because the API caches the vectors of repeated questions.
_WRITTEN: tuple[Callable[[str], str], ...] = (
    str,
    str.lower,
    lambda question: question.rstrip("?"),
    lambda question: question.lower().rstrip("?"),
)


@cache
def passages() -> list[dict[str, str | list[str]]]:
    return [json.loads(line) for line in _PASSAGES.read_text().splitlines()]


@cache
def sentences() -> tuple[str, ...]:
    found = (sentence for passage in passages() for sentence in _END_OF_SENTENCE.split(str(passage["text"])))
    return tuple(sentence for sentence in found if len(sentence) >= _SHORTEST)


def paragraph(name: str, characters: int = CHARACTERS) -> str:
    """Return sentences that the name selects; the last one is cut at a word, so that the length is nearly the same."""
    order, text = random.Random(name), ""
    while len(text) < characters:
        text += f"{order.choice(sentences())} "
    return text[:characters].rsplit(" ", 1)[0] + "."


def documents(
    count: int, sections: int = SECTIONS, characters: int = CHARACTERS, name: str = "article"
) -> dict[str, str]:
    """Return distinct Markdown documents by name; each of their sections becomes one chunk."""
    return {
        f"{name}-{n}.md": "\n\n".join(
            [
                f"# The {name} {n}",
                *(f"## {HEADING} {s + 1}\n\n{paragraph(f'{name} {n} {s}', characters)}" for s in range(sections)),
            ]
        )
        for n in range(count)
    }


def chunks(count: int, characters: int = CHARACTERS, name: str = "article") -> list[str]:
    """Return the sections of these documents."""
    stored = documents(count, SECTIONS, characters, name).values()
    return [section for text in stored for section in text.split("\n\n## ")[1:]]


@cache
def asked() -> list[str]:
    """Return the people's questions, the passages mixed."""
    found = [question for passage in passages() for question in passage["questions"]]
    random.Random(7).shuffle(found)
    return found


def questions() -> Iterator[str]:
    """Yield the people's questions without end: then in other spellings, then all of them again."""
    for written in itertools.cycle(_WRITTEN):
        yield from map(written, asked())
