"""Have a model write the questions that a chunk answers."""

from __future__ import annotations

from shared.asking.subject import Asked, AskingOptions, Strategy, Subject
from shared.llm import ChatModel


def strategy_for(model_name: str) -> Strategy:
    return "word-by-word" if "smollm2-135m" in model_name.lower() else "list"


def content_key(tenant: str, model: str, subject: Subject, options: AskingOptions) -> bytes:
    raise NotImplementedError


async def ask(model: ChatModel, subject: Subject, options: AskingOptions) -> Asked:
    raise NotImplementedError
