"""Calibration over HTTP: chosen on evidence, kept with the collection, and forgotten."""

import asyncio
import sys

import orjson
import pytest

from api.schemas.calibration import CalibrationView
from api.schemas.problems import ProblemDetails
from api.schemas.queries import RetrieveReply
from cli.main import run
from tests.support.api import serving, work


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


# In the words of the text that misleads, and not so near a question that this alone would decide.
LABELLED = [
    {"question": f"vessel{n} overnight: nobody says", "external_ids": [f"{n}.md"]} for n in range(12)
]  # fmt: skip


async def calibrate(client, questions=LABELLED):
    return await client.post("/v1/collections/default/calibration", json={"questions": questions})


async def first(client, question):
    reply = await client.post("/v1/retrieve", json={"question": question, "top_k": 1, "explain": True})
    found = RetrieveReply.model_validate_json(reply.content)
    return found.chunks[0].external_id, found.metadata.explain.weights


async def test_weights_are_chosen_kept_and_forgotten(client, indexed):
    question = LABELLED[3]["question"]
    assert (await first(client, question))[0] == "2.md"

    evidence = CalibrationView.model_validate_json((await calibrate(client)).content)

    assert evidence.weights["questions"] > max(evidence.weights["text"], evidence.weights["bm25"])
    assert evidence.chosen.mean > evidence.equal.mean
    assert evidence.channels["questions"].mean == 1.0
    assert await first(client, question) == ("3.md", evidence.weights)
    view = (await client.get("/v1/collections/default")).json()
    assert view["calibration"] == evidence.model_dump()

    assert (await client.delete("/v1/collections/default/calibration")).status_code == 204
    assert (await first(client, question))[0] == "2.md"
    assert (await client.get("/v1/collections/default")).json()["calibration"] is None


async def test_invalid_labels_are_rejected(client, indexed):
    unknown = [*LABELLED, {"question": "where", "external_ids": ["nowhere.md"]}]
    for questions in (LABELLED[:9], unknown, [*LABELLED, {"question": "where"}]):
        reply = await calibrate(client, questions)
        assert reply.status_code == 422
        assert ProblemDetails.model_validate_json(reply.content).field.startswith("questions")
    assert (await client.get("/v1/collections/default")).json()["calibration"] is None


async def test_unlabelled_collection_calibrates_with_own_questions(client, indexed, services):
    assert (await calibrate(client, None)).status_code == 422
    for number in range(12, 30):  # so that there are enough
        body = {
            "text": f"# Gauge\n\nThe log of buoy{number} has entry {number}.",
            "external_id": f"{number}.md",
            "questions": [f"Which entry has the log of buoy{number}?"],
        }
        (await client.post("/v1/documents", json=body)).raise_for_status()
    await work(services)

    reply = await client.post("/v1/collections/default/calibration", json={})

    evidence = CalibrationView.model_validate_json(reply.content)
    assert (evidence.source, evidence.questions, evidence.chunks) == ("generated", 30, 30)
    assert set(evidence.weights.values()) == {1.0}
    assert (await client.get("/v1/collections/default")).json()["calibration"] == evidence.model_dump()


async def test_labelled_calibration_is_not_replaced_by_unlabelled(client, indexed):
    labelled = (await calibrate(client)).json()
    assert (await calibrate(client, None)).status_code == 409

    assert (await client.get("/v1/collections/default")).json()["calibration"] == labelled
    assert labelled["source"] == "labelled"


async def test_missing_collection_cannot_be_calibrated(client, services):
    assert (await calibrate(client)).status_code == 404


async def test_the_command_line_calibrates_with_and_without_labels(
    *, indexed, services, settings, tmp_path, monkeypatch, capsys
):
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_bytes(b"\n".join(map(orjson.dumps, LABELLED)))

    def calibrate_at(url, *arguments):
        """Its exit code, and what it said on one line."""
        monkeypatch.setattr(sys, "argv", ["foreask", "calibrate", "default", *map(str, arguments), "--url", url])
        with pytest.raises(SystemExit) as ended:
            run()
        said = capsys.readouterr()
        return ended.value.code, " ".join((said.out + said.err).split())

    monkeypatch.setenv("COLUMNS", "200")
    async with serving(settings, services) as api:

        async def foreask(*arguments):
            return await asyncio.to_thread(calibrate_at, str(api.base_url), *arguments)

        code, said = await foreask()
        assert (code, "Fewer than 30 chunks can be measured" in said) == (1, True), said
        code, said = await foreask(labelled)
        assert (code, "12 labelled questions, 12 chunks; baseline of the embedding model 0.00 ± 0.00" in said) == (
            0,
            True,
        )
        code, said = await foreask()
        assert (code, "DELETE its calibration first" in said) == (1, True), said
        assert (await foreask("--reset"))[0] == 0
        assert (await foreask(labelled, "--reset"))[0] == 2
