"""Passages, answers, and the interface of an answerer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from shared.domain.spending.usage import Usage
from shared.query.retrieve.chunks import Cosines, RetrievedChunk

Form = Literal["generative", "extractive"]
IncompleteReason = Literal["length", "content_filter", "interrupted"]
"""Why an answer is incomplete: the token limit, the provider's filter, or a stream that ended without a sign."""

NOTHING_FOUND = "The documents do not answer this question."


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved chunk under the number by which an answer cites it.

    Args:
        question: the stored question that matched the user's question.
        cosines: similarity to the user's question, if it was searched by similarity.
    """

    number: int
    text: str
    title: str | None = None
    heading_path: tuple[str, ...] = ()
    score: float = 0.0
    language: str | None = None
    question: str | None = None
    cosines: Cosines = Cosines()

    @classmethod
    def of(cls, number: int, chunk: RetrievedChunk) -> Self:
        content = chunk.content
        return cls(
            number,
            chunk.text,
            content.title,
            content.heading_path,
            chunk.score,
            content.language,
            chunk.matched_question,
            chunk.cosines,
        )


@dataclass(frozen=True, slots=True)
class Support:
    """A sentence of a passage that supports an answer: `text[start:end]` of the passage with this number."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations.

    Args:
        cited: the numbers of the passages that the text cites, in order of appearance.
        removed_citations: numbers of no passage, which were removed from the text.
        found: whether the passages answer the question.
        is_certain: whether the answer is complete and cites a passage that surely is about the question; see
            `shared.query.answer.certainty`.
        support: sentences of the cited passages that support the text, in order of their passages.
        incomplete_reason: why the text is incomplete; None if it is complete.
    """

    text: str
    cited: tuple[int, ...] = ()
    removed_citations: tuple[int, ...] = ()
    usage: Usage = Usage()
    form: Form = "generative"
    found: bool = True
    is_certain: bool = True
    support: tuple[Support, ...] = ()
    incomplete_reason: IncompleteReason | None = None

    def sentences_of(self, number: int) -> list[tuple[int, int]]:
        """Return the spans of the supporting sentences in the passage with this number."""
        return [(each.start, each.end) for each in self.support if each.number == number]


class Answerer(Protocol):
    """Answers a question from passages."""

    @property
    def form(self) -> Form: ...

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Answer only from these passages; without passages no model is called and nothing is found.

        Raises:
            Transient: the provider is not available now.
            Refused: the provider refuses this request.
        """
        ...

    def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        """Yield the answer's text in pieces, then the complete `Answer`, whose text is the joined pieces."""
        ...


def nothing_found(form: Form = "generative", usage: Usage | None = None) -> Answer:
    """Return the answer for passages that do not answer the question."""
    return Answer(NOTHING_FOUND, form=form, usage=usage or Usage(), found=False)
