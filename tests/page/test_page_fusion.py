"""With changed weights, the page ranks chunks as the server does, for every fusion method."""

import itertools
import random
import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import ingest_with_questions

WEIGHTS = 15  # sets of random weights for each fusion method
SCRIPT = """async ([source, replies]) => {
    const { fused } = await import(source);
    return replies.map(({ candidates, weights, fusion }) => fused(candidates, weights, fusion));
}"""


@pytest.fixture(scope="module")
def many(deployment):
    """A collection whose channels find more candidates than they return."""
    texts = {f"trip-{n}": f"Trip {n}: days of travel, the hotel and leave for {n} days." for n in range(60)}
    ingest_with_questions(deployment, "fusion", texts, "How many days of leave has {}?")
    return "fusion"


async def test_page_ranks_like_server_for_random_weights(visit, deployment, many):
    chance = random.Random(7)
    replies = []
    for fusion in ("scores", "mean", "rrf", "max"):
        for _ in range(WEIGHTS):
            weights = {name: chance.choice([0, chance.uniform(0, 2), 1]) for name in ("questions", "text", "bm25")}
            if not any(weights.values()):
                continue
            query = {"question": f"How many days is trip {chance.randrange(60)}?", "collection": many, "top_k": 5}
            body = query | {"explain": "candidates", "weights": weights, "fusion": fusion, "record": False}
            reply = deployment.client.post("/v1/retrieve", json=body).raise_for_status().json()
            candidates = reply["metadata"]["explain"]["candidates"]
            replies.append({"candidates": candidates, "weights": weights, "fusion": fusion})

    await visit.go("/lab/explain")
    source = await visit.page.evaluate("document.querySelector('link[href$=\"parts/fusion.js\"]').href")
    for reply, ranked in zip(replies, await visit.page.evaluate(SCRIPT, [source, replies]), strict=True):
        _has_order_of_server(reply["candidates"]["chunks"], ranked)


def _has_order_of_server(server, ranked):
    page = {each["chunk_id"]: each["score"] for each in ranked}
    assert [page[each["chunk_id"]] for each in server] == pytest.approx([each["score"] for each in server], abs=1e-6)
    assert [round(each["score"], 6) for each in ranked] == pytest.approx(
        sorted((each["score"] for each in server), reverse=True), abs=2e-6
    )
    order = {each["chunk_id"]: rank for rank, each in enumerate(server)}
    for one, other in itertools.pairwise(ranked):  # passages with different scores have the server's order
        assert order[one["chunk_id"]] < order[other["chunk_id"]] or one["score"] - other["score"] < 1e-6


async def test_explanation_changes_fusion_method(visit, many):
    await visit.go(f"/lab/explain?collection={many}")
    await visit.page.fill("#question", "How many days is trip 7?")
    await visit.page.keyboard.press("Enter")
    first = visit.page.locator(".explained tbody tr").first
    await expect(first).to_be_visible()
    before = await first.inner_text()
    await visit.page.get_by_label(re.compile("^Fusion")).select_option("rrf")
    await expect(first).not_to_have_text(before)
