"""Have a model write the questions that a chunk answers."""

from __future__ import annotations

import hashlib

import orjson

from shared.ingest.generate import per_question, question_list
from shared.ingest.generate.prompts import PROMPT_VERSION
from shared.ingest.generate.types import ChunkInput, GeneratedQuestions, GenerationOptions, Strategy
from shared.providers.chat import ChatModel, ChatRequest
from shared.settings import EMBEDDED_LLM

_SMALL_MODELS = (EMBEDDED_LLM, "smollm2-360m")


def strategy_for(model_name: str) -> Strategy:
    """How a model is best asked: very small ones word by word, all others for a list in one call."""
    return "per-question" if model_name.lower().startswith(_SMALL_MODELS) else "list"


def content_key(tenant: str, model: str, subject: ChunkInput, options: GenerationOptions) -> bytes:
    """The key under which a chunk's questions are kept: 32 bytes that change whenever what would be sent does.

    It covers all that requests are made of; `PROMPT_VERSION` stands for what is fixed in them: prompts, schemas,
    parameters, repairs.
    """
    call = [tenant, model, PROMPT_VERSION, options.strategy, options.questions_per_chunk, options.template]
    return hashlib.sha256(orjson.dumps([call, subject.title, subject.heading_path, subject.text])).digest()


def requests(subject: ChunkInput, options: GenerationOptions) -> list[ChatRequest]:
    """The calls that a chunk takes where no reply needs repair."""
    if options.strategy == "per-question":
        return per_question.requests(subject, options)
    return [question_list.request(subject, options)]


async def generate_questions(model: ChatModel, subject: ChunkInput, options: GenerationOptions) -> GeneratedQuestions:
    """Have the questions of one chunk written; malformed replies are asked for again, at most twice.

    What comes back is what the model wrote, not yet filtered.

    Raises:
        Transient: worth another attempt later; nothing of this attempt is kept.
        Refused: the provider will not answer this request.
        BadQuestions: the replies stayed malformed; it says what they cost.
    """
    if options.strategy == "per-question":
        return await per_question.generate_questions(model, subject, options)
    return await question_list.generate_questions(model, subject, options)
