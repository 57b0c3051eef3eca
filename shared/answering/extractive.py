"""Answers quoted from the passages: the sentences nearest to the question."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from shared.answering.answer import Answer, Form, Passage
from shared.embedding import Embedder


class ExtractiveAnswerer:
    """An `Answerer` that writes nothing of its own: it quotes."""

    form: Form = "extractive"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        raise NotImplementedError

    def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        raise NotImplementedError
