"""Answers written by a model from numbered passages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from shared.domain.errors import BadReply
from shared.domain.usage import Usage
from shared.providers.chat import ChatModel
from shared.query.answer import prompts
from shared.query.answer.answer import NOTHING_FOUND, Answer, Form, Passage, nothing_found
from shared.query.answer.citations import CitationCleaner
from shared.query.answer.links import LinkCleaner
from shared.query.answer.support import supporting


class GenerativeAnswerer:
    """An `Answerer` that uses a chat model.

    Args:
        model: the chat model.
        links: whether links and images in it stay as the model wrote them.
    """

    def __init__(self, model: ChatModel, *, links: bool = False) -> None:
        self._model = model
        self._links = links

    @property
    def form(self) -> Form:
        return "generative"

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Answer only from these passages; without passages no model is called and nothing is found.

        Raises:
            Transient: the provider is not available now.
            Refused: the provider refuses this request.
            BadReply: the model wrote nothing.
        """
        if not passages:
            return nothing_found(self.form)
        completion = await self._model.complete(prompts.request(question, passages))
        cleaner, links = _cleaner(passages), self._link_cleaner()
        text = links.feed(cleaner.feed(completion.text) + cleaner.end()) + links.end()
        return await _answer(text, passages, cleaner, completion.usage)

    async def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        """Yield the answer's text in pieces as the model writes it, then the complete `Answer`."""
        if not passages:
            yield NOTHING_FOUND
            yield nothing_found(self.form)
            return
        cleaner, links, usage, pieces = _cleaner(passages), self._link_cleaner(), Usage(), []
        async for event in self._model.stream(prompts.request(question, passages)):
            if isinstance(event, Usage):
                usage += event
            elif piece := links.feed(cleaner.feed(event)):
                pieces.append(piece)
                yield piece
        if piece := links.feed(cleaner.end()) + links.end():
            pieces.append(piece)
            yield piece
        yield await _answer("".join(pieces), passages, cleaner, usage)

    def _link_cleaner(self) -> LinkCleaner | _Unchanged:
        return _Unchanged() if self._links else LinkCleaner()


class _Unchanged:
    """Keeps links unchanged."""

    def feed(self, piece: str) -> str:
        return piece

    def end(self) -> str:
        return ""


def _cleaner(passages: Sequence[Passage]) -> CitationCleaner:
    return CitationCleaner([passage.number for passage in passages])


async def _answer(text: str, passages: Sequence[Passage], cleaner: CitationCleaner, usage: Usage) -> Answer:
    if not text:
        raise BadReply("the model wrote no answer")
    found = bool(cleaner.cited) or not text.startswith(NOTHING_FOUND.rstrip("."))
    removed = tuple(cleaner.removed)
    support = await asyncio.to_thread(supporting, text, passages)  # up to 50 ms, in which other requests are answered
    return Answer(text, tuple(cleaner.cited), removed, usage, "generative", found, support=support)
