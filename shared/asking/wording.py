"""The `word-by-word` strategy, for models too small to write a list: one short call for each question word.

The calls share their beginning (instructions, title, text), which llama.cpp keeps in its prompt cache, and a schema
holds each reply to a question that begins with the word. Measured with SmolLM2-135M: 71 % of the questions find their
own chunk first, against 54 % when it is asked for a list.
"""

from __future__ import annotations

from typing import Any

from shared.asking.prompts import WORD_SYSTEM, WORD_TEMPLATE, render
from shared.asking.replies import Malformed, questions_in
from shared.asking.subject import Asked, AskingOptions, BadQuestions, Subject
from shared.llm import ChatModel, ChatRequest, Message, Usage

WORDS = ("What", "Who", "When", "Where", "How", "Which")
MAX_REPAIRS = 2

_MAX_TOKENS = 64
_TEMPERATURE = 0.3


def requests(subject: Subject, options: AskingOptions) -> list[ChatRequest]:
    """One call a word, in an order that the text cannot change."""
    prompt = render(options.template or WORD_TEMPLATE, subject, count=1, text=subject.text)
    return [_request(prompt, word) for word in words_for(options)]


def words_for(options: AskingOptions) -> list[str]:
    count = len(WORDS) if options.questions_per_chunk == "auto" else options.questions_per_chunk
    return [WORDS[i % len(WORDS)] for i in range(count)]


def _request(prompt: str, word: str) -> ChatRequest:
    task = f"Write one short question about this text that begins with {word}."
    return ChatRequest(
        messages=(Message("system", WORD_SYSTEM), Message("user", f"{prompt}\n\n{task}")),
        schema=_schema(word),
        max_tokens=_MAX_TOKENS,
        temperature=_TEMPERATURE,
    )


def _schema(word: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"question": {"type": "string", "pattern": f'^{word} [^"\\\\?]{{8,150}}\\?$'}},
        "required": ["question"],
        "additionalProperties": False,
    }


async def ask(model: ChatModel, subject: Subject, options: AskingOptions) -> Asked:
    """Ask for one question after the other; a reply without one costs its word, and only no questions at all is bad."""
    usage, calls = Usage(), 0
    questions: list[str] = []
    for request in requests(subject, options):
        completion = await model.complete(request)
        usage, calls = usage + completion.usage, calls + 1
        try:
            questions += questions_in(completion.text)
        except Malformed:
            continue
    if not questions:
        raise BadQuestions("the model wrote no questions", usage=usage, calls=calls)
    return Asked(tuple(questions), usage, calls)
