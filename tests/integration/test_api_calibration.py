"""Calibration over HTTP: chosen on evidence, kept with the collection, and forgotten."""

import pytest

from api import schemas
from tests.api import calling, work


@pytest.fixture
async def client(services, settings, provider):
    async with calling(settings) as client:
        yield client


@pytest.fixture
async def indexed(client, services, provider):
    """Twelve documents whose texts mislead: each says the words of another's question."""
    for number in range(12):
        other = (number + 1) % 12
        body = {
            "text": f"# Gauge\n\nWhere does vessel{other} moor overnight? Nobody says. Entry {number}.",
            "external_id": f"{number}.md",
            "questions": [f"Where does vessel{number} moor overnight?"],
        }
        (await client.post("/v1/documents", json=body)).raise_for_status()
    await work(services)


LABELLED = [
    {"question": f"where does vessel{n} moor overnight", "external_ids": [f"{n}.md"]} for n in range(12)
]  # fmt: skip


async def calibrate(client, questions=LABELLED):
    return await client.post("/v1/collections/default/calibration", json={"questions": questions})


async def first(client, question):
    reply = await client.post("/v1/retrieve", json={"question": question, "top_k": 1, "explain": True})
    found = schemas.Retrieved.model_validate_json(reply.content)
    return found.chunks[0].external_id, found.metadata.explain.weights


async def test_weights_are_chosen_kept_and_forgotten(client, indexed):
    question = LABELLED[3]["question"]
    assert (await first(client, question))[0] == "2.md"

    evidence = schemas.CalibrationView.model_validate_json((await calibrate(client)).content)

    assert evidence.weights["questions"] > max(evidence.weights["text"], evidence.weights["bm25"])
    assert evidence.chosen.mean > evidence.equal.mean
    assert evidence.channels["questions"].mean == 1.0
    assert await first(client, question) == ("3.md", evidence.weights)
    view = (await client.get("/v1/collections/default")).json()
    assert view["calibration"] == evidence.model_dump()

    assert (await client.delete("/v1/collections/default/calibration")).status_code == 204
    assert (await first(client, question))[0] == "2.md"
    assert (await client.get("/v1/collections/default")).json()["calibration"] is None


async def test_what_cannot_be_judged_is_refused(client, indexed):
    unknown = [*LABELLED, {"question": "where", "external_ids": ["nowhere.md"]}]
    for questions in (LABELLED[:9], unknown, [*LABELLED, {"question": "where"}]):
        reply = await calibrate(client, questions)
        assert reply.status_code == 422
        assert schemas.Problem.model_validate_json(reply.content).field.startswith("questions")
    assert (await client.get("/v1/collections/default")).json()["calibration"] is None


async def test_a_collection_that_is_not_there_cannot_be_calibrated(client, services):
    assert (await calibrate(client)).status_code == 404
