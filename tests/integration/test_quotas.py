"""Limits of a tenant in the API: requests over a limit are refused with advice; other tenants are not affected."""

import asyncio
import json
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from shared.broker.tenant_use import TenantUse
from shared.http import request_body
from shared.settings import TenantLimits
from tests.support.api import as_tenant, calling, left_behind, serving, with_keys
from tests.support.clock import ManualClock
from tests.support.elapsed import age_limits
from tests.support.waiting import TIMEOUT_SECONDS

ALICE, BOB = as_tenant("alice"), as_tenant("bob")
JSON = {"content-type": "application/json"}


@pytest.fixture
async def redis(settings):
    async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        yield redis


@pytest.fixture
def limited(settings, services):
    """Return a function that opens a client of an API with limits for alice only."""
    del services  # requested because it empties the engines

    def opened(services, **limits):
        own = with_keys(settings).model_copy(update={"tenant_limits": {"alice": TenantLimits(**limits)}})
        return calling(own, services)

    return opened


def document(text="A text.", **fields):
    return {"json": {"text": text, **fields}}


async def test_tenant_rate_is_enforced_across_processes(services, settings, limited, redis):
    limits = {"requests_per_second": 0.01, "burst": 3}
    use = TenantUse(settings.redis_url.get_secret_value())
    another_process = replace(services, tenant_use=use)
    async with (
        aclosing(use),
        limited(services, **limits) as client,
        limited(another_process, **limits) as other,
    ):
        with capture_logs() as logs:
            replies = [await process.get("/v1/documents", headers=ALICE) for process in (client, other, client, other)]
        unlimited = await client.get("/v1/documents", headers=BOB)
        await age_limits(redis, timedelta(seconds=100))
        later = await client.get("/v1/documents", headers=ALICE)

    assert [reply.status_code for reply in replies] == [200, 200, 200, 429]
    assert [reply.headers["ratelimit"].split(";t=")[0] for reply in replies] == [
        f'"requests";r={n}' for n in (2, 1, 0, 0)
    ]
    assert {reply.headers["ratelimit-policy"] for reply in replies} == {'"requests";q=3;w=300'}
    assert 90 < int(replies[-1].headers["retry-after"]) <= 100
    assert replies[-1].json()["type"] == "urn:foreask:problem:too-many-requests"
    assert (unlimited.status_code, "ratelimit" in unlimited.headers, later.status_code) == (200, False, 200)
    assert "request.failed" not in {entry["event"] for entry in logs}  # this is not a server error


async def test_empty_bucket_is_cached_until_refill_or_expiry(settings, services, redis):
    del services  # requested because it empties the engines
    clock = ManualClock()
    use = TenantUse(settings.redis_url.get_secret_value(), clock)
    taken = [await use.take_request("alice", 1.25, 1) for _ in range(2)]
    await redis.delete("foreask:use:alice:requests")  # the bucket is full again for a new request
    for seconds, rate in ((0.1, 1.25), (0.7, 1.25), (0, 0.01)):  # a token takes 0.8 s
        clock.now += seconds
        taken.append(await use.take_request("alice", rate, 1))
    await redis.delete("foreask:use:alice:requests")
    for seconds in (0.9, 0.1):
        clock.now += seconds
        taken.append(await use.take_request("alice", 0.01, 1))
    await use.aclose()

    assert [each.granted for each in taken] == [True, False, False, True, False, False, True]
    assert taken[1].wait - taken[2].wait == timedelta(seconds=0.1)


async def test_requests_are_not_counted_during_broker_outage():
    use = TenantUse("redis://127.0.0.1:1")
    with capture_logs() as logs:
        assert [await use.take_request("alice", 1, 1) for _ in range(3)] == [None] * 3
        assert await use.add_upload("alice", 100, 1)
    await use.aclose()

    assert [entry["event"] for entry in logs] == [
        "tenant_use.uncounted"
    ]  # logged once, because the broker is not tried again for a second


async def test_upload_over_daily_limit_is_not_stored(services, settings, limited):
    async with limited(services, upload_bytes_per_day=20) as client:
        too_large = await client.post("/v1/documents", **document("x" * 21), headers=ALICE)
        taken = await client.post("/v1/documents", **document("x" * 12), headers=ALICE)
        refused = await client.post("/v1/documents", **document("y" * 9), headers=ALICE)
        fits = await client.post("/v1/documents", **document("z" * 8), headers=ALICE)
        line = await client.post(
            "/v1/documents:batch", content=b'{"text": "a"}\n', headers=ALICE | {"content-type": "application/x-ndjson"}
        )
        unlimited = await client.post("/v1/documents", **document("y" * 30), headers=BOB)

    replies = (too_large, taken, refused, fits, line, unlimited)
    assert [reply.status_code for reply in replies] == [413, 202, 429, 202, 429, 202]
    assert 1 <= int(refused.headers["retry-after"]) <= 86_400
    assert "20 bytes per day" in refused.json()["detail"]
    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == (3, 3)


async def test_tenant_at_document_limit_can_only_change_documents(services, limited):
    async with limited(services, documents=2) as client:
        first = await client.post("/v1/documents", **document(external_id="a"), headers=ALICE)
        lines = b'{"text": "b", "external_id": "b"}\n{"text": "c", "external_id": "c"}\n'
        ndjson = ALICE | {"content-type": "application/x-ndjson"}
        batch = await client.post("/v1/documents:batch", content=lines, headers=ndjson)
        second = await client.post("/v1/documents", **document(external_id="b"), headers=ALICE)
        changed = await client.post("/v1/documents", **document("Another.", external_id="a"), headers=ALICE)
        refused = await client.post("/v1/documents", **document(external_id="c"), headers=ALICE)
        await client.delete(f"/v1/documents/{first.json()['id']}", headers=ALICE)
        instead = await client.post("/v1/documents", **document(external_id="c"), headers=ALICE)

    replies = (first, second, changed, refused, instead)
    assert [reply.status_code for reply in replies] == [202, 202, 202, 409, 202]
    assert "delete some" in refused.json()["detail"]
    assert [orjson.loads(line)["status"] for line in batch.text.splitlines()] == [409, 409]


async def test_tenant_at_collection_limit_cannot_create_collections(services, limited):
    async with limited(services, collections=1) as client:
        made = await client.post("/v1/documents", **document(), headers=ALICE)
        refused = await client.post("/v1/documents", **document(collection="other"), headers=ALICE)
        put = await client.put("/v1/collections/other", json={}, headers=ALICE)
        changed = await client.put("/v1/collections/default", json={}, headers=ALICE)
        other_tenant = await client.put("/v1/collections/other", json={}, headers=BOB)

    assert [reply.status_code for reply in (made, refused, put, changed, other_tenant)] == [202, 409, 409, 200, 201]


async def test_tenant_counters_expire(services, settings, limited):
    async with limited(services, requests_per_second=10, upload_bytes_per_day=100) as client:
        await client.post("/v1/documents", **document(), headers=ALICE)

    async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        keys = [key async for key in redis.scan_iter("foreask:use:*")]
        assert sorted(key.split(b":")[3] for key in keys) == [b"requests", b"uploads"]
        assert all([await redis.pttl(key) > 0 for key in keys])


async def test_excess_requests_of_process_get_503_with_retry(services, settings):
    async with calling(settings.model_copy(update={"api_max_requests": 2}), services) as client:
        replies = await asyncio.gather(*(client.get("/v1/documents") for _ in range(5)))
        health = await asyncio.gather(*(client.get("/health/live") for _ in range(5)))
        later = await client.get("/v1/documents")

    refused = [reply for reply in replies if reply.status_code == 503]
    assert sorted(reply.status_code for reply in replies) == [200, 200, 503, 503, 503]
    assert (refused[0].json()["component"], refused[0].headers["retry-after"]) == ("api", "1")
    assert refused[0].headers["x-request-id"]
    assert {reply.status_code for reply in (*health, later)} == {200}


class SlowBodies:
    """Uploads whose bodies finish when `go_on` is set."""

    def __init__(self, client):
        self.client = client
        self.started = Counter()
        self.go_on = asyncio.Event()

    def send(self, tenant):
        headers = as_tenant(tenant) | JSON
        return asyncio.create_task(self.client.post("/v1/documents", content=self._body(tenant), headers=headers))

    async def until_started(self, tenant, count):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while self.started[tenant] < count:
                await asyncio.sleep(0.001)

    async def _body(self, tenant):
        self.started[tenant] += 1
        yield b'{"text": '
        await self.go_on.wait()
        yield b'"A text."}'


async def test_tenant_concurrency_is_limited_to_share_of_slots(services, settings):
    async with calling(with_keys(settings).model_copy(update={"api_max_requests": 4}), services) as client:
        slow = SlowBodies(client)
        running = [slow.send("alice") for _ in range(2)]
        await slow.until_started("alice", 2)
        refused = await client.get("/v1/documents", headers=ALICE)
        other_tenant = await client.get("/v1/documents", headers=BOB)
        slow.go_on.set()
        replies = await asyncio.gather(*running)
        later = [await client.get("/v1/documents", headers=ALICE) for _ in range(3)]

    assert (refused.status_code, refused.headers["retry-after"], other_tenant.status_code) == (429, "1", 200)
    assert sorted(reply.status_code for reply in replies) == [200, 202]
    assert [reply.status_code for reply in later] == [200] * 3


async def test_large_bodies_wait_only_for_own_tenant(services, settings):
    async with calling(with_keys(settings), services) as client:
        slow = SlowBodies(client)
        running = [slow.send("alice") for _ in range(6)]
        await slow.until_started("alice", 4)
        running.append(slow.send("bob"))
        await slow.until_started("bob", 1)
        started = slow.started["alice"]
        slow.go_on.set()
        replies = await asyncio.gather(*running)

    assert started == 4
    assert {reply.status_code for reply in replies} == {200, 202}


async def test_rejected_large_body_is_not_read_further(services, settings, monkeypatch):
    monkeypatch.setattr(request_body, "_LINGER_SECONDS", 0.2)
    head = b"POST /v1/documents HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    async with serving(settings, services) as client:
        small = await client.post("/v1/retrieve", content=b" " * 70_000, headers=JSON)
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(head + b"content-length: 1000000000\r\n\r\n")
        reply = (await reader.readuntil(b"\r\n\r\n")).lower()
        sent = 0
        with suppress(OSError):
            for _ in range(100):
                writer.write(b" " * 1_000_000)
                await writer.drain()
                sent += 1
        writer.close()

    assert (small.status_code, small.headers.get("connection")) == (413, None)
    assert reply.startswith(b"http/1.1 413")
    assert b"connection: close" in reply
    assert sent < 50  # bytes in the buffers of the connection


async def test_query_bodies_are_limited_more_than_prompts(client):
    query = {"question": "?", "filter": {"a": "x" * 65_536}}
    prompt = json.dumps({"prompt": "{text}" + "\u00e9" * 19_000})

    assert (await client.post("/v1/retrieve", json=query)).status_code == 413
    assert (await client.post("/v1/feedback", json=query)).status_code == 413
    put = await client.put("/v1/collections/a", content=prompt, headers={"content-type": "application/json"})
    assert put.status_code == 201


async def test_query_answer_tokens_are_limited_by_server(client):
    reply = await client.post("/v1/retrieve", json={"question": "?", "max_tokens": 100_001})

    assert (reply.status_code, reply.json()["field"]) == (422, "max_tokens")
    assert "FOREASK_TUNING__MAX_TOKENS_MAX" in reply.json()["detail"]


async def test_stalled_body_is_answered_and_frees_its_slot(services, settings):
    head = b"POST /v1/retrieve HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    head += b"content-type: application/json\r\ncontent-length: 900\r\n\r\n"
    short_timeout = settings.model_copy(update={"api_body_timeout": timedelta(seconds=1), "api_max_requests": 1})

    async def trickle(writer, seconds):
        with suppress(OSError):
            while True:
                writer.write(b"{")
                await asyncio.sleep(seconds)

    async with serving(short_timeout, services) as client, asyncio.timeout(TIMEOUT_SECONDS):
        for seconds in (60, 0.05):
            reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
            writer.write(head)
            trickling = asyncio.create_task(trickle(writer, seconds))
            reply = (await reader.read()).lower()  # returns when the connection is closed
            trickling.cancel()
            writer.close()
            assert reply.startswith(b"http/1.1 408")
            assert b"\r\nconnection: close\r\n" in reply
            assert b"urn:foreask:problem:slow-body" in reply
            assert (await client.get("/v1/documents")).status_code == 200

        await client.put("/v1/collections/default", json={})

        async def slow_but_steady():
            yield b'{"question": "When does the harbour open?"'
            for _ in range(4):
                await asyncio.sleep(0.3)  # together longer than the timeout
                yield b" " * 50
            yield b"}"

        body = slow_but_steady()
        reply = await client.post("/v1/retrieve", content=body, headers={"content-type": "application/json"})
        assert reply.status_code == 200, reply.text
