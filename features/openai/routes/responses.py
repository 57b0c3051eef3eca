"""The Responses API: a collection is the model, and the last message is the question. Nothing is stored."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from http import HTTPStatus
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter
from starlette.responses import Response

from features.openai.conversations import Answering, AskedConversation, CitedAnswer, Source, ask, finish_of
from features.openai.errors import OpenAIRoute, openai_errors
from features.openai.schemas.responses import (
    IncompleteDetails,
    InputTokensDetails,
    ResponseFailure,
    ResponseMessage,
    ResponseReply,
    ResponsesBody,
    ResponseText,
    ResponseUrlCitation,
    ResponseUsage,
)
from shared.domain.spending.usage import Usage
from shared.http.bodies import CHAT_BODY
from shared.http.event_stream import end_with_error, event, event_stream
from shared.http.openapi import event_content
from shared.http.problems import problem_of
from shared.http.queries.searcher import SearcherDep
from shared.http.replies import JsonReply

router = APIRouter(prefix="/v1", tags=["openai"], route_class=OpenAIRoute)

_STATUSES = (400, 404, 409, 413, 415, 502)


@router.post(
    "/responses",
    response_model=ResponseReply,
    responses={
        200: {
            "description": "The answer; with `stream`, server-sent events from `response.created` to"
            " `response.completed`, `response.incomplete` or `response.failed`",
            "content": event_content(),
        },
        **openai_errors(*_STATUSES),
    },
)
async def create_response(body: Annotated[ResponsesBody, CHAT_BODY], searcher: SearcherDep) -> Response:
    """Answer the last question of a conversation only from the documents of a collection, with citations.

    The language model first rewrites the question so that it is understood without the conversation.
    """
    answering = await ask(AskedConversation(body.model, body.messages, "input", body.foreask), searcher)
    reply = _Reply(body)
    if body.stream:
        stream = _Stream(reply)
        return event_stream(end_with_error(stream.events(answering), searcher.request.scope, stream.failure))
    return JsonReply(reply.completed(await answering.answer()))


class _Reply:
    """The states of one reply: its ids are the same in all of them."""

    def __init__(self, body: ResponsesBody) -> None:
        self.message_id = f"msg_{uuid4().hex}"
        self._common = {
            "id": f"resp_{uuid4().hex}",
            "created_at": int(time.time()),
            "model": body.model,
            "metadata": body.metadata or {},
        }

    def started(self) -> ResponseReply:
        return ResponseReply(status="in_progress", **self._common)

    def completed(self, answer: CitedAnswer) -> ResponseReply:
        """Return the reply with an answer, which may be incomplete."""
        finish = finish_of(answer)
        if finish == "stop":
            details, completed_at = None, int(time.time())
        else:
            reason = "content_filter" if finish == "content_filter" else "max_output_tokens"
            details, completed_at = IncompleteDetails(reason=reason), None
        return ResponseReply(
            status="incomplete" if details else "completed",
            incomplete_details=details,
            completed_at=completed_at,
            output=[self.message(answer)],
            usage=_usage(answer.usage),
            foreask=answer.asked,
            **self._common,
        )

    def failed(self, error: Exception) -> ResponseReply:
        problem = problem_of(error)
        is_limit = problem["status"] == HTTPStatus.TOO_MANY_REQUESTS
        code = "rate_limit_exceeded" if is_limit else "server_error"
        failure = ResponseFailure(code=code, message=problem["detail"])
        return ResponseReply(status="failed", error=failure, **self._common)

    def message(self, answer: CitedAnswer | None) -> ResponseMessage:
        """Return the message with an answer; None: the empty message, which waits for it."""
        if answer is None:
            return ResponseMessage(id=self.message_id, status="in_progress", content=[])
        status = "completed" if answer.incomplete_reason is None else "incomplete"
        return ResponseMessage(id=self.message_id, status=status, content=[_text(answer)])


class _Stream:
    """The events of one reply, numbered from 0."""

    def __init__(self, reply: _Reply) -> None:
        self._reply = reply
        self._number = 0

    async def events(self, answering: Answering) -> AsyncGenerator[bytes, None]:
        """Yield the events of an answer. Closing this cancels the model's call."""
        item = {"output_index": 0}
        part = {"item_id": self._reply.message_id, "output_index": 0, "content_index": 0}
        started = _json(self._reply.started())
        yield self._event("response.created", response=started)
        yield self._event("response.in_progress", response=started)
        yield self._event("response.output_item.added", **item, item=_json(self._reply.message(None)))
        yield self._event("response.content_part.added", **part, part=_json(ResponseText()))
        async with aclosing(answering.stream()) as pieces:
            async for piece in pieces:
                if isinstance(piece, CitedAnswer):
                    answer = piece
                else:
                    yield self._delta(part, piece)
        if answer.listed:
            yield self._delta(part, answer.listed)
        completed, text = self._reply.completed(answer), _json(_text(answer))
        for index, annotation in enumerate(text["annotations"]):
            added = {"annotation_index": index, "annotation": annotation}
            yield self._event("response.output_text.annotation.added", **part, **added)
        yield self._event("response.output_text.done", **part, text=text["text"], logprobs=[])
        yield self._event("response.content_part.done", **part, part=text)
        yield self._event("response.output_item.done", **item, item=_json(completed.output[0]))
        yield self._event(f"response.{completed.status}", response=_json(completed))

    def failure(self, error: Exception, _: str) -> bytes:
        """Encode the last event of a failed stream."""
        return self._event("response.failed", response=_json(self._reply.failed(error)))

    def _delta(self, part: dict[str, Any], piece: str) -> bytes:
        return self._event("response.output_text.delta", **part, delta=piece, logprobs=[])

    def _event(self, kind: str, **data: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return event(kind, {"type": kind, "sequence_number": number, **data})


def _text(answer: CitedAnswer) -> ResponseText:
    return ResponseText(text=answer.text + answer.listed, annotations=[_annotation(each) for each in answer.sources])


def _annotation(source: Source) -> ResponseUrlCitation:
    return ResponseUrlCitation(
        start_index=source.start, end_index=source.end, title=source.title, url=source.url, foreask=source.citation
    )


def _usage(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputTokensDetails(
            cached_tokens=usage.cached_tokens, cache_write_tokens=usage.cache_write_tokens
        ),
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )


def _json(
    reply: ResponseReply | ResponseMessage | ResponseText,
) -> dict[str, Any]:
    return reply.model_dump(mode="json")
