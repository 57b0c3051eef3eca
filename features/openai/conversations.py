"""Conversations of OpenAI's clients: the last message is searched, and answered with numbered citations.

Every format of these clients takes its answers from here; a format only encodes them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from features.openai.schemas.common import AskedQuestion
from shared.domain.errors import InvalidInput
from shared.domain.spending.usage import Usage
from shared.http.bodies import validate_as
from shared.http.problems import InvalidFields
from shared.http.queries.conversation import last_question
from shared.http.queries.passages import address_of, citation_of, passages_of
from shared.http.queries.searcher import Searcher
from shared.http.schemas.queries import Citation, QueryBody
from shared.query.answer import Answer, Answerer, IncompleteReason
from shared.query.answer.citations import CitationOrder
from shared.query.answer.links import without_links
from shared.query.condense import CondensedQuestion, Turn
from shared.query.retrieve import Retrieval

_RESERVED = {"question", "collection", "stream", "history"}


class Spoken(Protocol):
    """A message of a conversation.

    Args:
        role: the speaker; only messages of `user` and `assistant` count.
        text: its text.
        others: types of its parts that are not text.
    """

    @property
    def role(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def others(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class AskedConversation:
    """A conversation whose last message is the question.

    Args:
        collection: name of the collection to search.
        messages: the messages, oldest first.
        field: name of the request's field with the messages, for errors.
        options: options of the query by the names of `POST /v1/query`, and `sources`.
    """

    collection: str
    messages: Sequence[Spoken]
    field: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A cited source. The nth source of an answer is cited as [n].

    Args:
        start: offset in the text of the first citation's opening bracket, in characters.
        end: offset after its closing bracket.
    """

    start: int
    end: int
    title: str
    url: str
    citation: Citation


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """A complete answer.

    Args:
        text: the text with numbered citations.
        sources: the sources, in the order of their first citations.
        listed: a list of the sources as Markdown, which follows the text; empty unless it was requested.
        usage: tokens of all calls: condensing, rewriting and answering.
    """

    text: str
    sources: Sequence[Source]
    listed: str
    usage: Usage
    asked: AskedQuestion

    @property
    def incomplete_reason(self) -> IncompleteReason | None:
        return self.asked.incomplete_reason


@dataclass(frozen=True, slots=True)
class Answering:
    """A question whose chunks were found, and that waits for its answer."""

    searcher: Searcher
    condensed: CondensedQuestion
    retrieval: Retrieval
    answerer: Answerer
    started: float
    lists_sources: bool

    async def answer(self) -> CitedAnswer:
        with self.retrieval.trace.timed("answer"):
            answer = await self.answerer.answer(self.condensed.text, passages_of(self.retrieval.chunks))
        order = self._order()
        return await self._completed(answer, order.feed(answer.text), order)

    async def stream(self) -> AsyncGenerator[str | CitedAnswer, None]:
        """Yield the text piece by piece, then the answer. Closing this cancels the model's call."""
        order, text, answer = self._order(), "", None
        with self.retrieval.trace.timed("answer"):
            pieces = self.answerer.stream(self.condensed.text, passages_of(self.retrieval.chunks))
            async with aclosing(pieces):  # type: ignore[type-var]
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        answer = piece
                    elif shown := order.feed(piece):
                        text += shown
                        yield shown
        assert answer is not None
        yield await self._completed(answer, text, order)

    async def _completed(self, answer: Answer, text: str, order: CitationOrder) -> CitedAnswer:
        """Record an answer, and return it with its sources."""
        usage = self.condensed.usage + self.retrieval.usage + answer.usage
        milliseconds = round((time.perf_counter() - self.started) * 1000, 2)
        await self.searcher.query_log.note(self.retrieval, answer, usage=usage, milliseconds=milliseconds)
        sources = list(self._sources(order, answer))
        listed = _listed(sources) if self.lists_sources else ""
        return CitedAnswer(text, sources, listed, usage, self._asked(answer))

    def _order(self) -> CitationOrder:
        return CitationOrder(range(1, len(self.retrieval.chunks) + 1))

    def _sources(self, order: CitationOrder, answer: Answer) -> Iterator[Source]:
        server = str(self.searcher.request.base_url)
        for number_of_citation, (number, (start, end)) in enumerate(order.spans.items(), 1):
            chunk = self.retrieval.chunks[number - 1]
            citation = citation_of(number_of_citation, chunk, answer.sentences_of(number))
            yield Source(start, end, chunk.content.title or chunk.external_id, address_of(chunk, server), citation)

    def _asked(self, answer: Answer) -> AskedQuestion:
        return AskedQuestion(
            question=self.condensed.text,
            found=answer.found,
            form=answer.form,
            certain=answer.is_certain,
            incomplete_reason=answer.incomplete_reason,
            query_id=self.retrieval.query_id,
            notice=self.retrieval.notice,
        )


async def ask(conversation: AskedConversation, searcher: Searcher) -> Answering:
    """Find the chunks for the last question of a conversation.

    The language model first rewrites the question so that it is understood without the conversation.

    Raises:
        NoCollection: the collection does not exist.
        InvalidInput: the last message is not a question, or an option is invalid; `field` is a field of the request.
    """
    started, services = time.perf_counter(), searcher.services
    await searcher.require_collection(conversation.collection)
    turns, lists_sources = _turns(conversation), _lists_sources(conversation, default=services.settings.chat_sources)
    # Invalid options are rejected before a model is called.
    options = searcher.within_limits(_query(conversation, turns[-1].text))
    condensed = await last_question(searcher.caller.tenant, turns, services)
    query = options.model_copy(update={"question": condensed.text})
    retrieval = await searcher.find(query)
    answerer = services.answerer_for(searcher.caller.tenant, retrieval.collection, query.links)
    return Answering(searcher, condensed, retrieval, answerer, started, lists_sources)


def finish_of(answer: CitedAnswer) -> Literal["stop", "length", "content_filter"]:
    """Return the end of an answer in OpenAI's words, which have none for an interrupted stream."""
    if answer.incomplete_reason is None:
        return "stop"
    return "content_filter" if answer.incomplete_reason == "content_filter" else "length"


def _turns(conversation: AskedConversation) -> list[Turn]:
    """Return the turns of user and assistant; the last turn is the question.

    Raises:
        InvalidInput: the last message is not the user's, or contains parts other than text.
    """
    spoken = [m for m in conversation.messages if m.role in {"user", "assistant"} and (m.text.strip() or m.others)]
    if not spoken or spoken[-1].role != "user":
        raise InvalidInput("The last message must be the user's: it is the question.", field=conversation.field)
    if others := spoken[-1].others:
        raise InvalidInput(
            f"A question is text, and this message has a part '{others[0][:40]}'.", field=conversation.field
        )
    return [Turn("user" if m.role == "user" else "assistant", m.text) for m in spoken if m.text.strip()]


def _lists_sources(conversation: AskedConversation, *, default: bool) -> bool:
    listed = conversation.options.get("sources", default)
    if not isinstance(listed, bool):
        raise InvalidInput("sources must be true or false.", field="foreask.sources")
    return listed


def _query(conversation: AskedConversation, question: str) -> QueryBody:
    """Return the options of the query; errors name the fields of the request.

    Raises:
        InvalidFields: an option is unknown to POST /v1/query, or invalid.
    """
    options = {name: value for name, value in conversation.options.items() if name != "sources"}
    if given := _RESERVED & options.keys():
        name = min(given)
        raise InvalidFields([{"field": f"foreask.{name}", "message": "The request sets this field itself."}])
    try:
        return validate_as(QueryBody, options | {"question": question, "collection": conversation.collection})
    except InvalidFields as error:
        raise InvalidFields([{**e, "field": _field(e["field"], conversation)} for e in error.errors]) from None


def _field(field: str, conversation: AskedConversation) -> str:
    return conversation.field if field == "question" else f"foreask.{field}"


def _listed(sources: Sequence[Source]) -> str:
    """Return a list of sources as Markdown; empty without sources."""
    if not sources:
        return ""
    return "\n\nSources:\n\n" + "\n".join(f"- {_line(source)}" for source in sources)


def _line(source: Source) -> str:
    cited = source.citation
    page = f", page {cited.page}" if cited.page is not None else ""
    # Titles come from documents: links are removed, and a title stays on one line.
    return f"[{cited.number}] {without_links(' '.join(' > '.join([source.title, *cited.heading_path]).split()))}{page}"
