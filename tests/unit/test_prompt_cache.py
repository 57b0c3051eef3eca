"""Prefixes that are written to OpenAI's prompt cache, and prompts that cannot be read from it."""

from __future__ import annotations

import pytest

from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.generate.generator import requests
from shared.ingest.generate.prompts import LIST_TEMPLATE, cache_warning
from shared.ingest.generate.types import GenerationOptions
from shared.providers.prompt_cache import cache_fields, has_explicit_cache

OPENAI = "https://api.openai.com/v1"
SHIP = ChunkContent.whole("The ship sails on the first day of May.", "Ships", ("May",))
LONG = "Ask what a sailor would ask, in short words. " * 100  # 4,500 characters
EXPLICIT = {"mode": "explicit"}


@pytest.mark.parametrize(
    ("url", "model", "has"),
    [
        (OPENAI, "gpt-5.6-luna", True),
        (OPENAI, "gpt-5.6", True),
        (OPENAI, "gpt-5.10-mini", True),
        (OPENAI, "gpt-6", True),
        (OPENAI, "ft:gpt-5.6-luna:acme::1", True),
        ("https://eu.api.openai.com/v1", "gpt-5.6-luna", True),
        (OPENAI, "gpt-5.5", False),
        (OPENAI, "gpt-5-mini", False),
        (OPENAI, "gpt-5-2025-08-07", False),
        (OPENAI, "gpt-4.1", False),
        (OPENAI, "gpt-4o", False),
        (OPENAI, "o3", False),
        ("https://openrouter.ai/api/v1", "gpt-5.6-luna", False),
        ("https://api.openai.com.example.org/v1", "gpt-5.6-luna", False),
        ("http://127.0.0.1:8000/v1", "gpt-5.6-luna", False),
    ],
)
def test_only_new_models_of_openai_have_explicit_cache(url, model, has):
    assert has_explicit_cache(url, model) is has


def fields_of(template=None, content=SHIP):
    (request,) = requests(content, GenerationOptions(template=template))
    body = request.body("m")
    return body["messages"], cache_fields(request, body)


def test_short_instructions_are_not_cached():
    _, fields = fields_of()

    assert fields["prompt_cache_options"] == EXPLICIT
    assert "messages" not in fields


def test_long_instructions_end_with_breakpoint():
    messages, fields = fields_of(LONG + "{title}: {text}")
    *before, (role, parts) = [(message["role"], message["content"]) for message in fields["messages"]]

    assert before == [(message["role"], message["content"]) for message in messages[:-1]]
    assert [part.get("prompt_cache_breakpoint") for part in parts] == [EXPLICIT, None]
    assert (role, parts[0]["text"]) == ("user", LONG)
    assert "".join(part["text"] for part in parts) == messages[-1]["content"]


def test_instructions_after_placeholder_are_not_cached():
    _, fields = fields_of("{title} " + LONG + "{text}")
    assert "messages" not in fields


def test_cache_key_depends_only_on_instructions():
    other = ChunkContent.whole("The harbour opens at nine.", "Harbour")
    keys = [
        fields_of(template, content)[1]["prompt_cache_key"]
        for template in (None, LONG + "{text}")
        for content in (SHIP, other)
    ]

    assert keys[0] == keys[1]
    assert keys[2] == keys[3] != keys[0]
    assert max(map(len, keys)) <= 64


@pytest.mark.parametrize(
    ("template", "first"),
    [
        (LIST_TEMPLATE, None),
        (LONG + "{title} {text}", None),
        ("{title}: {text}" + LONG[:3_000], None),
        ("{title} " + LONG + "{text}", "{title}"),
        ("Read {text}. " + LONG, "{text}"),
    ],
)
def test_placeholder_in_front_of_long_instructions_is_reported(template, first):
    warning = cache_warning(template)
    assert warning is None if first is None else warning.startswith(f"The prompt has {first} in front of instructions")
