"""Calibration over HTTP: weights are chosen from labelled questions, stored with the collection, and can be deleted."""

import asyncio
import sys

import orjson
import pytest

from cli.main import run
from shared.http.schemas.calibration import CalibrationView
from shared.http.schemas.problems import ProblemDetails
from shared.http.schemas.queries import RetrieveReply
from tests.conftest import Library
from tests.support.api import serving, work


async def misleading(services):
    """Index twelve documents with misleading texts: each text uses the words of another document's question."""
    for number in range(12):
        text = f"# Gauge\n\nWhere does vessel{(number + 1) % 12} moor overnight? Nobody says. Entry {number}."
        questions = [f"Where does vessel{number} moor overnight?"]
        await Library(services).add(text, f"{number}.md", questions=questions)
    await work(services)


@pytest.fixture
async def indexed(once):
    await once(misleading)


# Worded like the misleading text, and too dissimilar to any question for the questions alone to determine the result.
LABELLED = [
    {"question": f"vessel{n} overnight: nobody says", "external_ids": [f"{n}.md"]} for n in range(12)
]  # fmt: skip


async def calibrate(client, questions=LABELLED):
    return await client.post("/v1/collections/default/calibration", json={"questions": questions})


async def first(client, question):
    reply = await client.post("/v1/retrieve", json={"question": question, "top_k": 1, "explain": True})
    found = RetrieveReply.model_validate_json(reply.content)
    return found.chunks[0].external_id, found.metadata.explain.weights


async def test_calibrated_weights_apply_until_calibration_is_deleted(client, indexed):
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


async def test_calibration_without_labels_uses_generated_questions(client, indexed, services):
    assert (await calibrate(client, None)).status_code == 422
    library = Library(services)
    for number in range(12, 30):  # a calibration without labels needs 30 chunks
        questions = [f"Which entry has the log of buoy{number}?"]
        await library.add(f"# Gauge\n\nThe log of buoy{number} has entry {number}.", questions=questions)
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


async def test_calibrate_command_works_with_and_without_labels(
    *, indexed, services, settings, tmp_path, monkeypatch, capsys
):
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_bytes(b"\n".join(map(orjson.dumps, LABELLED)))

    def run_calibrate(url, *arguments):
        """Run the command; return its exit code and its output on one line."""
        monkeypatch.setattr(sys, "argv", ["foreask", "calibrate", "default", *map(str, arguments), "--url", url])
        with pytest.raises(SystemExit) as ended:
            run()
        output = capsys.readouterr()
        return ended.value.code, " ".join((output.out + output.err).split())

    monkeypatch.setenv("COLUMNS", "200")
    async with serving(settings, services) as api:

        async def foreask(*arguments):
            return await asyncio.to_thread(run_calibrate, str(api.base_url), *arguments)

        code, output = await foreask()
        assert (code, "Fewer than 30 chunks can be measured" in output) == (1, True), output
        code, output = await foreask(labelled)
        assert (code, "12 labelled questions, 12 chunks; baseline of the embedding model 0.00 ± 0.00" in output) == (
            0,
            True,
        )
        code, output = await foreask()
        assert (code, "DELETE its calibration first" in output) == (1, True), output
        assert (await foreask("--reset"))[0] == 0
        assert (await foreask(labelled, "--reset"))[0] == 2
