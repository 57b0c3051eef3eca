"""What a tenant may take of the API: over its limits it is refused with what to do, and nobody else is."""

import asyncio

import orjson
import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from shared.broker.tenant_use import TenantUse
from shared.settings import TenantLimits
from tests.api import as_tenant, calling, left_behind, with_keys

ALICE, BOB = as_tenant("alice"), as_tenant("bob")


@pytest.fixture
def limited(settings, services):
    """Open a client of an API that limits alice alone."""
    del services  # it empties the engines

    def opened(services, **limits):
        own = with_keys(settings).model_copy(update={"tenant_limits": {"alice": TenantLimits(**limits)}})
        return calling(own, services)

    return opened


def document(text="A text.", **fields):
    return {"json": {"text": text, **fields}}


async def test_requests_over_a_tenants_rate_are_refused_by_all_processes_together(services, limited):
    limits = {"requests_per_second": 5, "burst": 3}
    async with limited(services, **limits) as client, limited(services, **limits) as other:
        replies = [await process.get("/v1/documents", headers=ALICE) for process in (client, other, client, other)]
        unlimited = await client.get("/v1/documents", headers=BOB)
        await asyncio.sleep(0.25)
        later = await client.get("/v1/documents", headers=ALICE)

    assert [reply.status_code for reply in replies] == [200, 200, 200, 429]
    assert [reply.headers["ratelimit"].split(";t=")[0] for reply in replies] == [
        f'"requests";r={n}' for n in (2, 1, 0, 0)
    ]
    assert {reply.headers["ratelimit-policy"] for reply in replies} == {'"requests";q=3;w=1'}
    assert (replies[-1].headers["retry-after"], replies[-1].json()["type"]) == (
        "1",
        "urn:foreask:problem:too-many-requests",
    )
    assert (unlimited.status_code, "ratelimit" in unlimited.headers, later.status_code) == (200, False, 200)


async def test_without_the_broker_requests_pass_uncounted():
    use = TenantUse("redis://127.0.0.1:1")
    with capture_logs() as logs:
        assert [await use.take_request("alice", 1, 1) for _ in range(3)] == [None] * 3
        assert await use.add_upload("alice", 100, 1)
    await use.aclose()

    assert [entry["event"] for entry in logs] == ["tenant_use.uncounted"]  # and for a second it is not asked again


async def test_a_days_uploads_have_a_limit_and_what_is_refused_leaves_nothing(services, settings, limited):
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
    assert "20 bytes a day" in refused.json()["detail"]
    rows, files = await left_behind(services, settings)
    assert (rows, len(files)) == (3, 3)


async def test_a_tenant_with_all_its_documents_may_change_them_and_add_none(services, limited):
    async with limited(services, documents=2) as client:
        first = await client.post("/v1/documents", **document(external_id="a"), headers=ALICE)
        lines = b'{"text": "b", "external_id": "b"}\n{"text": "c", "external_id": "c"}\n'
        ndjson = ALICE | {"content-type": "application/x-ndjson"}
        batch = await client.post("/v1/documents:batch", content=lines, headers=ndjson)
        second = await client.post("/v1/documents", **document(external_id="b"), headers=ALICE)
        changed = await client.post("/v1/documents", **document("Another.", external_id="a"), headers=ALICE)
        refused = await client.post("/v1/documents", **document(external_id="c"), headers=ALICE)
        await client.delete(f"/v1/documents/{first.json()['document_id']}", headers=ALICE)
        instead = await client.post("/v1/documents", **document(external_id="c"), headers=ALICE)

    replies = (first, second, changed, refused, instead)
    assert [reply.status_code for reply in replies] == [202, 202, 202, 409, 202]
    assert "delete some" in refused.json()["detail"]
    assert [orjson.loads(line)["status"] for line in batch.text.splitlines()] == [409, 409]


async def test_a_tenant_with_all_its_collections_makes_none(services, limited):
    async with limited(services, collections=1) as client:
        made = await client.post("/v1/documents", **document(), headers=ALICE)
        refused = await client.post("/v1/documents", **document(collection="other"), headers=ALICE)
        put = await client.put("/v1/collections/other", json={}, headers=ALICE)
        changed = await client.put("/v1/collections/default", json={}, headers=ALICE)
        of_other = await client.put("/v1/collections/other", json={}, headers=BOB)

    assert [reply.status_code for reply in (made, refused, put, changed, of_other)] == [202, 409, 409, 200, 201]


async def test_counts_of_tenants_end_by_themselves(services, settings, limited):
    async with limited(services, requests_per_second=10, upload_bytes_per_day=100) as client:
        await client.post("/v1/documents", **document(), headers=ALICE)

    async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        keys = [key async for key in redis.scan_iter("foreask:use:*")]
        assert sorted(key.split(b":")[3] for key in keys) == [b"requests", b"uploads"]
        assert all([await redis.pttl(key) > 0 for key in keys])
