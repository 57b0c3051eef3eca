"""Answers written by a model from numbered passages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from shared.answering.answer import Answer, Form, Passage
from shared.llm import ChatModel


class GenerativeAnswerer:
    """An `Answerer` that has a chat model write the answer."""

    form: Form = "generative"

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        raise NotImplementedError

    def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        raise NotImplementedError
