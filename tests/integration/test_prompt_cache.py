"""Costs of the prompt cache, with a provider that bills like GPT-5.6."""

from dataclasses import replace

import pytest

from features.all import FEATURES
from shared.domain.corpus.collections import CollectionOptions
from shared.ledger.model.collections import Collections
from shared.ledger.work.costs import Costs
from shared.providers.chat import OpenAIChat
from shared.providers.limiter.limited_chat import NEUTRAL
from shared.services import build
from tests.support.api import as_tenant, calling, with_keys, work

DOCUMENTS = 2
LONG = "Ask what a sailor would ask, in short words. " * 100
OPTIONS = {"chunk_max_chars": 8_000}


async def ingest(services, library, options, *, explicit):
    """Generate the questions of some long chunks; return the booked usage and the number of calls."""
    await services.ledger[Collections].ensure(
        "default", "default", embedding_model=services.settings.embedding_model, options=CollectionOptions(**options)
    )
    for number in range(DOCUMENTS):
        text = f"Ship number {number} sails. " + f"It has {number} masts, and a keeper. " * 200
        await library.add(text, f"{number}.md")
    chat = services.generator.model
    model = OpenAIChat(chat._provider, chat.name, explicit_cache=explicit)
    await work(replace(services, generator=replace(services.generator, model=model)))
    (booked,) = [s for s in await services.ledger[Costs].sums("default") if s.kind == "generate"]
    return booked.usage, booked.calls


def bill_of(provider):
    (bill,) = provider.stats()["bills"].values()
    return bill


@pytest.mark.parametrize("explicit", [False, True])
async def test_long_chunks_are_written_only_implicitly(services, library, provider, explicit):
    provider.script(caches_prompts=True)

    usage, calls = await ingest(services, library, OPTIONS, explicit=explicit)

    bill = bill_of(provider)
    assert (calls, usage.prompt_tokens, usage.completion_tokens) == (
        bill["calls"],
        bill["prompt_tokens"],
        bill["completion_tokens"],
    )
    assert (usage.cached_tokens, usage.cache_write_tokens) == (bill["cached_tokens"], bill["cache_write_tokens"])
    assert usage.prompt_tokens > 1_024 * DOCUMENTS
    assert usage.cache_write_tokens == (0 if explicit else usage.prompt_tokens)


async def test_long_instructions_are_written_once_and_read(services, library, provider):
    provider.script(caches_prompts=True)

    usage, _ = await ingest(services, library, OPTIONS | {"prompt": LONG + "{title} {text}"}, explicit=True)

    bill = bill_of(provider)
    assert (usage.cached_tokens, usage.cache_write_tokens) == (bill["cached_tokens"], bill["cache_write_tokens"])
    assert usage.cache_write_tokens >= 1_024
    assert usage.cached_tokens == (DOCUMENTS - 1) * usage.cache_write_tokens


async def test_collection_reports_prompt_that_no_cache_reads(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        notices = []
        for prompt in (LONG + "{text}", "{text} " + LONG):
            await client.put("/v1/collections/ships", json={"prompt": prompt}, headers=as_tenant("alice"))
            reply = await client.get("/v1/collections/ships", headers=as_tenant("alice"))
            notices.append(reply.json()["notice"])

    assert notices[0] is None
    assert notices[1].startswith("The prompt has {text} in front of instructions")


@pytest.mark.parametrize(("url", "explicit"), [("https://api.openai.com/v1", True), ("http://127.0.0.1:9/v1", False)])
async def test_address_and_model_decide_cache_options(settings, url, explicit):
    changed = {"llm_base_url": url, "llm_model": "gpt-5.6-luna", "llm_tier": "flex"}
    async with build("all", settings.model_copy(update=changed), FEATURES) as services:
        models = (services.generator.model, services.generator.flex)
        assert ["prompt_cache_key" in model._body(NEUTRAL) for model in models] == [explicit] * 2
