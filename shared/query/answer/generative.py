"""Answers written by a model from numbered passages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import cast, get_args

from shared.domain.errors import BadReply
from shared.providers.chat import ChatModel, Completion
from shared.query.answer import prompts
from shared.query.answer.answer import NOTHING_FOUND, Answer, Form, IncompleteReason, Passage, nothing_found
from shared.query.answer.certainty import is_supported, strengths_of
from shared.query.answer.citations import CitationCleaner
from shared.query.answer.links import LinkCleaner
from shared.query.answer.support import supporting

_AT_ONCE_CHARS = 10_000  # cleaned in about a millisecond; answers have at most 2,000 tokens


class GenerativeAnswerer:
    """An `Answerer` that uses a chat model.

    Args:
        model: the chat model.
        links: whether links and images in it stay as the model wrote them.
        unrelated: cosine of unrelated texts with the embedding model that found the passages.
    """

    def __init__(self, model: ChatModel, *, links: bool = False, unrelated: float = 0.0) -> None:
        self._model = model
        self._links = links
        self._unrelated = unrelated

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
        return await self._answer(completion, question, passages)

    async def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        """Yield the answer's text in pieces as the model writes it, then the complete `Answer`.

        The text of the `Answer` is the joined pieces, unless the completion corrects them.
        """
        if not passages:
            yield NOTHING_FOUND
            yield nothing_found(self.form)
            return
        cleaner, links = _cleaner(passages), self._link_cleaner()
        async for event in self._model.stream(prompts.request(question, passages)):
            if isinstance(event, Completion):
                completion = event
            elif piece := await _cleaned(event, cleaner, links):
                yield piece
        if piece := links.feed(cleaner.end()) + links.end():
            yield piece
        yield await self._answer(completion, question, passages)

    async def _answer(self, completion: Completion, question: str, passages: Sequence[Passage]) -> Answer:
        cleaner, links = _cleaner(passages), self._link_cleaner()
        text = await _cleaned(completion.text, cleaner, links) + links.feed(cleaner.end()) + links.end()
        if not text:
            raise BadReply(_no_answer(completion))
        cited, removed = tuple(cleaner.cited), tuple(cleaner.removed)
        found = bool(cited) or not text.startswith(NOTHING_FOUND.rstrip("."))
        reason = completion.finish_reason
        incomplete = cast("IncompleteReason", reason) if reason in get_args(IncompleteReason) else None
        # Up to 50 ms, in which other requests are answered.
        support = await asyncio.to_thread(supporting, text, passages)
        strengths = await asyncio.to_thread(strengths_of, question, passages, self._unrelated)
        # An answer without a citation is at best the model's own knowledge, and often a refusal in some language.
        is_certain = incomplete is None and (not found or is_supported(cited, strengths))
        return Answer(
            text,
            cited,
            removed,
            completion.usage,
            "generative",
            found,
            is_certain,
            support=support,
            incomplete_reason=incomplete,
        )

    def _link_cleaner(self) -> LinkCleaner | _Unchanged:
        return _Unchanged() if self._links else LinkCleaner()


async def _cleaned(piece: str, citations: CitationCleaner, links: LinkCleaner | _Unchanged) -> str:
    """Clean a piece of an answer; a long one, of a model that ignores its limit, in a thread."""
    if len(piece) <= _AT_ONCE_CHARS:
        return links.feed(citations.feed(piece))
    return await asyncio.to_thread(lambda: links.feed(citations.feed(piece)))


class _Unchanged:
    """Keeps links unchanged."""

    def feed(self, piece: str) -> str:
        return piece

    def end(self) -> str:
        return ""


def _cleaner(passages: Sequence[Passage]) -> CitationCleaner:
    return CitationCleaner([passage.number for passage in passages])


def _no_answer(completion: Completion) -> str:
    if completion.has_thought or completion.finish_reason == "length":
        return (
            "the model has only thought, and wrote no answer: turn its thinking off or shorten it in its server, or set"
            " FOREASK_LLM_MODEL to a model that thinks less"
        )
    return "the model wrote no answer"
