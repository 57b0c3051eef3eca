"""Routes for OpenAI's clients: a collection is a model, and the last message is the question."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import uuid4

from fastapi import APIRouter, Request
from starlette.responses import Response

from features.openai.errors import OpenAIRoute, error_message, openai_errors
from features.openai.schemas import (
    Annotation,
    AskedQuestion,
    ChatBody,
    ChatChoice,
    ChatError,
    ChatMessage,
    ChatReply,
    ChatReplyMessage,
    ChatUsage,
    EmbeddingsBody,
    FinishReason,
    ModelList,
    ModelView,
    UrlCitation,
)
from shared.domain.corpus.collections import Collection
from shared.domain.errors import InvalidInput
from shared.domain.spending.usage import Usage
from shared.http.access.auth import Asker, AskingCaller
from shared.http.bodies import CHAT_BODY, validate_as
from shared.http.event_stream import end_with_error, event_stream, message
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import event_content, json_body
from shared.http.problems import InvalidFields
from shared.http.queries.conversation import last_question
from shared.http.queries.passages import citation_of, passages_of
from shared.http.queries.query_log import QueryLogWriter
from shared.http.queries.searching import find_chunks, within_limits
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName
from shared.http.schemas.queries import QueryBody
from shared.http.state import CollectionCacheDep, QueryLogDep, ServicesDep
from shared.ledger.model.collections import Collections
from shared.query.answer import Answer, Answerer
from shared.query.answer.citations import CitationOrder
from shared.query.answer.links import without_links
from shared.query.condense import CondensedQuestion, Turn
from shared.query.retrieve import Retrieval, RetrievedChunk
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1", tags=["openai"], route_class=OpenAIRoute)

OPENAI_ROUTES = FeatureRoutes(
    (router,), {"name": "openai", "description": "Queries for OpenAI's clients: a collection is a model."}
)

_MODELS_AT_ONCE = 200
_RESERVED = {"question", "collection", "stream", "history"}
_STATUSES = (400, 404, 409, 413, 415, 502)


@router.post(
    "/chat/completions",
    response_model=ChatReply,
    responses={
        200: {
            "description": "The answer; with `stream`, server-sent events whose data is a `chat.completion.chunk`,"
            " then `[DONE]`",
            "content": event_content(),
        },
        **openai_errors(*_STATUSES),
    },
)
async def create_chat_completion(
    *,
    request: Request,
    body: Annotated[ChatBody, CHAT_BODY],
    caller: AskingCaller,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
    query_log: QueryLogDep,
) -> Response:
    """Answer the last question of a conversation only from the documents of a collection, with citations.

    The language model first rewrites the question so that it is understood without the conversation.
    """
    started = time.perf_counter()
    await collection_cache.get(caller.tenant, body.model)
    turns, lists_sources = _turns(body.messages), _lists_sources(body, services)
    # Invalid options are rejected before a model is called.
    options = within_limits(_query(body, turns[-1].text), caller, services)
    condensed = await last_question(caller.tenant, turns, services)
    query = options.model_copy(update={"question": condensed.text})
    retrieval = await find_chunks(request, query, caller, services, collection_cache, query_log)
    answerer = services.answerer_for(caller.tenant, retrieval.collection, query.links)
    completion = _Completion(
        body, condensed, retrieval, query_log, str(request.base_url), started, lists_sources=lists_sources
    )
    if body.stream:
        return event_stream(end_with_error(completion.events(answerer), request.scope, error_message))
    return JsonReply(await completion.reply(answerer))


@router.get("/models", response_model=ModelList, responses=openai_errors())
async def list_models(tenant: Asker, services: ServicesDep) -> Response:
    """List the collections by name, each as a model."""
    collections, after = list[Collection](), ""
    while page := await services.ledger[Collections].page(tenant, after=after, limit=_MODELS_AT_ONCE):
        collections += page
        after = page[-1].name
    return JsonReply(ModelList(data=[_model(collection) for collection in collections]))


@router.get("/models/{name}", response_model=ModelView, responses=openai_errors(400, 404))
async def get_model(name: CollectionName, tenant: Asker, services: ServicesDep) -> Response:
    """Return a collection as a model."""
    return JsonReply(_model(await services.ledger[Collections].get(tenant, name)))


@router.post(
    "/embeddings",
    status_code=400,
    response_model=ChatError,
    responses=openai_errors(),
    openapi_extra=json_body(EmbeddingsBody),  # not read
)
async def create_embeddings(tenant: Asker) -> Response:
    """Reject the request, because vectors are computed only for questions and documents."""
    del tenant
    raise InvalidInput(
        "foreask does not serve embeddings: vectors for another index would compete with queries for the limits of the"
        " model. Call the model's own server, or find chunks with POST /v1/retrieve."
    )


@dataclass(frozen=True, slots=True)
class _Completion:
    """The content of a reply, sent at once or in pieces."""

    body: ChatBody
    condensed: CondensedQuestion
    retrieval: Retrieval
    query_log: QueryLogWriter
    server: str
    started: float
    lists_sources: bool

    async def reply(self, answerer: Answerer) -> ChatReply:
        with self.retrieval.trace.timed("answer"):
            answer = await answerer.answer(self.condensed.text, passages_of(self.retrieval.chunks))
        await self._note(answer)
        order = self._order()
        content, annotations = order.feed(answer.text), self._annotations(order, answer)
        content += self._sources(annotations)
        return ChatReply(
            id=_new_id(),
            created=int(time.time()),
            model=self.body.model,
            choices=[
                ChatChoice(
                    message=ChatReplyMessage(content=content, annotations=annotations),
                    finish_reason=_finish_reason(answer),
                )
            ],
            usage=self._usage(answer),
            foreask=self._asked(answer),
        )

    async def events(self, answerer: Answerer) -> AsyncGenerator[bytes, None]:
        """Yield the answer piece by piece, then its sources. Closing this cancels the model's call."""
        order, answer = self._order(), None
        common = {"id": _new_id(), "object": "chat.completion.chunk", "created": int(time.time())}
        common["model"] = self.body.model
        yield _chunk(common, {"role": "assistant", "content": ""})
        with self.retrieval.trace.timed("answer"):
            pieces = answerer.stream(self.condensed.text, passages_of(self.retrieval.chunks))
            async with aclosing(pieces):  # type: ignore[type-var]
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        answer = piece
                    else:
                        yield _chunk(common, {"content": order.feed(piece)})
        assert answer is not None
        await self._note(answer)
        if annotations := self._annotations(order, answer):
            yield _chunk(common, {"annotations": [annotation.model_dump() for annotation in annotations]})
        if sources := self._sources(annotations):
            yield _chunk(common, {"content": sources})
        asked = self._asked(answer).model_dump(mode="json")
        yield _chunk(common | {"foreask": asked}, {}, finish_reason=_finish_reason(answer))
        if self.body.stream_options and self.body.stream_options.include_usage:
            yield message({**common, "choices": [], "usage": self._usage(answer).model_dump()})
        yield b"data: [DONE]\n\n"

    async def _note(self, answer: Answer) -> None:
        milliseconds = round((time.perf_counter() - self.started) * 1000, 2)
        await self.query_log.note(self.retrieval, answer, usage=self._tokens(answer), milliseconds=milliseconds)

    def _order(self) -> CitationOrder:
        return CitationOrder(range(1, len(self.retrieval.chunks) + 1))

    def _annotations(self, order: CitationOrder, answer: Answer) -> list[Annotation]:
        return [
            self._annotation(number_of_citation, self.retrieval.chunks[number - 1], span, answer.sentences_of(number))
            for number_of_citation, (number, span) in enumerate(order.spans.items(), 1)
        ]

    def _annotation(
        self, number_of_citation: int, chunk: RetrievedChunk, span: tuple[int, int], sentences: list[tuple[int, int]]
    ) -> Annotation:
        start, end = span
        title = chunk.content.title or chunk.external_id
        url = UrlCitation(start_index=start, end_index=end, title=title, url=_address(chunk, self.server))
        return Annotation(url_citation=url, foreask=citation_of(number_of_citation, chunk, sentences))

    def _sources(self, annotations: Sequence[Annotation]) -> str:
        """Return a list of the cited sources as Markdown, if requested."""
        if not (self.lists_sources and annotations):
            return ""
        return "\n\nSources:\n\n" + "\n".join(f"- {_source_line(annotation)}" for annotation in annotations)

    def _tokens(self, answer: Answer) -> Usage:
        return self.condensed.usage + self.retrieval.usage + answer.usage

    def _usage(self, answer: Answer) -> ChatUsage:
        usage = self._tokens(answer)
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        return ChatUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)

    def _asked(self, answer: Answer) -> AskedQuestion:
        return AskedQuestion(
            question=self.condensed.text,
            found=answer.found,
            form=answer.form,
            certain=answer.is_certain,
            incomplete_reason=answer.incomplete_reason,
            query_id=self.retrieval.query_id,
            notice=" ".join(each.sentence for each in self.retrieval.notices) or None,
        )


def _turns(messages: Sequence[ChatMessage]) -> list[Turn]:
    """Return the turns of user and assistant; the last turn is the question.

    Raises:
        InvalidInput: the last message is not the user's, or contains parts other than text.
    """
    spoken = [m for m in messages if m.role in {"user", "assistant"} and (m.text.strip() or m.others)]
    if not spoken or spoken[-1].role != "user":
        raise InvalidInput("The last message must be the user's: it is the question.", field="messages")
    if others := spoken[-1].others:
        raise InvalidInput(f"A question is text, and this message has a part '{others[0][:40]}'.", field="messages")
    return [Turn("user" if m.role == "user" else "assistant", m.text) for m in spoken if m.text.strip()]


def _lists_sources(body: ChatBody, services: ApiServices) -> bool:
    listed = body.foreask.get("sources", services.settings.chat_sources)
    if not isinstance(listed, bool):
        raise InvalidInput("sources must be true or false.", field="foreask.sources")
    return listed


def _query(body: ChatBody, question: str) -> QueryBody:
    """Return the options of the query; errors name the fields of this request.

    Raises:
        InvalidFields: an option is unknown to POST /v1/query, or invalid.
    """
    options = {name: value for name, value in body.foreask.items() if name != "sources"}
    if given := _RESERVED & options.keys():
        name = min(given)
        raise InvalidFields([{"field": f"foreask.{name}", "message": "The request sets this field itself."}])
    try:
        return validate_as(QueryBody, options | {"question": question, "collection": body.model})
    except InvalidFields as error:
        raise InvalidFields([{**e, "field": _field(e["field"])} for e in error.errors]) from None


def _field(field: str) -> str:
    return "messages" if field == "question" else f"foreask.{field}"


def _model(collection: Collection) -> ModelView:
    return ModelView(id=collection.name, created=int(collection.created_at.timestamp()))


def _finish_reason(answer: Answer) -> FinishReason:
    """Return the reason in OpenAI's words, which have none for an interrupted stream."""
    if answer.incomplete_reason is None:
        return "stop"
    return "content_filter" if answer.incomplete_reason == "content_filter" else "length"


def _new_id() -> str:
    return f"chatcmpl-{uuid4().hex}"


def _chunk(common: Mapping[str, Any], delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    return message({**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def _address(chunk: RetrievedChunk, server: str) -> str:
    """Return the address of a source for readers.

    Each chunk has its own address, because clients distinguish sources by it.
    """
    given = chunk.metadata.get("url")
    if isinstance(given, str) and urlsplit(given).scheme in {"http", "https"}:
        return given if "#" in given else f"{given}#{chunk.chunk_id}"
    return f"{server}documents/{chunk.document_id}?chunk={chunk.chunk_id}"


def _source_line(annotation: Annotation) -> str:
    source = annotation.foreask
    parts = [annotation.url_citation.title, *source.heading_path]
    page = f", page {source.page}" if source.page is not None else ""
    # Titles come from documents: links are removed, and a title stays on one line.
    return f"[{source.number}] {without_links(' '.join(' > '.join(parts).split()))}{page}"
