"""The `list` strategy: one call per chunk, whose reply is a JSON list of questions, perhaps with a context."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.spending.usage import Usage
from shared.ingest.generate.prompts import CONTEXT_SYSTEM, LIST_SYSTEM, LIST_TEMPLATE, delimited, fixed_start, render
from shared.ingest.generate.quality import is_question, normalise
from shared.ingest.generate.repairs import TruncatedReply, failure, may_be_repaired, require_answer
from shared.ingest.generate.replies import context_in, questions_in
from shared.ingest.generate.types import GeneratedQuestions, GenerationOptions
from shared.providers.chat import ChatModel, ChatRequest, Completion, Message
from shared.providers.replies.json_replies import MalformedReply

# The common subset of providers' strict schemas: an object root, everything required, no lengths.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": {"type": "string"}}},
    "required": ["questions"],
    "additionalProperties": False,
}
CONTEXT_SCHEMA: dict[str, Any] = SCHEMA | {
    "properties": SCHEMA["properties"]
    | {"context": {"type": "string"}, "terms": {"type": "array", "items": {"type": "string"}}},
    "required": ["questions", "context", "terms"],
}

# Room for models that think before they answer: an unused allowance costs nothing.
_TOKENS_A_QUESTION = 100
_TOKENS_OF_CONTEXT = 300
_TOKENS_BESIDE = 1_500
_REMINDER = "\n\nNothing but that JSON object: no introduction, no code fence, no other fields."


def request(content: ChunkContent, options: GenerationOptions) -> ChatRequest:
    count = options.count_for(content)
    template = template_of(options)
    prompt = render(template, content, count=count, text=delimited(content.text), fenced=True)
    return ChatRequest(
        messages=(Message("system", instructions_of(options)), Message("user", prompt)),
        schema=CONTEXT_SCHEMA if options.context else SCHEMA,
        max_tokens=_TOKENS_BESIDE + _TOKENS_A_QUESTION * count + _TOKENS_OF_CONTEXT * options.context,
        fixed_chars=len(fixed_start(template)),
    )


def template_of(options: GenerationOptions) -> str:
    return options.template or LIST_TEMPLATE


def instructions_of(options: GenerationOptions) -> str:
    return CONTEXT_SYSTEM if options.context else LIST_SYSTEM


async def generate_questions(model: ChatModel, content: ChunkContent, options: GenerationOptions) -> GeneratedQuestions:
    usage, faults = Usage(), list[MalformedReply]()
    call = request(content, options)
    while not faults or may_be_repaired(faults):
        completion = await model.complete(call)
        usage += completion.usage
        try:
            questions = questions_of(completion, options.count_for(content))
        except MalformedReply as fault:
            faults.append(fault)
            options, call = _repaired(fault, call, content, options)
        else:
            context = context_in(completion.text) if options.context else None
            return GeneratedQuestions(
                questions, usage, len(faults) + 1, faults=tuple(map(str, faults)), context=context
            )
    raise failure(faults, usage)


def questions_of(completion: Completion, count: int) -> tuple[str, ...]:
    """Return the questions of a reply to `request` with this number of questions.

    Raises:
        MalformedReply: the reply has no questions, or stopped at the token limit.
    """
    require_answer(completion)
    questions = questions_in(completion.text)
    if not any(is_question(normalise(question)) for question in questions):
        raise MalformedReply("no question in the reply")
    return tuple(questions[: 2 * count])


def _repaired(
    fault: MalformedReply, call: ChatRequest, content: ChunkContent, options: GenerationOptions
) -> tuple[GenerationOptions, ChatRequest]:
    """Return the next call: fewer questions and more tokens after truncation, or else an explicit shape.

    An identical request would often return an identical reply, because servers cache replies or sample greedily.
    """
    if not isinstance(fault, TruncatedReply):
        instructions = Message("system", instructions_of(options) + _REMINDER)
        return options, replace(call, messages=(instructions, *call.messages[1:]))
    fewer = replace(options, questions_per_chunk=max(1, options.count_for(content) // 2))
    assert call.max_tokens is not None
    return fewer, replace(request(content, fewer), max_tokens=call.max_tokens * 2)
