"""What an answerer is given and what it gives back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from shared.domain.usage import Usage

Form = Literal["generative", "extractive"]

NOTHING_FOUND = "The documents do not answer this question."


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieved chunk under the number by which an answer cites it."""

    number: int
    text: str
    title: str | None = None
    heading_path: tuple[str, ...] = ()
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations.

    `cited` are the passage numbers that the text cites, in order of appearance; `removed_citations` those that it cited
    though no such passage was given, and that are no longer in the text. `found` is false where the passages do not
    answer the question.
    """

    text: str
    cited: tuple[int, ...] = ()
    removed_citations: tuple[int, ...] = ()
    usage: Usage = Usage()
    form: Form = "generative"
    found: bool = True


class Answerer(Protocol):
    """Answers a question from passages."""

    @property
    def form(self) -> Form: ...

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Answer from these passages alone; without passages nothing is called and nothing is found.

        Raises:
            Transient: worth another attempt later.
            Refused: the provider will not answer this request.
        """
        ...

    def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        """Yield the answer's text in pieces, then the whole `Answer`; the pieces joined are its text."""
        ...


def nothing_found(form: Form = "generative", usage: Usage | None = None) -> Answer:
    """The honest answer where there is nothing to answer from."""
    return Answer(NOTHING_FOUND, form=form, usage=usage or Usage(), found=False)
