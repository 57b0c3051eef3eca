"""Generation of the questions that a chunk answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import orjson

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import Refused
from shared.ingest.generate import description, per_question, question_list
from shared.ingest.generate.prompts import CONTEXT_PROMPT_VERSION, PROMPT_VERSION, WORD_SYSTEM, WORD_TASK
from shared.ingest.generate.types import GeneratedQuestions, GenerationOptions, PromptInUse
from shared.providers.chat import ChatModel, ChatRequest


def content_key(tenant: str, model: str, content: ChunkContent, options: GenerationOptions) -> bytes:
    """Return the key of a chunk's completion: 32 bytes that change whenever a request would.

    The version of the prompt covers differences that requests do not show: the parsing and repair of replies.
    """
    return key_of(tenant, model, content, options, requests(content, options))


def key_of(
    tenant: str, model: str, content: ChunkContent, options: GenerationOptions, calls: Sequence[ChatRequest]
) -> bytes:
    """Return the content key of a chunk with these calls, as returned by `requests`."""
    version = _version(has_context=options.writes_context(content))
    bodies = [call.body(model) for call in calls]
    return hashlib.sha256(orjson.dumps([tenant, version, options.strategy, bodies])).digest()


def prompt_in_use(options: GenerationOptions) -> PromptInUse:
    """Return the prompt of texts with these options."""
    if options.strategy == "per-question":
        instructions = f"{WORD_SYSTEM}\n\n{WORD_TASK}"
        return PromptInUse(per_question.template_of(options), instructions, _version(has_context=False))
    instructions = question_list.instructions_of(options)
    return PromptInUse(question_list.template_of(options), instructions, _version(has_context=options.context))


def _version(*, has_context: bool) -> str:
    return CONTEXT_PROMPT_VERSION if has_context else PROMPT_VERSION


def requests(content: ChunkContent, options: GenerationOptions) -> list[ChatRequest]:
    """Return the calls for a chunk if no reply needs repair."""
    if content.picture is not None:
        return [description.request(content, options)]
    if options.strategy == "per-question":
        return per_question.requests(content, options)
    return [question_list.request(content, options)]


async def generate_questions(
    model: ChatModel, content: ChunkContent, options: GenerationOptions, picture: bytes | None = None
) -> GeneratedQuestions:
    """Generate the questions of one chunk; a malformed reply is repaired by another call, at most twice.

    Args:
        model: the language model.
        content: the chunk.
        options: options of generation.
        picture: the JPEG file of a chunk that is a picture, which is described in the same call.

    Returns:
        The model's questions, not yet filtered.

    Raises:
        Transient: another attempt may succeed later; this attempt stores nothing.
        Refused: the provider rejects this request.
        BadQuestions: the replies stayed malformed; the error has their costs.
    """
    if content.picture is not None:
        if picture is None:
            raise Refused("The picture is not stored any more: add its document again.")
        return await description.describe(model, content, options, picture)
    if options.strategy == "per-question":
        return await per_question.generate_questions(model, content, options)
    return await question_list.generate_questions(model, content, options)
