"""Labelled sets and evaluations over the API: stored, run concurrently with requests, deleted."""

import json
from dataclasses import asdict
from datetime import datetime
from uuid import uuid4

import pytest

from features.evaluation.ledger.evaluations import EvaluationRequest, Evaluations
from shared.domain.corpus.collections import CollectionOptions, Weights
from shared.domain.jobs import JobKind
from shared.ledger.builds.builds import Builds
from shared.ledger.feedback.query_log import QueryLog
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlogs
from tests.conftest import Library
from tests.support.api import calling, work
from tests.support.labelled import QRELS, QUERIES, QUESTIONS, TEXTS
from tests.support.planted import guards
from tests.support.waiting import eventually

SET = "/v1/collections/default/labelled-sets/birds"
RUNS = "/v1/collections/default/evaluations"
EXPECTED_NDCG = (1 + 0.63093 + 0 + 1 / 1.63093 + 1 + 0.5) / 6  # nDCG@10 of the questions alone


async def indexed(services):
    library = Library(services)
    for number, words in enumerate(TEXTS):
        await library.add(words, f"p{number}", questions=list(QUESTIONS.get(f"p{number}", ())))
    await work(services)


@pytest.fixture
async def labelled(once):
    """Index a collection and return questions labelled with its documents."""
    await once(indexed)
    passages = {f"p{number}" for number in range(len(TEXTS))}
    answers: dict[str, list[str]] = {}
    for query, passage, _ in QRELS:
        if passage in passages:
            answers.setdefault(QUERIES[query], []).append(passage)
    return [{"question": question, "external_ids": names} for question, names in answers.items()]


@pytest.fixture(autouse=True)
def _worker(runner):
    """Do due runs during every test."""


async def shown(api, run):
    return (await api.get(f"{RUNS}/{run['id']}")).json()


async def finished(api, run):
    await eventually(lambda: _has_ended(api, run))
    return await shown(api, run)


async def _has_ended(api, run):
    return (await shown(api, run))["state"] not in ("queued", "running")


async def test_labelled_set_is_stored_used_and_deleted(settings, services, labelled):
    async with calling(settings, services) as api:
        written = await api.put(SET, json={"questions": labelled})
        assert written.status_code == 200, written.text
        assert (await api.get(SET)).json() == written.json()
        (listed,) = (await api.get("/v1/collections/default/labelled-sets")).json()["items"]
        assert (listed["set"], listed["questions"]) == ("birds", len(labelled))

        request = {"labelled_set": "birds", "strategies": ["questions", "text", "questions joined"]}
        started = await api.post(RUNS, json=request)
        assert started.status_code == 202, started.text
        run = await finished(api, started.json())

        assert (run["state"], run["labelled_set"], run["done"], run["total"]) == ("done", "birds", 12, 12)
        rows = {row["strategy"]: row for row in run["results"]["rows"]}
        assert rows["questions"]["ndcg@10"] == pytest.approx(EXPECTED_NDCG, abs=1e-4)
        assert run["results"]["baseline"] == "text"
        assert [one["strategy"] for one in run["results"]["left_out"]] == ["questions joined"]
        assert run["results"]["per_query"]["text"][QUERIES["none"]] == 1
        (shown,) = (await api.get(RUNS)).json()["items"]
        assert shown["results"] == {"rows": run["results"]["rows"]}
        assert rows["questions"]["difference"] == pytest.approx(rows["questions"]["ndcg@10"] - rows["text"]["ndcg@10"])
        assert rows["questions"]["difference_low"] <= rows["questions"]["difference"]
        again = await finished(api, (await api.post(RUNS, json=request)).json())
        compared = (await api.get(f"{RUNS}/{again['id']}/compare/{run['id']}")).json()["items"]
        assert [(each["strategy"], each["difference"]["mean"], each["queries"]) for each in compared] == [
            ("questions", 0, 6),
            ("text", 0, 6),
        ]
        await api.delete(f"{RUNS}/{again['id']}")
        start_time = datetime.fromisoformat(run["created_at"])
        assert not await services.ledger[QueryLog].asked("default", "default", start_time)

        assert (await api.delete(SET)).status_code == 204
        assert (await api.get(SET)).status_code == 404
        assert (await api.get(f"{RUNS}/{run['id']}")).json() == run
        assert (await api.delete(f"{RUNS}/{run['id']}")).status_code == 204
        assert (await api.get(f"{RUNS}/{run['id']}")).status_code == 404


async def test_posted_questions_are_added_or_relabelled(settings, services, library):
    await library.add("Herons nest in reeds.", "herons")
    path = f"{SET}/questions"
    async with calling(settings, services) as api:
        await api.post(path, json={"questions": [{"question": "Where?", "external_ids": ["a"]}]})
        await api.post(path, json={"questions": [{"question": "When?", "external_ids": ["b"]}]})
        stored = (await api.post(path, json={"questions": [{"question": "Where?", "external_ids": ["c"]}]})).json()
    assert [(each["question"], each["external_ids"]) for each in stored["questions"]] == [
        ("Where?", ["c"]),
        ("When?", ["b"]),
    ]


async def test_duplicate_questions_merge_their_labels(settings, services, library):
    await library.add("Herons nest in reeds.", "herons")
    twice = [{"question": "Where?", "external_ids": names} for names in (["a"], ["b", "a"])]
    async with calling(settings, services) as api:
        (once,) = (await api.put(SET, json={"questions": twice})).json()["questions"]
        assert once["external_ids"] == ["a", "b"]
        stored = await api.post(f"{SET}/questions", json={"questions": [{"question": "When?", "external_ids": ["c"]}]})
    assert [each["external_ids"] for each in stored.json()["questions"]] == [["a", "b"], ["c"]]


async def test_labelled_set_refuses_mixed_labels_and_excess_size(settings, services, library):
    await library.add("Herons nest in reeds.", "herons")
    path = f"{SET}/questions"
    async with calling(settings, services) as api:
        await api.put(SET, json={"questions": [{"question": "Where?", "chunk_ids": [str(uuid4())]}]})
        other = await api.post(path, json={"questions": [{"question": "When?", "external_ids": ["b"]}]})
        assert other.status_code == 409
        assert other.json()["detail"].startswith("The set 'birds' is labelled by chunk_ids")
        await api.put(SET, json={"questions": [{"question": "Where?", "external_ids": ["a"]}]})
        names = [f"{number:0500}" for number in range(100)]
        for part in range(2):
            more = [{"question": f"{part} {n}?", "external_ids": names} for n in range(15)]
            grown = await api.post(path, json={"questions": more})
    assert grown.status_code == 409
    assert "larger than" in grown.json()["detail"]


async def test_labels_without_documents_are_reported(settings, services, labelled, provider):
    async with calling(settings, services) as api:
        some = [{"question": labelled[0]["question"], "external_ids": [*labelled[0]["external_ids"], "no such"]}]
        run = await finished(api, (await api.post(RUNS, json={"questions": some, "strategies": ["text"]})).json())
        names = len(some[0]["external_ids"])
        assert run["results"]["notes"] == [
            f"1 of {names} labelled documents are not in the collection: they count as not found."
        ]
        chunks = [{"question": "Where?", "chunk_ids": [str(uuid4())]}]
        refused = await api.post(RUNS, json={"questions": chunks, "strategies": ["text"]})
        assert refused.status_code == 409
        assert refused.json()["detail"].startswith(
            "The collection has none of the labelled chunks. Chunks of another build"
        )
        found = (await api.post("/v1/retrieve", json={"question": "Where?"})).json()["chunks"]
        chunks[0]["chunk_ids"].append(found[0]["chunk_id"])
        run = await finished(api, (await api.post(RUNS, json={"questions": chunks, "strategies": ["text"]})).json())
        assert run["results"]["notes"][0].startswith("1 of 2 labelled chunks are not in the collection")


async def test_single_channel_scores_ignore_calibrated_weights(settings, services, labelled, provider):
    equal, chosen = Weights(), Weights(questions=0, text=1, bm25=0)
    request = {"questions": labelled, "strategies": ["default", "questions", "text", "text+bm25 rrf"]}
    tables = []
    async with calling(settings, services) as api:
        for weights in (equal, chosen):
            calibration = {"weights": asdict(weights), "source": "labelled"}
            async with services.database.begin() as connection:
                await connection.execute(
                    Statement("UPDATE collections SET calibration = CAST(:value AS jsonb)"),
                    {"value": json.dumps(calibration)},
                )
            run = await finished(api, (await api.post(RUNS, json=request)).json())
            tables.append({row["strategy"]: row["ndcg@10"] for row in run["results"]["rows"]})
    before, after = tables
    assert after["default"] == pytest.approx(after["text"])  # with the weights of users' queries
    assert after["questions"] == pytest.approx(before["questions"]) == pytest.approx(EXPECTED_NDCG, abs=1e-4)
    assert after["text+bm25 rrf"] == pytest.approx(before["text+bm25 rrf"])


async def test_old_evaluations_are_deleted_but_open_ones_kept(services, library, runner):
    await runner.aclose()
    collection = await library.collection()
    evaluations, request = services.ledger[Evaluations], EvaluationRequest([LABELLED], ["text"], "text")

    async def claimed():
        job = await evaluations.start(collection, None, request)
        claim = await services.ledger[JobClaims].claim([JobKind.EVALUATION])
        assert claim.id == job.id
        return claim, job.progress

    first, _ = await claimed()
    for _ in range(101):
        await evaluations.finish(*await claimed(), {"per_query": {}, "rows": []})
    assert len(await evaluations.all_of(collection)) == 101
    assert (await evaluations.get(first.id)).state == "running"
    await services.ledger[JobClaims].fail(first, "It failed.")
    await evaluations.start(collection, None, request)
    assert len(await evaluations.all_of(collection)) == 100


LABELLED = {"question": "a", "external_ids": ["herons"]}


REFUSALS = [
    ({}, (422, "Send a labelled_set of the collection, or questions.")),
    ({"labelled_set": "none"}, (404, "The collection 'default' has no labelled set 'none'.")),
    ({"questions": [LABELLED], "strategies": ["bm42"]}, (422, "There is no strategy bm42")),
    ({"questions": [LABELLED], "strategies": ["text"], "baseline": "bm25"}, (422, "The baseline bm25 is not")),
    (
        {"questions": [LABELLED], "strategies": ["questions joined", "text"], "baseline": "questions joined"},
        (422, "The baseline questions joined is not"),
    ),
    ({"questions": [LABELLED | {"external_ids": ["x"]}]}, (409, "The collection has none of the labelled docum")),
    ({"questions": [LABELLED, {"question": "b", "chunk_ids": [str(uuid4())]}]}, (422, "Label all questions by")),
]


async def test_invalid_evaluation_is_refused_with_reason(settings, services, library):
    await library.add("Herons nest in reeds.", "herons")
    async with calling(settings, services) as api:
        for body, (status, reason) in REFUSALS:
            refused = await api.post(RUNS, json=body)
            assert refused.status_code == status, body
            assert refused.json()["detail"].startswith(reason), body


async def test_failed_run_has_reason(settings, services, labelled, provider):
    async with calling(settings, services) as api:
        provider.script(refuse_containing=labelled[0]["question"])
        started = (await api.post(RUNS, json={"questions": labelled, "strategies": ["text"]})).json()
        run = await finished(api, started)
    assert run["state"] == "failed"
    assert "the embedding provider answered 400" in run["error"]


async def test_run_waits_for_unavailable_provider(settings, services, labelled, provider):
    async with calling(settings, services) as api:
        provider.script(down=True)
        before = provider.stats()["embeddings"]
        started = (await api.post(RUNS, json={"questions": labelled, "strategies": ["questions"]})).json()
        await eventually(lambda: provider.stats()["embeddings"] > before + 1)  # it tried again
        assert (await shown(api, started))["state"] == "running"
        provider.script(down=False)
        run = await finished(api, started)
    assert run["state"] == "done"
    assert run["results"]["rows"][0]["ndcg@10"] == pytest.approx(EXPECTED_NDCG, abs=1e-5)


async def test_lease_is_extended_during_long_search(settings, services, labelled, provider, runner):
    async with calling(settings, services) as api:
        provider.script(embedding_latency_seconds=5)
        await api.post(RUNS, json={"questions": labelled, "strategies": ["text"]})
        await eventually(lambda: runner.claimed == 1)
        async with services.database.begin() as connection:
            await connection.execute(Statement("UPDATE job_claims SET leased_until = now() + interval '20 seconds'"))
        await eventually(lambda: _is_leased(services))


async def _is_leased(services):
    async with services.database.begin() as connection:
        return (
            await connection.execute(Statement("SELECT leased_until > now() + interval '25 seconds' FROM job_claims"))
        ).scalar_one_or_none()


async def build_with_all_documents(services, settings):
    build = await services.ledger[Builds].start(
        "default", "default", options=CollectionOptions(), embedding_model=settings.embedding_model
    )
    while await services.ledger[Builds].fill():
        pass
    while await services.ledger[Backlogs].due():
        await work(services)
    return build


@guards(
    "features/evaluation/routes.py",
    "build_to_search(collections, builds, tenant, name, body.build)",
    "build_to_search(collections, builds, tenant, name, None)",
    means="an evaluation of a build is listed as one of the live build",
)
@guards(
    "features/evaluation/job.py",
    "return build_to_search(self.collections, self.builds, tenant, name, number)",
    "return build_to_search(self.collections, self.builds, tenant, name, None)",
    means="an evaluation of a build searches the live build",
)
async def test_named_build_is_evaluated_before_its_switch(settings, services, labelled):
    request = {"questions": labelled, "strategies": ["text"]}
    async with calling(settings, services) as api:
        build = await build_with_all_documents(services, settings)
        async with services.database.begin() as connection:
            await connection.execute(
                Statement("DELETE FROM documents WHERE collection_id = :id AND external_id <> 'p0'"), {"id": build.id}
            )
        live = await finished(api, (await api.post(RUNS, json=request)).json())
        other = await finished(api, (await api.post(RUNS, json=request | {"build": 2})).json())
        missing = await api.post(RUNS, json=request | {"build": 3})
        await services.ledger[Builds].drop("default", "default", 2)
        dropped = await api.post(RUNS, json=request | {"build": 2})
        listed = (await api.get(RUNS)).json()["items"]
    assert [each["build"] for each in (live, other)] == [1, 2]
    assert [each["build"] for each in listed] == [2, 1]
    assert other["results"]["rows"][0]["ndcg@10"] != live["results"]["rows"][0]["ndcg@10"]
    assert (missing.status_code, dropped.status_code) == (404, 409)


async def test_run_over_replaced_build_fails(settings, services, labelled, provider, runner):
    async with calling(settings, services) as api:
        provider.script(embedding_latency_seconds=0.5)
        started = (await api.post(RUNS, json={"questions": labelled, "strategies": ["text"]})).json()
        await eventually(lambda: runner.claimed == 1)
        build = await build_with_all_documents(services, settings)
        await services.ledger[Builds].switch("default", "default", build.number)
        run = await finished(api, started)
    assert (run["state"], run["results"]) == ("failed", None)
    assert run["error"].startswith("Another build replaced")
