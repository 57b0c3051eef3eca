"""The question filter: which questions pass, and the reasons for dropping others. Pure functions, no calls."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.text.words import WORD, is_unspaced
from shared.domain.vectors import Vectors
from shared.ingest.generate.question_detection import asks, question_mark, requests

MIN_CHARS, MAX_CHARS = 8, 300
_MIN_CHARS_UNSPACED = 4  # four Chinese characters have the content of eight characters of other scripts
# Latin, full width, Arabic, Greek (NFC turns its own mark into a semicolon), Armenian, Ethiopic.
QUESTION_MARKS = "?\uff1f\u061f;\u055e\u1367"

# Numbers and labels in front of a question: "2.", "(2)", "Q2:", "-", "[Fact]".
_NUMBERING = re.compile(
    r"^(?:\(?(?:q(?:uestion)?\s*)?\d{1,2}\s*[.):]|[-*•]|q(?:uestion)?\s*:|\[[^\W\d_][\w -]{1,19}\]:?)\s+", re.IGNORECASE
)
# Emphasis, and signs of the direction of writing.
_WRAPPING = "*_ \u200e\u200f\u202a\u202b\u202c\u2066\u2067\u2068\u2069"
_QUOTES = '"“”„‟«»‹›「」『』《》'  # noqa: RUF001 - marks of other languages
_TEXTS = r"(?:text|passage|chunk|excerpt|paragraph|snippet|document|article|section|question|sentence|author|context)s?"
# Matches "the text says", but not "the text adventure" or "the author of Dune".
_REFERENCE = re.compile(
    rf"\b(?:(?:this|given|provided|above|following)\s+(?:given\s+|provided\s+|above\s+|following\s+)?{_TEXTS}\b"
    rf"|the\s+{_TEXTS}(?=\s*(?:[?,.:;)]|$)|\s+(?:about|above|is|was|does|did|do|has|and|that|which|by|in|on|to|for|"
    r"says?|said|state[sd]?|mention|mentions|mentioned|describes?|described|discuss|discusses|discussed|refers?|"
    r"tells?|explains?|answers?|provided|given|give|gives|get|use|uses|convey|argue|argues|claim|claims)\b))",
    re.IGNORECASE,
)
_ECHOES = re.compile(
    r"\b(?:begins? with (?:what|who|when|where|how|which|why)|short question|question mark|json|"
    r"questions? (?:about|for|that) the (?:chunk|text))\b",
    re.IGNORECASE,
)
_NEAR_OVERLAP = 0.85


@dataclass(frozen=True, slots=True)
class FilteredQuestion:
    """A question and its result from the filter.

    Args:
        reason: reason for dropping it, in a few words.
        similarity: similarity to its chunk; None if its vector was not compared.
    """

    text: str
    passed: bool
    reason: str | None = None
    similarity: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "passed": self.passed, "reason": self.reason, "similarity": self.similarity}


def normalise(question: str) -> str:
    """Normalise a question to one line without numbering, surrounding quotes and emphasis, with one question mark."""
    text = " ".join(unicodedata.normalize("NFC", question).split())
    text = _unwrapped(_NUMBERING.sub("", _unwrapped(text)))
    bare = text.rstrip(QUESTION_MARKS + "!. ")
    marks = text[len(bare) :].replace(" ", "")
    if not marks and not bare.endswith("\u3002") and asks(bare):
        return bare + question_mark(bare)
    return bare + next((mark for mark in marks if mark in QUESTION_MARKS), marks[:1])


def _unwrapped(text: str) -> str:
    """Remove emphasis and quotation marks that surround the entire text."""
    text = text.strip(_WRAPPING)
    ends = [end for end in (text[:1], text[-1:]) if end and end in _QUOTES]
    if len(ends) == 1 and sum(char in _QUOTES for char in text) % 2 == 0:
        return text
    return text.strip(_QUOTES + _WRAPPING) if ends else text


def is_question(question: str) -> bool:
    """Return whether a normalised text has the length of a question, and ends like one or asks for an answer."""
    fits = not _is_short(question) and len(question) <= MAX_CHARS
    return fits and (question.endswith((*QUESTION_MARKS, "か。")) or requests(question))


def _is_short(question: str) -> bool:
    return len(question) < (_MIN_CHARS_UNSPACED if is_unspaced(question) else MIN_CHARS)


def filter_by_text(questions: Sequence[str], content: ChunkContent) -> list[FilteredQuestion]:
    """Filter each question by its text only.

    Returns:
        One entry per question, in order, with normalised text.
    """
    passed: list[frozenset[str]] = []
    filtered = []
    for question in map(normalise, questions):
        in_order = _words(question)
        words = frozenset(in_order)
        reason = _fault(question, in_order, content) or _repetition(words, passed)
        if reason is None:
            passed.append(words)
        filtered.append(FilteredQuestion(question, passed=reason is None, reason=reason))
    return filtered


def _fault(question: str, words: Sequence[str], content: ChunkContent) -> str | None:
    if _is_short(question):
        return "too short"
    if len(question) > MAX_CHARS:
        return "too long"
    if not is_question(question):
        return "not a question"
    return _emptiness(question, words, content)


def _emptiness(question: str, words: Sequence[str], content: ChunkContent) -> str | None:
    if _ECHOES.search(question) and not _ECHOES.search(content.text):
        return "repeats the prompt"
    if _REFERENCE.search(question):
        return "speaks of the text, not of its subject"
    if _has_repeated_run(words):
        return "repeats itself"
    return None


def _has_repeated_run(words: Sequence[str]) -> bool:
    """Return whether any three consecutive words occur twice."""
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(triples)) < len(triples)


def _repetition(words: frozenset[str], earlier: Sequence[frozenset[str]]) -> str | None:
    for others in earlier:
        if words == others:
            return "repeats an earlier question"
        if len(words & others) >= _NEAR_OVERLAP * len(words | others):
            return "almost repeats an earlier question"
    return None


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())


# The lowest similarity of a question and its chunk, by embedding model. MiniLM: a fifth of a 135M model's questions
# fall below 0.1, hardly any of people's do. Other models spread their similarities otherwise: no measurement, no floor.
_FLOORS = {"all-minilm-l6-v2": 0.1}
_SAME_MEANING = 0.95
_UNLIKE, _SAME = "unlike its chunk", "means the same as an earlier question"


def floor_for(model_name: str) -> float | None:
    """Return the measured floor of an embedding model; None without a measurement."""
    name = model_name.lower().rsplit("/", 1)[-1]
    return next((floor for prefix, floor in _FLOORS.items() if name.startswith(prefix)), None)


def filter_by_similarity(
    filtered: Sequence[FilteredQuestion],
    question_vectors: Vectors,
    chunk_vector: Vectors,
    floor: float | None,
    *,
    keep_alike: bool = False,
) -> list[FilteredQuestion]:
    """Drop questions that are far from their chunk, and questions with the meaning of an earlier one.

    Args:
        filtered: questions as returned by `filter_by_text`.
        question_vectors: shape `(n, dimensions)`, unit length; row i belongs to `filtered[i]`.
        chunk_vector: shape `(dimensions,)`, unit length.
        floor: lowest similarity to the chunk that passes; None: all pass.
        keep_alike: whether questions with the same meaning may all pass.

    Returns:
        The same questions in order, with similarities; already dropped questions are still dropped.
    """
    if not filtered:
        return []
    to_chunk = question_vectors @ chunk_vector
    to_each_other = question_vectors @ question_vectors.T
    results: list[FilteredQuestion] = []
    passed: list[int] = []
    for index, question in enumerate(filtered):
        reason, similarity = question.reason, float(to_chunk[index])
        if question.passed:
            reason = _distance(similarity, floor)
            reason = reason or (None if keep_alike else _same_meaning(to_each_other[index, passed]))
        if reason is None:
            passed.append(index)
        results.append(replace(question, passed=reason is None, reason=reason, similarity=similarity))
    return results


def _distance(similarity: float, floor: float | None) -> str | None:
    if floor is None or similarity >= floor:
        return None
    return f"{_UNLIKE} (similarity {similarity:.2f}, floor {floor:.2f})"


def _same_meaning(similarities: Vectors) -> str | None:
    if similarities.size and float(similarities.max()) > _SAME_MEANING:
        return _SAME
    return None


def is_of_similarity(reason: str | None) -> bool:
    """Return whether a question was dropped for its vector: it was embedded, and has no point."""
    return reason is not None and reason.startswith((_UNLIKE, _SAME))
