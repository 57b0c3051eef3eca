"""Estimates over HTTP: the cost of a load in advance, and its comparison with the actual cost."""

import math

import pytest

from tests.support.api import calling, left_behind, ready, work

DOCUMENT = "# Lighthouse\n\nThe keeper lives alone on the northern cliff and lights the lamp at dusk."


@pytest.fixture
async def application_with_openai(settings):
    """Return a client of an API that is configured with a provider of known prices, which no test calls."""
    changes = {
        "llm_base_url": "https://api.openai.com/v1",
        "llm_model": "gpt-4o-mini",
        "llm_batch_queue_tokens": 2_000_000,
    }
    async with calling(settings.model_copy(update=changes)) as client:
        yield client


def load(*texts, **more):
    return {"documents": {"count": len(texts), "sample": [{"text": text} for text in texts]} | more}


async def test_estimate_of_complete_sample_is_exact(client):
    reply = await client.post("/v1/estimates", json=load(DOCUMENT))
    assert reply.status_code == 200
    body = reply.json()
    assert (body["documents"], body["chunks"], body["calls"], body["exact"]) == (1, 1, 1, True)
    assert body["prompt_tokens"] > body["completion_tokens"] > 0
    assert body["llm_cost"] is body["embedding_cost"] is None
    assert (await client.get("/v1/collections")).json()["items"] == []


async def test_estimate_adds_texts_of_scanned_pages(client):
    scans = (await client.post("/v1/estimates", json={"documents": {"count": 10, "bytes": 0, "pages": 300}})).json()
    texts = (await client.post("/v1/estimates", json={"documents": {"count": 10, "bytes": 600_000}})).json()

    assert (scans["documents"], scans["pages"], scans["exact"]) == (10, 300, False)
    assert scans["calls"] == pytest.approx(texts["calls"], abs=10)


async def test_estimate_compares_tiers_and_models(application_with_openai):
    client = application_with_openai
    body = {"documents": {"count": 500_000, "bytes": 1_600_000_000}, "models": ["gpt-4.1-nano", "no-such-model"]}
    reply = (await client.post("/v1/estimates", json=body)).json()
    costs = {(offer["model"], offer["tier"]): offer["llm_cost"] for offer in reply["tiers"]}

    assert costs["gpt-4o-mini", "standard"] == reply["llm_cost"] > 0
    assert costs["gpt-4o-mini", "flex"] == costs["gpt-4o-mini", "batch"] == pytest.approx(reply["llm_cost"] / 2)
    assert 0 < costs["gpt-4.1-nano", "standard"] < reply["llm_cost"]
    assert {costs["no-such-model", tier] for tier in ("standard", "flex", "batch")} == {None}
    [batch] = [offer for offer in reply["tiers"] if (offer["model"], offer["tier"]) == ("gpt-4o-mini", "batch")]
    assert batch["fills"] == math.ceil(reply["prompt_tokens"] / 2_000_000)
    assert (batch["seconds"], batch["bottleneck"]) == (batch["fills"] * 24 * 3600, "batch queue")


async def test_estimate_has_cost_of_ingest_tier(settings):
    flexible = {"llm_base_url": "https://api.openai.com/v1", "llm_model": "gpt-4o-mini", "llm_tier": "flex"}
    async with calling(settings.model_copy(update=flexible)) as client:
        reply = (await client.post("/v1/estimates", json=load(DOCUMENT))).json()

    costs = {offer["tier"]: offer["llm_cost"] for offer in reply["tiers"]}
    assert reply["llm_cost"] == costs["flex"] == pytest.approx(costs["standard"] / 2)


async def test_file_estimate_stores_nothing(client, services, settings):
    one = (await client.post("/v1/estimates", json=load(DOCUMENT))).json()["calls"]
    sent = [("file", (name, DOCUMENT.encode())) for name in ("a.md", "b.txt")]
    scan = ("file", ("scan.pdf", b"%PDF-1.7 no text"))
    reply = await client.post("/v1/documents/estimate", files=[*sent, scan], data={"collection": "new"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["left_out"] == ["scan.pdf"]
    assert (reply.json()["estimate"]["documents"], reply.json()["estimate"]["calls"]) == (2, one)
    many = await client.post("/v1/documents/estimate", files=[*sent, scan], data={"count": "3000"})
    assert (many.json()["estimate"]["documents"], many.json()["estimate"]["exact"]) == (2000, False)
    unknown = await client.post("/v1/documents/estimate", files=[scan])
    assert unknown.json() == {"estimate": None, "left_out": ["scan.pdf"]}
    assert (await client.get("/v1/collections")).json()["items"] == []
    assert await left_behind(services, settings) == (0, [])


async def test_invalid_estimate_form_is_rejected(client):
    for request_, status, field in (
        ({"files": {"count": (None, "1")}}, 422, "file"),
        ({"files": {"file": ("a", b"a")}, "data": {"count": "0"}}, 422, "count"),
        ({"files": {"file": ("a", b"a")}, "data": {"colour": "red"}}, 422, "colour"),
        ({"files": {"file": ("a", b"a" * 5_000_000)}}, 413, None),
        ({"files": [("file", (str(n), b"a")) for n in range(201)]}, 413, None),
        ({"json": {}}, 415, None),
    ):
        reply = await client.post("/v1/documents/estimate", **request_)

        assert (reply.status_code, reply.json().get("field")) == (status, field), (str(request_)[:100], reply.text)


async def test_estimate_without_sample_derives_chunks_from_bytes(client):
    body = (await client.post("/v1/estimates", json={"documents": {"count": 10, "bytes": 160_000}})).json()
    assert (body["documents"], body["chunks"], body["exact"]) == (10, 100, False)
    short = (await client.post("/v1/estimates", json={"documents": {"count": 10, "bytes": 1_000}})).json()
    assert short["chunks"] == 10


async def test_status_compares_actual_cost_with_saved_estimate(client, services, once):
    await once(ready, ("Before the estimate.", "before"))
    estimate = (await client.post("/v1/estimates", json=load(DOCUMENT) | {"store": True})).json()
    await client.post("/v1/estimates", json=load(DOCUMENT, DOCUMENT))
    await client.post("/v1/documents", json={"text": DOCUMENT, "external_id": "a"})
    await work(services)
    (kept,) = (await client.get("/v1/status")).json()["estimates"]

    assert (kept["collection"], kept["estimate"]) == ("default", estimate)
    assert kept["since"]["calls"] == estimate["calls"] == 1
    assert kept["since"]["prompt_tokens"] > 0
    assert kept["since"]["embedding_tokens"] > 0


async def test_migration_estimate_counts_calls_only_for_changed_prompt(client, once):
    await once(ready, (DOCUMENT, "a"))

    async def calls(**changes):
        reply = await client.post("/v1/estimates", json={"migrate": changes})
        assert reply.status_code == 200, reply.text
        return reply.json()["calls"]

    assert await calls(embedding="scripted-embedding") == 0
    unknown = await client.post("/v1/estimates", json={"migrate": {"embedding": "another"}})
    assert (unknown.status_code, unknown.json()["field"]) == (422, "embedding")
    assert await calls(prompt="Ask about {text}") == 1
    await client.put("/v1/collections/default", json={"prompt": "Ask about {text}"})
    assert await calls() == 1
    assert await calls(prompt=None) == 0


async def test_incomplete_estimate_request_is_rejected(client):
    for body, status in (
        ({}, 422),
        (load(DOCUMENT) | {"migrate": {}}, 422),
        ({"documents": {"count": 3}}, 422),
        ({"documents": {"count": 0, "bytes": 1}}, 422),
        ({"migrate": {}, "collection": "absent"}, 404),
        ({"migrate": {"prompt": "no text"}}, 422),
    ):
        reply = await client.post("/v1/estimates", json=body)
        assert reply.status_code == status, body
        assert reply.json()["detail"], body
