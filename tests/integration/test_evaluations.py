"""Labelled sets and evaluations of a collection, through the API: kept, run beside requests, measured, erased."""

import asyncio
from datetime import datetime
from uuid import uuid4

import pytest
from sqlalchemy import text

from tests.api import serving, work
from tests.labelled import QRELS, QUERIES, QUESTIONS, TEXTS

SET = "/v1/collections/default/labelled/birds"
RUNS = "/v1/collections/default/evaluations"
BY_HAND = (1 + 0.63093 + 0 + 1 / 1.63093 + 1 + 0.5) / 6  # nDCG@10 of the questions alone


@pytest.fixture
async def labelled(services, library):
    """A collection, and questions to it that name documents."""
    for number, words in enumerate(TEXTS):
        await library.add(words, f"p{number}", questions=list(QUESTIONS.get(f"p{number}", ())))
    await work(services)
    known = {f"p{number}" for number in range(len(TEXTS))}
    answers: dict[str, list[str]] = {}
    for query, passage, _ in QRELS:
        if passage in known:
            answers.setdefault(QUERIES[query], []).append(passage)
    return [{"question": question, "external_ids": names} for question, names in answers.items()]


async def ended(api, run):
    async with asyncio.timeout(10):
        while (shown := (await api.get(f"{RUNS}/{run['id']}")).json())["state"] == "running":
            await asyncio.sleep(0.02)
    return shown


async def test_a_labelled_set_is_kept_measured_with_and_gone_when_it_is_deleted(settings, services, labelled):
    async with serving(settings, services) as api:
        written = await api.put(SET, json={"questions": labelled})
        assert written.status_code == 200, written.text
        assert (await api.get(SET)).json() == written.json()
        (listed,) = (await api.get("/v1/collections/default/labelled")).json()["items"]
        assert (listed["set"], listed["questions"]) == ("birds", len(labelled))

        wanted = {"labelled_set": "birds", "strategies": ["questions", "text", "questions joined"]}
        begun = await api.post(RUNS, json=wanted)
        assert begun.status_code == 202, begun.text
        run = await ended(api, begun.json())

        assert (run["state"], run["labelled_set"], run["done"], run["total"]) == ("done", "birds", 12, 12)
        rows = {row["strategy"]: row for row in run["results"]["rows"]}
        assert rows["questions"]["ndcg@10"] == pytest.approx(BY_HAND, abs=1e-4)
        assert run["results"]["baseline"] == "text"
        assert [one["strategy"] for one in run["results"]["left_out"]] == ["questions joined"]
        assert run["results"]["per_query"]["text"][QUERIES["none"]] == 1
        (shown,) = (await api.get(RUNS)).json()["items"]
        assert shown["results"] == {"rows": run["results"]["rows"]}
        assert rows["questions"]["difference"] == pytest.approx(rows["questions"]["ndcg@10"] - rows["text"]["ndcg@10"])
        assert rows["questions"]["difference_low"] <= rows["questions"]["difference"]
        again = await ended(api, (await api.post(RUNS, json=wanted)).json())
        compared = (await api.get(f"{RUNS}/{again['id']}/against/{run['id']}")).json()["items"]
        assert [(each["strategy"], each["difference"]["mean"], each["queries"]) for each in compared] == [
            ("questions", 0, 6),
            ("text", 0, 6),
        ]
        await api.delete(f"{RUNS}/{again['id']}")
        began = datetime.fromisoformat(run["created_at"])
        assert not await services.ledger.query_log.asked("default", "default", began)

        assert (await api.delete(SET)).status_code == 204
        assert (await api.get(SET)).status_code == 404
        assert (await api.get(f"{RUNS}/{run['id']}")).json() == run
        assert (await api.delete(f"{RUNS}/{run['id']}")).status_code == 204
        assert (await api.get(f"{RUNS}/{run['id']}")).status_code == 404


async def test_a_question_is_added_to_a_set_and_labelled_anew(settings, services, library):
    await library.add("Herons nest in reeds.", "herons")
    path = f"{SET}/questions"
    async with serving(settings, services) as api:
        await api.post(path, json={"questions": [{"question": "Where?", "external_ids": ["a"]}]})
        await api.post(path, json={"questions": [{"question": "When?", "external_ids": ["b"]}]})
        kept = (await api.post(path, json={"questions": [{"question": "Where?", "external_ids": ["c"]}]})).json()
    assert [(each["question"], each["external_ids"]) for each in kept["questions"]] == [
        ("Where?", ["c"]),
        ("When?", ["b"]),
    ]


LABELLED = {"question": "a", "external_ids": ["x"]}


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({}, (422, "Send a labelled_set of the collection, or questions.")),
        ({"labelled_set": "none"}, (404, "The collection 'default' has no labelled set 'none'.")),
        ({"questions": [LABELLED], "strategies": ["bm42"]}, (422, "There is no strategy bm42")),
        ({"questions": [LABELLED], "strategies": ["text"], "baseline": "bm25"}, (422, "The baseline bm25 is not")),
        ({"questions": [LABELLED, {"question": "b", "chunk_ids": [str(uuid4())]}]}, (422, "Label all questions by")),
    ],
)
async def test_a_run_that_cannot_begin_says_why(settings, services, library, body, refusal):
    await library.add("Herons nest in reeds.", "herons")
    async with serving(settings, services) as api:
        refused = await api.post(RUNS, json=body)
    assert refused.status_code == refusal[0]
    assert refused.json()["detail"].startswith(refusal[1])


async def test_a_run_is_stopped_by_its_deletion_and_by_the_end_of_its_process(settings, services, labelled, provider):
    slow = {"questions": labelled * 100, "strategies": ["text"]}
    many = [question | {"question": f"{question['question']} {n}"} for n, question in enumerate(slow["questions"])]
    async with serving(settings, services) as api:
        first = (await api.post(RUNS, json=slow | {"questions": many})).json()
        second = (await api.post(RUNS, json=slow | {"questions": many})).json()
        refused = await api.post(RUNS, json=slow | {"questions": many})
        await api.delete(f"{RUNS}/{first['id']}")
    assert refused.status_code == 429
    async with serving(settings, services) as api:
        left = (await api.get(RUNS)).json()["items"]
    assert [(run["id"], run["state"]) for run in left] == [(second["id"], "interrupted")]


async def test_a_run_that_fails_has_a_sentence_and_one_that_nobody_does_any_more_is_interrupted(
    settings, services, labelled, provider
):
    async with serving(settings, services) as api:
        provider.script(refuse_containing=labelled[0]["question"])
        begun = (await api.post(RUNS, json={"questions": labelled, "strategies": ["text"]})).json()
        run = await ended(api, begun)
    assert run["state"] == "failed"
    assert "the embedding provider answered 400" in run["error"]

    begun = await services.ledger.evaluations.begin("default", "default", None, 3)
    async with services.database.begin() as connection:
        await connection.execute(text("UPDATE evaluations SET seen_at = now() - interval '2 minutes'"))
    assert (await services.ledger.evaluations.run_of("default", "default", begun.id)).state == "interrupted"
