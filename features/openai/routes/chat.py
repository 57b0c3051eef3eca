"""Chat completions: a collection is the model, and the last message is the question."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter
from starlette.responses import Response

from features.openai.conversations import Answering, AskedConversation, CitedAnswer, Source, ask, finish_of
from features.openai.errors import OpenAIRoute, error_message, openai_errors
from features.openai.schemas.chat import (
    Annotation,
    ChatBody,
    ChatChoice,
    ChatReply,
    ChatReplyMessage,
    ChatUsage,
    UrlCitation,
)
from shared.domain.spending.usage import Usage
from shared.http.bodies import CHAT_BODY
from shared.http.event_stream import end_with_error, event_stream, message
from shared.http.openapi import event_content
from shared.http.queries.searcher import SearcherDep
from shared.http.replies import JsonReply

router = APIRouter(prefix="/v1", tags=["openai"], route_class=OpenAIRoute)

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
async def create_chat_completion(body: Annotated[ChatBody, CHAT_BODY], searcher: SearcherDep) -> Response:
    """Answer the last question of a conversation only from the documents of a collection, with citations.

    The language model first rewrites the question so that it is understood without the conversation.
    """
    answering = await ask(AskedConversation(body.model, body.messages, "messages", body.foreask), searcher)
    if body.stream:
        return event_stream(end_with_error(_events(body, answering), searcher.request.scope, error_message))
    return JsonReply(_reply(body, await answering.answer()))


def _reply(body: ChatBody, answer: CitedAnswer) -> ChatReply:
    content = answer.text + answer.listed
    reply = ChatReplyMessage(content=content, annotations=[_annotation(source) for source in answer.sources])
    return ChatReply(
        id=_new_id(),
        created=int(time.time()),
        model=body.model,
        choices=[ChatChoice(message=reply, finish_reason=finish_of(answer))],
        usage=_usage(answer.usage),
        foreask=answer.asked,
    )


async def _events(body: ChatBody, answering: Answering) -> AsyncGenerator[bytes, None]:
    """Yield the answer piece by piece, then its sources. Closing this cancels the model's call."""
    common = {"id": _new_id(), "object": "chat.completion.chunk", "created": int(time.time()), "model": body.model}
    yield _chunk(common, {"role": "assistant", "content": ""})
    async with aclosing(answering.stream()) as pieces:
        async for piece in pieces:
            if isinstance(piece, CitedAnswer):
                answer = piece
            else:
                yield _chunk(common, {"content": piece})
    if annotations := [_annotation(source).model_dump() for source in answer.sources]:
        yield _chunk(common, {"annotations": annotations})
    if answer.listed:
        yield _chunk(common, {"content": answer.listed})
    asked = answer.asked.model_dump(mode="json")
    yield _chunk(common | {"foreask": asked}, {}, finish_reason=finish_of(answer))
    if body.stream_options and body.stream_options.include_usage:
        yield message({**common, "choices": [], "usage": _usage(answer.usage).model_dump()})
    yield b"data: [DONE]\n\n"


def _annotation(source: Source) -> Annotation:
    url = UrlCitation(start_index=source.start, end_index=source.end, title=source.title, url=source.url)
    return Annotation(url_citation=url, foreask=source.citation)


def _usage(usage: Usage) -> ChatUsage:
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    return ChatUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


def _new_id() -> str:
    return f"chatcmpl-{uuid4().hex}"


def _chunk(common: Mapping[str, Any], delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    return message({**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
