"""Pictures in documents: one call describes a picture and writes the questions that it answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import Refused
from shared.domain.spending.usage import Usage
from shared.ingest.generate.prompts import PICTURE_SYSTEM, PICTURE_TEMPLATE, render
from shared.ingest.generate.repairs import TruncatedReply, failure, may_be_repaired, require_answer
from shared.ingest.generate.replies import questions_in, storable
from shared.ingest.generate.types import GeneratedQuestions, GenerationOptions
from shared.providers.chat import ChatModel, ChatRequest, Completion, Message, Picture
from shared.providers.replies.json_replies import MalformedReply, json_in

LABEL = "Picture: "
"""The start of a description, so that readers and models know that it is not the author's text."""

_QUESTIONS = 5
_MAX_CHARS = 1_900  # fits into a chunk of the default length
_MAX_TOKENS = 3_000  # with room for models that think before they answer
_REMINDER = "\n\nNothing but that JSON object: no introduction, no code fence, no other fields."
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "description": {"type": "string"},
        "questions": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["description", "questions"],
    "additionalProperties": False,
}


def request(content: ChunkContent, options: GenerationOptions, picture: bytes | None = None) -> ChatRequest:
    """Return the call for a picture; without its file it can be compared, but not sent."""
    assert content.picture is not None
    language = content.language or "the language of the words in it, or else English"
    prompt = render(PICTURE_TEMPLATE, content, count=_count(options), text=language)
    return ChatRequest(
        messages=(Message("system", PICTURE_SYSTEM), Message("user", prompt)),
        schema=_SCHEMA,
        max_tokens=_MAX_TOKENS,
        picture=Picture(content.picture, picture),
    )


def _count(options: GenerationOptions) -> int:
    return _QUESTIONS if options.questions_per_chunk == "auto" else options.questions_per_chunk


async def describe(
    model: ChatModel, content: ChunkContent, options: GenerationOptions, picture: bytes
) -> GeneratedQuestions:
    """Describe a picture; a malformed reply is repaired by another call, at most twice.

    Raises:
        Transient: another attempt may succeed later.
        Refused: the provider rejects the picture; the message says what to do if the model reads none.
        BadQuestions: the replies stayed malformed; the error has their costs.
    """
    usage, faults = Usage(), list[MalformedReply]()
    call = request(content, options, picture)
    while not faults or may_be_repaired(faults):
        completion = await _complete(model, call)
        usage += completion.usage
        try:
            text, questions = _parts_of(completion, _count(options))
        except MalformedReply as fault:
            faults.append(fault)
            call = _repaired(fault, call)
        else:
            return GeneratedQuestions(questions, usage, len(faults) + 1, text, tuple(map(str, faults)))
    raise failure(faults, usage, subject="description of the picture")


def _repaired(fault: MalformedReply, call: ChatRequest) -> ChatRequest:
    """Return the next call: more tokens after truncation, or else an explicit shape."""
    if isinstance(fault, TruncatedReply):
        assert call.max_tokens is not None
        return replace(call, max_tokens=call.max_tokens * 2)
    return replace(call, messages=(Message("system", PICTURE_SYSTEM + _REMINDER), *call.messages[1:]))


async def _complete(model: ChatModel, call: ChatRequest) -> Completion:
    try:
        return await model.complete(call)
    except Refused as refusal:
        raise Refused(
            f"The picture was not described: {refusal.message}. If the model {model.name} cannot read pictures, set"
            " FOREASK_LLM_MODEL to a model that can, or FOREASK_CAPTIONS=off.",
            usage=refusal.usage,
            tier=refusal.tier,
        ) from refusal


def _parts_of(completion: Completion, count: int) -> tuple[str, tuple[str, ...]]:
    """Return the labelled description and the questions of a reply.

    Raises:
        MalformedReply: it has no description or no questions, or stopped at the token limit.
    """
    require_answer(completion)
    described = [value for value in json_in(completion.text) if isinstance(value, dict) and "description" in value]
    text = described[0]["description"] if described else None
    if not isinstance(text, str) or not storable(text).strip():
        raise MalformedReply("no description in the reply")
    label = LABEL + storable(text).strip()[:_MAX_CHARS]
    return label, tuple(questions_in(completion.text)[: 2 * count])
