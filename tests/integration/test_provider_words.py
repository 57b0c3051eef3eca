"""Errors of providers show their words without secrets, in replies and in the log."""

import asyncio
from datetime import timedelta

import openai
import pytest
from httpx2 import Request
from pydantic import SecretStr
from structlog.testing import capture_logs

from shared.domain.errors import Misconfigured, NoCapacity, RateLimited, Refused, Unavailable, UnsupportedTier
from shared.providers.provider import Provider
from shared.providers.sdk import sdk_errors
from tests.support.api import events_of, serving, work
from tests.support.waiting import TIMEOUT_SECONDS

KEY = "sk-proj-0123456789abcdefghijklmnop"
WORDS = f"Incorrect key {KEY} or sk-pr********mnop of bob@acme.com in org-Ymz7"
SHOWN = "Incorrect key *** or *** of *** in ***"
SECRETS = ("org-Ymz7", "acme.com", "sk-p", "mnop")
HARBOUR = "The harbour opens at seven in the morning for all ships."


@pytest.fixture
async def connection(provider):
    connection = Provider(component="llm", base_url=provider.url, api_key=SecretStr(KEY), timeout=timedelta(seconds=5))
    yield connection
    await connection.aclose()


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        ((400, None), Refused, ("400", "it rejects this request")),
        ((400, "acme-code"), Refused, ("400", "it rejects this request")),
        ((400, "context_length_exceeded"), Refused, ("400 (context_length_exceeded)", "the text is too long")),
        ((400, "content_filter"), Refused, ("400 (content_filter)", "its content filter stops this text")),
        ((400, "model_not_found"), Misconfigured, ("400 (model_not_found)", "it has no such model")),
        ((401, None), Misconfigured, ("401", "it does not accept the API key")),
        ((402, None), RateLimited, ("402", "its quota is used up")),
        ((404, None), Misconfigured, ("404", "it has no such model")),
        ((429, None), RateLimited, ("429", "it asks for fewer requests")),
        ((429, "insufficient_quota"), RateLimited, ("429 (insufficient_quota)", "its quota is used up")),
        ((429, "resource_unavailable"), NoCapacity, ("429 (resource_unavailable)", "it has no capacity left")),
        ((498, None), NoCapacity, ("498", "it has no capacity left")),
        ((503, "resource_unavailable"), Unavailable, ("503 (resource_unavailable)", "it has no capacity left")),
        ((500, None), Unavailable, ("500", "it failed")),
        ((501, None), Misconfigured, ("501", "it does not know this call")),
    ],
)
async def test_provider_error_shows_remedy_and_words(connection, provider, answer, kind, expected):
    (status, code), (named, meaning) = answer, expected
    provider.script(status=status, error={"message": WORDS, "code": code, "type": "acme-type"})

    with capture_logs() as logs, pytest.raises(kind) as caught:
        await connection.post("/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "?"}]})

    message = caught.value.message
    assert type(caught.value) is kind
    assert message.startswith(f"the llm provider answered {named}: {meaning}")
    assert message.endswith(f'; it says "{SHOWN}"')
    assert not [word for word in SECRETS if word in message]
    (answered,) = [entry for entry in logs if entry["event"] == "provider.answered"]
    assert (answered["status"], answered["code"], answered["type"]) == (status, code, "acme-type")
    assert answered["words"] == SHOWN


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "Unsupported service_tier: flex"}),
        (400, {"message": "Invalid argument.", "param": "service_tier"}),
        (422, {"message": "body.service_tier: Extra inputs are not permitted"}),
    ],
)
async def test_unsupported_tier_names_its_setting(connection, provider, status, error):
    provider.script(status=status, error=error)

    with pytest.raises(UnsupportedTier, match="FOREASK_LLM_TIER=standard") as caught:
        await connection.post("/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "?"}]})

    assert not caught.value.burns_attempt


async def test_missing_provider_key_names_its_setting(provider):
    provider.script(status=401)
    keyless = Provider(component="embedding", base_url=provider.url, api_key=None, timeout=timedelta(seconds=5))

    with pytest.raises(Misconfigured, match="set FOREASK_EMBEDDING_API_KEY; the key of another address is not sent"):
        await keyless.post("/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "?"}]})
    await keyless.aclose()


def test_error_in_stream_shows_words_without_secrets():
    with capture_logs() as logs, pytest.raises(Unavailable) as caught, sdk_errors("llm", KEY):
        raise openai.APIError(WORDS, Request("POST", "http://llm"), body={"message": WORDS, "code": "acme-code"})

    assert caught.value.message == f'the llm provider answered with an error: it failed; it says "{SHOWN}"'
    assert logs[0]["words"] == SHOWN


async def test_tenant_views_show_words_without_secrets(services, settings, library, provider):
    provider.script(
        refuse_chats_containing="seven", refuse_containing="seven", error={"message": WORDS, "code": "acme-code"}
    )
    async with serving(settings, services) as client, client.stream("GET", "/v1/events") as stream:
        events = events_of(stream)
        seen = [await anext(events)]
        with capture_logs() as logs:
            document = await library.add(HARBOUR)
            await library.add("The keeper lives alone.", questions=["Who lives alone?", "When, at seven?"])
            await work(services)
            letters = (await client.get("/v1/dead-letters")).json()["items"]
            texts = [
                (await client.get(path)).text
                for path in (
                    f"/v1/documents/{document.id}",
                    f"/v1/documents/{document.id}/chunks",
                    "/v1/documents",
                    "/v1/dead-letters",
                    "/v1/dead-letters/reasons",
                    *(f"/v1/dead-letters/{letter['id']}" for letter in letters),
                    "/v1/status",
                )
            ]
            bodies = [
                {"question": question} | change
                for question in ("Who lives alone?", "What is at seven?")
                for change in ({}, {"stream": True}, {"rewrite": {"hyde": True}})
            ]
            texts += [(await client.post("/v1/query", json=body)).text for body in bodies]
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not any(name == "document" for name, _ in seen):
                    seen.append(await anext(events))

    assert letters
    everything = "".join(map(str, [*texts, *seen]))
    assert "provider answered 400" in everything
    assert SHOWN in everything
    assert not [word for word in SECRETS if word in everything]
    assert SHOWN in str(logs)
    assert not [word for word in SECRETS if word in str(logs)]
