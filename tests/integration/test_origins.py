"""Pages call the API only if their origin is listed; in a browser: `tests/page/test_page_origins.py`."""

import asyncio

import pytest

from api.app import create
from shared.domain.errors import InvalidInput
from tests.support.api import as_tenant, calling, with_keys
from tests.support.planted import guards

LISTED, OTHER = "https://intranet.example.com", "https://evil.example.com"
ALICE = as_tenant("alice")
ASKED = {"question": "When does it open?"}
ALLOWED, CREDENTIALS = "access-control-allow-origin", "access-control-allow-credentials"


@pytest.fixture
async def client(services, settings, provider):
    async with calling(with_keys(settings).model_copy(update={"api_origins": (LISTED,)}), services) as client:
        yield client


async def preflight(client, path, origin=LISTED, method="POST"):
    headers = {"authorization", "content-type", "x-stainless-lang"}
    asked = {"access-control-request-method": method, "access-control-request-headers": ",".join(sorted(headers))}
    return await client.options(path, headers=asked | {"origin": origin})


async def test_preflight_allows_listed_origin_alone(client):
    for path, method in (("/v1/responses", "POST"), ("/retrieval", "POST"), ("/v1/documents/a", "DELETE")):
        reply = await preflight(client, path, method=method)
        assert (reply.status_code, reply.headers[ALLOWED], reply.headers.get(CREDENTIALS)) == (200, LISTED, None)
        assert method in reply.headers["access-control-allow-methods"].split(", ")
        assert "authorization" in reply.headers["access-control-allow-headers"]
        assert "Origin" in reply.headers["vary"]
    for origin in (OTHER, "null", "https://intranet.example.com.evil.example", "http://intranet.example.com"):
        refused = await preflight(client, "/v1/responses", origin)
        assert (refused.status_code, refused.headers.get(ALLOWED)) == (400, None)


async def test_replies_and_refusals_are_readable_for_listed_origin(client):
    await client.put("/v1/collections/default", json={}, headers=ALICE)
    for headers, status in ((ALICE, 200), ({}, 401), ({"authorization": "Bearer a"}, 401)):
        reply = await client.post("/v1/retrieve", json=ASKED, headers=headers | {"origin": LISTED})
        assert (reply.status_code, reply.headers[ALLOWED], reply.headers.get(CREDENTIALS)) == (status, LISTED, None)
        readable = reply.headers["access-control-expose-headers"].lower().split(", ")
        assert {"retry-after", "ratelimit", "link", "x-request-id"} <= set(readable)
        other = await client.post("/v1/retrieve", json=ASKED, headers=headers | {"origin": OTHER})
        assert (other.status_code, other.headers.get(ALLOWED), other.headers["vary"]) == (status, None, "Origin")


async def test_refusal_of_busy_process_is_readable_for_page(services, settings):
    changes = {"api_origins": (LISTED,), "api_max_requests": 1}
    async with calling(with_keys(settings).model_copy(update=changes), services) as client:
        headers = ALICE | {"origin": LISTED}
        replies = await asyncio.gather(*(client.get("/v1/models", headers=headers) for _ in range(2)))

    assert sorted(reply.status_code for reply in replies) == [200, 503]
    assert {reply.headers[ALLOWED] for reply in replies} == {LISTED}


@guards(
    "api/http/origins.py",
    "return path.startswith(_SHARED) and not path.startswith(_OWN)",
    "return True",
    means="a page of another site signs a person in, or reads the page",
)
async def test_page_and_sign_in_are_not_shared(client):
    for path in ("/v1/sign-in", "/v1/sign-in/token", "/", "/documents", "/mcp", "/health/ready"):
        asked = await preflight(client, path)
        read = await client.get(path, headers={"origin": LISTED, "accept": "text/html"})
        assert (asked.headers.get(ALLOWED), read.headers.get(ALLOWED)) == (None, None), path
    signed = await client.post("/v1/sign-in/token", json={}, headers={"origin": LISTED})
    assert signed.status_code == 403


async def test_no_origin_is_shared_by_default(services, settings):
    async with calling(with_keys(settings), services) as client:
        asked = await preflight(client, "/v1/responses")
        reply = await client.get("/v1/models", headers=ALICE | {"origin": LISTED})

    assert (asked.status_code, asked.headers.get(ALLOWED)) == (405, None)
    assert (reply.status_code, reply.headers.get(ALLOWED)) == (200, None)


def test_origins_without_keys_stop_at_start(settings):
    with pytest.raises(InvalidInput, match="need a key: set FOREASK_API_KEYS"):
        create(settings.model_copy(update={"api_origins": (LISTED,)}))
